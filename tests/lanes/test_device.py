"""Lanes on devices that are there already."""

import pytest
from pydantic import ValidationError

from fairlane.lanes.base import Site
from fairlane.lanes.device import PLUGIN, DeviceSpec
from fairlane.platforms.hosts import Hosts
from fairlane.platforms.lab.wall.lab import WallLab
from fairlane.study.load import parse_study


def spec(identity: str, **keys: object) -> DeviceSpec:
    return DeviceSpec.model_validate({"transport": "device", "identity": identity, **keys})


@pytest.mark.parametrize(
    "identity",
    [
        "S3Z8NB0K", "serial:S3Z8NB0K", "wwn:naa.600140512345678", "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba#1",
        "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4", "dm:mpath-3600140512345678", "it's;$(reboot)",
    ],
)  # fmt: skip
def test_what_stays_with_a_volume_names_it(identity: str) -> None:
    transport = PLUGIN("lane", spec(identity), Site("/dev/nullb0", "10.0.0.1", "path0", 0, ""))
    assert transport.steps() == ()
    assert transport.path() == ("fio", identity)


def test_an_identity_is_never_run() -> None:
    assert PLUGIN("lane", spec("it's;$(reboot)"), Site("", "", "", 0, "")).find() == "named 'it'\"'\"'s;$(reboot)'"


@pytest.mark.parametrize(
    "identity",
    ["/dev/sdb", "/dev/nvme0n1", "/dev/disk/by-path/pci-0000:00:1f.2-ata-1", "/dev/disk/by-id/../../sda",
     "/dev/mapper/x", "/dev/disk/by-id/x/y"],
)  # fmt: skip
def test_names_that_change_are_refused_with_what_to_take(identity: str) -> None:
    with pytest.raises(ValidationError, match="lsblk -o NAME,SERIAL,WWN"):
        spec(identity)


@pytest.mark.parametrize("identity", ["", "two words", "a\nb", "x" * 251, "ünïcode"])
def test_what_cannot_be_an_identity_is_refused(identity: str) -> None:
    with pytest.raises(ValidationError):
        spec(identity)


@pytest.mark.parametrize("more", ["", ", initiator: hypervisor", ", device: {bus: virtio-scsi}"])
def test_the_lab_has_no_disk_of_its_host_and_says_so_before_the_run(more: str) -> None:
    text = f"""
name: x
platform: {{kind: lab, clock: wall}}
baseline: local
lanes:
  local: {{transport: local}}
  fc: {{transport: device, identity: naa.600140512345678, destroy: naa.600140512345678{more}}}
workloads:
  main: {{kind: fio, rw: [randread], bs: [4k], iodepth: [1], runtime: 1s, prefill: false}}
"""
    found = WallLab(parse_study(text, "x.yaml")).problems()
    (problem,) = [one for one in found if one.where == "lanes.fc.transport"]
    assert (problem.kind, "device" in problem.message) == ("transport-unsupported", True)
    assert "kind: hosts" in problem.hint
    assert not [one for one in found if one.where and one.where.startswith("lanes.local")]


@pytest.mark.parametrize("more", ["initiator: hypervisor", "device: {bus: virtio-scsi}"])
def test_hosts_have_no_hypervisor(more: str) -> None:
    text = f"""
name: x
platform: {{kind: hosts, machines: {{here: local}}}}
baseline: here
lanes:
  here: {{transport: directory, path: /var/tmp}}
  fc: {{transport: device, identity: naa.600140512345678, {more}}}
workloads:
  main: {{kind: fio, rw: [randread], bs: [4k], iodepth: [1], runtime: 1s}}
"""
    (problem,) = Hosts(parse_study(text, "x.yaml")).problems()
    assert (problem.kind, problem.where) == ("initiator", "lanes.fc")
