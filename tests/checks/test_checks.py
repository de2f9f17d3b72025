"""Each check finds what it is for, says where and how much, and is silent otherwise."""

import importlib
import math
from dataclasses import replace

import pytest

from fairlane import registry
from fairlane.checks.base import Check, run_all
from fairlane.checks.spread import two_modes
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study

STUDY = """\
name: checked
platform: {kind: fake}
baseline: base
lanes: {base: {transport: local}, new: {transport: local}}
workloads: {main: {kind: fio, iodepth: [1, 16], runtime: 1s}}
"""
ONE, TWO = "main.4k-randread-qd1", "main.4k-randread-qd16"


def of(cell=None, lane=None, block=None):
    """Does an observation match?"""
    return lambda o: cell in (None, o.cell) and lane in (None, o.lane) and block in (None, o.block)


def where(match, **fields):
    return lambda o: replace(o, **fields) if match(o) else o


def iops(values):
    """``values``: (cell, lane) -> list by block."""

    def change(o):
        found = values.get((o.cell, o.lane))
        return replace(o, metrics={"iops": found[o.block]}) if found else o

    return change


def test_every_check_is_a_check_named_after_its_file():
    for name, check in registry.every("checks"):
        assert isinstance(check, Check)
        assert check.name == name
        assert importlib.import_module(f"fairlane.checks.{name}").__doc__


def test_a_clean_run_has_no_findings(build):
    assert run_all(build()) == ()


@pytest.mark.parametrize("name", registry.names("checks"))
def test_no_check_needs_what_another_tool_may_not_give(build, run_check, name):
    bare = build(lambda o: replace(o, metrics={}, histograms={}, context={}), events=({"type": "start"},))
    assert run_check(name, bare) == []
    assert run_check(name, replace(bare, observations=(), blocks=())) == []


def test_findings_come_most_severe_first(build):
    made = build(where(of(TWO, "new", 3), failed="killed"), complete=False, events=({"type": "mismatch", "cell": ONE},))
    found = run_all(made)
    assert [f.severity for f in found] == ["critical", "warning", "warning", "warning"]
    assert [f.check for f in found] == ["not_reproducible", "failed_trials", "failed_trials", "unfinished_run"]


# --- drops_retransmits


@pytest.mark.parametrize(
    ("lost", "severity"),
    [(1, "warning"), (2, "warning"), (4, "critical")],  # 200 ms each of 12 s: 1.7 %, 3.3 %, 6.7 %; the margin is 5 %
)
def test_losses_of_one_lane_take_the_headline_where_they_may_reach_the_margin(build, run_check, lost, severity):
    made = build(where(of(ONE, "new", 4), context={"net": {"drops": 0, "retransmits": lost}}))
    (found,) = run_check("drops_retransmits", made)
    assert (found.severity, found.cells, found.lanes) == (severity, (ONE,), ("new",))
    assert found.evidence == {ONE: {"drops": 0, "retransmits": lost, "trials": 1}}
    headlines = {v.key: v.headline for v in judge(made, [found]) if v.primary}
    assert headlines == {ONE: severity != "critical", TWO: True}


def test_losses_that_both_lanes_have_cancel_up_to_one_percent_of_the_segments(build, run_check):
    def severities(bytes_):
        net = {"drops": 0, "retransmits": 5, "tx_bytes": bytes_, "rx_bytes": 0}
        return {f.severity for f in run_check("drops_retransmits", build(where(of(ONE), context={"net": net})))}

    assert severities(1_000_000) == {"warning"}
    assert severities(600_000) == {"critical"}


def test_losses_that_cannot_change_so_large_a_difference_are_a_warning(build, run_check):
    """6.7 % of the time, where the other lane is eighty times as fast."""

    def severities(speed):
        def change(o):
            net = {"drops": 0, "retransmits": 4 if o.lane == "base" and o.block == 4 else 0}
            iops = o.metrics["iops"] * (speed if o.lane == "new" else 1)
            return replace(o, metrics={"iops": iops}, context={**o.context, "net": net})

        return {f.severity for f in run_check("drops_retransmits", build(change))}

    assert severities(80) == {"warning"}
    assert severities(0.95) == {"critical"}


def test_one_burst_among_few_segments_is_no_rate(build, run_check):
    """A slow lane sends so few that three lost ones are a tenth of them."""

    def severities(*blocks):
        def change(o):
            lost = 3 if o.lane == "base" and o.block in blocks else 0
            net = {"drops": 0, "retransmits": lost, "tx_bytes": 4000, "rx_bytes": 0}
            return replace(o, metrics={"iops": 25.0 if o.lane == "base" else 2500.0}, context={**o.context, "net": net})

        return {f.severity for f in run_check("drops_retransmits", build(change))}

    assert severities(4) == {"warning"}
    assert severities(*range(12)) == {"critical"}


def test_losses_that_reach_into_the_percentile_that_is_compared_are_critical(build, run_check):
    def severities(retransmits, primary):
        made = build(
            where(
                of(ONE, "new", 4),
                context={"net": {"drops": 0, "retransmits": retransmits}, "load": {"ios": {"read": 1000}}},
            )
        )
        workloads = {n: w.model_copy(update={"primary": primary}) for n, w in made.study.workloads.items()}
        made = replace(made, study=made.study.model_copy(update={"workloads": workloads}))
        return [f.severity for f in run_check("drops_retransmits", made)]

    assert severities(2, "iops") == ["warning"]
    assert severities(2, "lat_p99") == ["critical"]


def test_drops_are_added_up_per_lane_and_cell(build, run_check):
    made = build(where(of(block=2), context={"net": {"drops": 2}}))
    found = run_check("drops_retransmits", made)
    counts = {"drops": 2, "retransmits": 0, "trials": 1}
    assert [(f.lanes, f.evidence) for f in found] == [
        (("base",), {ONE: counts, TWO: counts}),
        (("new",), {ONE: counts, TWO: counts}),
    ]
    assert {set(f.cells) == {ONE, TWO} for f in found} == {True}


# --- failed_trials


def test_failed_trials_are_counted_with_reasons(build, run_check):
    def change(o):
        if of(ONE, "new")(o) and o.block < 3:
            return replace(o, failed="fio was killed" if o.block else "garbage")
        return o

    found, _ = run_check("failed_trials", build(change))
    assert (found.severity, found.cells, found.lanes) == ("warning", (ONE,), ("new",))
    assert found.kind == "some-failed"
    assert found.evidence["failed"] == {f"{ONE} new": "3 of 12"}
    assert found.evidence["trials"] == 48
    assert list(found.evidence["reasons"].items()) == [("fio was killed", 2), ("garbage", 1)]


def test_a_lane_without_a_good_trial_is_critical(build, run_check):
    def change(o):
        return replace(o, failed="no device") if of(TWO, "base")(o) or of(ONE, "new", 0)(o) else o

    lost, some, uneven = run_check("failed_trials", build(change))
    assert (uneven.kind, uneven.cells) == ("lopsided-failures", (ONE,)), "where all failed nothing is compared"
    assert (lost.severity, lost.cells, lost.lanes) == ("critical", (TWO,), ("base",))
    assert (lost.kind, lost.evidence) == ("all-failed", {"trials": {TWO: 12}, "reasons": {"no device": 12}})
    assert (some.severity, some.cells, some.lanes) == ("warning", (ONE,), ("new",))


def test_failures_of_one_lane_alone_name_it_and_count_them(build, run_check):
    def change(o):
        return replace(o, failed="timeout") if of(ONE, "new")(o) and o.block < 3 else o

    _, uneven = run_check("failed_trials", build(change))
    assert (uneven.kind, uneven.severity) == ("lopsided-failures", "warning")
    assert (uneven.cells, uneven.lanes) == ((ONE,), ("new",))
    assert "3 of 12" in uneven.evidence[f"{ONE} new"]
    assert "0 of 12" in uneven.evidence[f"{ONE} new"]


def test_even_failures_are_only_counted(build, run_check):
    def change(o):
        return replace(o, failed="timeout") if o.cell == ONE and o.block < (3 if o.lane == "new" else 2) else o

    assert [f.kind for f in run_check("failed_trials", build(change))] == ["some-failed"]


# --- spread


def test_two_modes_are_found_and_counted(build, run_check):
    """The lab's 64k randwrite qd16: 3500-3700 and 4300-4500 IOPS, cause unknown (LAB.md)."""
    modes = [3500, 4310, 3620, 4480, 3700, 4400, 3560, 4350, 3650, 4500, 3590, 4420]
    (found,) = run_check("spread", build(iops({(ONE, "new"): modes})))
    assert (found.severity, found.cells, found.lanes) == ("warning", (ONE,), ("new",))
    assert found.kind == "two-modes"
    proof = found.evidence[ONE]
    assert (proof["modes"], proof["from"], proof["to"]) == ([6, 6], [3500, 4310], [3700, 4500])


def test_a_wide_range_is_found(build, run_check):
    ramp = [1000 * 1.05**i for i in range(12)]
    (found,) = run_check("spread", build(iops({(ONE, "new"): ramp})))
    assert found.kind == "range"
    assert found.evidence[ONE]["ratio"] == pytest.approx(1.05**11)
    assert (found.evidence[ONE]["least"], round(found.evidence[ONE]["most"])) == (1000, 1710)


def test_one_stalled_block_is_a_range_not_a_mode(build, run_check):
    (found,) = run_check("spread", build(iops({(ONE, "new"): [1000.0] * 11 + [300.0]})))
    assert (found.kind, found.evidence[ONE]["least"], found.evidence[ONE]["most"]) == ("range", 300, 1000)


@pytest.mark.parametrize(
    ("values", "split"),
    [
        ([100, 101, 102, 120, 121], None),  # five: too few to tell
        ([100, 101, 102, 120, 121, 122], (3, 3)),
        ([100, 101, 102, 104, 105, 106], None),  # apart, but by less than 5 %
        ([100, 104, 108, 112, 116, 120], None),
        ([100, 100, 100, 100, 100, 150], None),  # one alone is no mode
        ([100, 100, 100, 100, 150, 150], (4, 2)),
    ],
)
def test_two_modes(values, split):
    found = two_modes(values)
    assert (found and tuple(map(len, found))) == split


def test_a_tail_that_waits_for_a_timer_is_found(build, run_check):
    stalled = {"write.lat": {100_000: 9500, 40_000_000: 500}}
    (found,) = run_check("spread", build(where(of(TWO, "new", 5), histograms=stalled)))
    assert (found.kind, found.evidence) == ("tail", {TWO: {"p99_over_p50": {"5": 400.0}, "of": 12}})


def test_a_tail_of_a_few_ios_is_no_tail(build, run_check):
    few = {"write.lat": {100_000: 95, 40_000_000: 5}}
    assert run_check("spread", build(where(of(TWO, "new", 5), histograms=few))) == []


def test_one_finding_for_all_cells_of_a_lane_that_names_the_worst(build, run_check):
    ramp, steep = [1000 * 1.05**i for i in range(12)], [1000 * 1.1**i for i in range(12)]
    (found,) = run_check("spread", build(iops({(ONE, "new"): ramp, (TWO, "new"): steep})))
    assert (found.cells, found.lanes) == ((ONE, TWO), ("new",))
    assert {"1,000", "2,853", "qd16"} <= set(found.message.replace(":", "").split()), "the worst cell is named"
    both = run_check("spread", build(iops({(ONE, "new"): ramp, (TWO, "base"): ramp})))
    assert [(f.cells, f.lanes) for f in both] == [((TWO,), ("base",)), ((ONE,), ("new",))]


# --- carry_over, autocorrelation, moving_lane


def test_carry_over_is_found(build, run_check):
    def change(o):
        return replace(o, metrics={"iops": o.metrics["iops"] * (0.9 if o.position == 1 else 1)}) if o.cell == ONE else o

    (found,) = run_check("carry_over", build(change))
    assert (found.severity, found.cells, found.lanes) == ("warning", (ONE,), ("new",))
    assert found.kind == "carried-over"
    assert found.evidence[ONE]["baseline"] == "base"
    assert found.evidence[ONE]["shift"] == pytest.approx(
        0.9**2 - 1, abs=0.02
    )  # the one loses when it is second, then the other


WAVE = [1000 * math.exp(0.01 * x) for x in (0.0, 0.8, 1.2, 0.7, -0.1, -0.9, -1.1, -0.6, 0.1, 0.9, 0.8, -0.2)]


def test_blocks_that_remember_are_a_warning_for_all_cells_of_the_lanes(build, run_check):
    flat = [1000.0] * 12
    waves = {(cell, lane): WAVE if lane == "new" else flat for cell in (ONE, TWO) for lane in ("new", "base")}
    (found,) = run_check("autocorrelation", build(iops(waves)))
    assert (found.severity, found.kind, found.cells, found.lanes) == ("warning", "correlated", (ONE, TWO), ("new",))
    assert found.evidence["blocks"] == 12
    assert 2 < found.evidence["worth"] < 6
    mixed = [WAVE[i] for i in (9, 5, 2, 7, 1, 6, 0, 10, 4, 3, 11, 8)]
    assert run_check("autocorrelation", build(iops({key: mixed if key[1] == "new" else flat for key in waves}))) == []
    assert run_check("autocorrelation", replace(build(iops(waves)), modelled=True)) == []


def test_a_lane_that_moves_through_the_run_is_a_warning_and_named(build, run_check):
    ramp = [1000 * math.exp(0.01 * i + 0.001 * (-1) ** (i // 2)) for i in range(12)]
    flat = [1000 * math.exp(0.001 * (-1) ** i) for i in range(12)]
    both = {(ONE, "new"): flat, (TWO, "new"): flat, (ONE, "base"): ramp, (TWO, "base"): ramp}
    (found,) = run_check("moving_lane", build(iops(both)))
    assert (found.severity, found.kind, found.cells, found.lanes) == ("warning", "moving", (ONE, TWO), ("new",))
    assert found.message.startswith("base moves against new")
    assert found.evidence["slope"] == pytest.approx(-0.01, rel=0.2)


def test_first_blocks_that_are_left_out_are_for_information(build, run_check):
    warm = [
        1000 * math.exp(-0.8 * (i == 0) - 0.6 * (i == 1) - 0.3 * (i == 2) + 0.01 * (-1) ** (i // 2)) for i in range(12)
    ]
    cells = {(cell, lane): warm if lane == "new" else [1000.0] * 12 for cell in (ONE, TWO) for lane in ("new", "base")}
    (found,) = run_check("moving_lane", build(iops(cells)))
    assert (found.severity, found.kind, found.evidence["left_out"]) == ("info", "left-out", 2)
    assert " 2 of 12 blocks" in found.message
    assert run_check("moving_lane", build()) == []


# --- unfinished_run, mixed_versions, not_reproducible


def test_unfinished_run_says_how_far_it_came_and_why_it_stopped(build, run_check):
    whole = build()
    events = (
        {"type": "block-failed", "cell": ONE, "block": 3, "reason": "the guest died\n  its console"},
        {"type": "damaged", "trial": "t"},
    )
    made = replace(whole, complete=False, observations=whole.observations[:-8], events=events)
    (found,) = run_check("unfinished_run", made)
    assert (found.severity, found.cells) == ("warning", ())
    assert found.kind == "unfinished"
    assert found.evidence == {"trials": 40, "due": 48, "failed_blocks": {"the guest died": 1}, "damaged": ["t"]}


def start(kind="start", **fingerprint):
    return {
        "type": kind,
        "fingerprint": {"qemu": "7.2", "kernel": "6.12", "fio": "3.33", "fairlane": "0.1", **fingerprint},
    }


@pytest.mark.parametrize("name", ["qemu", "kernel", "fio", "fairlane"])
def test_a_changed_version_is_critical(build, run_check, name):
    (found,) = run_check("mixed_versions", build(events=(start(), start("resume"), start("resume", **{name: "new"}))))
    assert (found.severity, found.cells, found.lanes) == ("critical", (), ())
    assert list(found.evidence) == [name]
    assert found.kind == "programs"
    assert found.evidence[name][-1] == "new"


def test_the_same_versions_are_nothing(build, run_check):
    assert run_check("mixed_versions", build(events=(start(), start("resume"), {"type": "look"}))) == []


def test_a_changed_image_is_a_warning(build, run_check):
    events = (start(packages={"libc6": "1"}), start("resume", packages={"libc6": "2"}))
    (found,) = run_check("mixed_versions", build(events=events))
    assert (found.severity, found.kind, list(found.evidence)) == ("warning", "environment", ["packages"])


def test_fio_tells_its_own_version_in_every_trial(build, run_check):
    (found,) = run_check("mixed_versions", build(where(of(block=11), context={"fio": {"version": "fio-3.39"}})))
    assert found.evidence == {"fio": ["fio-3.33", "fio-3.39"]}


@pytest.mark.parametrize(
    "event", [{"trial": f"{ONE}.b003.new"}, {"cell": ONE, "block": 3, "lane": "new", "files": ["fio.json"]}]
)
def test_a_trial_that_does_not_repeat_is_critical(build, run_check, event):
    (found,) = run_check("not_reproducible", build(events=({"type": "mismatch", **event},)))
    assert (found.severity, found.cells, found.lanes) == ("critical", (ONE,), ("new",))
    assert found.evidence == {"trials": [f"{ONE}.b003.new"]}


# --- generator_bound


@pytest.mark.parametrize(("jobs", "share", "found"), [(1, 97.0, 1), (1, 94.0, 0), (4, 3.9 * 97, 0), (4, 4 * 97.0, 1)])
def test_a_generator_at_its_limit(build, run_check, jobs, share, found):
    busy = {"fio": {"jobs": jobs, "usr_cpu": share * 0.25, "sys_cpu": share * 0.75}}
    findings = run_check("generator_bound", build(where(of(TWO, "new"), context=busy)))
    assert len(findings) == found
    for finding in findings:
        assert (finding.severity, finding.cells, finding.lanes) == ("warning", (TWO,), ("new",))
        assert (finding.kind, finding.evidence["percent_of_a_core"]) == ("generator", {TWO: 97.0})


def test_the_virtual_clock_has_one_core_for_all(build, run_check):
    made = build(where(of(TWO, "new"), context={"fio": {"usr_cpu": 20.0, "sys_cpu": 77.0}}), modelled=True)
    (found,) = run_check("generator_bound", made)
    assert (found.kind, found.evidence["percent_of_a_core"]) == ("only-core", {TWO: 97.0})


def test_all_cells_of_a_bound_lane_are_one_finding(build, run_check):
    def change(o):
        return replace(o, context={"fio": {"usr_cpu": 20.0, "sys_cpu": 77.0 if o.cell == ONE else 79.6}})

    found = run_check("generator_bound", build(change, modelled=True))
    assert [(f.cells, f.lanes) for f in found] == [((ONE, TWO), ("base",)), ((ONE, TWO), ("new",))]
    assert all(f.evidence["percent_of_a_core"] == {ONE: 97.0, TWO: 99.6} for f in found)


# --- write_cache

BACK, THROUGH = {"device.write_cache": "write back", "device.fua": "1"}, {"device.write_cache": "write through"}


def writing(made):
    """The same run with the cell at depth 16 writing."""
    mixed = STUDY.replace("iodepth: [1, 16]", "rw: [randread, randwrite]")
    return replace(made, study=parse_study(mixed, "checked.yaml"))


def test_lanes_that_promise_different_things_about_a_write_are_told(build, run_check):
    made = writing(build(description={"lanes": {"base": THROUGH, "new": BACK}}))
    (found,) = run_check("write_cache", made)
    assert (found.severity, found.cells) == ("warning", ("main.4k-randwrite-qd1",))
    assert set(found.lanes) == {"base", "new"}
    assert found.kind == "flush"
    assert [found.evidence[lane].split(" with ") for lane in ("base", "new")] == [
        [THROUGH["device.write_cache"]],
        [BACK["device.write_cache"], "FUA"],
    ]


@pytest.mark.parametrize(
    "lanes",
    [
        {"base": BACK, "new": {**BACK, "device.fua": "0"}},
        {"base": BACK},
        {"base": {}, "new": BACK},
        {"base": None, "new": {"device.write_cache": 3}},
        None,
    ],
)
def test_lanes_that_promise_the_same_or_were_not_asked_are_not(build, run_check, lanes):
    assert run_check("write_cache", writing(build(description={"lanes": lanes}))) == []


def test_reads_need_no_flush(build, run_check):
    assert run_check("write_cache", build(description={"lanes": {"base": THROUGH, "new": BACK}})) == []


# --- busy_host


def test_a_host_with_other_work_in_a_quarter_of_the_trials(build, run_check):
    def change(o, often):
        others = 0.6 if o.block < often else 0.02
        context = {"system_hypervisor": {"others": others, "steal": 0.0, "pressure_cpu": 0.3}}
        return replace(o, context={**o.context, **context})

    assert run_check("busy_host", build(lambda o: change(o, 2))) == []
    (found,) = run_check("busy_host", build(lambda o: change(o, 3)))
    assert (found.kind, found.severity, found.cells, found.lanes) == ("others", "warning", (), ())
    assert found.evidence == {"trials": 12, "of": 48, "median": 0.6, "most": 0.6, "pressure_cpu": 0.3}
    assert run_check("busy_host", build()) == []
