"""Disks of virtual machines, as real QEMUs count them: through a monitor's socket, and through libvirt."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.capture import target, watch
from fairlane.capture.diskstats import FIELDS
from fairlane.capture.shape import shape
from fairlane.errors import FairlaneError
from testkit.libvirtd import Libvirtd
from tests.words import kind

QEMU = "qemu-system-x86_64"
pytestmark = pytest.mark.skipif(not all(map(shutil.which, (QEMU, "socat"))), reason=f"needs {QEMU} and socat")
IMAGE = 64 << 20


class Machine:
    """A QEMU without processors: its monitor starts each I/O, so that all are known."""

    def __init__(self, folder: Path, *disks: str) -> None:
        self.socket = folder / "monitor"
        self._own = folder / "own"  # QEMU takes one connection for each
        words = [QEMU, "-machine", "none", "-nodefaults", "-display", "none"]
        for disk in disks:
            image = folder / f"{disk}.img"
            with image.open("wb") as file:
                file.truncate(IMAGE)
            words += ["-drive", f"if=none,id={disk},format=raw,file={image}"]
        for path in (self.socket, self._own):
            words += ["-qmp", f"unix:{path},server=on,wait=off"]
        subprocess.run([*words, "-daemonize"], check=True)

    def monitor(self, *lines: str) -> None:
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(self._own))
            answers = link.makefile("r")
            assert "QMP" in json.loads(answers.readline())
            commands = [("human-monitor-command", {"command-line": line}) for line in lines]
            for command, arguments in (("qmp_capabilities", {}), *commands):
                link.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
                while "return" not in (answer := json.loads(answers.readline())):
                    assert "error" not in answer, answer

    def load(self, disk: str, times: int) -> None:
        """So many times: three writes of 4 KiB, a read of 16 KiB, a flush."""
        for i in range(times):
            writes = [f'qemu-io {disk} "aio_write {8192 * (3 * i + k)} 4k"' for k in range(3)]
            self.monitor(*writes, f'qemu-io {disk} "aio_read {16384 * i} 16k"', f'qemu-io {disk} "aio_flush"')


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path, "data", "log")
    yield made
    made.monitor("quit")


def counters(name: str) -> dict[str, int]:
    done = subprocess.run(
        ["sh", "-c", target.shell("vm.sh") + 'counters "$1"', "-", name], capture_output=True, text=True, check=True
    )
    return dict(zip(FIELDS, map(int, done.stdout.split()), strict=True))


def test_each_io_is_counted_as_the_kernel_would(machine: Machine) -> None:
    machine.load("data", 4)
    found = counters(f"qmp:{machine.socket},data")
    assert (found["reads"], found["read_sectors"]) == (4, 4 * 32)
    assert (found["writes"], found["write_sectors"], found["flushes"]) == (12 + 4, 12 * 8, 4)
    assert not any(counters(f"qmp:{machine.socket},log").values())


@pytest.mark.slow
def test_the_load_of_a_machines_disk_is_watched(machine: Machine) -> None:
    found = target.look(f"qmp:{machine.socket},data")
    assert (found.disk.size, found.source()[0]) == (IMAGE, "none")
    ended = False

    def progress(passed: float) -> None:
        nonlocal ended
        if passed > 6 and not ended:  # s; more of them make no difference
            ended = True
            raise KeyboardInterrupt
        machine.load("data", 3)

    capture = watch.watch(found, 60, "auto", progress)
    assert capture.sources == ("qemu",)
    assert len(capture.gaps) == 2
    seen = shape(capture)
    assert seen.read_share == pytest.approx(0.25, abs=0.02)
    assert [*seen.parts["read"].sizes] == [16384]
    assert [*seen.parts["write"].sizes] == [4096]
    assert seen.writes_per_flush == pytest.approx(3, rel=0.1)


def test_what_is_no_disk_of_a_machine_is_refused(machine: Machine, tmp_path: Path) -> None:
    at = f"qmp:{machine.socket}"
    with pytest.raises(FairlaneError, check=kind("disk-ambiguous"), match=r"data.*log"):
        target.look(at)
    with pytest.raises(FairlaneError, check=kind("disk-unknown"), match="has no disk swap, but data log"):
        target.look(f"{at},swap")
    with pytest.raises(FairlaneError, check=kind("vm-unknown")):
        target.look(f"qmp:{tmp_path}/nothing")
    with pytest.raises(FairlaneError, check=kind("source-missing"), match="is no disk of its host"):
        target.look(f"{at},data").source("events")


@pytest.fixture
def libvirt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Libvirtd]:
    with Libvirtd() as made:
        monkeypatch.setenv("LIBVIRT_DEFAULT_URI", made.uri)
        yield made


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, ("libvirtd", "virsh"))), reason="needs libvirtd and virsh")
def test_a_disk_of_a_machine_of_libvirt(libvirt: Libvirtd, tmp_path: Path) -> None:
    libvirt.start("shop", {"vda": libvirt.file("one", IMAGE), "vdb": libvirt.file("two", IMAGE)})
    with pytest.raises(FairlaneError, check=kind("disk-ambiguous"), match=r"vda.*vdb"):
        target.look("vm:shop")
    with pytest.raises(FairlaneError, check=kind("vm-unknown")):
        target.look("vm:ship,vda")
    assert target.look("vm:shop,vdb").disk.size == IMAGE
    before = counters("vm:shop,vdb")
    device = "/machine/peripheral/virtio-disk1/virtio-backend"
    for command in ("aio_write 0 4k", "aio_read 65536 16k", "aio_flush"):  # the last waits for the others
        libvirt.virsh("qemu-monitor-command", "shop", "--hmp", f'qemu-io -d {device} "{command}"')
    after = counters("vm:shop,vdb")
    moved = {key: count - before[key] for key, count in after.items()}
    assert (moved["reads"], moved["read_sectors"]) == (1, 32)
    assert (moved["writes"], moved["write_sectors"], moved["flushes"]) == (1 + 1, 8, 1)
    libvirt.virsh("suspend", "shop")
    with pytest.raises(FairlaneError, check=kind("vm-off"), match="paused"):
        target.look("vm:shop,vdb")
