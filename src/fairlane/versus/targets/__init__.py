"""What a command line can compare: paths, and what a prefix names (``sc:NAME``, a storage class of a cluster).

A further kind of target is one file here with a ``TARGET`` of its own, and a line in ``PREFIXES``.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairlane.errors import FairlaneError
from fairlane.versus.targets.base import Target

PATHS = "paths"
PREFIXES: Mapping[str, str] = {"sc": "storage_classes"}
"""Prefix before the colon -> module here. What has none of them is a path."""


def load(module: str) -> Target:
    """The kind of target in ``module``."""
    found: Target = importlib.import_module(f"{__name__}.{module}").TARGET
    return found


def kind(texts: Sequence[str], cwd: str = "") -> Target:
    """The kind of all of ``texts``. Raises FairlaneError where they are of several kinds.

    What exists in ``cwd`` under its very name is a path, as anywhere else; so is ``sc:/...``, on the machine sc."""
    modules = [_module(text, cwd or str(Path.cwd())) for text in texts]
    for text, module in zip(texts, modules, strict=True):
        if module != modules[0]:
            first, other = load(modules[0]), load(module)
            raise FairlaneError(
                "targets-mixed",
                f"{texts[0]} is {first.article}, but {text} is {other.article}: they cannot be compared",
                hint=f"compare like with like; a path of this machine begins with ./ or /, {_prefixes()}",
            )  # fmt: skip
    return load(modules[0] if modules else PATHS)


def refuse(target: Target, given: Sequence[str]) -> None:
    """Raises FairlaneError for options of the command line (``given``: by name) that belong to another kind."""
    others = [one for module in (PATHS, *PREFIXES.values()) if (one := load(module)).plural != target.plural]
    for option in given:
        owner = next((one for one in others if option in one.options and option not in target.options), None)
        if owner:
            flag = f"--{option.replace('_', '-')}"
            raise FairlaneError(
                "option-elsewhere", f"{flag} is for {owner.plural}, but this comparison is of {target.plural}",
                where=flag, hint="remove it",
            )  # fmt: skip


def _module(text: str, cwd: str) -> str:
    name, equals, rest = text.partition("=")
    whole = rest if equals and name and "/" not in name and ":" not in name else text
    prefix, colon, after = whole.partition(":")
    if not colon or prefix not in PREFIXES or after.startswith("/") or os.path.lexists(f"{cwd}/{text}"):
        return PATHS
    return PREFIXES[prefix]


def _prefixes() -> str:
    return ", ".join(f"{load(module).article} is {prefix}:NAME" for prefix, module in PREFIXES.items())
