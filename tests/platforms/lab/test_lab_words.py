"""What the lab refuses by the study alone, in a snapshot; other tests go by kinds and places."""

import pytest
from syrupy.assertion import SnapshotAssertion

from fairlane import registry
from fairlane.study.load import parse_study

STUDY = """
name: x
platform: {{kind: lab, clock: {clock}, medium: {{size: 1g, memory_backed: true}}}}
baseline: a
lanes:
  a: {{transport: iscsi, multipath: {{}}}}
  b: {{transport: nvme_tcp, queues: 2, initiator: hypervisor}}
  c: {{{lane}}}
workloads:
  main: {{kind: fio, prefill: true, size: 2g, mem: mmaphuge, bs: [1m], iodepth: [65]}}
  {more}
"""


KEYS = {
    "virtual": {"lane": "transport: local", "more": ""},
    "wall": {
        "lane": "transport: device, identity: naa.600140512345678",
        "more": "cut: {kind: failover, path: 3}",
    },
}


@pytest.mark.parametrize("clock", KEYS)
def test_studies_that_do_not_fit(clock: str, snapshot: SnapshotAssertion) -> None:
    text = STUDY.format(clock=clock, **KEYS[clock])
    problems = registry.load("platforms", "lab").of(parse_study(text, "x.yaml")).unfit()
    assert "\n".join(f"{problem.labelled()}\n  {problem.hint}".rstrip() for problem in problems) == snapshot
