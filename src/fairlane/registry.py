"""Find a plugin by name: one file in a package is one plugin, imported on first use.

A plugin of any of ``KINDS`` is added by writing one file (or folder) in its package. The file's name is the plugin's
name; it defines ``PLUGIN``, and its docstring begins with one sentence that help and documentation print.
``base`` and names with a leading underscore are no plugins.
"""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from typing import Any

from fairlane.errors import FairlaneError


@dataclass(frozen=True)
class Kind:
    """A kind of plugin."""

    package: str
    name: str
    """Name in words: ``export format``."""
    base: str
    """The class in the package's ``base.py`` that is its contract."""

    @property
    def title(self) -> str:
        """``Export formats``."""
        return f"{self.name.capitalize()}s"


KINDS = (
    Kind("lanes", "transport", "Transport"),
    Kind("platforms", "platform", "Platform"),
    Kind("workloads", "workload", "Workload"),
    Kind("probes", "probe", "Probe"),
    Kind("checks", "check", "Check"),
    Kind("importers", "importer", "Importer"),
    Kind("export", "export format", "Format"),
)
"""All kinds, in the order of the documentation."""


def kind(package: str) -> Kind:
    """The kind whose plugins are in ``package``. StopIteration for a package without plugins."""
    return next(kind for kind in KINDS if kind.package == package)


@cache
def names(package: str) -> tuple[str, ...]:
    """The plugins of ``package`` (``"lanes"``, ``"checks"``, ...), sorted, without importing any of them."""
    paths = importlib.import_module(f"fairlane.{package}").__path__
    return tuple(sorted(m.name for m in pkgutil.iter_modules(paths) if m.name != "base" and not m.name.startswith("_")))


@cache  # every trial loads every probe
def load(package: str, name: str) -> Any:
    """``PLUGIN`` of the module ``name`` in ``package``. Raises FairlaneError for an unknown name."""
    if name not in names(package):
        known = ", ".join(names(package))
        raise FairlaneError("plugin-unknown", f"no {package} plugin named {name!r}", hint=f"known: {known}")
    return importlib.import_module(f"fairlane.{package}.{name}").PLUGIN


def every(package: str) -> Iterator[tuple[str, Any]]:
    """All plugins of ``package`` by name, in name order."""
    for name in names(package):
        yield name, load(package, name)


def summary(package: str, name: str) -> str:
    """The first paragraph of the plugin's docstring, on one line, code in backticks; empty without docstring. The file
    is read and not imported, so that help stays quick."""
    spec = find_spec(f"fairlane.{package}.{name}")
    loader = spec.loader if spec else None
    source = loader.get_source(f"fairlane.{package}.{name}") if isinstance(loader, SourceFileLoader) else None
    docstring = ast.get_docstring(ast.parse(source or "")) or ""
    return " ".join(docstring.partition("\n\n")[0].split()).replace("``", "`")
