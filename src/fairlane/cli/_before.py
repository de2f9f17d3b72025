"""Checks before a run: print expected refusals of the guard, and raise errors for problems of machine or platform."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairlane.cli._output import notify
from fairlane.errors import FairlaneError, several

if TYPE_CHECKING:
    from fairlane.study.spec import Study


def consider(study: "Study", where: str, problems: Sequence[FairlaneError], *, unjudged: bool = False) -> None:
    """Print the expected refusals of ``study`` to stderr. Raises FairlaneError for ``problems`` and, unless
    ``unjudged``, where nothing is left to compare (``Exit.NOT_DECIDED``)."""
    from fairlane.checks._outlook import outlook

    expected = outlook(study)
    for line in expected.warnings():
        notify(line)
    refusal = expected.error(where)
    if refusal and (unjudged or problems):
        notify(f"warning: {refusal.message}")
    refuse(problems)
    if refusal and not unjudged:
        raise refusal


def refuse(problems: Sequence[FairlaneError]) -> None:
    """Raises one FairlaneError that lists all ``problems``; nothing if there are none."""
    if problems:
        title = f"{len(problems)} problems keep the study from running"
        raise several(title, problems, "fairlane doctor STUDY lists all")
