"""The first screen as data: whose answer it is, what qualifies it, where it comes from."""

from dataclasses import replace
from itertools import pairwise

import pytest

from fairlane.records import Finding, Verdict
from fairlane.report import model, opening, phrases, refusals
from fairlane.report.opening import contenders
from fairlane.report.text import DASH
from fairlane.verdicts.scorecard import outcome
from tests.report.test_fig_evidence import fake, judged

GRID = "rw: [randread], bs: [4k, 64k], iodepth: [1, 16]"


def _ratio(v: Verdict) -> float:
    return v.ratio or 0.0


def test_the_contender_is_neither_baseline_nor_reference_nor_the_medium_itself():
    """``local`` would win every comparison, and nobody can choose it."""
    evidence, verdicts, _, _ = fake(GRID)
    assert {v.lane for v in verdicts if v.primary} == {"nvme", "local"}
    assert contenders(evidence, verdicts) == ["nvme"]
    alone = [v for v in verdicts if v.lane == "local"]
    assert contenders(evidence, alone) == ["local"]
    evidence, verdicts, _, _ = fake(GRID, nvme="role: reference")
    assert contenders(evidence, verdicts) == ["local"]


def test_the_answer_has_the_estimate_the_interval_and_both_figures():
    evidence, verdicts, findings, _ = fake(GRID, effects="nvme: {speed: 1.5}")
    (answer,) = model.build(evidence, verdicts, findings).opening.answers
    assert (answer.headline, answer.where) == ("Yes", "NVMe/TCP is faster than iSCSI in all 4 cells.")
    mine = [v for v in verdicts if v.lane == "nvme" and v.primary]
    low, high = min(mine, key=_ratio), max(mine, key=_ratio)
    assert answer.sizes == f"IOPS {phrases.effect(low)} at {low.cell} to {phrases.effect(high)} at {high.cell}."
    plot = answer.plot
    assert plot
    assert plot.metrics == ("IOPS", "p99 latency, µs")
    assert plot.note == ""
    for row, v in zip(plot.rows, mine, strict=True):
        assert row.values[0] == (f"{v.baseline_value:,.0f}", f"{v.lane_value:,.0f}")
        assert row.outcome == outcome(v)
        places = [plot.zero, row.low, row.at, row.high, 100.0]
        assert places == sorted(places, key=lambda x: x or 0.0)
        assert None not in places


def test_where_trials_are_too_short_for_p99_the_first_screen_says_so():
    evidence, verdicts, findings, _ = fake(GRID, effects="nvme: {speed: 1.5}")
    (plot,) = (a.plot for a in model.build(evidence, verdicts, findings).opening.answers)
    assert plot
    assert plot.tail == ""
    cells = {c.key for c in evidence.cells()[:2]}
    few = tuple(
        replace(o, metrics={k: v for k, v in o.metrics.items() if k not in ("lat_p99", "lat_p999")},
                histograms={"read.lat": {90_000: 300}})
        if o.cell in cells else o
        for o in evidence.observations
    )  # fmt: skip
    evidence, verdicts, findings, _ = judged(replace(evidence, observations=few))
    (plot,) = (a.plot for a in model.build(evidence, verdicts, findings).opening.answers)
    assert plot
    assert plot.metrics == ("IOPS", "p95 latency, µs")
    assert plot.tail == "No p99: in 2 of 4 cells a trial has fewer than the 1,000 I/Os it needs."


def test_the_host_of_the_lab_stands_on_the_first_screen():
    host = {"cpu": "Intel X", "cpus": 2, "kernel": "6.1.0"}
    evidence, verdicts, findings, label = judged(replace(fake(GRID)[0], fingerprint={"host": host, "qemu": "7.2"}))
    facts = dict(opening.opening(evidence, verdicts, findings, label).facts)
    assert (facts["Host"], facts["Versions"]) == ("2 x Intel X, kernel 6.1.0", "qemu 7.2")


@pytest.mark.slow
def test_of_many_cells_the_extremes_of_each_outcome_are_drawn():
    effects = "nvme: {speed: 1.0, cells: {'* qd1': 0.7, '* qd16': 1.3, '* qd32': 1.6}}"
    evidence, verdicts, findings, _ = fake("rw: [randread, randwrite], bs: [4k, 64k], iodepth: [1, 4, 16, 32]",
                                           effects=effects)  # fmt: skip
    (answer,) = model.build(evidence, verdicts, findings).opening.answers
    assert answer.headline == "It depends"
    assert answer.where == (
        "NVMe/TCP from iodepth 16 on; iSCSI at iodepth 1; no difference that matters at iodepth 4 "
        "(measured at iodepth 1, 4, 16 and 32)."
    )
    assert answer.plot
    assert answer.plot.note == "6 of 16 cells"
    mine = [v for v in verdicts if v.lane == "nvme" and v.primary]
    drawn = {row.cell for row in answer.plot.rows}
    assert {min(mine, key=_ratio).cell, max(mine, key=_ratio).cell} <= drawn


def test_labels_of_the_axis_keep_apart_on_a_phone():
    """-20 % lies at the left edge, 0 % not far from it: one of the two has to go, and it is not 0 %."""
    evidence, verdicts, findings, _ = fake(GRID, effects="nvme: {speed: 1.0, cells: {'* qd1': 0.8, '* qd16': 1.3}}")
    (answer,) = model.build(evidence, verdicts, findings).opening.answers
    assert answer.plot
    wide = 7.0  # per cent of the width that a character takes at 14 px on an axis of 115 px
    spans = sorted(
        (at - len(text) * wide * {"start": 0, "middle": 0.5, "end": 1}[opening.anchor(at)], len(text) * wide, text)
        for at, text in answer.plot.ticks
    )
    assert "0 %" in [text for _, _, text in spans]
    assert len(spans) > 1
    assert all(left + room <= right for (left, room, _), (right, _, _) in pairwise(spans))


def test_a_finding_qualifies_the_answer_if_it_is_of_its_lanes_and_cells():
    evidence, verdicts, _, _ = fake(GRID)
    cell = evidence.cells()[0].key
    told = (
        Finding("one", "warning", "of the contender. More of it.", (cell,), ("nvme",)),
        Finding("two", "warning", "of both", (), ("nvme", "iscsi")),
        Finding("three", "warning", "of the medium alone", (), ("local",)),
        Finding("four", "info", "a note", (), ("nvme",)),
        Finding("five", "critical", "a refusal", (), ("nvme",), refuses=True),
        Finding("six", "critical", "of all"),
    )
    shown = opening.opening(evidence, verdicts, told, {name: name for name in evidence.study.lanes})
    assert [(c.severity, c.text, c.where) for c in shown.caveats] == [
        ("critical", "of all", ""), ("warning", "of both", ""), ("warning", "of the contender", "1 of 4 cells")
    ]  # fmt: skip
    assert [b[:2] for b in shown.badges] == [
        ("caution", "invented figures"), ("critical", "2 critical findings"), ("warning", "3 warnings")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("last", "text"),
    [
        ("2026-11-25T13:08:16.5+00:00", "48 s"),
        ("2026-11-25T13:10:19+00:00", "2 min 51 s"),
        ("2026-11-25T16:07:28+00:00", "3 h"),
        ("2026-11-27T14:07:28+00:00", "2 d 1 h"),
    ],
)
def test_date_and_duration_come_from_the_journal(last, text):
    case = fake(GRID)
    events = (
        {"type": "start", "at": "2026-11-25T13:07:28+00:00"},
        {"type": "look", "at": 7},
        {"type": "end", "at": last},
    )
    evidence, verdicts, findings, label = judged(
        replace(case[0], events=events, fingerprint={"fio": "3.33", "postgresql": "15.18", "cpu": "X"})
    )
    facts = dict(opening.opening(evidence, verdicts, findings, label).facts)
    assert facts == {
        "Date": "2026-11-25 13:07 UTC", "Duration": text, "Platform": "fake", "Host": "X", "Versions": "fio 3.33"
    }  # fmt: skip


def test_equal_refusals_are_counted_by_cause_with_a_line_that_accepts_them():
    evidence, verdicts, findings, _ = fake(
        GRID, nvme="conditions: {ramp: 10s, copies: '3'}", iscsi="conditions: {ramp: 5s, copies: '2'}"
    )
    found = refusals.refusals(evidence, verdicts, findings, ())
    assert found.sentence == "8 of 8 comparisons are refused"
    assert {c.title: c.comparisons for c in found.causes}["copies"] == 8
    assert found.causes == tuple(sorted(found.causes, key=lambda c: -c.comparisons))
    assert found.accept.startswith("fairlane report run --accept ")
    assert '--accept copies="WHY IT DOES NOT MATTER"' in found.accept
    assert refusals.refusals(evidence, verdicts, findings, ("fairlane compare a b",)).accept.startswith(
        "fairlane compare a b"
    )
    assert refusals.refusals(*fake(GRID)[:3], ()).causes == ()


def test_contenders_that_cannot_be_compared_at_all_are_one_answer():
    evidence, verdicts, findings, _ = fake(
        GRID, nvme="conditions: {copies: '3'}", local="conditions: {copies: '3'}",
        iscsi="conditions: {copies: '2'}",
    )  # fmt: skip
    shown = model.build(evidence, verdicts, findings).opening
    assert shown.contenders == ("NVMe/TCP",)  # the medium itself is none
    assert shown.refused is None
    (alone,) = shown.answers
    assert alone.headline == "Not comparable"
    two = [replace(v, lane=lane) for lane in ("nvme", "other") for v in verdicts if v.lane == "nvme"]
    study = evidence.study.model_copy(
        update={"lanes": {**evidence.study.lanes, "other": evidence.study.lanes["nvme"]}, "references": ("local",)}
    )
    label = {"nvme": "NVMe/TCP", "other": "other", "iscsi": "iSCSI", "local": "local"}
    shown = opening.opening(replace(evidence, study=study), two, findings, label)
    assert shown.answers == ()
    assert shown.refused
    assert (shown.refused.lane, shown.refused.where) == (
        "NVMe/TCP, other", "None of 2 lanes can be compared with iSCSI in any of 4 cells."
    )  # fmt: skip
    assert shown.contenders == ("NVMe/TCP", "other")


def test_a_column_has_one_unit_and_equal_digits():
    assert phrases.column("lat_p99", [163_000.0, 1_909_000.0, None]) == ("µs", ["163", "1,909", DASH])
    assert phrases.column("lat_p99", [90_600.0, 182_400.0]) == ("µs", ["90.6", "182.4"])
    assert phrases.column("lat_p99", [900.0, 2e6]) == ("", ["900 ns", "2 ms"])
    assert phrases.aligned("iops", [412.3, 5387.0]) == ["412", "5,387"]
    assert phrases.aligned("bw", [63.3 * 2**20, 7599.2 * 2**20]) == ["63.3 MiB/s", "7,599.2 MiB/s"]
