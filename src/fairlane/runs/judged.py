"""A run directory, read and judged."""

from collections.abc import Mapping
from pathlib import Path

from fairlane.guard.accept import accepting
from fairlane.runs.read import load_run
from fairlane.verdicts.judged import Judged, judged


def read_judged(folder: Path, accepts: Mapping[str, str] | None = None, *, primary_only: bool = False) -> Judged:
    """The run in ``folder``, finished or not. ``accepts``: parameter -> why it may differ; ``primary_only``: verdicts
    on primary metrics alone. Raises FairlaneError."""
    return judged(accepting(load_run(folder), accepts or {}), primary_only=primary_only)
