"""Loads that the lab refuses by the study alone."""

import pytest
from lab_study import figures

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.study.load import parse_study
from tests import words

STUDY = """
name: x
platform: {{kind: lab, clock: {clock}, medium: {{size: 1g}}}}
baseline: a
lanes: {{a: {{transport: iscsi}}, b: {{transport: nvme_tcp}}}}
workloads: {{main: {{{load}}}}}
"""
FIO = "kind: fio, prefill: false"


def unfit(clock: str, load: str) -> list[tuple[str, str, set[str]]]:
    """Kind, place and figures of each problem."""
    study = parse_study(STUDY.format(clock=clock, load=load), "x.yaml")
    problems = registry.load("platforms", "lab").of(study).unfit()
    return [(error.kind, error.where, figures(error.message)) for error in problems]


@pytest.mark.parametrize("clock", ["virtual", "wall"])
def test_loads_that_fit_no_volume_and_no_pages(clock: str) -> None:
    assert unfit(clock, f"{FIO}, size: 1g, mem: mmaphuge, bs: [1m], iodepth: [64]") == []
    assert unfit(clock, f"{FIO}, size: 2g") == [("working-set", "workloads.main.size", {"2g", "1g"})]
    assert unfit(clock, f"{FIO}, mem: mmaphuge, bs: [1m], iodepth: [65]") == [
        ("hugepages", "workloads.main.mem", {"33", "2", "32"})
    ]


@pytest.mark.parametrize("kind", ["failover", "clone"])
def test_what_acts_on_live_machines_is_not_for_the_virtual_clock(kind: str) -> None:
    told = rf"workloads\.main\.kind: .*\blab\b.*\bclock: virtual\b.*'{kind}'.*\bfio\b"
    with pytest.raises(FairlaneError, match=told, check=words.kind("platform-cannot")):
        unfit("virtual", f"kind: {kind}")


def test_a_link_that_is_not_there_cannot_fail() -> None:
    ((kind, where, told),) = unfit("wall", "kind: failover, path: 3")
    assert (kind, where, told >= {"3", "1"}) == ("path-unknown", "workloads", True)
    assert unfit("wall", "kind: failover") == []
