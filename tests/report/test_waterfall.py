"""Where the time of an I/O goes: parts from a trial's own figures, which add up to the measured latency."""

from dataclasses import replace
from typing import Any

import pytest

from fairlane.records import Evidence, Observation
from fairlane.report import waterfall
from fairlane.report.lanes import labels
from fairlane.runs.read import in_order
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from tests.report.test_fig_evidence import words

STUDY = """\
name: parts
platform: {kind: fake}
baseline: iscsi
lanes: {local: {transport: local}, iscsi: {transport: iscsi, label: iSCSI}}
workloads: {main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1, 16], runtime: 1s}}
design: {seed: 3, looks: [2]}
"""
PLATFORM = {
    "medium.completion_nsec": "80000",
    "link.qdisc": "qdisc netem 8001: root refcnt 2 limit 100000 delay 9us rate 25Gbit",
}
CPU = {
    "local": {"generator": 12_000.0, "other": 300.0},
    "iscsi": {"generator": 25_000.0, "target": 31_000.0, "shared": 18_000.0, "other": 800.0},
}
LATENCY, RATE, SLAT = {"local": 90_000.0, "iscsi": 182_000.0}, {"local": 10_869.565, "iscsi": 5_376.344}, 5_000
"""1 / rate is 92 and 186 us: fio spends 2 and 4 us between two I/Os."""


def case(*, modelled: bool = True, cpu: Any = CPU, platform: Any = PLATFORM, **gone: Any) -> Evidence:
    study = parse_study(STUDY, "parts.yaml")
    plan = schedule(study, 2)
    seen = [
        Observation(
            b.cell.key, b.index, lane, n,
            metrics={"lat_mean": LATENCY[lane], "iops": RATE[lane]},
            histograms={"read.slat": {SLAT - 100: 1, SLAT + 100: 1}},
            context={"cpu": {"by_place": cpu[lane]}},
        )
        for b in plan
        for n, lane in enumerate(b.order)
    ]  # fmt: skip
    seen = [replace(o, **gone) for o in seen]
    described = {"platform": platform}
    return Evidence("r", study, "", 3, plan, in_order(seen), described, {}, modelled=modelled)


def views(evidence: Evidence) -> tuple[waterfall.WaterView, ...]:
    return waterfall.views(evidence, labels(evidence.study))


def test_the_parts_are_those_worked_out_by_hand_and_add_up() -> None:
    (view,) = views(case())
    ((cell, falls),) = view.cells  # of 16 in flight most wait behind others: no sum of stations
    assert cell == "4k randread qd1"
    local, iscsi = (dict(zip(view.stations, fall.parts, strict=True)) for fall in falls)
    # 12 us of fio, 2 of them between two I/Os; 90 - 5 - 5 - 0.3 - 80
    assert local == pytest.approx(
        {"submission": 5e3, "completion": 5e3, "link": 0, "target": 0, "shared": 0, "other": 300, "medium": 80e3,
         "not attributed": -300}, abs=1
    )  # fmt: skip
    # a round trip of 2 x 9 us and 4096 bytes at 25 Gbit/s: 1.311 us; 25 us of fio, 4 of them between two I/Os
    assert iscsi == pytest.approx(
        {"submission": 5e3, "completion": 16e3, "link": 19_311, "target": 31e3, "shared": 18e3, "other": 800,
         "medium": 80e3, "not attributed": 182e3 - 170_111}, abs=1
    )  # fmt: skip
    for fall, lane in zip(falls, ("local", "iscsi"), strict=True):
        assert sum(fall.parts) == pytest.approx(LATENCY[lane], abs=1e-6)
        assert fall.latency == pytest.approx(LATENCY[lane], abs=1e-6)


@pytest.mark.parametrize("scale", [1.0, 0.37, 1.0 / 3, 912.0337])
def test_under_the_virtual_clock_the_parts_of_every_cell_add_up_to_the_measured_latency(scale: float) -> None:
    """To the nanosecond, also where stations overlap and where the trials of a cell differ."""
    evidence = case()
    uneven = tuple(
        replace(o, metrics={"lat_mean": LATENCY[o.lane] * scale * (1 + o.block / 7), "iops": RATE[o.lane] / scale})
        for o in evidence.observations
    )
    (view,) = views(replace(evidence, observations=uneven))
    for _, falls in view.cells:
        for fall in falls:
            assert sum(fall.parts) == pytest.approx(fall.latency, abs=1e-3)
            lane = {"local (reference)": "local", "local": "local", "iSCSI": "iscsi"}[fall.lane]
            own = [o.metrics["lat_mean"] for o in uneven if o.lane == lane and o.cell.endswith("qd1")]
            assert fall.latency == pytest.approx(sum(own) / len(own))


def test_the_table_and_the_picture_say_the_same() -> None:
    (view,) = views(case())
    figure = waterfall.figure(view, "f")
    assert figure.table.rows[0][-2:] == ("\u22120.3", "90.0")
    assert figure.table.rows[1][-2:] == ("11.9", "182.0")
    assert {"90 µs", "182 µs", "not attributed", "medium"} <= {w.replace(".0", "") for w in words(figure)}
    assert "at the same time" in figure.caption
    assert "url(#f-not-attributed)" in figure.svg


def test_of_live_machines_only_the_submission_is_told_apart() -> None:
    (view,) = views(case(modelled=False))
    assert view.stations == ("submission", "not attributed")
    assert [fall.parts for fall in view.cells[0][1]] == [(5e3, 85e3), (5e3, 177e3)]
    assert "live machines" in waterfall.figure(view, "f").caption


@pytest.mark.parametrize(
    "evidence",
    [
        case(histograms={}),
        case(context={}),
        case(failed="lost"),
        case(platform={}),
        case(metrics={"iops": 1.0}),
    ],
)
def test_without_its_figures_there_is_no_picture(evidence: Evidence) -> None:
    assert views(evidence) == ()


DATABASE = """\
name: parts
platform: {kind: lab}
baseline: iscsi
lanes: {local: {transport: local}, iscsi: {transport: iscsi, label: iSCSI}}
workloads: {db: {kind: oltp, load: pgbench, clients: [1, 4], ramp: 0s, runtime: 1s}}
design: {seed: 3, looks: [2]}
"""
TRANSACTION, TPS = {"local": 700_000.0, "iscsi": 1_400_000.0}, {"local": 1250.0, "iscsi": 675.0}
"""1 / tps is 800 and 1,481 us: pgbench spends 100 and 81 us between two transactions."""
DISK = {"reads": 200, "read_bytes": 200 * 8192, "flushes": 400, "flush_ms": 60}


def transactions(*, modelled: bool, disk: Any = DISK) -> Evidence:
    study = parse_study(DATABASE, "parts.yaml")
    plan = schedule(study, 2)
    seen = [
        Observation(
            b.cell.key, b.index, lane, n,
            metrics={"lat_mean": TRANSACTION[lane], "tps": TPS[lane], "wal_per_tx": 1000.0},
            context={
                "cpu": {"by_place": {"generator": 500_000.0, "shared": 90_000.0 * (lane == "iscsi")}},
                "generator": {"user": 400_000.0, "system": 100_000.0},
                "load": {"transactions": 400},
                "database": {"commits_per_transaction": 1.0, "disk": disk},
            },
        )
        for b in plan
        for n, lane in enumerate(b.order)
    ]  # fmt: skip
    return Evidence("r", study, "", 3, plan, in_order(seen), {"platform": PLATFORM}, {}, modelled=modelled)


def test_where_a_transaction_of_one_client_goes() -> None:
    """Half a read and one commit: 1.5 waits for the medium and the link, whose payload is 4096 + 1000 bytes."""
    (view,) = views(transactions(modelled=True))
    ((cell, falls),) = view.cells
    assert cell == "PostgreSQL tpcb-like x1"
    local, iscsi = (dict(zip(view.stations, fall.parts, strict=True)) for fall in falls)
    assert local == pytest.approx(
        {"server": 400e3, "shared": 0, "link": 0, "medium": 120e3, "not attributed": 180e3}, abs=1
    )  # fmt: skip
    link = 1.5 * 18e3 + 5096 * 8 / 25
    server = 500e3 - (1e9 / 675 - 1.4e6)
    rest = 1.4e6 - server - 90e3 - link - 120e3
    assert iscsi == pytest.approx(
        {"server": server, "shared": 90e3, "link": link, "medium": 120e3, "not attributed": rest}, abs=1
    )  # fmt: skip
    figure = waterfall.figure(view, "f")
    assert figure.title == "Where the time of a transaction goes, one client"
    assert "each read and commit" in figure.caption


def test_of_a_live_transaction_the_flushes_are_known() -> None:
    (view,) = views(transactions(modelled=False))
    assert view.stations == ("server", "flushes", "not attributed")
    assert view.cells[0][1][0].parts == pytest.approx((400e3, 150e3, 150e3))
    assert "reads and other waits" in waterfall.figure(view, "f").caption


@pytest.mark.parametrize("disk", [None, {}, {"reads": "x"}])
def test_without_the_disks_counters_a_modelled_transaction_is_not_taken_apart(disk: Any) -> None:
    assert views(transactions(modelled=True, disk=disk)) == ()
    (view,) = views(transactions(modelled=False, disk=disk))
    assert view.stations == ("server", "not attributed")
