"""A small run without a flaw; each test puts in what its check must find."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from fairlane import registry
from fairlane.records import Evidence, Figures, Finding, Observation
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule

STUDY = """\
name: checked
platform: {kind: fake}
baseline: base
lanes:
  base: {transport: local}
  new: {transport: local}
workloads:
  main: {kind: fio, iodepth: [1, 16], runtime: 1s}
design: {looks: [12]}
"""
BINS = {"read.lat": {100_000: 9000, 400_000: 1000}}
Change = Callable[[Observation], Observation]
Build = Callable[..., Evidence]
RunCheck = Callable[[str, Evidence], list[Finding]]


@pytest.fixture
def build() -> Build:
    """``build(change, **fields)``: 12 blocks of two cells and lanes, ``change`` applied to every observation."""

    def make(change: Change = lambda o: o, **fields: object) -> Evidence:
        study = parse_study(STUDY, "checked.yaml")
        blocks = schedule(study, 12)
        seen = []
        for block in blocks:
            for position, lane in enumerate(block.order):
                # no trend, no order in it: a fixed scatter of 1 %
                wobble = 0.01 * math.sin(2.4 * block.index**2 + (3 if lane == "new" else 0))
                iops = (1100 if lane == "new" else 1000) * math.exp(wobble)
                context = {
                    "fio": {"version": "fio-3.33", "jobs": 1, "usr_cpu": 10.0, "sys_cpu": 30.0},
                    "net": {"drops": 0, "retransmits": 0},
                }
                trial = Observation(block.cell.key, block.index, lane, position, "", {"iops": iops}, BINS, context)
                seen.append(change(trial))
        seen.sort(key=lambda o: (o.cell, o.block, o.lane))
        made = Evidence("r", study, STUDY, 1, blocks, tuple(seen), {}, {})
        return replace(made, **fields)  # type: ignore[arg-type]

    return make


@pytest.fixture
def run_check() -> RunCheck:
    return lambda name, evidence: list(registry.load("checks", name).check(evidence))


BESIDE = """\
name: beside
platform: {{kind: fake}}
baseline: sound
lanes:
  sound: {{transport: local{lane}}}
  odd: {{transport: local{lane}}}
workloads:
  main: {{kind: fio, {workload}}}
design: {{looks: [6]{design}}}
"""
Beside = Callable[..., Evidence]


def made_beside(
    odd: Figures,
    sound: Figures,
    workload: str = "rw: [randread]",
    *,
    lane: str = "",
    design: str = "",
    blocks: int = 1,
    **fields: object,
) -> Evidence:
    """A run of one cell, in which every trial of the lane ``odd`` has the figures ``odd`` and every trial of the
    baseline ``sound`` has the figures ``sound``."""
    workload = workload if "runtime:" in workload else f"runtime: 1s, {workload}"
    text = BESIDE.format(workload=workload, lane=lane, design=design)
    study = parse_study(text, "beside.yaml")
    planned = schedule(study, 6)[:blocks]
    seen = [
        Observation(b.cell.key, b.index, name, at, "", f.metrics, f.histograms, f.context, f.steps)
        for b in planned
        for at, name in enumerate(b.order)
        for f in [odd if name == "odd" else sound]
    ]
    made = Evidence("r", study, text, 1, planned, tuple(seen), {}, {})
    return replace(made, **fields)  # type: ignore[arg-type]


@pytest.fixture
def beside() -> Beside:
    """``beside(odd, sound, workload=, lane=, design=, blocks=, **fields)``: ``made_beside``."""
    return made_beside
