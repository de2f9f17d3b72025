"""Machines merged into their fleet, from two real outputs of fio 3.33 (400 and 600 IOPS asked for, 2 and 3 s)."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fairlane.formats.fio_json import reports
from fairlane.records import Block, Cell, Figures
from fairlane.runs.observe import observe
from fairlane.stats.histogram import Bins, percentile
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from fairlane.workloads import _fleet
from fairlane.workloads.fio import PLUGIN as FIO
from tests.stats.mixes import MS, Way, fio_json

DATA = Path(__file__).parent / "data"
MIXED = """\
name: mixed
platform: {kind: fake}
lanes: {a: {transport: iscsi}, b: {transport: iscsi}}
baseline: a
workloads: {main: {kind: fio, rw: [randrw], bs: [4k], runtime: 10s}}
"""
CELL = Cell("main", "fio", "4k randread qd1", {"ramp": 0, "runtime": 2 * 10**9})
BLOCK = Block(CELL, 0, ("iscsi",), 7)
FIRST, SECOND = ((DATA / f"fleet-vm{n}.json").read_bytes() for n in (0, 1))


def outputs(**changes: bytes | None) -> dict[str, bytes]:
    """Of a trial of two machines; ``vm1_status=b"1"`` changes vm1/status, None leaves it out."""
    found: dict[str, bytes] = {}
    for n, report in enumerate((FIRST, SECOND)):
        start = {"planned": 1000.0, "opened": 1000.0 + 0.25 * n + 0.012 * n, "ahead": 0.25 * n, "within": 0.001}
        found |= {f"vm{n}/status": b"0\n", f"vm{n}/fio.json": report, f"vm{n}/start.json": json.dumps(start).encode()}
        found |= {f"vm{n}/probe.disk.{when}": b"%d 0 80 1 0 0 0 1 0 1 1\n" % (ios * (n + 1))
                  for when, ios in (("before", 5), ("after", 805))}  # fmt: skip
    for name, data in changes.items():
        machine, _, file = name.partition("_")
        if data is None:
            del found[f"{machine}/{file.replace('_', '.')}"]
        else:
            found[f"{machine}/{file.replace('_', '.')}"] = data
    return found


def alone(data: bytes) -> Figures:
    return FIO.observe(CELL, {"fio.json": data})


def test_rates_are_added_and_means_weighted_by_ios() -> None:
    one, two = alone(FIRST), alone(SECOND)
    seen = observe(BLOCK, "iscsi", outputs())
    assert not seen.failed
    assert seen.metrics["iops"] == pytest.approx(one.metrics["iops"] + two.metrics["iops"])
    assert seen.metrics["bw"] == pytest.approx(one.metrics["bw"] + two.metrics["bw"])
    ios = [sum(figures.context["load"]["ios"].values()) for figures in (one, two)]
    mean = (one.metrics["lat_mean"] * ios[0] + two.metrics["lat_mean"] * ios[1]) / sum(ios)
    assert seen.metrics["lat_mean"] == pytest.approx(mean)
    assert seen.context["load"]["ios"]["read"] == sum(ios)
    assert seen.context["load"]["jobs"] == 2
    assert seen.context["load"]["runtime_ms"] == two.context["load"]["runtime_ms"]
    assert seen.context["load"]["runtime_ms_min"] == one.context["load"]["runtime_ms"]
    assert seen.context["disk"]["reads"] == 800 + 1600


def test_percentiles_come_from_the_bins_of_all_machines_and_from_nothing_else() -> None:
    every: dict[int, int] = {}
    for data in (FIRST, SECOND):
        for ns, count in json.loads(data)["jobs"][0]["read"]["lat_ns"]["bins"].items():
            every[int(ns)] = every.get(int(ns), 0) + count
    seen = observe(BLOCK, "iscsi", outputs())
    assert seen.histograms["read.lat"] == every
    assert seen.metrics["lat_p95"] == percentile(Bins.of(every), 0.95)
    told = [alone(data).metrics["lat_p95"] for data in (FIRST, SECOND)]
    assert told[0] != told[1]
    assert seen.metrics["lat_p95"] != pytest.approx(sum(told) / 2)
    # too few I/Os of the first machine lie beyond its p99, enough of both together
    assert "lat_p99" not in alone(FIRST).metrics
    assert seen.metrics["lat_p99"] == percentile(Bins.of(every), 0.99)


def test_directions_of_a_mix_are_merged_by_their_own_ios() -> None:
    """One machine reads much and slowly, the other writes much: weighed by all I/Os, the means would be others."""
    cell = parse_study(MIXED, "mixed.yaml").cells()[0]
    ways = [
        {"read": Way(30_000, 4 * MS), "write": Way(2_000, 1 * MS)},
        {"read": Way(10_000, 1 * MS), "write": Way(40_000, 9 * MS)},
    ]
    machines = {f"vm{n}": FIO.observe(cell, {"fio.json": fio_json(cell, each)}) for n, each in enumerate(ways)}
    merged = _fleet.merge(machines)
    assert merged.metrics["iops_read"] == pytest.approx(40_000 / 10)
    assert merged.metrics["bw_write"] == pytest.approx(42_000 / 10 * 4096)
    assert merged.metrics["lat_read_mean"] == pytest.approx((3 * 4 + 1) / 4 * MS, rel=0.01)
    assert merged.metrics["lat_write_mean"] == pytest.approx((2 * 1 + 40 * 9) / 42 * MS, rel=0.01)
    for way in ("read", "write"):
        assert merged.metrics[f"lat_{way}_p99"] == percentile(merged.histograms[f"{way}.lat"], 0.99)
    assert merged.steps["iops_write"] < machines["vm0"].steps["iops_write"]


def test_machines_starts_and_the_common_window_are_told() -> None:
    seen = observe(BLOCK, "iscsi", outputs())
    vms = seen.context["vms"]
    assert [vm["name"] for vm in vms] == ["vm0", "vm1"]
    assert [vm["iops"] for vm in vms] == pytest.approx([alone(data).metrics["iops"] for data in (FIRST, SECOND)])
    assert [vm["start_ms"] for vm in vms] == pytest.approx([1_000_000, 1_000_012])  # the clocks' offset is taken out
    window = seen.context["window"]
    assert window["skew_ms"] == pytest.approx(12)
    assert window["within_ms"] == pytest.approx(2)
    ran = [alone(data).context["load"]["runtime_ms"] for data in (FIRST, SECOND)]
    assert window["share"] == pytest.approx((ran[0] - 12) / (ran[1] + 12))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"vm1_status": b"1\n", "vm1_fio_err": b"Input/output error"}, "vm1: 1 Input/output"),
        ({"vm0_status": None}, "vm0:"),
        ({"vm1_fio_json": b"{"}, "vm1: fio.json"),
        ({"vm1_fio_json": None}, "vm1: fio.json"),
    ],
)
def test_a_machine_that_failed_fails_the_trial_with_its_name(changes: dict[str, Any], reason: str) -> None:
    seen = observe(BLOCK, "iscsi", outputs(**changes))
    machine, *tokens = reason.split()
    assert seen.failed.startswith(f"{machine} ")
    assert [token for token in tokens if token not in seen.failed] == []
    assert not seen.metrics


@pytest.mark.parametrize(
    "start", [b"", b"{", b"[]", b'{"opened": "x"}', b'{"opened": 1e999, "ahead": 0, "within": 0, "planned": 0}']
)
def test_starts_that_cannot_be_read_are_not_told(start: bytes) -> None:
    seen = observe(BLOCK, "iscsi", outputs(vm1_start_json=start))
    assert not seen.failed
    assert "window" not in seen.context
    assert "start_ms" not in seen.context["vms"][1]


def test_what_one_machine_lacks_the_fleet_lacks() -> None:
    seen = observe(BLOCK, "iscsi", outputs(vm1_probe_disk_after=None))
    assert "disk" not in seen.context
    merged = _fleet.merge({"vm0": Figures({"iops": 5.0, "cpu_per_io": 1e4}), "vm1": Figures({"iops": 7.0})})
    assert merged.metrics == {"iops": 12.0}


def test_cpu_per_io_is_that_of_the_sums() -> None:
    def machine(ios: int, ns: float) -> Figures:
        cpu = {"by_place": {"generator": ns}, "by_mode": {"user": ns}, "window_ios": ios}
        return Figures(
            {"cpu_per_io": ns}, context={"load": {"ios": {"read": ios}}, "cpu": cpu}, steps={"cpu_per_io": 0.01}
        )

    merged = _fleet.merge({"vm0": machine(300, 10_000), "vm1": machine(100, 30_000)})
    assert merged.metrics["cpu_per_io"] == pytest.approx((300 * 10_000 + 100 * 30_000) / 400)
    assert merged.context["cpu"] == {
        "by_place": {"generator": pytest.approx(15_000)}, "by_mode": {"user": pytest.approx(15_000)}, "window_ios": 400,
    }  # fmt: skip
    assert merged.steps["cpu_per_io"] == pytest.approx(0.01)


def test_one_machine_at_its_limit_is_not_hidden_and_conditions_that_differ_are_told() -> None:
    def machine(busy: float, kernel: str) -> Figures:
        return Figures(
            context={"machine": {"busy": busy, "cpus": 1}, "conditions": {"guest_kernel": kernel}, "odd": busy}
        )

    merged = _fleet.merge({"vm0": machine(0.2, "6.12"), "vm1": machine(0.99, "6.1")})
    assert merged.context["machine"]["busy"] == 0.99
    assert merged.context["conditions"]["guest_kernel"].endswith("6.12, 6.1")
    assert merged.context["odd"] == {"vm0": 0.2, "vm1": 0.99}


STUDY = """
name: seeds
platform: {kind: fake}
baseline: a
lanes: {a: {transport: local}, b: {transport: local}}
workloads: {main: {kind: fio, runtime: 1s, prefill: false, iodepth: [1, 4]}}
"""


def test_no_two_jobs_of_a_fleet_in_any_block_get_the_same_stream() -> None:
    # fio 3.33, setup_random_seeds: the stream of offsets starts from the low 32 bits of randseed * c^n * job number,
    # with c and n the same for all, so two are the same where randseed * job number is
    study = parse_study(STUDY, "study")
    starts: list[int] = []
    for block in schedule(study, 20):
        for machine, job in product(range(16), range(1, 9)):
            script = FIO.script(block.cell, ("/dev/lane/a",), block.seed + machine)
            seed = int(script.split("randseed=")[1].split()[0])
            starts.append(seed * job % 2**32)
    assert len(starts) == 2 * 20 * 16 * 8
    assert len(set(starts)) == len(starts)


def test_lanes_share_their_streams_and_machines_do_not() -> None:
    study = parse_study(STUDY, "study")
    block = schedule(study, 1)[0]
    scripts = {FIO.script(block.cell, (f"/dev/lane/{lane}",), block.seed + vm).replace(lane, "")
               for lane in ("xa", "xb") for vm in (0, 1)}  # fmt: skip
    assert len(scripts) == 2


def test_the_data_is_what_it_is_said_to_be() -> None:
    (one,), (two,) = reports(FIRST, "vm0"), reports(SECOND, "vm1")
    assert one.version == two.version == "fio-3.33"
