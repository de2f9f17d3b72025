"""The words of comparisons: takeaways, findings across runs, mapping files that are wrong."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlane.compare.comparison import Comparison, compare
from fairlane.compare.joined import joined
from fairlane.compare.mapping import by_name, parse_mapping
from fairlane.compare.takeaways import takeaways
from fairlane.errors import FairlaneError
from fairlane.platforms.lab.spec import LabSpec
from fairlane.records import Evidence, Finding, Observation
from fairlane.report.phrases import size, within
from tests.compare import test_joined, test_study_003
from tests.compare.test_joined import pairs
from tests.compare.test_mapping import LANES, TEXT, WRONG

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

runs, evidence = test_study_003.runs, test_joined.evidence  # fixtures


def shown(comparison: Comparison) -> str:
    lines = [*takeaways(comparison), "---"]
    return "\n".join(
        [*lines, *(f"{f.check}/{f.kind} ({f.severity}): {f.message}" for f in comparison.findings if of_no_day(f))]
    )


def of_no_day(finding: Finding) -> bool:
    """Runs that were made just now have today's date in this finding; those of study 003 tell its words."""
    return finding.check != "sequential" or "2026-02-2" in finding.message


def complaint(error: FairlaneError) -> str:
    return f"{error.labelled()}\n  hint: {error.hint or '-'}"


def test_study_003_is_told(runs: Path, snapshot: "SnapshotAssertion") -> None:
    assert shown(test_study_003.compared(runs)) == snapshot


def test_study_003_with_every_difference_accepted_is_told(runs: Path, snapshot: "SnapshotAssertion") -> None:
    names = ("ramp", "aio", "volume_mode", "copies", "provisioning")
    accepted = test_study_003.compared(runs, **dict.fromkeys(names, "for the sake of the argument"))
    assert "\n".join(takeaways(accepted)) == snapshot


def test_runs_of_two_worlds_are_told(evidence: Evidence, snapshot: "SnapshotAssertion") -> None:
    two = compare({"a": evidence, "b": evidence}, pairs(x=("one", "two"), y=("two", "two")), {})
    real = evidence.study.model_copy(update={"platform": LabSpec(kind="lab")})
    one = dataclasses.replace(evidence, study=real)
    worlds = compare({"a": one, "b": dataclasses.replace(one, modelled=True)}, pairs(x=("one", "one")), {})
    assert "\n".join((shown(two), shown(worlds))) == snapshot


def test_what_is_wrong_is_told(evidence: Evidence, snapshot: "SnapshotAssertion") -> None:
    def no_pair() -> None:
        by_name({"a": ("x", "y"), "b": ("z",)}, "a", {})

    def no_baseline() -> None:
        parse_mapping(TEXT, "m.yaml", {**LANES, "third": ("x",)}, "third")

    def no_cell() -> None:
        main = dataclasses.replace(evidence, study=evidence.study.model_copy(update={"workloads": {}}))
        joined({"a": evidence, "b": main}, pairs(x=("one", "one")))

    words = []
    for call in (no_pair, no_baseline, no_cell):
        with pytest.raises(FairlaneError) as raised:
            call()
        words.append(complaint(raised.value))
    for old, new, *_ in WRONG:
        with pytest.raises(FairlaneError) as raised:
            parse_mapping(TEXT.replace(old, new), "m.yaml", LANES)
        words.append(complaint(raised.value))
    assert "\n".join(words) == snapshot


def test_a_difference_has_its_estimate_and_its_interval(evidence: Evidence) -> None:
    def scaled(factor: float) -> Evidence:
        def scale(o: Observation) -> Observation:
            figures = {n: x / factor if n.startswith("lat") else x * factor for n, x in o.metrics.items()}
            return dataclasses.replace(o, metrics=figures, histograms={})

        return dataclasses.replace(evidence, observations=tuple(map(scale, evidence.observations)))

    both = compare({"a": scaled(1.6), "b": evidence}, pairs(x=("one", "one")), {})
    verdicts = [d.verdict for t in both.tables if t.primary for row in t.rows for d in row.deltas]
    assert {v.verdict for v in verdicts} == {"faster"}
    told = takeaways(both)
    assert all(any(f"{size(v)} ({within(v)})" in line for line in told) for v in verdicts), told
