"""A judged run: what reports, terminal, exports and pages draw. They begin here, so that all say the same."""

from typing import NamedTuple

from fairlane.checks.base import run_all
from fairlane.records import Evidence, Finding, Verdict
from fairlane.stats.judge import judge


class Judged(NamedTuple):
    """A run, or several that are compared."""

    evidence: Evidence
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]


def judged(evidence: Evidence, *, primary_only: bool = False) -> Judged:
    """``evidence`` with the findings of all checks, and the verdicts. ``primary_only``: of primary metrics alone, for
    readers that need no others."""
    findings = run_all(evidence)
    return Judged(evidence, judge(evidence, findings, primary_only=primary_only), findings)
