"""Device safety: every hostile situation is made for real in a machine, with disks that are plugged and unplugged while
it runs, and then somebody wants to write. Nothing may be written, and there is one clear error."""

import asyncio
import hashlib
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lab_bench import MIB, OneMachine, one_machine

from fairlane.errors import Exit, Refused, RunFailed
from fairlane.machines.device_guard import Recorded, guard
from tests.words import kind

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("safety"), pytest.mark.timeout(3600)]

SIZE = 16 * MIB
LANE = "/dev/lane/victim"


@dataclass(frozen=True)
class Claim:
    """What somebody wants to write, as it was recorded when the run was planned."""

    device: str
    recorded: Recorded
    destroy: str = ""


class Lab:
    """The machine, up for all tests of this file."""

    def __init__(self, machine: OneMachine) -> None:
        self.vm, self.runner, self.folder, self.sh = machine.vm, machine.runner, machine.folder, machine.sh
        self.made = 0
        self.dead = machine.dead

    def qmp(self, command: str, **arguments: Any) -> Any:
        return self.runner.run(self.vm.execute(command, **arguments))


@dataclass
class Bench:
    """The disks of one test."""

    lab: Lab
    disks: dict[str, Path] = field(default_factory=dict)
    """QEMU's id of the device -> file behind it."""
    undoing: list[str] = field(default_factory=list)

    def disk(
        self, serial: str | None = "", size: int = SIZE, block: int = 512, content: dict[int, bytes] | None = None,
        **more: Any,
    ) -> str:  # fmt: skip
        """Plugs a SCSI disk; ``serial``: one of its own if empty, none if None. Returns its node: /dev/sdc."""
        number = self.lab.made = self.lab.made + 1
        name, file = f"d{number}", self.lab.folder / f"disk{number}"
        with file.open("wb") as handle:
            for offset, data in (content or {}).items():
                handle.seek(offset)
                handle.write(data)
            handle.truncate(size)
        if serial is not None:
            more["serial"] = serial or f"victim-{number}"
        read_only = more.pop("read_only", False)
        self.lab.qmp("blockdev-add", **{"driver": "file", "filename": str(file), "node-name": f"n{number}",
                                        "read-only": read_only})  # fmt: skip
        self.lab.qmp("device_add", driver="scsi-hd", bus="scsi.0", drive=f"n{number}", id=name,
                     **{"scsi-id": number % 250, "logical_block_size": block, "physical_block_size": max(block, 512)},
                     **more)  # fmt: skip
        self.disks[name] = file
        return self.lab.sh(f"""
i=0
until set -- /sys/bus/scsi/devices/*:0:{number % 250}:0/block/* && [ -b "/dev/${{1##*/}}" ]; do
  i=$((i + 1)); [ $i -lt 2000 ]; sleep 0.1
done
mkdir -p /dev/lane; ln -sfn /dev/${{1##*/}} {LANE}; echo /dev/${{1##*/}}""")

    def unplug(self, name: str = "") -> None:
        """Unplugs the disk plugged last, or ``name``."""
        name = name or [*self.disks][-1]
        del self.disks[name]
        self.lab.qmp("device_del", id=name)
        for _ in range(2000):
            with suppress(RunFailed):
                self.lab.qmp("blockdev-del", **{"node-name": f"n{name[1:]}"})
                break
            self.lab.runner.run(asyncio.sleep(0.1))
        else:
            raise AssertionError(f"{name} cannot be unplugged")
        # the guest hears of it in its own time, and its next disk is to have the name of this one
        self.lab.sh(
            f"while ls -d /sys/bus/scsi/devices/*:0:{int(name[1:]) % 250}:0 > /dev/null 2>&1; do sleep .1; done"
        )

    def stranger(self, node: str, serial: str | None) -> None:
        """Plugs a disk that gets the name ``node``, of one that is gone: others take the names that are free before it,
        and who still looks at the one that is gone keeps its name for a moment."""
        for _ in range(500):
            found = self.disk(serial)
            if found == node:
                return
            self.unplug()
            if (len(found), found) < (len(node), node):
                self.disk()
        raise AssertionError(f"no disk becomes {node}")

    def sh(self, script: str, undo: str = "") -> str:
        if undo:
            self.undoing.append(undo)
        return self.lab.sh(script)

    def claim(self, destroy: str = "", *, size: str = f"{SIZE}/512") -> Claim:
        """The claim on the disk plugged last."""
        return Claim(LANE, Recorded(f"serial:victim-{self.lab.made}", size), destroy)

    def written(self) -> dict[str, object]:
        """Contents of every disk, and what the hypervisor counted of writes, discards and unwritten zeroes."""
        found: dict[str, object] = {
            name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in self.disks.items()
        }
        for one in self.lab.qmp("query-blockstats"):
            if one.get("qdev", "").strip("/").rpartition("/")[2] in self.disks:
                stats = one["stats"]
                found[one["qdev"]] = [
                    stats[f"{what}_{how}"] for what in ("wr", "unmap") for how in ("operations", "bytes")
                ]
        return found

    def attack(self, claim: Claim) -> None:
        """What a run does with a volume, prefill or load: guard, then write."""
        script = guard(claim.device, claim.recorded, claim.destroy)
        self.lab.sh(f"{script}dd if=/dev/urandom of={claim.device} bs=64k count=4 conv=notrunc,fsync 2> /dev/null")

    def close(self) -> None:
        for script in reversed(self.undoing):
            self.lab.sh(script)
        for name in [*self.disks]:
            self.unplug(name)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    modules = "virtio_scsi sd_mod loop dm_mod nvmet"
    with one_machine("safety", modules, {"driver": "virtio-scsi-pci", "id": "scsi"}) as machine:
        yield Lab(machine)


@pytest.fixture
def bench(lab: Lab) -> Iterator[Bench]:
    made = Bench(lab)
    yield made
    made.close()


Make = Callable[[Bench], Claim]
SITUATIONS: list[tuple[str, str, Make]] = []
_ALWAYS = {
    "mounted_though_destroy_is_given", "opened_exclusively",
    "destroy_of_another_volume", "smaller", "same_serial_twice_though_destroy_is_given", "replaced_under_the_same_name",
    "lane_link_redirected", "partition", "read_only", "nothing_there",
}  # fmt: skip
"""Situations of every kind that take seconds; the others are slow."""


def refused(what: str, told: str) -> Callable[[Make], Make]:
    """Registers a situation; ``what``: the kind of the error; ``told``: a regular expression for names and figures that
    it must say."""

    def register(make: Make) -> Make:
        SITUATIONS.append((what, told, make))
        return make

    return register


_RELEASED = "p=$(cat /run/holder); kill $p; while [ -e /proc/$p/exe ]; do sleep .1; done"
_STOP = "until mdadm -q --stop /dev/{md} 2> /dev/null; do sleep .2; done"
"""udev may have it open for a moment."""
_EXT4 = "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0"
_PARTED = """echo 'label: {label}
start=2048' | sfdisk -q {disk}
i=0; until [ -b {disk}1 ]; do i=$((i + 1)); [ $i -lt 2000 ]; sleep .1; done
"""


def _parted(disk: str, label: str = "gpt") -> str:
    return _PARTED.format(label=label, disk=disk)


# --- in use


@refused("device-mounted", r"\s/mnt\b")
def mounted(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"{_EXT4} {disk}; mount {disk} /mnt; sync", "umount /mnt")
    return at.claim()


@refused("device-mounted", r"\s/mnt\b")
def mounted_in_another_namespace(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"""{_EXT4} {disk}
unshare --mount sh -c 'mount {disk} /mnt; sync; echo > /run/inside; exec sleep 600' > /dev/null 2>&1 &
echo $! > /run/holder
until [ -e /run/inside ]; do sleep .1; done
! grep -q {disk} /proc/self/mounts""", f"{_RELEASED}; rm /run/inside")  # fmt: skip
    return at.claim()


@refused("device-mounted", r"\s/mnt\b")
def mounted_partition(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"{_parted(disk)}{_EXT4} {disk}1; mount {disk}1 /mnt; sync", "umount /mnt")
    return at.claim()


@refused("device-mounted", r"\s/mnt\b")
def mounted_though_destroy_is_given(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"{_EXT4} {disk}; mount {disk} /mnt; sync", "umount /mnt")
    return at.claim(f"serial:victim-{at.lab.made}")


@refused("device-swap", r"\bsd\w+\b")
def swap(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"mkswap -q {disk} > /dev/null; swapon {disk}; sync", f"swapoff {disk}")
    return at.claim()


@refused("device-swap", r"\bsd[a-z]+1\b")
def swap_on_a_partition(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"{_parted(disk)}mkswap {disk}1 > /dev/null; swapon {disk}1; sync", f"swapoff {disk}1")
    return at.claim()


@refused("device-held", r"\bdm-\d+ \(LVM-")
def active_logical_volume(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"pvcreate -qq {disk}; vgcreate -qq vgx {disk}; lvcreate -qq -Wn -Zn -L 4m -n lv vgx; sync",
          "vgchange -qq -an vgx")  # fmt: skip
    return at.claim()


@refused("device-mounted", r"\s/mnt\b")
def mounted_logical_volume(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"pvcreate -qq {disk}; vgcreate -qq vgy {disk}; lvcreate -qq -Wn -Zn -L 8m -n lv vgy\n"
          f"{_EXT4} /dev/vgy/lv; mount /dev/vgy/lv /mnt; sync", "umount /mnt; vgchange -qq -an vgy")  # fmt: skip
    return at.claim()


@refused("device-held", r"\bmd\d+\b")
def active_raid(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"mdadm -q --create /dev/md9 --level=1 --raid-devices=2 --run {disk} missing < /dev/null 2> /dev/null; sync",
          _STOP.format(md="md9"))  # fmt: skip
    return at.claim()


@refused("device-held", r"\bmd\d+\b")
def active_raid_though_destroy_is_given(at: Bench) -> Claim:
    claim = active_raid(at)
    return Claim(claim.device, claim.recorded, f"victim-{at.lab.made}")


@refused("device-held", r"\bdm-\d+ \(CRYPT-PLAIN")
def active_encryption(at: Bench) -> Claim:
    disk = at.disk()
    key = "0" * 64
    at.sh(f"dmsetup create --uuid CRYPT-PLAIN-x x --table '0 32768 crypt aes-xts-plain64 {key}{key} 0 {disk} 0'",
          "dmsetup remove --retry x")  # fmt: skip
    return at.claim()


@refused("device-held", r"\bdm-\d+ \(mpath-")
def path_of_a_multipath_map(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"""modprobe -a dm_multipath dm_round_robin
dmsetup create --uuid mpath-3victim mp --table '0 32768 multipath 0 0 1 1 round-robin 0 1 1 {disk} 1'""",
          "dmsetup remove --retry mp")  # fmt: skip
    return at.claim()


@refused("device-loop", r"\bloop3\b")
def loop_device_on_it(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"losetup /dev/loop3 {disk}", "losetup -d /dev/loop3")
    return at.claim()


@refused("device-exported", r"\bnvmet\b")
def exported(at: Bench) -> Claim:
    disk = at.disk()
    folder = "N=/sys/kernel/config/nvmet/subsystems/nqn.x"
    at.sh(f"""{folder}
mkdir -p $N/namespaces/1; echo -n {disk} > $N/namespaces/1/device_path; echo 1 > $N/namespaces/1/enable""",
          f"{folder}; echo 0 > $N/namespaces/1/enable; rmdir $N/namespaces/1 $N")  # fmt: skip
    return at.claim()


@refused("device-exclusive", "")
def opened_exclusively(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"""perl -MFcntl -e 'sysopen(F, "{disk}", O_RDONLY|O_EXCL) or die; open(G, ">/run/open"); sleep 600' \\
  > /dev/null 2>&1 &
echo $! > /run/holder
until [ -e /run/open ]; do sleep .1; done""", f"{_RELEASED}; rm /run/open")  # fmt: skip
    return at.claim(f"victim-{at.lab.made}")


# --- not empty: what is on it is told


@refused("destroy-missing", r": LVM2_member\b")
def physical_volume(at: Bench) -> Claim:
    at.sh(f"pvcreate -qq {at.disk()}; sync")
    return at.claim()


@refused("destroy-missing", r": linux_raid_member\b")
def raid_member(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"mdadm -q --create /dev/md8 --level=1 --raid-devices=2 --run {disk} missing < /dev/null 2> /dev/null\n"
          f"{_STOP.format(md='md8')}; sync")  # fmt: skip
    return at.claim()


@refused("destroy-missing", r": ext4\b")
def ext4(at: Bench) -> Claim:
    at.sh(f"{_EXT4} {at.disk()}; sync")
    return at.claim()


@refused("destroy-missing", r": xfs\b")
def xfs(at: Bench) -> Claim:
    at.sh(f"mkfs.xfs -q -K {at.disk(size=320 * MIB)}; sync")
    return at.claim(size="-")


@refused("destroy-missing", r": swap\b")
def unused_swap(at: Bench) -> Claim:
    at.sh(f"mkswap {at.disk()} > /dev/null; sync")
    return at.claim()


@refused("destroy-missing", r": PMBR,gpt\b")
def gpt(at: Bench) -> Claim:
    at.sh(f"echo 'label: gpt' | sfdisk -q {at.disk()}; sync")
    return at.claim()


@refused("destroy-missing", r": dos\b")
def mbr(at: Bench) -> Claim:
    at.sh(_parted(at.disk(), "dos"))
    return at.claim()


@refused("destroy-missing", r": dos\b")
def nested_partition_table(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"{_parted(disk, 'dos')}echo 'label: dos\nstart=8' | sfdisk -q {disk}1 2> /dev/null || :; sync")
    return at.claim()


@refused("destroy-missing", r": crypto_LUKS\b")
def luks(at: Bench) -> Claim:
    at.disk(content={0: b"LUKS\xba\xbe\x00\x01"})
    return at.claim()


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@refused("destroy-missing", r": btrfs\b")
def btrfs(at: Bench) -> Claim:
    block = bytearray(4096)
    block[0x30:0x38] = struct.pack("<Q", 0x10000)  # where it is
    block[0x40:0x48] = b"_BHRfS_M"
    block[:4] = struct.pack("<I", _crc32c(bytes(block[32:])))
    at.disk(content={0x10000: bytes(block)})
    return at.claim()


@refused("destroy-missing", r": zfs_member\b")
def zfs(at: Bench) -> Claim:
    uberblock = struct.pack("<QQQ", 0x00BAB10C, 5000, 7)
    at.disk(size=64 * MIB, content={128 * 1024 + 1024 * i: uberblock for i in range(8)})
    return at.claim(size=f"{64 * MIB}/512")


def _crc64(data: bytes) -> int:
    """CRC-64/WE."""
    crc = 2**64 - 1
    for byte in data:
        crc ^= byte << 56
        for _ in range(8):
            crc = (crc << 1 ^ (0x42F0E1EBA9EA3693 if crc >> 63 else 0)) & (2**64 - 1)
    return crc ^ (2**64 - 1)


@refused("destroy-missing", r": bcache\b")
def bcache(at: Bench) -> Claim:
    magic = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
    block = struct.pack("<QQ", 8, 1) + magic + bytes(16 + 16 + 32) + bytes(8 * 2 + 64 + 16 + 4 + 2 + 2 + 2 + 2)
    at.disk(content={4096: struct.pack("<Q", _crc64(block)) + block})
    return at.claim()


@refused("destroy-missing", r": ceph_bluestore\b")
def ceph(at: Bench) -> Claim:
    at.disk(content={0: b"bluestore block device\n"})
    return at.claim()


@refused("destroy-missing", r": oracleasm\b")
def oracle(at: Bench) -> Claim:
    at.disk(content={32: b"ORCLDISKVOL1"})
    return at.claim()


@refused("destroy-other", r"\b\S+-other\b")
def destroy_of_another_volume(at: Bench) -> Claim:
    at.disk(serial="victim-other")
    at.sh(f"{_EXT4} {at.disk()}; sync")
    return at.claim("victim-other")


@refused("destroy-other", r"\bnobody\b")
def destroy_of_no_volume(at: Bench) -> Claim:
    at.disk()
    return at.claim("nobody")


@refused("destroy-missing", r"\b0 of 64\b")
def blank(at: Bench) -> Claim:
    at.disk()
    return at.claim()


# --- not the one that was meant


@refused("device-size", rf"\b{SIZE // 2}\b.*\b{SIZE}\b")
def smaller(at: Bench) -> Claim:
    at.disk(size=SIZE // 2)
    return at.claim()


@refused("device-size", rf"\b{SIZE * 2}\b.*\b{SIZE}\b")
def grown_since(at: Bench) -> Claim:
    disk = at.disk()
    at.lab.qmp("block_resize", **{"node-name": f"n{at.lab.made}", "size": SIZE * 2})
    at.sh(f"until [ $(blockdev --getsize64 {disk}) -eq {SIZE * 2} ]; do "
          f"echo 1 > /sys/block/{disk[5:]}/device/rescan; sleep .1; done")  # fmt: skip
    return at.claim(f"victim-{at.lab.made}")


@refused("device-block-size", r"\b4096\b.*\b512\b")
def other_block_size(at: Bench) -> Claim:
    at.disk(block=4096)
    return at.claim()


@refused("identity-ambiguous", r"\bsd\w+,sd\w+\b")
def same_serial_twice(at: Bench) -> Claim:
    at.disk(serial="twin")
    at.disk(serial="twin")
    return Claim(LANE, Recorded("serial:twin", f"{SIZE}/512"))


@refused("identity-ambiguous", r"\bsd\w+,sd\w+\b")
def same_serial_twice_though_destroy_is_given(at: Bench) -> Claim:
    claim = same_serial_twice(at)
    return Claim(claim.device, claim.recorded, "twin")


@refused("identity-gone", "")
def no_serial(at: Bench) -> Claim:
    at.disk(serial=None)
    return at.claim()


@refused("identity-moved", r"\bsd\w+\b.*\bsd\w+\b")
def two_disks_changed_their_names(at: Bench) -> Claim:
    at.disk(serial="meant")
    at.disk(serial="other")  # the link leads to it
    return Claim(LANE, Recorded("serial:meant", f"{SIZE}/512"))


@refused("link-broken", r"/dev/sd\w+")
def unplugged(at: Bench) -> Claim:
    disk = at.disk()
    claim = at.claim()
    at.unplug()
    at.sh(f"while [ -b {disk} ]; do sleep .1; done")
    return claim


@refused("identity-gone", r"\bsd\w+\b")
def replaced_under_the_same_name(at: Bench) -> Claim:
    disk = at.disk()
    claim = at.claim()
    at.unplug()
    at.sh(f"while [ -b {disk} ]; do sleep .1; done")
    at.stranger(disk, "a-stranger")  # of the same size too
    return claim


@refused("identity-gone", r"\bsd\w+\b")
def replaced_by_one_without_serial(at: Bench) -> Claim:
    disk = at.disk()
    claim = at.claim()
    at.unplug()
    at.sh(f"while [ -b {disk} ]; do sleep .1; done")
    at.stranger(disk, None)
    return claim


@refused("identity-moved", r"\bsd\w+\b.*\bsd\w+\b")
def by_id_link_redirected(at: Bench) -> Claim:
    other = at.disk(serial="bystander")
    at.disk()
    link = f"/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_victim-{at.lab.made}"
    # once udev has made the link, and no event of the disk is left that would put it right again
    at.sh(f"""until [ -L {link} ] && [ ! -e /run/udev/queue ]; do sleep .1; done
udevadm control --stop-exec-queue
ln -sfn {other} {link}; ln -sfn {link} {LANE}""", f"rm -f {link}; udevadm control --start-exec-queue")  # fmt: skip
    assert at.sh(f"readlink -f {LANE}") == other
    return at.claim()


@refused("identity-moved", r"\bsd\w+\b.*\bsd\w+\b")
def lane_link_redirected(at: Bench) -> Claim:
    other = at.disk(serial="bystander")
    at.disk()
    at.sh(f"ln -sfn {other} {LANE}")
    return at.claim()


@refused("identity-moved", r"\bsd\w+\b.*\bsd\w+\b")
def node_of_another_disk(at: Bench) -> Claim:
    """A node with the right name and another disk's number."""
    other = at.disk(serial="bystander")
    disk = at.disk()
    at.sh(f"mkdir -p /dev/x; cp -a {other} /dev/x/{disk[5:]}; ln -sfn /dev/x/{disk[5:]} {LANE}", "rm -r /dev/x")
    return at.claim()


@refused("identity-gone", r"\bloop4\b")
def replaced_by_a_loop_device(at: Bench) -> Claim:
    at.sh(f"truncate -s {SIZE} /run/file; losetup /dev/loop4 /run/file; mkdir -p /dev/lane; ln -sfn /dev/loop4 {LANE}",
          "losetup -d /dev/loop4; rm /run/file")  # fmt: skip
    return Claim(LANE, Recorded("serial:gone", f"{SIZE}/512"))


@refused("device-partition", r"\bsd[a-z]+1\b")
def partition(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"{_parted(disk)}ln -sfn {disk}1 {LANE}")
    return at.claim()


@refused("not-a-disk", "/run/file")
def regular_file(at: Bench) -> Claim:
    at.sh(f"mkdir -p /dev/lane; truncate -s {SIZE} /run/file; ln -sfn /run/file {LANE}", "rm /run/file")
    return Claim(LANE, Recorded("serial:x", f"{SIZE}/512"))


@refused("not-a-disk", "/dev/zero|/run/pipe")
def character_device(at: Bench) -> Claim:
    at.sh(f"mkdir -p /dev/lane; ln -sfn /dev/zero {LANE}")
    return Claim(LANE, Recorded("serial:x", "-"))


@refused("not-a-disk", "/dev/zero|/run/pipe")
def pipe(at: Bench) -> Claim:
    at.sh(f"mkdir -p /dev/lane; mkfifo /run/pipe; ln -sfn /run/pipe {LANE}", "rm /run/pipe")
    return Claim(LANE, Recorded("serial:x", "-"))


@refused("link-broken", "/dev/nowhere")
def dangling_link(at: Bench) -> Claim:
    at.sh(f"mkdir -p /dev/lane; ln -sfn /dev/nowhere {LANE}")
    return Claim(LANE, Recorded("serial:x", "-"))


@refused("device-missing", "")
def nothing_there(at: Bench) -> Claim:
    at.sh(f"rm -f {LANE}")
    return Claim(LANE, Recorded("serial:x", "-"))


@refused("device-read-only", "")
def read_only(at: Bench) -> Claim:
    disk = at.disk()
    at.sh(f"blockdev --setro {disk}")
    return at.claim(f"victim-{at.lab.made}")


@refused("device-read-only", "")
def write_protected_by_the_array(at: Bench) -> Claim:
    at.disk(read_only=True)
    return at.claim()


@pytest.mark.parametrize(
    ("what", "told", "make"),
    [
        pytest.param(*situation, make, id=make.__name__, marks=[pytest.mark.slow] * (make.__name__ not in _ALWAYS))
        for *situation, make in SITUATIONS
    ],
)
def test_nothing_is_written(bench: Bench, what: str, told: str, make: Make) -> None:
    claim = make(bench)
    before = bench.written()
    with pytest.raises(Refused) as caught:
        bench.attack(claim)
    assert bench.written() == before
    error = caught.value
    assert kind(what)(error)
    assert re.search(told, error.message), error.message
    assert "\n" not in error.message
    assert claim.device in error.message
    assert claim.recorded.identity in error.message
    assert error.hint
    assert error.code == Exit.RUN_FAILED


def test_there_are_situations_enough() -> None:
    assert len(SITUATIONS) >= 30
    assert {make.__name__ for _, _, make in SITUATIONS} >= _ALWAYS


def test_a_volume_of_ours_is_written(bench: Bench) -> None:
    bench.disk()
    before = bench.written()
    bench.attack(bench.claim(f"serial:victim-{bench.lab.made}"))
    assert bench.written() != before


def test_what_the_study_names_is_destroyed(bench: Bench) -> None:
    disk = bench.disk()
    bench.sh(f"{_parted(disk)}{_EXT4} {disk}1; sync")
    bench.attack(bench.claim(f"serial:victim-{bench.lab.made}"))
    assert bench.sh(f"blkid -p {disk} || :") == ""


def test_the_best_identity_is_one_that_no_other_has(bench: Bench) -> None:
    bench.disk(serial="twin", wwn=0x5000C50000000001)
    bench.disk(serial="twin", wwn=0x5000C50000000002)
    assert bench.sh(f"identity {LANE}; size_of {LANE}") == f"wwn:naa.5000c50000000002\n{SIZE}/512"


def test_a_disk_that_cannot_be_told_from_another_has_no_identity(bench: Bench) -> None:
    bench.disk(serial="twin")
    bench.disk(serial="twin")
    with pytest.raises(Refused, check=kind("identity-ambiguous")):
        bench.sh(f"identity {LANE}")
