"""Loads that the lab refuses by the study alone."""

import pytest

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.study.load import parse_study

STUDY = """
name: x
platform: {{kind: lab, clock: {clock}, medium: {{size: 1g}}}}
baseline: a
lanes: {{a: {{transport: iscsi}}, b: {{transport: nvme_tcp}}}}
workloads: {{main: {{{load}}}}}
"""
FIO = "kind: fio, prefill: false"


def unfit(clock: str, load: str) -> list[str]:
    study = parse_study(STUDY.format(clock=clock, load=load), "x.yaml")
    return [str(error) for error in registry.load("platforms", "lab").of(study).unfit()]


@pytest.mark.parametrize("clock", ["virtual", "wall"])
def test_loads_that_fit_no_volume_and_no_pages(clock: str) -> None:
    assert unfit(clock, f"{FIO}, size: 1g, mem: mmaphuge, bs: [1m], iodepth: [64]") == []
    assert unfit(clock, f"{FIO}, size: 2g") == ["workloads.main.size: 2g are to be used of volumes of 1g"]
    assert unfit(clock, f"{FIO}, mem: mmaphuge, bs: [1m], iodepth: [65]") == [
        "workloads.main.mem: the I/O buffers take 33 pages of 2 MiB, and platform.hugepages reserves 32"
    ]


@pytest.mark.parametrize("kind", ["failover", "clone"])
def test_what_acts_on_live_machines_is_not_for_the_virtual_clock(kind: str) -> None:
    told = rf"workloads.main.kind: platform 'lab' with clock: virtual cannot run '{kind}' \(it can: fio\)"
    with pytest.raises(FairlaneError, match=told):
        unfit("virtual", f"kind: {kind}")


def test_a_link_that_is_not_there_cannot_fail() -> None:
    assert unfit("wall", "kind: failover, path: 3") == [
        "workloads: the lab has no path 3: platform.paths is 1, counted from 0"
    ]
    assert unfit("wall", "kind: failover") == []
