"""The check of multipath policies by the I/Os of their paths."""

from typing import Any

import pytest

from fairlane.checks.path_use import PLUGIN
from fairlane.records import Evidence, Finding, Observation
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule

STUDY = """\
name: paths
platform: {{kind: lab, clock: wall, paths: 2}}
baseline: plain
lanes:
  plain: {{transport: nvme_tcp}}
  odd: {{{lane}}}
workloads:
  main: {{kind: fio, iodepth: [{iodepth}], runtime: 1s}}
design: {{looks: [6]}}
"""
ROUND_ROBIN = "transport: nvme_tcp, multipath: {policy: round-robin}"
A, B = "10.77.0.1", "10.77.1.1"


def find(lane: str, *ios: int, iodepth: int = 8, built: str = "2", **context: object) -> list[Finding]:
    text = STUDY.format(lane=lane, iodepth=iodepth)
    study = parse_study(text, "paths.yaml")
    block = schedule(study, 6)[0]
    told = [{"name": name, "ios": count} for name, count in zip((A, B), ios, strict=False)]
    seen = [
        Observation(block.cell.key, 0, "odd", 0, "", {"iops": 1.0}, {}, {"paths": told, **context}),
        Observation(block.cell.key, 0, "plain", 1, "", {"iops": 1.0}, {}, {}),
    ]
    rows = {"multipath.paths": built} if built else {}
    return list(PLUGIN.check(Evidence("r", study, text, 1, (block,), tuple(seen), {"lanes": {"odd": rows}}, {})))


def proof(finding: Finding) -> dict[str, Any]:
    """What the finding tells of its only cell."""
    (told,) = finding.evidence.values()
    return dict(told)


@pytest.mark.parametrize("lane", [
    ROUND_ROBIN,
    "transport: iscsi, multipath: {policy: round-robin}",
    "transport: iscsi, multipath: {policy: service-time}",
    "transport: iscsi, multipath: {policy: queue-length}",
    "transport: nvme_tcp, multipath: {policy: queue-depth}",
    "transport: iscsi, sessions: 2",
])  # fmt: skip
def test_all_on_one_path_is_critical_where_both_are_to_be_used(lane: str) -> None:
    (finding,) = find(lane, 10_000, 3)
    assert (finding.severity, finding.kind, finding.lanes) == ("critical", "idle", ("odd",))
    assert proof(finding)["ios"] == {A: 10_000, B: 3}
    assert {A, B, "100%", "0.0%"} <= set(finding.message.replace(":", "").split())


@pytest.mark.parametrize("lane", [ROUND_ROBIN, "transport: iscsi, multipath: {}", "transport: iscsi, sessions: 2"])
def test_the_same_on_both_is_as_it_should_be(lane: str) -> None:
    assert find(lane, 5004, 5000) == []


def test_round_robin_that_is_uneven_is_a_warning() -> None:
    assert find(ROUND_ROBIN, 7499, 2501) == []
    (finding,) = find(ROUND_ROBIN, 7501, 2499)
    assert (finding.severity, finding.kind) == ("warning", "uneven")
    assert proof(finding)["policy"] == "round-robin"


def test_by_load_may_prefer_a_path() -> None:
    for lane in ("transport: iscsi, multipath: {policy: service-time}",
                 "transport: nvme_tcp, multipath: {policy: queue-depth}"):  # fmt: skip
        assert find(lane, 9000, 1000) == []


def test_queue_depth_with_one_io_in_flight_takes_the_first_path() -> None:
    lane = "transport: nvme_tcp, multipath: {policy: queue-depth}"
    assert find(lane, 10_000, 0, iodepth=1) == []
    assert find(lane, 10_000, 0, iodepth=2) != []
    assert find(ROUND_ROBIN, 10_000, 0, iodepth=1) != []


def test_numa_takes_one_path() -> None:
    numa = "transport: nvme_tcp, multipath: {policy: numa}"
    assert find(numa, 10_000, 5) == []
    (finding,) = find(numa, 9800, 200)
    assert (finding.severity, finding.kind) == ("critical", "spread")
    assert proof(finding)["policy"] == "numa"


def test_a_path_that_is_not_there() -> None:
    (finding,) = find(ROUND_ROBIN, 10_000)
    assert (finding.severity, finding.kind) == ("critical", "missing")
    assert (len(proof(finding)["ios"]), proof(finding)["expected"]) == (1, 2)
    assert find(ROUND_ROBIN, 10_000, built="") == []
    assert find(ROUND_ROBIN, 10_000, built="many") == []


def test_what_says_nothing() -> None:
    assert find("transport: nvme_tcp", 10_000, 0) == []  # no policy was asked for
    assert find(ROUND_ROBIN, 99, 0) == []  # too few
    assert find(ROUND_ROBIN, 10_000, 0, fault={"kind": "link"}) == []  # a path was taken away
    assert find(ROUND_ROBIN, paths="garbage") == []
    assert find(ROUND_ROBIN, paths=[{"name": 3, "ios": "x"}, 7]) == []
