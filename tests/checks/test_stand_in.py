"""A transport that stands in for another is shown and never ranked."""

import pytest

from fairlane import registry
from fairlane.records import Evidence, Observation
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule

STUDY = """\
name: ranked
platform: {{kind: lab, clock: wall}}
baseline: {baseline}
lanes:
  iscsi: {{transport: iscsi}}
  nvme-tcp: {{transport: nvme_tcp}}
  nvme-rdma: {{transport: nvme_rdma}}
  deep: {{transport: nvme_rdma, queue_size: 64}}
workloads:
  main: {{kind: fio, runtime: 1s, prefill: false}}
design: {{looks: [6]}}
"""


def ran(baseline: str) -> Evidence:
    text = STUDY.format(baseline=baseline)
    study = parse_study(text, "ranked.yaml")
    blocks = schedule(study, 6)
    iops = {"iscsi": 1000.0, "nvme-tcp": 1200.0, "nvme-rdma": 3000.0, "deep": 3300.0}
    seen = tuple(
        Observation(block.cell.key, block.index, lane, place, "", {"iops": iops[lane] + block.index})
        for block in blocks
        for place, lane in enumerate(block.order)
    )
    return Evidence("r", study, text, 1, blocks, seen, {}, {})


@pytest.mark.parametrize(
    ("baseline", "refused"), [("iscsi", {"nvme-rdma", "deep"}), ("nvme-rdma", {"iscsi", "nvme-tcp"})]
)
def test_verdicts_against_other_transports_are_refused(baseline: str, refused: set[str]) -> None:
    evidence = ran(baseline)
    findings = tuple(registry.load("checks", "stand_in").check(evidence))
    verdicts = [v for v in judge(evidence, findings) if v.metric == "iops"]
    assert {v.lane for v in verdicts if v.verdict == "refused"} == refused
    assert {v.lane for v in verdicts if v.verdict == "faster"} == {"nvme-tcp", "deep"} - refused
    assert {(f.kind, f.evidence["transport"]) for f in findings} == {("stand-in", "nvme_rdma")}
    reasons = {f.lanes[0]: f.message for f in findings}
    assert {v.lane: v.notes[0] for v in verdicts if v.verdict == "refused"} == reasons
    assert all(v.lane_value for v in verdicts), "figures are shown all the same"


def test_nothing_is_found_without_a_stand_in() -> None:
    evidence = ran("iscsi")
    del evidence.study.lanes["nvme-rdma"], evidence.study.lanes["deep"]
    assert list(registry.load("checks", "stand_in").check(evidence)) == []
