"""The lines of an examination of a machine or cluster, shared by platforms and the doctor. Not a platform."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "missing"]
"""warn: the platform runs, but readers of its figures should know. missing: it does not run."""


@dataclass(frozen=True)
class Line:
    """The result of examining one thing."""

    name: str
    state: State
    found: str
    fix: str = ""
    kind: str = ""
    """Of the error that keeps the platform from running."""


def able(lines: Iterable[Line]) -> bool:
    """Whether the examined platform can run."""
    return all(line.state != "missing" for line in lines)
