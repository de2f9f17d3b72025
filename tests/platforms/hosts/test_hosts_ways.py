"""What others do on a machine, and the way to an array: read from what a real machine prints."""

import asyncio
import shutil
from pathlib import Path

import pytest

from fairlane.errors import RunFailed
from fairlane.machines.this_host import LocalGuest
from fairlane.platforms._living import busy, network
from tests.words import kind

BEFORE = """100.00 50.00
   8       0 sda 10 0 80 5 20 0 160 7 0 1000 12 0 0 0 0 3 1
 259       0 nvme0n1 10 0 80 5 20 0 160 7 0 500 12 0 0 0 0
  eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
"""
AFTER = """101.00 50.90
   8       0 sda 15 0 90 6 25 0 170 9 0 1250 20 0 0 0 0 3 1
 259       0 nvme0n1 10 0 80 5 20 0 160 7 0 500 12 0 0 0 0
  eth0: 126000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
"""


def test_shares_are_those_of_the_time_between_two_snapshots() -> None:
    idle = busy.between(BEFORE, AFTER)
    assert idle.disks == {"sda": pytest.approx(0.25), "nvme0n1": 0.0}
    assert idle.nics == {"eth0": pytest.approx(125_000)}
    assert busy.between("", AFTER) == busy.Idle()


def test_a_lane_on_a_disk_or_link_of_others_is_refused() -> None:
    idle = busy.between(BEFORE, AFTER)
    own = {"lane": "a", "machine": "alpha"}
    busy.refuse_busy(idle, ["nvme0n1", "unknown"], {"eth0": 1000}, **own, limit=0.1)  # 1 Mbit/s of 1,000
    with pytest.raises(RunFailed, check=kind("disk-busy")):
        busy.refuse_busy(idle, ["sda"], {}, **own, limit=0.1)
    with pytest.raises(RunFailed, check=kind("link-busy")):
        busy.refuse_busy(idle, [], {"eth0": 8}, **own, limit=0.1)


def test_this_machine_is_watched_and_its_own_address_reached(tmp_path: Path) -> None:
    def disks() -> set[str]:
        return {line.split()[2] for line in Path("/proc/diskstats").read_text().splitlines()}

    guest, before = LocalGuest(tmp_path), disks()
    idle = asyncio.run(busy.watch(guest))
    after = disks()  # others may have made loop devices meanwhile, and removed some
    assert before & after <= set(idle.disks) <= before | after
    assert all(0 <= share <= 1 for share in idle.disks.values())
    way = asyncio.run(network.look(guest, ["127.0.0.1"]))["127.0.0.1"]
    assert (way["interface"], way["mtu"]) == ("lo", int(Path("/sys/class/net/lo/mtu").read_text()))
    if shutil.which("ping"):
        assert way["mtu_arrives"] is True
        assert way["rtt_us"] > 0


@pytest.mark.parametrize(
    ("rows", "arrives"),
    [
        ({"0.rtt": "rtt min/avg/max/mdev = 0.017/0.030/0.048/0.012 ms", "0.whole": "no"}, False),
        ({"0.rtt": "round-trip min/avg/max = 0.017/0.030/0.048 ms", "0.whole": "yes"}, True),
        ({"0.rtt": "", "0.whole": "no"}, None),  # nothing answers
        ({}, None),
    ],
)
def test_a_path_that_swallows_large_packets_is_told_from_a_silent_one(
    rows: dict[str, str], arrives: bool | None
) -> None:
    way = network.read({"0.interface": "eth0", "0.mtu": "9000", "0.speed": "25000", **rows}, 0)
    assert way["mtu_arrives"] is arrives
    assert network.conditions([way, {**way, "mtu": 1500, "speed_mbit": 10000}]) == {
        "mtu": 1500,
        "link_speed": "10000mbit",
    }
