"""What lies behind maps, arrays and partitions, built for real in a machine that has device-mapper and RAID."""

from collections.abc import Iterator, Mapping

import pytest
from lab_bench import OneMachine, one_machine

from fairlane.machines.behind import Behind, look

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(1800)]

_FILES = "10 11 12 13"
_MAKE = f"""
mkdir -p /run/m
for n in {_FILES}; do
  [ -b /dev/loop$n ] || mknod /dev/loop$n b 7 $n
  dd if=/dev/zero of=/run/m/$n bs=1M count=32 2> /dev/null; losetup /dev/loop$n /run/m/$n
done
pvcreate -qq --devices /dev/loop10 /dev/loop10; vgcreate -qq --devices /dev/loop10 vgs /dev/loop10
lvcreate -qq --devices /dev/loop10 -Wn -Zn -L 8m -n lv vgs
mdadm -q --create /dev/md9 --level=1 --raid-devices=2 --run /dev/loop11 missing < /dev/null 2> /dev/null
dmsetup create --uuid mpath-3two mp --table '0 32768 multipath 0 0 1 1 round-robin 0 2 1 /dev/loop12 1 /dev/loop13 1'
dmsetup create tmeta --table '0 8192 linear /dev/md9 0'
dmsetup create tdata --table '0 32768 linear /dev/md9 8192'
dmsetup create tpool --table '0 32768 thin-pool /dev/mapper/tmeta /dev/mapper/tdata 128 0'
dmsetup message tpool 0 'create_thin 0'
dmsetup create thin --table '0 16384 thin /dev/mapper/tpool 0'
dd if=/dev/urandom of=/dev/mapper/thin bs=1M count=4 oflag=direct 2> /dev/null
udevadm settle
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[OneMachine]:
    modules = "loop dm_mod dm_multipath dm_round_robin raid1 dm_thin_pool"
    with one_machine("behind", modules) as made:
        made.sh(_MAKE)
        yield made


@pytest.fixture(scope="module")
def seen(machine: OneMachine) -> Mapping[str, Behind]:
    paths = {name: f"/dev/{name}" for name in ("vgs/lv", "md9", "mapper/mp", "mapper/thin", "mapper/tdata", "loop10")}
    return machine.runner.run(look(machine.vm.guest, {**paths, "run": "/run/m", "loop11": "/dev/loop11"}))


def layers(behind: Behind) -> list[str]:
    return [layer.kind for layer in behind.stack]


def test_a_logical_volume(seen: Mapping[str, Behind]) -> None:
    lv = seen["vgs/lv"]
    assert layers(lv) == ["lvm", "loop", "tmpfs"]
    assert lv.stack[0].details == {"map": "vgs-lv", "targets": "linear"}
    assert (lv.medium, lv.kind, lv.size) == ("memory", "device", 8 * 2**20)
    assert any(use.startswith("part of dm-") for use in seen["loop10"].used)


def test_a_mirror(seen: Mapping[str, Behind]) -> None:
    md = seen["md9"]
    assert layers(md)[:2] == ["md", "loop"]
    assert md.stack[0].details == {"level": "raid1", "devices": "loop11"}
    assert "part of md9" in seen["loop11"].used


def test_multipath(seen: Mapping[str, Behind]) -> None:
    mp = seen["mapper/mp"]
    assert layers(mp) == ["multipath"]
    assert set(mp.stack[0].details) == {"map", "loop12", "loop13"}
    assert [disk.identity for disk in mp.disks] == ["dm:mpath-3two"]


def test_a_thin_volume_says_how_full_its_pool_is(seen: Mapping[str, Behind]) -> None:
    thin = seen["mapper/thin"]
    assert layers(thin)[:4] == ["thin", "thin-pool", "dm", "md"]
    assert len(thin.thin) == 1
    full = {volume.kind: volume.used for volume in thin.volumes}
    assert full["thin-pool"] == pytest.approx(4 / 16)
    assert 0 < full["thin-metadata"] < 0.5


def test_busybox_and_a_file_system_in_memory(seen: Mapping[str, Behind]) -> None:
    run = seen["run"]
    assert (run.kind, run.medium, run.fstype) == ("directory", "memory", "tmpfs")
    assert run.total_bytes
    assert run.direct.works is not None
