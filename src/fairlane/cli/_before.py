"""What is said before anything runs: what this machine or platform lacks, and what the guard will refuse."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairlane.cli._output import tell
from fairlane.errors import FairlaneError

if TYPE_CHECKING:
    from fairlane.study.spec import Study


def consider(study: "Study", where: str, problems: Sequence[FairlaneError], *, unjudged: bool = False) -> None:
    """Tells what will be refused of ``study``. Raises FairlaneError for ``problems`` and, unless the study may run
    ``unjudged``, where nothing is left to compare (``Exit.NOT_DECIDED``)."""
    from fairlane.checks._outlook import outlook

    seen = outlook(study)
    for line in seen.warnings():
        tell(line)
    vain = seen.error(where)
    if vain and (unjudged or problems):
        tell(f"warning: {vain.message}")
    refuse(problems)
    if vain and not unjudged:
        raise vain


def refuse(problems: Sequence[FairlaneError]) -> None:
    """Raises one error for all ``problems``."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        lines = [f"  {problem}" + (f" ({problem.hint})" if problem.hint else "") for problem in problems]
        raise FairlaneError(
            "\n".join([f"{len(problems)} things keep the study from running", *lines]),
            hint="fairlane doctor STUDY shows all",
        )
