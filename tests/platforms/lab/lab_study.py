"""A study for the lab that takes seconds."""

import re

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


def figures(text: str) -> set[str]:
    """Numbers of a message, with their units."""
    return set(re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?: GiB\b|[gm]\b|\b)", text))


TINY = """\
name: tiny
platform: {kind: lab, settle: 20ms}
baseline: iscsi
lanes:
  iscsi: {transport: iscsi}
  nvme-tcp: {transport: nvme_tcp}
workloads:
  main: {kind: fio, rw: [randread], bs: [4k], iodepth: [8], runtime: 30ms, ramp: 10ms, prefill: false}
design: {looks: [3]}
"""
"""6 trials in 3 blocks; some 6 seconds on two cores once its state is saved."""
TRIALS, BLOCKS, LANES = 6, 3, 2
