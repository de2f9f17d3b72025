"""Each check of single trials: the figures that it is for, the figures just short of them, and what it says.

Real fio makes the cases in ``test_real_fio.py``; here are the edges, and what this machine cannot make."""

import math
from dataclasses import replace

import pytest
from scipy.stats import linregress

from fairlane import registry
from fairlane.checks._trials import trials
from fairlane.checks.drift import trend
from fairlane.checks.unsteady import PLUGIN as UNSTEADY
from fairlane.records import Figures
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study

KEY = "main.4k-randread-qd1"


def figures(metrics=None, histograms=None, **context):
    return Figures({"iops": 1000.0} if metrics is None else metrics, histograms or {}, context)


def counted(reads, writes, **more):
    return figures(load={"ios": {"read": reads, "write": writes}, **more})


FINE = figures()


@pytest.fixture
def told(beside, run_check):
    """``told(check, odd, sound=, ...)``: severity, kind and evidence of the findings, after making sure that none is
    about the lane ``sound``."""

    def find(check, odd, sound=FINE, workload="rw: [randread]", **keys):
        found = run_check(check, beside(odd, sound, workload, **keys))
        assert {lane for f in found for lane in f.lanes} <= {"odd"}
        assert all(f.cells and f.evidence and f.check == check for f in found)
        return [(f.severity, f.kind, next(iter(f.evidence.values()))) for f in found]

    return find


# --- achieved_mix

MIX = "rw: [randrw], rwmixread: [70]"


def test_seventy_thirty_that_ran_half_and_half(told):
    ((severity, kind, proof),) = told("achieved_mix", counted(29_995, 29_994), counted(41_900, 18_100), MIX)
    assert (severity, kind) == ("critical", "mix")
    assert (proof["asked_reads"], round(proof["reads"], 3)) == (0.7, 0.5)
    assert proof["half"], "a rate cap that holds for each direction does that"


@pytest.mark.parametrize(
    ("reads", "writes", "odd"), [(67, 33, 0), (6700, 3300, 0), (6620, 3380, 0), (6600, 3400, 1), (66_000, 34_000, 1)]
)
def test_a_mix_is_off_beyond_two_points_and_noise(told, reads, writes, odd):
    assert len(told("achieved_mix", counted(reads, writes), counted(70, 30), MIX)) == odd


def test_a_load_that_only_reads_has_no_writes(told):
    ((_, kind, proof),) = told("achieved_mix", counted(900, 100), counted(900, 0))
    assert (kind, proof["asked_reads"], proof["reads"], proof["half"]) == ("mix", 1.0, 0.9, False)


def test_lanes_that_ran_different_mixes_are_not_compared(beside, run_check):
    made = beside(counted(60_000, 40_000), counted(70_000, 30_000), MIX, blocks=6)
    (found,) = run_check("unequal_mix", made)
    assert found.refuses
    (shares,) = found.evidence.values()
    assert (found.kind, found.lanes, shares) == ("mix", ("odd",), {"odd": 0.6, "sound": 0.7})
    assert {v.verdict for v in judge(made, [found])} == {"refused"}
    assert run_check("unequal_mix", beside(counted(60, 40), counted(70, 30), MIX)) == []  # chance
    assert run_check("unequal_mix", beside(counted(60_000, 40_000), counted(60_000, 40_000), MIX, blocks=6)) == []


# --- above_cap


def test_the_tier_of_500_that_scored_989(told):
    """Study 003's NFS low tier: read and write jobs that ran one after the other were added up."""
    odd, sound = figures({"iops": 989.0}), figures({"iops": 509.0})
    ((severity, kind, proof),) = told("above_cap", odd, sound, lane=", cap_iops: 500")
    assert (severity, kind) == ("critical", "iops")
    assert (proof["value"], proof["cap"], proof["factor"]) == (989.0, 500, 1.978)
    assert proof["double"]


def test_a_cap_on_bandwidth(told):
    odd, sound = figures({"bw": 64.0 * 2**20}), figures({"bw": 50.5 * 2**20})
    ((_, kind, proof),) = told("above_cap", odd, sound, lane=", cap_mibs: 50")
    assert (kind, proof["value"], proof["cap"], proof["factor"]) == ("bw", 64.0, 50, 1.28)
    assert not proof["double"]


@pytest.mark.parametrize(("seconds", "odd"), [(3, 0), (30, 1)])
def test_what_a_bucket_has_saved_up_is_no_excess_in_a_short_trial(told, seconds, odd):
    limited = Figures({"iops": 515.0}, context={"load": {"runtime_ms": 1000 * seconds}})
    assert len(told("above_cap", limited, sound=figures({"iops": 1.0}), lane=", cap_iops: 500")) == odd


def test_steps_of_counting_are_no_excess(told):
    short = Figures({"iops": 540.0}, steps={"iops": 0.1})
    assert told("above_cap", short, lane=", cap_iops: 500", sound=figures({"iops": 1.0})) == []


# --- added_up


def part(name, start, end, **more):
    return {"name": name, "ios": 100, "start_ms": start, "end_ms": end, **more}


TOGETHER = counted(1, 0, parts=[part("a", 0, 1000, group=0), part("b", 20, 1020, group=1, stonewall=True)])


def test_jobs_one_after_the_other(told):
    odd = counted(1, 0, parts=[part("read", 0, 1000), part("write", 1000, 2000)])
    ((severity, kind, proof),) = told("added_up", odd, TOGETHER)
    assert (severity, kind, proof["jobs"]) == ("critical", "parts", 2)
    assert [part["name"] for part in proof["apart"]] == ["read", "write"]


@pytest.mark.parametrize(("stonewall", "odd"), [(True, 1), (False, 0)])
def test_groups_that_fio_kept_apart(told, stonewall, odd):
    """fio before 3.34 does not tell when a job began: then its groups tell, which a job with stonewall opens."""
    jobs = [
        {"name": "r", "ios": 5, "group": 0, "stonewall": True},
        {"name": "w", "ios": 5, "group": 1, "stonewall": stonewall},
    ]
    assert len(told("added_up", counted(5, 5, parts=jobs), TOGETHER)) == odd
    idle = [jobs[0], {**jobs[1], "ios": 0}]
    assert told("added_up", counted(5, 0, parts=idle), TOGETHER) == []


def test_a_figure_that_is_defined_as_a_sum(told):
    odd = figures(conditions={"metric_definition": "sum of the read job and the write job"})
    sound = figures(conditions={"metric_definition": "one mixed job"})
    ((severity, kind, proof),) = told("added_up", odd, sound)
    assert (severity, kind) == ("critical", "definition")
    assert proof["metric_definition"] == odd.context["conditions"]["metric_definition"]


# --- bandwidth


@pytest.mark.parametrize(
    ("bw", "slip"),
    [(4_096_000 * 1.019, None), (4_096_000 * 1.021, set()), (4_096_000 * 1.0486, {"MB", "MiB"}),
     (4_096_000 / 8, {"bits", "bytes"}), (4_096_000 / 2, {"directions"})],
)  # fmt: skip
def test_bandwidth_is_iops_times_block_size(told, bw, slip):
    found = told("bandwidth", figures({"iops": 1000.0, "bw": bw}), figures({"iops": 10.0, "bw": 40_960.0}))
    assert [(severity, kind) for severity, kind, _ in found] == [("critical", "product")] * (slip is not None)
    for *_, proof in found:
        assert set(proof["slip"].split()) & {"MB", "MiB", "bits", "bytes", "directions"} == slip


# --- littles_law


def loop(in_flight, **context):
    return figures({"iops": 1000.0, "lat_mean": in_flight * 1e6}, load={"runtime_ms": 60_000}, **context)


DEPTH = "iodepth: [16], numjobs: [2]"


@pytest.mark.parametrize(
    ("in_flight", "severity"), [(32, None), (30.5, None), (30.2, "warning"), (33.5, None), (33.7, "critical")]
)
def test_rate_times_latency_is_the_depth(told, in_flight, severity):
    found = told("littles_law", loop(in_flight), loop(32), DEPTH)
    assert [s for s, *_ in found] == ([severity] if severity else [])
    assert {kind for _, kind, _ in found} <= {"below" if in_flight < 32 else "above"}


def test_a_fleet_multiplies_the_depth(told):
    vms = [{"name": f"vm{i}", "iops": 100.0} for i in range(10)]
    assert told("littles_law", loop(320, vms=vms), loop(32), DEPTH) == []
    ((_, kind, proof),) = told("littles_law", loop(32, vms=vms), loop(32), DEPTH)
    assert (kind, proof["in_flight"], proof["asked"]) == ("below", 32, 320)


@pytest.mark.parametrize("keys", ["iodepth: [16], rate_iops: [1000]", "iodepth: [1], engine: psync"])
def test_a_loop_that_is_paced_and_one_without_depth(told, keys):
    assert told("littles_law", loop(1 if "psync" in keys else 4), loop(1), keys) == []


def test_under_the_virtual_clock_the_generator_is_part_of_the_model(told):
    ((severity, kind, _),) = told("littles_law", loop(20), loop(32), DEPTH, modelled=True)
    assert (severity, kind) == ("info", "below")


def test_the_ends_of_a_short_trial_are_allowed_for(told):
    short = figures({"iops": 1000.0, "lat_mean": 34e6}, load={"runtime_ms": 100})  # 32 of its 100 I/Os were in flight
    assert told("littles_law", short, loop(32), DEPTH) == []


# --- missing_percentile


PERCENTILES = {"iops": 1.0, "lat_mean": 150.0, "lat_p50": 100.0, "lat_p95": 200.0, "lat_p99": 300.0}


@pytest.mark.parametrize(
    ("change", "severity", "kind", "proof"),
    [
        ({"lat_p99": 0.0}, "warning", "zero", {"zero": ["lat_p99"]}),
        ({"lat_p95": 90.0}, "critical", "order", {"lat_p50": 100.0, "lat_p95": 90.0, "lat_p99": 300.0}),
        ({"lat_p50": 1e6}, "critical", "order", {"lat_p50": 1e6, "lat_p95": 200.0, "lat_p99": 300.0}),
        ({"lat_p99": None}, "warning", "missing", {"missing": ["lat_p99"]}),
        ({"lat_p95": 100.0}, None, "", {}),
    ],
)
def test_percentiles_that_are_none(told, change, severity, kind, proof):
    odd = {name: value for name, value in (PERCENTILES | change).items() if value is not None}
    found = told("missing_percentile", figures(odd), figures(PERCENTILES))
    assert [(s, k) for s, k, _ in found] == ([(severity, kind)] if severity else [])
    assert all(proof.items() <= shown.items() for *_, shown in found)


@pytest.mark.parametrize(("mean", "odd"), [(126_000, 0), (134_000, 0), (137_000, 1), (124_000, 1), (420_000, 1)])
def test_a_mean_is_that_of_the_bins(told, mean, odd):
    bins = {"read.lat": {100_000: 900, 400_000: 100}}
    found = told("missing_percentile", figures({"lat_mean": float(mean)}, bins), figures({"lat_mean": 130_000.0}, bins))
    assert [(s, k) for s, k, _ in found] == [("critical", "bins")] * odd
    assert all((proof["lat_mean"], proof["of_bins"]) == (mean, pytest.approx(130_000)) for *_, proof in found)


@pytest.mark.parametrize(("counted", "odd"), [(1000, 0), (1001, 0), (1010, 1), (900, 1)])
def test_bins_hold_what_fio_counted(told, counted, odd):
    bins = {"read.lat": {100_000: 900, 400_000: 100}}
    context = {"fio": {"version": "fio-3.33"}, "load": {"ios": {"read": counted, "write": 0}}}
    sound = figures({"lat_mean": 130_000.0}, bins)
    found = told("missing_percentile", figures({"lat_mean": 130_000.0}, bins, **context), sound)
    assert [(s, k) for s, k, _ in found] == [("critical", "counts")] * odd
    assert all((proof["in_bins"], proof["counted"]) == (1000, counted) for *_, proof in found)
    assert told("missing_percentile", figures({}, bins, load=context["load"]), sound) == []  # other tools count fsyncs


@pytest.mark.parametrize(("change", "odd"), [({}, 0), ({"lat_write_p99": 8e5}, 1), ({"lat_read_p50": 400.0}, 1)])
def test_percentiles_rise_within_a_direction(told, change, odd):
    """Slow writes beside fast reads: p50 of the writes lies above p99 of the reads."""
    ways = {"lat_read_p50": 90.0, "lat_read_p99": 300.0, "lat_write_p50": 1e6, "lat_write_p99": 3e6}
    found = told("missing_percentile", figures(PERCENTILES | ways | change), figures(PERCENTILES | ways))
    assert [(s, k) for s, k, _ in found] == [("critical", "order")] * odd


def test_a_histogram_too_short_for_a_percentile_is_no_flaw(told):
    assert told("missing_percentile", figures({"iops": 1.0}, {"read.lat": {100: 5}}), figures(PERCENTILES)) == []


@pytest.mark.parametrize(
    "context",
    [
        {"load": {"percentiles_of": "averaged over directions"}},
        {"load": {"percentiles_of": {"averaged": "directions"}}},
        {"conditions": {"metric_definition": "p99, averaged over read and write"}},
    ],
)
def test_averaged_percentiles(told, context):
    ((severity, kind, _),) = told("missing_percentile", figures(PERCENTILES, **context), figures(PERCENTILES))
    assert (severity, kind) == ("warning", "averaged")


# --- unwritten_space

SPARSE = "prefill: false, size: 1g"


def on(allocated, **more):
    return figures(medium={"allocated_bytes": allocated, **more})


def test_reads_of_what_was_never_written(told):
    ((severity, kind, proof),) = told("unwritten_space", on(2**28), on(2**30), SPARSE)
    assert (severity, kind) == ("critical", "allocated")
    assert (proof["allocated_bytes"], proof["size_bytes"], proof["reads"]) == (2**28, 2**30, True)


def test_first_writes_pay_for_their_allocation(told):
    ((severity, kind, proof),) = told("unwritten_space", on(0), on(2**30), "rw: [randwrite], " + SPARSE)
    assert (severity, kind, proof["reads"]) == ("critical", "allocated", False)


@pytest.mark.parametrize(("rw", "severity"), [("randread", "critical"), ("randwrite", "warning"), ("rw", "critical")])
def test_no_prefill(told, rw, severity):
    ((found, kind, proof),) = told("unwritten_space", FINE, on(2**30), f"rw: [{rw}], {SPARSE}")
    assert (found, kind, proof["prefill"], proof["reads"]) == (severity, "none", False, rw != "randwrite")


@pytest.mark.parametrize(("allocated", "odd"), [(str(2**28), 1), (str(2**30), 0), ("unknown", 1), (2**30, 0)])
def test_what_the_lane_had_allocated_once_it_was_filled(told, allocated, odd):
    description = {"lanes": {"odd": {"medium.allocated_bytes": allocated}}}
    found = told("unwritten_space", FINE, on(2**30), SPARSE, description=description)
    assert [(s, k) for s, k, _ in found] == [("critical", "none" if allocated == "unknown" else "allocated")] * odd


def test_a_medium_that_serves_all_alike(told):
    alike = figures(medium={"unwritten_reads": "same"})
    assert told("unwritten_space", alike, alike, SPARSE) == []
    lab = {"platform": {"medium.kind": "null_blk", "medium.memory_backed": "0"}}
    assert told("unwritten_space", FINE, FINE, SPARSE, description=lab) == []


def test_a_database_wrote_what_it_reads(told):
    base = {"tps": 100.0}
    assert told("unwritten_space", figures(base), figures(base), SPARSE) == []


# --- cache_served


def disk(reads, bytes_, direct=True, **more):
    load = {"ios": {"read": 1000, "write": 0}, "bytes": {"read": 4_096_000, "write": 0}, "runtime_ms": 1000}
    return figures(
        load=load, disk={"reads": reads, "read_bytes": bytes_, "writes": 3, **more}, conditions={"direct": direct}
    )


SEEN = disk(1000, 4_096_000)


@pytest.mark.parametrize(("bytes_", "odd"), [(0, 1), (3_800_000, 1), (3_900_000, 0), (4_500_000, 0)])
def test_reads_that_the_disk_never_saw(told, bytes_, odd):
    found = told("cache_served", disk(1000, bytes_), SEEN)
    assert [(s, k) for s, k, _ in found] == [("critical", "fewer-reads")] * odd
    assert all((proof["disk"], proof["load"]) == (bytes_, 4_096_000) for *_, proof in found)


def test_reads_that_the_kernel_merged_are_seen(told):
    load = {"ios": {"read": 1000}, "runtime_ms": 1000}
    merged = figures(load=load, disk={"reads": 250, "read_merges": 750})
    assert told("cache_served", merged, SEEN) == []
    assert len(told("cache_served", figures(load=load, disk={"reads": 250, "read_merges": 0}), SEEN)) == 1


def test_read_ahead_is_for_information(told):
    ((severity, kind, proof),) = told("cache_served", disk(1000, 8_192_000), SEEN, "rw: [read], ramp: 100ms")
    assert (severity, kind, proof["disk"]) == ("info", "more-reads", 8_192_000)
    assert told("cache_served", disk(1100, 4_505_600), SEEN, "rw: [read], ramp: 100ms") == []


def test_indirect_io_is_told(told):
    ((severity, kind, _),) = told("cache_served", disk(1000, 4_096_000, direct=False), SEEN)
    assert (severity, kind) == ("warning", "indirect")


# --- link_bound

LINK = ", conditions: {link_speed: 1gbit}"


@pytest.mark.parametrize(("bw", "kind"), [(100e6, None), (117.6e6, "full"), (130e6, "beyond")])
def test_a_full_link(told, bw, kind):
    """117.6 MB/s is all that TCP carries over Gigabit Ethernet with ordinary packets: 1448 of 1538 bytes."""
    found = told("link_bound", figures({"bw": bw}), figures({"bw": 90e6}), lane=LINK)
    assert [(s, k) for s, k, _ in found] == ([("warning", kind)] if kind else [])
    assert all(proof["link_speed"] == 1e9 for *_, proof in found)


def test_a_link_is_full_in_one_direction(told):
    def both(ways, every=None):
        return figures({"bw": 160e6}, load={"bytes": ways, **({"all": {"bytes": every}} if every else {})})

    assert told("link_bound", both({"read": 5, "write": 5}), FINE, lane=LINK) == []
    assert len(told("link_bound", both({"read": 3, "write": 1}), FINE, lane=LINK)) == 1
    other_job = {"read": 8, "write": 5}
    assert len(told("link_bound", both({"read": 5, "write": 5}, other_job), FINE, lane=LINK)) == 1


def test_small_ios_fill_a_link_with_headers(told):
    odd = figures({"bw": 60e6}, load={"runtime_ms": 1000}, net={"rx_bytes": 121_000_000, "tx_bytes": 5})
    ((severity, kind, _),) = told("link_bound", odd, FINE, "ramp: 0s", lane=LINK)
    assert (severity, kind) == ("warning", "full")


# --- cpu_bound


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        ({"busy": 0.96, "cpus": 4}, {"busy": 0.96}),
        ({"busy": 0.94}, {}),
        ({"busy": 0.90, "steal": 0.06}, {"busy": 0.90, "steal": 0.06}),
        ({"busy": 0.5, "steal": 0.019}, {}),
        ({"busy": 0.8, "window_ms": 1200}, {"busy": 0.96}),  # of a load of 1 s
    ],
)
def test_a_machine_at_its_limit(told, machine, says):
    found = told("cpu_bound", figures(machine=machine), figures(machine={"busy": 0.2}))
    assert {severity for severity, *_ in found} <= {"warning"}
    assert {kind: round(proof[kind], 3) for _, kind, proof in found} == says


HOSTS = """\
name: hosts
platform: {kind: hosts, machines: {here: local}}
baseline: a
lanes:
  a: {transport: directory, path: /a}
  b: {transport: directory, path: /b}
workloads:
  main: {kind: fio, rw: [randread]}
"""
PLACES = {"generator": 20_000.0, "shared": 5_000.0, "other": 800_000.0}
FULL_MACHINE = {"busy": 0.98, "cpus": 4, "window_ms": 1000}


@pytest.mark.parametrize(
    ("context", "kind", "own"),
    [
        ({"cpu": {"by_place": PLACES, "window_ios": 1e4}}, "others-busy", 0.064),  # 0.25 s of 3.92
        ({"cpu": {"by_place": {**PLACES, "shared": 300_000.0}, "window_ios": 1e4}}, "busy", None),  # its own path
        ({"fio": {"usr_cpu": 10.0, "sys_cpu": 88.0}}, "others-busy", 0.25),
        ({"fio": {"usr_cpu": 100.0, "sys_cpu": 250.0}}, "busy", None),
        ({"fio": {"usr_cpu": 1.0, "sys_cpu": "x"}}, "busy", None),
        ({}, "busy", None),
    ],
)
def test_a_machine_that_others_keep_busy(beside, run_check, context, kind, own):
    made = beside(figures(machine=FULL_MACHINE, load={"runtime_ms": 1000}, **context), FINE)
    (plain,) = run_check("cpu_bound", made)
    assert plain.kind == "busy", "only the lab's own load is in its machines"
    hosts = parse_study(HOSTS, "hosts.yaml").platform
    (found,) = run_check("cpu_bound", replace(made, study=made.study.model_copy(update={"platform": hosts})))
    (proof,) = found.evidence.values()
    assert (found.kind, found.severity) == (kind, "warning")
    assert proof.get("own") == (None if own is None else pytest.approx(own, abs=0.001))


def test_others_that_keep_a_machine_busy_are_named(beside, run_check):
    context = {"cpu": {"by_place": PLACES, "window_ios": 1e4}, "programs": {"java": 0.5, "mysqld": 2.5, "cron": 0.1}}
    made = beside(figures(machine=FULL_MACHINE, load={"runtime_ms": 1000}, **context), FINE)
    hosts = parse_study(HOSTS, "hosts.yaml").platform
    (found,) = run_check("cpu_bound", replace(made, study=made.study.model_copy(update={"platform": hosts})))
    assert "(mysqld: 2.50, java: 0.50 CPUs)" in found.message


# --- other_programs


@pytest.mark.parametrize(
    ("odd", "sound", "says"),
    [
        ({}, {}, []),
        ({"cron": 0.39}, {"cron": 0.39}, []),
        ({"mysqld": 0.8}, {"mysqld": 0.4}, [("everywhere", "mysqld", ())]),
        (
            {"nbdkit": 0.8, "mysqld": 1.0},
            {"mysqld": 1.0},
            [("everywhere", "mysqld", ()), ("one-sided", "nbdkit", ("odd",))],
        ),
        ({"vm1": {"mysqld": 0.1}, "vm2": {"mysqld": 0.9}}, {"mysqld": 0.1}, [("one-sided", "mysqld", ("odd",))]),
        ({"mysqld": "x", "y": None}, "z", []),
    ],
)
def test_programs_of_others_are_named(beside, run_check, odd, sound, says):
    four = {"machine": {"cpus": 4}}
    made = beside(figures(programs=odd, **four), figures(programs=sound, **four), blocks=3)
    found = run_check("other_programs", made)
    assert [(f.kind, f.evidence["program"], f.lanes) for f in found] == says


def test_a_program_that_ran_once_is_none(beside, run_check):
    made = beside(figures(programs={"updatedb": 3.0}, machine={"cpus": 4}), figures(programs={}), blocks=3)
    once = [replace(o, context={**o.context, "programs": {}}) if o.block else o for o in made.observations]
    assert run_check("other_programs", made)
    assert run_check("other_programs", replace(made, observations=tuple(once))) == []


def test_the_models_only_core_is_no_finding(told):
    busy = figures(machine={"busy": 1.0})
    assert told("cpu_bound", busy, busy, modelled=True) == []


# --- unsteady


def series(values):
    return figures(load={"series": {"interval_ms": 1000, "iops": values}})


def wobble(i):
    return 1 + 0.02 * (-1) ** i


CALM = series([1000 * wobble(i) for i in range(60)])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1000 * (1 - i / 300) for i in range(60)], "slope"),
        ([1000 * (1 - i / 900) for i in range(60)], None),  # 5 % over the window
        ([1000 * wobble(i) * (0.75 if 24 <= i < 36 else 1) for i in range(60)], "range"),
        ([1000 + 900 * (-1) ** i for i in range(60)], None),  # scatter, not a trend
        ([1000, 500] * 4, None),  # eight samples say nothing of rounds
        ([0] * 60, None),
    ],
)
def test_a_trial_that_did_not_settle(told, values, kind):
    found = told("unsteady", series(values), CALM)
    assert [(s, k) for s, k, _ in found] == ([("warning", kind)] if kind else [])
    for *_, proof in found:
        third = len(values) // 3
        assert (proof["first"], proof["last"]) == (sum(values[:third]) / third, sum(values[-third:]) / third)
        assert kind != "slope" or round(proof["last"] / proof["first"] - 1, 2) == -0.14
        assert kind != "range" or min(proof["rounds"]) == 750


def test_without_a_series_the_tools_own_deviation_tells(told):
    def scattered(sd):
        return counted(1, 0, samples={"read": {"count": 120, "mean": 1000.0, "stddev": sd}})

    ((_, kind, proof),) = told("unsteady", scattered(400.0), scattered(150.0))
    assert (kind, proof["direction"], proof["mean"], proof["stddev"]) == ("scatter", "read", 1000.0, 400.0)


def test_one_unsteady_trial_of_many_is_the_spreads_to_tell(beside):
    made = beside(CALM, CALM, blocks=6)
    ramp = series([1000 * (1 - i / 300) for i in range(60)])
    first = tuple(
        obs if obs.block or obs.lane == "sound" else type(obs)(**{**vars(obs), "context": ramp.context})
        for obs in made.observations
    )
    assert list(UNSTEADY.check(type(made)(**{**vars(made), "observations": first}))) == []


# --- prolonged


@pytest.mark.parametrize(
    ("asked", "ran_ms", "more", "odd"),
    [
        ("60s", 65_900, {}, 0),
        ("60s", 66_100, {}, 1),
        ("3s", 3_950, {}, 0),
        ("3s", 4_050, {}, 1),
        ("3s", 63_000, {"fault": {}}, 0),
    ],
)
def test_a_load_that_took_longer_than_asked(told, asked, ran_ms, more, odd):
    workload = f"rw: [randread], runtime: {asked}"
    found = told("prolonged", figures(load={"runtime_ms": ran_ms}, **more), workload=workload)
    assert [(severity, kind) for severity, kind, _ in found] == [("warning", "longer")] * odd


def test_a_flush_at_the_end_takes_its_time(told):
    workload = "rw: [randwrite], runtime: 3s, end_fsync: true"
    assert told("prolonged", figures(load={"runtime_ms": 9_000}), workload=workload) == []


# --- uneven_vms


def fleet(*iops):
    return figures(vms=[{"name": f"vm{i}", "iops": float(x), "start_ms": 0} for i, x in enumerate(iops)])


@pytest.mark.parametrize(
    ("iops", "kind"),
    [
        ((1000, 1050, 990), None),
        ((1000, 1050, 600), "range"),
        ((1000, 1010, 1005, 800, 805, 803), "two-groups"),
        ((5, 9), None),  # a second each: that is chance
        ((1000,), None),
    ],
)
def test_machines_that_did_not_get_the_same(told, iops, kind):
    found = told("uneven_vms", fleet(*iops), fleet(1, 1))
    assert [(s, k) for s, k, _ in found] == ([("warning", kind)] if kind else [])
    for *_, proof in found:
        assert proof["iops"] == {f"vm{i}": rate for i, rate in enumerate(iops)}
        if kind == "two-groups":
            assert (proof["groups"], proof["from"], proof["to"]) == ([3, 3], [800, 1000], [805, 1010])


# --- common_window


@pytest.mark.parametrize(
    ("share", "severity"), [(1.0, None), (0.96, None), (0.94, "warning"), (0.6, "critical"), (None, None), ("x", None)]
)
def test_machines_that_were_hardly_ever_under_load_together(told, share, severity):
    found = told("common_window", figures(window={"share": share, "skew_ms": 5.0}), figures())
    assert [(s, k) for s, k, _ in found] == ([(severity, "window")] if severity else [])
    assert all(proof["share"] == share for *_, proof in found)


# --- late_starters


def starting(*starts, runtime=60_000):
    vms = [{"name": f"vm{i}", "iops": 1.0, "start_ms": s} for i, s in enumerate(starts)]
    return figures(load={"runtime_ms": runtime}, vms=vms)


@pytest.mark.parametrize(
    ("starts", "severity"),
    [
        ((0, 500), None),
        ((0, 601), "warning"),
        ((0, 30_000), "critical"),  # study 003: up to 30 s apart
        ((1.7953e12, 1.7953e12 + 601), "warning"),  # Unix time
    ],
)
def test_machines_that_started_apart(told, starts, severity):
    found = told("late_starters", starting(*starts), starting(0, 1))
    assert [s for s, *_ in found] == ([severity] if severity else [])
    for *_, proof in found:
        assert (proof["first"], proof["last"], proof["skew_ms"]) == ("vm0", "vm1", starts[1] - starts[0])


def test_a_second_is_late_however_long_the_trial(told):
    assert len(told("late_starters", starting(0, 1100, runtime=300_000), starting(0, 900, runtime=300_000))) == 1


def test_jobs_that_stopped_early(told):
    odd = counted(1, 0, runtime_ms=60_000, runtime_ms_min=40_000)
    ((severity, kind, proof),) = told("late_starters", odd, counted(1, 0, runtime_ms=60_000, runtime_ms_min=59_500))
    assert (severity, kind) == ("critical", "stopped")
    assert (proof["runtime_ms_min"], proof["runtime_ms"]) == (40_000, 60_000)


def test_jobs_meant_to_follow_each_other_are_not_late(told):
    jobs = [part("r", 0, 1000, group=0), part("w", 1000, 2000, group=1, stonewall=True)]
    assert told("late_starters", counted(1, 1, runtime_ms=1000, parts=jobs)) == []


# --- overrun

RATE = "rate_iops: [500], iodepth: [32], numjobs: [2]"


@pytest.mark.parametrize(("primary", "severity"), [("iops", "warning"), ("lat_p99", "critical")])
def test_a_point_that_did_not_reach_its_rate(told, primary, severity):
    odd, sound = figures({"iops": 985.0}), figures({"iops": 991.0})
    ((found, kind, proof),) = told("overrun", odd, sound, f"{RATE}, primary: {primary}")
    assert (found, kind, proof["iops"], proof["asked"]) == (severity, "overrun", 985, 1000)


@pytest.mark.parametrize(("tool", "odd"), [("fio", 1), ("vdbench", 0)])
def test_only_fio_means_a_rate_for_each_job(beside, tool, odd):
    """Vdbench's 8 threads share the 1,000 IOPS of iorate=1000."""
    (first, *_) = trials(beside(figures({"iops": 1000.0}), FINE))
    known = {"tool": tool, "rate_iops": 1000, "numjobs": 8}
    told = replace(first, cell=replace(first.cell, kind="imported"), known=known)
    assert len(list(registry.load("checks", "overrun").odd(told, None))) == odd


# --- drift


def test_a_lane_that_wears_out(build, run_check):
    def change(o):
        falls = 0.97**o.block if o.lane == "new" and o.cell == KEY else 1
        return type(o)(**{**vars(o), "metrics": {"iops": o.metrics["iops"] * falls}})

    (found,) = run_check("drift", build(change))
    assert (found.severity, found.cells, found.lanes) == ("warning", (KEY,), ("new",))
    assert (found.kind, found.evidence[KEY]["change"]) == ("moved", pytest.approx(0.97**11 - 1, abs=0.01))
    alone = build(change)
    study = alone.study.model_copy(update={"design": alone.study.design.model_copy(update={"paired": False})})
    (found,) = run_check("drift", type(alone)(**{**vars(alone), "study": study}))
    assert found.severity == "critical"


def test_trend_against_the_textbook():
    """y = 100 exp(0.1 x) with a zigzag of 0.01: slope and p by scipy.linregress."""
    values = {b: 100 * math.exp(0.1 * b + 0.01 * (-1) ** b) for b in (0, 1, 2, 4, 5, 7, 8)}
    line = linregress(list(values), [math.log(v) for v in values.values()])
    found = trend(values)
    assert found is not None
    assert found.p == pytest.approx(line.pvalue, rel=1e-6)
    assert found.change == pytest.approx(math.expm1(line.slope * 8))
    flat = trend(dict.fromkeys(range(6), 5.0))
    assert flat is not None
    assert flat.p == 1.0
    assert trend({b: 5.0 + b for b in range(5)}) is None


# --- what findings do


def test_a_critical_finding_takes_the_headline_of_its_cell(beside, run_check):
    made = beside(figures({"iops": 989.0}), figures({"iops": 500.0}), lane=", cap_iops: 500", blocks=6)
    found = run_check("above_cap", made)
    assert [v.headline for v in judge(made, found) if v.primary] == [False]
    assert found[0].evidence[KEY]["trials"] == found[0].evidence[KEY]["of"] == 6
