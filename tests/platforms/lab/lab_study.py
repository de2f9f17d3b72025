"""A study for the lab that takes seconds."""

from fairlane.study.load import parse_study
from fairlane.study.spec import Study

STUDY = """
name: small
platform: {{kind: lab, settle: 20ms{platform}}}
baseline: iscsi
lanes:
  iscsi: {{transport: iscsi{iscsi}}}
  nvme-tcp: {{transport: nvme_tcp{nvme}}}
workloads:
  main: {{kind: fio, rw: [randread], bs: [4k], iodepth: [8], runtime: 60ms, ramp: 20ms, prefill: false{fio}}}
design: {{looks: [2]}}
"""


def small_study(*, platform: str = "", iscsi: str = "", nvme: str = "", fio: str = "") -> str:
    """The text of a study that takes seconds; each argument is more keys, such as ``", sessions: 2"``."""
    return STUDY.format(platform=platform, iscsi=iscsi, nvme=nvme, fio=fio)


def study_of(text: str) -> Study:
    return parse_study(text, "test.yaml")


THREE_LANES = """\
name: three
platform: {kind: lab, settle: 20ms}
baseline: iscsi
lanes:
  local: {transport: local}
  iscsi: {transport: iscsi}
  nvme-tcp: {transport: nvme_tcp}
workloads:
  main: {kind: fio, rw: [randread, randwrite], bs: [4k], iodepth: [8], runtime: 40ms, ramp: 10ms, prefill: false}
design: {looks: [2]}
"""
"""12 trials in 4 blocks; some 10 seconds on two cores once its state is saved."""
