"""The guard on loop devices of this machine, each situation made for real. What needs device-mapper, RAID or disks that
come and go is in lab/wall."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairlane.errors import Refused
from fairlane.machines.device_guard import Recorded, guard
from fairlane.machines.this_host import LocalGuest
from tests.words import kind

pytestmark = [
    pytest.mark.xdist_group("loop"),  # they take the same numbers
    pytest.mark.skipif(
        os.geteuid() != 0 or not Path("/dev/loop-control").exists(),
        reason="loop devices need root and /dev/loop-control",
    ),
]

MIB = 2**20
SIZE = 16 * MIB
RAW = os.urandom(8 * MIB)
"""A raw database volume, and plain dm-crypt, look so: wipefs knows nothing of it."""
PARTITIONED = bytes(446) + bytes.fromhex("00 00 02 00 83 00 02 00 00 08 00 00 00 40 00 00") + bytes(48) + b"\x55\xaa"
"""An MBR with one partition, from 1 MiB on, of 8 MiB."""


@dataclass(frozen=True)
class Disk:
    """A loop device and the file behind it."""

    node: str
    file: Path

    @property
    def identity(self) -> str:
        return f"loop:{self.file}"


class Bench:
    """The loop devices of one test, and who has them open."""

    def __init__(self, folder: Path, held: ExitStack) -> None:
        self.folder, self.held = folder, held
        (folder / "guest").mkdir()
        self.guest = LocalGuest(folder / "guest")

    def disk(self, content: dict[int, bytes] | None = None, *options: str) -> Disk:
        file = self.folder / f"disk{len(list(self.folder.glob('disk*')))}"
        with file.open("wb") as handle:
            for offset, data in (content or {}).items():
                handle.seek(offset)
                handle.write(data)
            handle.truncate(SIZE)
        return Disk(self.attached(str(file), *options), file)

    def attached(self, file: str, *options: str) -> str:
        """A loop device of ``file``, by a number that ``losetup --find`` of others does not come to: it opens what is
        free, and two of them the same."""
        for number in range(200, 300):
            node = f"/dev/loop{number}"
            if subprocess.run(["losetup", *options, node, file], check=False, capture_output=True).returncode == 0:
                self.held.callback(subprocess.run, ["losetup", "--detach", node], check=True)
                return node
        raise AssertionError(f"no loop device from 200 to 299 takes {file}")

    def opened(self, node: str, flags: str) -> int:
        """Pid of a process that has ``node`` open until the test ends."""
        return self.held.enter_context(opener(node, flags))

    def attack(self, disk: Disk, destroy: str = "") -> None:
        """What a run does with a volume: guard, then write."""
        script = guard(disk.node, Recorded(disk.identity, f"{SIZE}/512"), destroy)
        write = f"dd if=/dev/urandom of={disk.node} bs=64k count=4 conv=notrunc,fsync 2> /dev/null"
        asyncio.run(self.guest.ask(f"set -eu\n{script}{write}"))

    def refused(self, disk: Disk, what: str, told: str, destroy: str = "") -> str:
        """What the refusal says; ``told``: a regular expression for names and figures in it."""
        before = disk.file.read_bytes()
        with pytest.raises(Refused, check=kind(what)) as caught:
            self.attack(disk, destroy)
        assert re.search(told, caught.value.message), caught.value.message
        assert disk.file.read_bytes() == before
        assert caught.value.hint
        assert "\n" not in caught.value.message
        return caught.value.message

    def written(self, disk: Disk, destroy: str) -> None:
        before = disk.file.read_bytes()
        self.attack(disk, destroy)
        assert disk.file.read_bytes() != before


@contextmanager
def opener(node: str, flags: str) -> Iterator[int]:
    text = f"import os, sys; os.open({node!r}, {flags}); print('open', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout
        assert process.stdout.readline() == "open\n"
        yield process.pid
        process.communicate()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as held:
        yield Bench(tmp_path, held)


# --- what it holds does not matter, and is told


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({}, r"\b0 of 64\b.*\b4 KiB\b.*\b0 %"),
        ({0: RAW}, r"\b32 of 64\b.*\b4 KiB\b.*\b50 %"),
        ({SIZE // 2: b"x"}, r"\b1 of 64\b.*\b4 KiB\b.*\b1 %"),
        ({SIZE - 1: b"x"}, r"\b1 of 64\b.*\b4 KiB\b.*\b1 %"),
        ({0: b"LUKS\xba\xbe\x00\x01"}, r"\bcrypto_LUKS\b.*\b1 of 64\b"),
        ({0: PARTITIONED}, r"\bdos\b.*\b1 of 64\b"),
    ],
    ids=["blank", "raw data", "data in the middle only", "data at the end only", "signature", "partition table"],
)  # fmt: skip
def test_only_what_destroy_names_is_written(bench: Bench, content: dict[int, bytes], told: str) -> None:
    disk = bench.disk(content)
    bench.refused(disk, "destroy-missing", told)
    bench.written(disk, disk.identity)


@pytest.mark.parametrize("name", [lambda d: "loop:/nowhere", lambda d: f"{d.file}x", lambda d: d.node])
def test_destroy_of_nothing_that_is_there_is_refused(bench: Bench, name: Callable[[Disk], str]) -> None:
    disk = bench.disk()
    bench.refused(disk, "destroy-other", re.escape(name(disk)), name(disk))


def test_destroy_of_another_volume_is_refused(bench: Bench) -> None:
    disk, other = bench.disk(), bench.disk()
    bench.refused(disk, "destroy-other", re.escape(other.identity), other.identity)
    assert not any(other.file.read_bytes())


def test_two_of_one_identity_are_refused(bench: Bench) -> None:
    disk = bench.disk()
    bench.attached(str(disk.file))
    bench.refused(disk, "identity-ambiguous", re.escape(disk.node[5:]), disk.identity)


# --- who uses it matters, whatever destroy says


@pytest.mark.parametrize("flags", ["os.O_WRONLY", "os.O_RDWR", "os.O_RDWR | os.O_DSYNC | os.O_NOATIME"])
@pytest.mark.parametrize("named", [True, False])
def test_a_device_that_a_process_has_open_for_writing_is_refused(bench: Bench, flags: str, named: bool) -> None:
    disk = bench.disk()
    pid = bench.opened(disk.node, flags)
    bench.refused(disk, "device-open", rf"\bpython[\w.]* \({pid}\)", disk.identity if named else "")


def test_a_writer_under_another_name_is_seen(bench: Bench) -> None:
    disk = bench.disk()
    node = bench.folder / "innocent"
    os.mknod(node, 0o60600, Path(disk.node).stat().st_rdev)
    pid = bench.opened(str(node), "os.O_RDWR")
    node.unlink()
    bench.refused(disk, "device-open", rf"\bpython[\w.]* \({pid}\)", disk.identity)


def test_a_reader_is_no_reason_and_is_told(bench: Bench) -> None:
    disk = bench.disk()
    pid = bench.opened(disk.node, "os.O_RDONLY")
    bench.refused(disk, "destroy-missing", rf"\b0 of 64\b.*\bpython[\w.]* \({pid}\)")
    bench.written(disk, disk.identity)


def test_a_device_that_is_opened_exclusively_is_refused(bench: Bench) -> None:
    disk = bench.disk()
    bench.opened(disk.node, "os.O_RDONLY | os.O_EXCL")
    bench.refused(disk, "device-exclusive", re.escape(disk.node), disk.identity)


def test_a_disk_is_refused_while_a_partition_is_in_use_and_a_partition_always(bench: Bench) -> None:
    disk = bench.disk({0: PARTITIONED})
    part = f"{disk.node}p1"
    subprocess.run(["partx", "--add", disk.node], check=True)
    bench.held.callback(subprocess.run, ["partx", "--delete", disk.node], check=True)
    pid = bench.opened(part, "os.O_RDWR")
    message = bench.refused(disk, "device-open", rf"\bpython[\w.]* \({pid}\)", disk.identity)
    assert re.search(rf"\bdos\b.*\b{part[5:]}\b", message)
    bench.refused(Disk(part, disk.file), "device-partition", rf"\b{part[5:]}\b", disk.identity)


def test_a_loop_device_on_it_is_refused(bench: Bench) -> None:
    disk = bench.disk()
    on = bench.attached(disk.node)
    bench.refused(disk, "device-loop", rf"\b{on[5:]}\b", disk.identity)


def test_a_read_only_device_is_refused(bench: Bench) -> None:
    disk = bench.disk({}, "--read-only")
    bench.refused(disk, "device-read-only", re.escape(disk.node), disk.identity)


def test_a_study_finds_it_by_the_file_behind_it(bench: Bench) -> None:
    disk = bench.disk()
    out = asyncio.run(bench.guest.ask(f"{{ named '{disk.identity}'; identity {disk.node}; }} > out"))
    assert out["out"].decode().split() == [disk.node, disk.identity]


def test_what_a_storage_class_hands_out_must_carry_no_signature(bench: Bench) -> None:
    asyncio.run(bench.guest.ask(f"handed_out {bench.disk().node} || exit 77"))
    asyncio.run(bench.guest.ask(f"handed_out {bench.disk({0: RAW}).node} || exit 77"))  # old blocks
    used = bench.disk({0: b"LUKS\xba\xbe\x00\x01"})
    with pytest.raises(Refused, match=r"\bcrypto_LUKS\b.*\b1 of 64\b", check=kind("device-contents")):
        asyncio.run(bench.guest.ask(f"handed_out {used.node} || exit 77"))


def test_of_many_processes_some_are_told(bench: Bench) -> None:
    disk = bench.disk()
    many = "for i in $(seq 40); do sleep 600 < /dev/null > /dev/null & done"
    sleepers = f"exec 5<> {disk.node}; {many}; echo open; read end; kill $(jobs -p); wait"
    with subprocess.Popen(
        ["bash", "-c", sleepers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "open\n"
        message = bench.refused(disk, "device-open", r"\(\d+\), .*\(\d+\)[^(]*\b0 of 64\b", disk.identity)
        process.communicate("\n")
    assert len(message) < 700


def test_a_step_builds_on_what_fairlane_made_unless_it_is_in_use(bench: Bench) -> None:
    disk = bench.disk({0: RAW})
    bench.opened(disk.node, "os.O_RDONLY")
    script = f"set -eu\nguard_own {disk.node}\necho built > built"
    assert asyncio.run(bench.guest.ask(script))["built"] == b"built\n"
    bench.opened(disk.node, "os.O_RDWR")
    with pytest.raises(Refused, match=r"\bpython", check=kind("device-open")):
        asyncio.run(bench.guest.ask(script))
