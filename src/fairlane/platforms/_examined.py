"""What looking at a machine or a cluster gives: one line for each thing. Platforms and the doctor share it. Not a
platform."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "missing"]
"""warn: the platform runs, but a reader of its figures should know. missing: it does not run."""


@dataclass(frozen=True)
class Line:
    """One thing that was looked at."""

    name: str
    state: State
    found: str
    fix: str = ""


def able(lines: Iterable[Line]) -> bool:
    """Whether the platform that was examined can run."""
    return all(line.state != "missing" for line in lines)
