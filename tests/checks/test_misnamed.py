"""Lanes whose names say another transport than the one that ran."""

import pytest

from fairlane.checks.misnamed import PLUGIN
from fairlane.study.load import parse_study

STUDY = """
name: swapped
platform: {{kind: fake}}
baseline: base
lanes:
  base: {{transport: local}}
  {name}: {{transport: {transport}, label: "{label}"}}
workloads: {{main: {{kind: fio}}}}
"""


@pytest.mark.parametrize(
    ("name", "transport", "label", "says"),
    [
        ("nvme-tcp", "iscsi", "", "nvme-tcp"),
        ("second", "nvme_tcp", "iSCSI, 2 paths", "iscsi"),
        ("roce", "nvme_tcp", "", "nvme-rdma"),
        ("nvme-tcp", "nvme_tcp", "", ""),
        ("tcp", "nvme_tcp", "NVMe/TCP in the place of NVMe/RoCE", ""),
        ("fast", "iscsi", "", ""),
        ("iscsi", "local", "", ""),
    ],
)
def test_a_name_of_another_transport(name: str, transport: str, label: str, says: str) -> None:
    study = parse_study(STUDY.format(name=name, transport=transport, label=label), "swapped.yaml")
    found = list(PLUGIN.foresee(study))
    assert [f.lanes for f in found] == ([(name,)] if says else [])
    for finding in found:
        assert finding.severity == "info"
        assert transport.replace("_", "-") in finding.message
        assert says in finding.message.split()
