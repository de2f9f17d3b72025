"""Find a plugin by name: one file in a package is one plugin, imported only when it is asked for.

A transport, platform, workload, probe, check or importer is added by writing one file (or folder) in its package.
The file's name is the plugin's name; it defines ``PLUGIN``. ``base`` and names with a leading underscore are none.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import Any

from fairlane.errors import FairlaneError


@cache
def names(package: str) -> tuple[str, ...]:
    """The plugins of ``package`` (``"lanes"``, ``"checks"``, ...), sorted, without importing any of them."""
    paths = importlib.import_module(f"fairlane.{package}").__path__
    return tuple(sorted(m.name for m in pkgutil.iter_modules(paths) if m.name != "base" and not m.name.startswith("_")))


@cache  # every trial asks every probe
def load(package: str, name: str) -> Any:
    """``PLUGIN`` of the module ``name`` in ``package``. Raises FairlaneError for an unknown name."""
    if name not in names(package):
        known = ", ".join(names(package))
        raise FairlaneError(f"no {package} plugin named {name!r}", hint=f"known: {known}")
    return importlib.import_module(f"fairlane.{package}.{name}").PLUGIN


def every(package: str) -> Iterator[tuple[str, Any]]:
    """All plugins of ``package`` by name, in name order."""
    for name in names(package):
        yield name, load(package, name)
