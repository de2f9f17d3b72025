"""A gate that was not passed is said, whatever else a description holds."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fairlane.records import Evidence, Finding

Build = Callable[..., Evidence]
RunCheck = Callable[[str, Evidence], list[Finding]]


STEADY: Mapping[str, Any] = {"rounds": 5, "reached": True, "range": 0.05, "slope": 0.01, "iops": [1, 1, 1, 1, 1]}
RESTLESS = {**STEADY, "reached": False, "range": 0.4, "slope": -0.25}


def test_only_the_lane_that_was_not_steady_is_named(build: Build, run_check: RunCheck) -> None:
    evidence = build(description={"lanes": {"base": {"steady": STEADY}, "new": {"steady": RESTLESS}}})
    (finding,) = run_check("not_steady", evidence)
    assert finding.lanes == ("new",)
    assert (finding.severity, finding.kind) == ("critical", "not-steady")
    assert "40%" in finding.message
    assert "-25%" in finding.message
    assert finding.evidence == RESTLESS


def test_rounds_that_cannot_be_judged_are_said_to_be_so(build: Build, run_check: RunCheck) -> None:
    told = {"rounds": 2, "reached": False, "iops": [1, 2]}
    (finding,) = run_check("not_steady", build(description={"lanes": {"new": {"steady": told}}}))
    assert (finding.kind, finding.evidence) == ("not-judged", told)


@pytest.mark.parametrize(
    "lanes", [{}, None, [], {"new": {}}, {"new": None}, {"new": {"steady": "yes"}}, {"new": {"steady": STEADY}}]
)
def test_a_gate_that_was_passed_or_not_asked_for_is_no_finding(
    build: Build, run_check: RunCheck, lanes: object
) -> None:
    assert run_check("not_steady", build(description={"lanes": lanes})) == []
