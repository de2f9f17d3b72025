"""Fairlane compares storage paths for virtual machines, with evidence that survives a hostile reviewer."""

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlane.notebook import Run

__version__ = "0.1.0"


def open(run: str | PathLike[str] | None = None, *, accept: Mapping[str, str] | None = None) -> "Run":
    """A run directory as records and figures, for notebooks and scripts (docs/notebook.md).

    ``run``: its path; None: the newest run in ``runs/``. ``accept``: parameter that may differ between lanes -> reason,
    as ``--accept`` of the commands. Raises ``fairlane.errors.FairlaneError``, with a hint.
    """
    from fairlane.notebook.run import opened  # noqa: PLC0415 - every command imports this package: it stays quick

    return opened(run, accept)
