"""Outcomes as JUnit XML, for CI servers: a test suite per study, a test case per rule and cell. Pure."""

from collections.abc import Sequence

from fairlane.gate.decide import Outcome
from fairlane.report.junit import Case, Result, Suite, junit


def document(outcomes: Sequence[Outcome], suite: str, run: str) -> str:
    """The document, ending with a newline. ``not met`` and ``not proven`` are failures of different types; ``refused``
    is an error: the rule could not be judged. Nothing is skipped: a rule that is not proven does not pass."""
    return junit([Suite(suite, run, [_case(o) for o in outcomes])])


def _case(o: Outcome) -> Case:
    name = f"{o.rule} [{o.cell}]" if o.cell else str(o.rule)
    if o.word == "met":
        return Case(name, output=o.observed)
    result: Result = "error" if o.word == "refused" else "failure"
    return Case(name, result, o.word.replace(" ", "-"), message=o.reason or o.word, details=f"{o.word}: {o.observed}")
