"""Device safety where device-mapper and RAID are: in a machine, on loop devices over files in its memory. Each
situation is shell alone, and needs of the machine no more than ``sh``."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from lab_bench import OneMachine, one_machine

from fairlane.errors import Refused
from fairlane.machines.device_guard import Recorded, guard
from tests.words import kind

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(1800)]

Shell = Callable[[str], str]
"""Runs a script on the machine as root, with the functions of a guest; returns what it prints, and raises as a run."""


@pytest.fixture(scope="module")
def machine() -> Iterator[OneMachine]:
    with one_machine("devices", "loop dm_mod dm_multipath dm_round_robin raid1") as made:
        made.sh("mkdir -p /run/m")
        yield made


@pytest.fixture
def sh(machine: OneMachine) -> Shell:
    return machine.sh


A, B = "/dev/loop10", "/dev/loop11"
_MAKE = f"""
for n in 10 11; do
  [ -b /dev/loop$n ] || mknod /dev/loop$n b 7 $n
  truncate -s 16M /run/m/$n; losetup /dev/loop$n /run/m/$n
done
a={A} b={B}
"""
_UNDO = f"losetup -d {A}; losetup -d {B}; rm -f /run/m/*"
_RANDOM = "dd if=/dev/urandom of=/run/m/10 bs=1M count=8 conv=notrunc 2> /dev/null"
_OPEN = """
perl -MFcntl -e 'sysopen(F, $ARGV[0], {flags}) or die; open(G, ">/run/open"); sleep 600' {node} > /dev/null 2>&1 &
echo $! > /run/holder
until [ -e /run/open ]; do sleep .1; done
"""
_CLOSE = "p=$(cat /run/holder); kill $p; while [ -e /proc/$p/exe ]; do sleep .1; done; rm /run/open"
_PARTED = f"""
printf 'label: dos\\nstart=2048\\n' | sfdisk -q --no-reread {A} 2> /dev/null || :
partx --update {A}
i=0; until [ -b {A}p1 ]; do i=$((i + 1)); [ $i -lt 600 ]; sleep .1; done
"""
_UNPARTED = f"partx --delete {A}"
_LV = f"""
pvcreate -qq --devices {A} {A}; vgcreate -qq --devices {A} vgs {A}
lvcreate -qq --devices {A} -Wn -Zn -L 8m -n lv vgs; sync; udevadm settle
"""
_UNLV = f"udevadm settle; vgchange -qq --devices {A} -an vgs"
_MD = "mdadm -q --create /dev/md9 --level=1 --raid-devices=2 --run {a} missing < /dev/null 2> /dev/null; sync"
_UNMD = "until mdadm -q --stop /dev/md9 2> /dev/null; do sleep .2; done"
_MAP = f"""
dmsetup create --uuid mpath-3two mp --table '0 32768 multipath 0 0 1 1 round-robin 0 2 1 {A} 1 {B} 1'; udevadm settle
"""
_UNMAP = "udevadm settle; dmsetup remove --retry mp"


def opened(node: str, flags: str) -> str:
    return _OPEN.format(node=node, flags=flags)


@dataclass(frozen=True)
class Case:
    """Somebody wants to write ``device`` as ``identity``, and the study says ``destroy``."""

    name: str
    what: str
    """Kind of the refusal; empty: it is written."""
    told: str = ""
    """Names and figures that the refusal must say (a regular expression)."""
    make: str = ":"
    undo: str = ":"
    device: str = A
    identity: str = "loop:/run/m/10"
    destroy: str = ""
    size: str = "-"


OURS = "loop:/run/m/10"
CASES = [
    Case("blank", "destroy-missing", r"\b0 of 64\b"),
    Case("blank and named", "", destroy=OURS),
    Case("raw data", "destroy-missing", r"\b32 of 64\b", _RANDOM),
    Case("raw data and named", "", "", _RANDOM, destroy=OURS),
    Case("data in the middle only", "destroy-missing", r"\b1 of 64\b.*\b4 KiB\b.*\b1 %",
         "printf x | dd of=/run/m/10 bs=1 seek=8388608 conv=notrunc 2> /dev/null"),
    Case("another is named", "destroy-other", "loop:/run/m/11", destroy="loop:/run/m/11"),
    Case("nothing is named", "destroy-other", "S3Z8NB0K", destroy="S3Z8NB0K"),
    Case("read-only", "device-read-only", "", f"blockdev --setro {A}", destroy=OURS),
    Case("open for writing", "device-open", r"\bperl \(\d+\)", opened(A, "O_WRONLY"), _CLOSE, destroy=OURS),
    Case("open for reading and writing", "device-open", r"\bperl \(\d+\)", opened(A, "O_RDWR"), _CLOSE,
         destroy=OURS),
    Case("open for reading", "", "", opened(A, "O_RDONLY"), _CLOSE, destroy=OURS),
    Case("open for reading, not named", "destroy-missing", r"\bperl \(\d+\)", opened(A, "O_RDONLY"), _CLOSE),
    Case("its partition open for writing", "device-open", r"\bperl \(\d+\).*\bloop10p1\b",
         _PARTED + opened(f"{A}p1", "O_RDWR"), f"{_CLOSE}; {_UNPARTED}", destroy=OURS),
    Case("a partition while its disk is open for writing", "device-partition", r"\bloop10p1\b",
         _PARTED + opened(A, "O_RDWR"), f"{_CLOSE}; {_UNPARTED}", device=f"{A}p1", destroy=OURS),
    Case("a mapping on a partition whose disk is open for writing", "device-open", r"\bperl \(\d+\)",
         f"{_PARTED}dmsetup create p --table '0 2048 linear {A}p1 0'; udevadm settle\n{opened(A, 'O_RDWR')}",
         f"{_CLOSE}; udevadm settle; dmsetup remove --retry p; {_UNPARTED}",
         device="/dev/mapper/p", identity="dm:p", destroy="dm:p"),
    Case("a physical volume in use", "device-held", r"\bdm-\d+ \(LVM-.*\bLVM2_member\b", _LV, _UNLV, destroy=OURS),
    Case("a physical volume not in use", "destroy-missing", r"\bLVM2_member\b", f"{_LV}{_UNLV}"),
    Case("a logical volume", "destroy-missing", "", _LV, _UNLV, device="/dev/vgs/lv", identity="LV"),
    Case("a logical volume that is named", "", "", _LV, _UNLV, device="/dev/vgs/lv", identity="LV", destroy="LV"),
    Case("a logical volume open for writing", "device-open", r"\bperl \(\d+\)",
         f"{_LV}{opened('/dev/vgs/lv', 'O_RDWR')}", f"{_CLOSE}; {_UNLV}", device="/dev/vgs/lv", identity="LV",
         destroy="LV"),
    Case("a logical volume whose disk is open for writing", "device-open", r"\bperl \(\d+\)",
         f"{_LV}{opened(A, 'O_RDWR')}", f"{_CLOSE}; {_UNLV}", device="/dev/vgs/lv", identity="LV", destroy="LV"),
    Case("a member of an array that runs", "device-held", r"\bmd9\b.*\blinux_raid_member\b", _MD.format(a=A), _UNMD,
         destroy=OURS),
    Case("a member of an array that is stopped", "destroy-missing", r"\blinux_raid_member\b",
         f"{_MD.format(a=A)}; {_UNMD}"),
    Case("a path of a multipath map", "device-held", r"\bdm-\d+ \(mpath-3two\)", _MAP, _UNMAP, destroy=OURS),
    Case("a multipath map", "destroy-missing", "", _MAP, _UNMAP, device="/dev/mapper/mp", identity="dm:mpath-3two"),
    Case("a multipath map that is named", "", "", _MAP, _UNMAP, device="/dev/mapper/mp", identity="dm:mpath-3two",
         destroy="mpath-3two"),
    Case("a multipath map of which a path is open for reading", "", "", _MAP + opened(B, "O_RDONLY"),
         f"{_CLOSE}; {_UNMAP}", device="/dev/mapper/mp", identity="dm:mpath-3two", destroy="mpath-3two"),
    Case("a multipath map of which a path is open for writing", "device-open", r"\bperl \(\d+\)",
         _MAP + opened(B, "O_RDWR"), f"{_CLOSE}; {_UNMAP}", device="/dev/mapper/mp", identity="dm:mpath-3two",
         destroy="mpath-3two"),
]  # fmt: skip


def sectors_written(sh: Shell) -> str:
    return sh("sync; for n in 10 11; do set -- $(cat /sys/block/loop$n/stat); echo $7; done")


def carry_out(sh: Shell, case: Case) -> None:
    """Makes the situation, attacks, and undoes it."""
    try:
        sh(_MAKE + case.make)
        known = sh(f"identity {case.device}") if case.identity == "LV" else case.identity
        destroy = known if case.destroy == "LV" else case.destroy
        script = guard(case.device, Recorded(known, case.size), destroy)
        before = sectors_written(sh)
        attack = f"{script}dd if=/dev/urandom of={case.device} bs=64k count=2 conv=notrunc,fsync 2> /dev/null"
        if not case.what:
            sh(attack)
            assert sectors_written(sh) != before
            return
        with pytest.raises(Refused, check=kind(case.what)) as caught:
            sh(attack)
        assert sectors_written(sh) == before
        assert re.search(case.told, caught.value.message), caught.value.message
        assert "\n" not in caught.value.message
        assert caught.value.hint
    finally:
        sh(f"{case.undo}\nblockdev --setrw {A}\n{_UNDO}")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_device(sh: Shell, case: Case) -> None:
    carry_out(sh, case)
