"""``design.sessions: block``: which lanes can log in anew between two blocks, and that they do, to the same data."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from lab_hall import SharedLab

from fairlane.errors import FairlaneError
from fairlane.platforms.base import Opened, RawTrial
from fairlane.platforms.lab.wall.lab import WallLab
from fairlane.records import Block
from fairlane.runs.observe import observe
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from fairlane.study.spec import Study
from tests.words import kind

STUDY = """
name: sessions
platform:
  {kind: lab, clock: wall, accel: tcg, memory: 384m, array: {memory: 512m}, medium: {size: 32m, memory_backed: true},
   hugepages: 0, capabilities: false, settle: 0s}
baseline: iscsi
lanes:
  iscsi: {transport: iscsi}
  nvme-tcp: {transport: nvme_tcp}
  nfs: {transport: nfs, filesystem: ext4}
  local: {transport: local}
workloads: {main: {kind: fio, rw: [randread], bs: [4k], runtime: 1s, size: 8m, prefill: true}}
design: {sessions: block, vary: [volume_mode, provisioning]}
"""


def changed(old: str, new: str) -> Study:
    assert old in STUDY
    return parse_study(STUDY.replace(old, new), "study.yaml")


def test_lanes_of_the_guest_s_own_initiators_can() -> None:
    assert WallLab(changed("local: {", "local: {")).unfit() == []


@pytest.mark.parametrize(
    "lane",
    [
        "{transport: iscsi, initiator: hypervisor}",  # plugged in before the guest boots
        "{transport: lvm, over: {transport: iscsi}}",  # a volume group lies on the session
        "{transport: fcoe}",  # lanes share the port's login
        "{transport: rbd}",
    ],
)
def test_a_lane_that_cannot_is_named(lane: str) -> None:
    wrong = [e for e in WallLab(changed("local: {transport: local}", f"x: {lane}")).unfit() if e.where == "lanes.x"]
    assert [e.kind for e in wrong] == ["sessions-unsupported"]
    assert all(e.hint for e in wrong)


@pytest.mark.parametrize(
    "platform", ["{kind: lab}", "{kind: fake}", "{kind: kubevirt, image: 'docker://i'}", "{kind: vsphere}"]
)
def test_a_platform_that_cannot_says_so(platform: str) -> None:
    lanes = {"{kind: kubevirt, image: 'docker://i'}": "storage_class, storage_class: s", "{kind: vsphere}": "datastore"}
    lane = f"{{transport: {lanes.get(platform, 'iscsi')}}}"
    text = f"name: a\nplatform: {platform}\nbaseline: a\nlanes: {{a: {lane}, b: {lane}}}\n"
    text += "workloads: {w: {kind: fio, runtime: 1s}}\ndesign: {sessions: block}\n"
    assert parse_study(text.replace("block", "run"), "study.yaml").design.sessions == "run"
    with pytest.raises(FairlaneError, check=kind("sessions-unsupported")):
        parse_study(text, "study.yaml")


# --- on real machines -------------------------------------------------------------------------------------------------

_CONNECTIONS = """
{
stat -L -c %i /sys/class/iscsi_session/session* | tr '\\n' ' '; echo
stat -L -c %i /sys/class/nvme/nvme* | tr '\\n' ' '; echo
stat -L -c %i "/sys/class/bdi/$(mountpoint -d /run/fairlane/nfs/nfs)"
} > connections
"""
"""What a session, a controller, a mount is known by: sysfs gives each a new inode number, where the kernel may give a
number of its own to the next one again."""


@dataclass
class Opening:
    lab: WallLab
    opened: Opened
    runner: asyncio.Runner

    def trials(self, block: Block) -> list[RawTrial]:
        async def carry_out() -> list[RawTrial]:
            return [trial async for trial in self.lab.run_block(block)]

        return self.runner.run(carry_out())

    def connections(self) -> list[str]:
        answer = self.runner.run(self.lab.guests[0].ask(_CONNECTIONS))
        return answer["connections"].decode().split("\n")[:3]


@pytest.fixture
def opening(hall: SharedLab) -> Iterator[Opening]:
    with hall.study(STUDY) as (lab, opened):
        yield Opening(lab, opened, hall.runner)


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.xdist_group("hall")
@pytest.mark.timeout(3600)
def test_every_block_has_sessions_of_its_own_to_the_same_volumes(opening: Opening) -> None:
    assert opening.opened.description["platform"]["sessions"]
    known = dict(opening.lab.devices.recorded)
    kept = [opening.connections()]
    for block in schedule(opening.lab.study, 2):
        trials = opening.trials(block)
        assert {trial.lane for trial in trials} == {"iscsi", "nvme-tcp", "nfs", "local"}
        assert {observe(block, trial.lane, trial.outputs).failed for trial in trials} == {""}
        kept.append(opening.connections())
    for sort in zip(*kept, strict=True):
        assert all(sort)
        assert len(set(sort)) == 3, kept
    opening.runner.run(opening.lab.devices.record(opening.lab.volumes))
    assert opening.lab.devices.recorded == known
