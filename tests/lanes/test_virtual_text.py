"""The shell that builds lanes under the virtual clock: any word of it moves figures."""

import hashlib

import pytest

from fairlane.platforms.lab.virtual.lab import VirtualLab
from fairlane.study.load import parse_study, preset_text

OPTIONS = """
name: options
platform: {kind: lab}
baseline: local
lanes:
  local: {transport: local}
  iscsi: {transport: iscsi, sessions: 2, chap: true, header_digest: true, data_digest: true}
  nvme-tcp: {transport: nvme_tcp, queue_size: 64, header_digest: true, data_digest: true}
workloads: {main: {kind: fio, prefill: false}}
"""


@pytest.mark.parametrize(
    ("text", "digest"),
    [(preset_text("demo"), "df70167e9a185ba9"), (OPTIONS, "1ad4d5065233f486")],
    ids=["demo", "options"],
)
def test_the_set_up_is_the_text_that_published_figures_come_from(text: str, digest: str) -> None:
    """Where it fails on purpose, figures of the virtual clock move: those in README and docs have to be made anew."""
    script = VirtualLab(parse_study(text, "study.yaml")).setup_script()
    assert hashlib.sha256(script.encode()).hexdigest()[:16] == digest
