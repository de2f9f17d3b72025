"""The words of findings: one rich run, trials that cannot be, a cluster, results from elsewhere."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairlane.checks.base import run_all
from fairlane.records import Evidence, Figures, Finding, Observation
from tests.checks.test_checks import BACK, ONE, THROUGH, start, writing
from tests.checks.test_not_steady import RESTLESS
from tests.checks.test_plausibility import PERCENTILES, part
from tests.checks.test_unmatched import FULL, guard, imported, without

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

Build = Callable[..., Evidence]


def shown(findings: Iterable[Finding]) -> str:
    """One paragraph per finding, in the order of their names."""
    named = sorted(findings, key=lambda f: (f.check, f.kind, f.lanes))
    return "\n".join(f"{f.check}/{f.kind} ({f.severity}{', refuses' * f.refuses}):\n  {f.message}" for f in named)


def test_a_run_with_everything_wrong(build: Build, snapshot: "SnapshotAssertion") -> None:
    def change(o: Observation) -> Observation:
        if o.lane != "new":
            return o
        if o.block == 3:
            return replace(o, failed="fio was killed")
        fio = {"version": "fio-3.39" if o.block > 8 else "fio-3.33", "jobs": 1, "usr_cpu": 20.0, "sys_cpu": 77.0}
        context = {"fio": fio, "net": {"drops": 1, "retransmits": int(o.block == 4)}}
        slow = 0.97**o.block * (0.9 if o.position else 1.0) * (0.3 if o.cell == ONE and o.block == 5 else 1.0)
        bins = {"read.lat": {100_000: 9500, 40_000_000: 500}} if o.block == 6 else o.histograms
        return replace(o, context=context, metrics={"iops": o.metrics["iops"] * slow}, histograms=bins)

    events = (
        start(packages={"libc6": "1"}),
        start("resume", qemu="8.0", packages={"libc6": "2"}),
        {"type": "block-failed", "cell": ONE, "block": 3, "reason": "the guest died"},
        {"type": "damaged", "trial": "t"},
        {"type": "mismatch", "trial": f"{ONE}.b003.new"},
    )
    lanes = {"base": THROUGH, "new": {**BACK, "steady": RESTLESS}}
    made = writing(build(change, complete=False, events=events, description={"lanes": lanes}))
    assert shown(run_all(replace(made, observations=made.observations[:-1]))) == snapshot
    assert shown(run_all(build(change, modelled=True))) == snapshot


def test_modes_and_neighbours(build: Build, snapshot: "SnapshotAssertion") -> None:
    modes = [3500, 4310, 3620, 4480, 3700, 4400, 3560, 4350, 3650, 4500, 3590, 4420]

    def change(o: Observation) -> Observation:
        if o.lane != "new":
            return o
        iops = modes[o.block] if o.cell == ONE else 1000 * math.exp(0.02 * o.block)
        return replace(o, metrics={"iops": iops}, failed="no device" if o.cell == ONE and o.block > 11 else "")

    assert shown(run_all(build(change))) == snapshot


ODD: Sequence[tuple[str, dict[str, float], dict[str, Any]]] = (
    ("runtime: 60s, rw: [randrw], rwmixread: [70]", {"iops": 989.0, "bw": 64.0 * 2**20},
     {"load": {"ios": {"read": 29_995, "write": 29_994}, "runtime_ms": 60_000, "runtime_ms_min": 40_000,
               "parts": [part("read", 0, 1000), part("write", 1000, 2000)]}}),
    ("runtime: 60s, iodepth: [16], numjobs: [2]", {"iops": 1000.0, "lat_mean": 20e6}, {"load": {"runtime_ms": 60_000}}),
    ("runtime: 60s, iodepth: [16], numjobs: [2]", {"iops": 1000.0, "lat_mean": 64e6}, {"load": {"runtime_ms": 60_000}}),
    ("rw: [randread]", PERCENTILES | {"lat_p50": 1e6, "lat_p99": 0.0},
     {"load": {"percentiles_of": "averaged", "runtime_ms": 3100}}),
    ("prefill: false, size: 1g", {"iops": 1000.0}, {"medium": {"allocated_bytes": 2**28}}),
    ("rw: [randwrite], prefill: false, size: 1g", {"iops": 1000.0}, {}),
    ("rw: [randread]", {"iops": 1000.0},
     {"load": {"ios": {"read": 1000}, "bytes": {"read": 4_096_000}, "runtime_ms": 1000},
      "disk": {"reads": 10, "read_bytes": 40_960}, "conditions": {"direct": False}}),
    ("rw: [randread]", {"iops": 1000.0, "bw": 130e6}, {"machine": {"busy": 0.90, "steal": 0.06}}),
    ("rate_iops: [500], iodepth: [32], numjobs: [2]", {"iops": 985.0},
     {"load": {"series": {"interval_ms": 1000, "iops": [1000 * (1 - i / 300) for i in range(60)]}}}),
    ("runtime: 60s, rw: [randread]", {"iops": 1000.0},
     {"vms": [{"name": f"vm{i}", "iops": float(x), "start_ms": 900.0 * i} for i, x in enumerate((1000, 1050, 600))],
      "window": {"share": 0.6, "skew_ms": 5.0}, "load": {"runtime_ms": 60_000}}),
    ("rw: [randread], ramp: 0s", {"iops": 1000.0},
     {"nodes": {"a": {"busy": 0.99, "cpus": 64, "nics": {"bond0": {"rx_bytes": 119_000_000, "speed": 10**9}}},
                "b": {"busy": 0.2, "steal": 0.03}, "c": {"failed": "no answer"}}, "load": {"runtime_ms": 1000}}),
)  # fmt: skip
"""Workload, and metrics and context of the trials that cannot be."""


def test_trials_that_cannot_be(beside: Build, snapshot: "SnapshotAssertion") -> None:
    link, caps = ", conditions: {link_speed: 1gbit}", ", cap_iops: 500, cap_mibs: 50"
    told = []
    for workload, metrics, context in ODD:
        lane = caps if "rwmixread" in workload else link
        made = beside(Figures(metrics, {}, context), Figures({}), workload, lane=lane)
        told.append(f"--- {workload}\n{shown(f for f in run_all(made) if f.check != 'unmatched')}")
    assert "\n".join(told) == snapshot


def test_results_from_elsewhere(snapshot: "SnapshotAssertion") -> None:
    bare = without("prefill", "copies")
    cases = (
        imported({"vcf": {**without("prefill"), "ramp": 0}, "roks": FULL}),
        imported({"vcf": bare, "roks": bare, "other": bare}, accept={"prefill": "reads only"}),
        imported({"vcf": {**FULL, "copies": 2}, "roks": FULL}, vary=["copies"], accept={"ramp": "why not"}),
        imported({"vcf": FULL, "roks": {n: {**FULL, "iodepth": 8 * (n + 1)} for n in range(3)}}),
    )
    assert "\n".join(shown(guard(case)) for case in cases) == snapshot
