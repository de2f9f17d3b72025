"""One stranger's machine: QEMU as a child process, QMP for its hardware, and a line for its operator beside its
network, so that a test can look at a machine whose sshd is dead."""

import base64
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairlane.machines.child import WITH_US
from fairlane.platforms.lab.qemu import BINARY
from fairlane.platforms.lab.wall.command import cpus as smp

PATIENCE = 900.0
"""Seconds for a boot: 10 on an idle machine, many times that on a busy one."""
STUCK = 600.0
"""Seconds after which a command hangs: a busy machine is ten times slower than an idle one."""

KERNEL = (
    "console=ttyS0 quiet panic=-1 mitigations=off nokaslr net.ifnames=0 no_timer_check clocksource=hpet tsc=unstable"
)
"""The clock is the HPET: a restore sets it back with the machine. It leaves an emulated processor's counter (TSC) as it
is, so time would jump ahead by all that has passed since the state was saved, sessions with it."""


class GoneError(AssertionError):
    """A machine, or its line, does not answer."""


def arguments(accel: str, memory: int, disks: Sequence[str], links: Sequence[str]) -> list[str]:
    """QEMU's command line but kernel and initramfs, run in the machine's folder. ``memory``: bytes; ``disks``: serials,
    of files SERIAL.qcow2, the root's first; ``links``: a text for each NIC, ``ID MAC on|off SOCKET`` (on: listens)."""
    out = [
        BINARY, "-M", "q35", "-nodefaults", "-no-user-config", "-display", "none", "-boot", "strict=on",
        "-accel", "kvm" if accel == "kvm" else "tcg,thread=multi", "-cpu", "host" if accel == "kvm" else "max",
        "-smp", smp(1, accel), "-m", f"{memory // 2**20}M", "-rtc", "base=utc,clock=host",
        "-append", f"{KERNEL} nr_cpus=1 preempt=none",
        "-serial", "file:console", "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
        "-device", "virtserialport,chardev=line,name=maintenance",
        "-netdev", "user,id=mgmt,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:0-:22",
    ]  # fmt: skip
    for number, serial in enumerate(disks):
        out += ["-drive", f"if=none,id=d{number},format=qcow2,file={serial}.qcow2,cache=unsafe,discard=unmap"]
        out += ["-device", f"virtio-blk-pci,drive=d{number},serial={serial}"]
    return out + [word for link in links for word in _nic(*link.split(" ", 3))]


def _nic(name: str, mac: str, listens: str, place: str) -> Sequence[str]:
    netdev = (
        [] if name == "mgmt" else ["-netdev", f"stream,id={name},server={listens},addr.type=unix,addr.path={place}"]
    )
    return [*netdev, "-device", f"virtio-net-pci,netdev={name},mac={mac},romfile="]


class Machine:
    """A machine in its folder, which has its disks."""

    def __init__(self, name: str, folder: Path, words: Sequence[str]) -> None:
        self.name, self.folder = name, folder
        self.boot_seconds = 0.0
        """From QEMU's start, or the last reset, to the end of the machine's boot."""
        self.boot_id = self._saved_id = ""
        self._asked = 0
        self._rest = {"line": b"", "qmp": b""}
        self._began = time.monotonic()
        own, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        self._line, self._qmp = own
        line, qmp = (end.fileno() for end in theirs)
        wired = ["-chardev", f"socket,id=line,fd={line}", "-chardev", f"socket,id=qmp,fd={qmp}",
                 "-mon", "chardev=qmp,mode=control"]  # fmt: skip
        with (folder / "errors").open("wb") as errors:
            self.process = subprocess.Popen(
                [*WITH_US, str(os.getpid()), *words, *wired], stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                cwd=folder, start_new_session=True, pass_fds=(line, qmp),
            )  # fmt: skip
        for end in theirs:
            end.close()
        try:
            self._read("qmp", self._qmp, PATIENCE)  # its greeting
            self.qmp("qmp_capabilities")
        except GoneError:
            self.close()
            raise

    def port(self) -> int:
        """The port of this machine that leads to its sshd."""
        table = self.qmp("human-monitor-command", **{"command-line": "info usernet"})
        found = re.search(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", table)
        assert found, table
        return int(found[1])

    def qmp(self, command: str, /, **arguments: Any) -> Any:
        """One QMP command's answer. Raises GoneError, AssertionError if QEMU refuses it."""
        self._send(self._qmp, json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = json.loads(self._read("qmp", self._qmp, PATIENCE))
            if "return" in answer:
                return answer["return"]
            assert "error" not in answer, f"{self.name}: {command}: {answer['error']['desc']}"

    def monitor(self, text: str) -> str:
        """The answer to a line of QEMU's human monitor."""
        return str(self.qmp("human-monitor-command", **{"command-line": text}))

    def run(self, script: str, timeout: float = STUCK) -> tuple[int, str]:
        """Exit status, 124 after ``timeout`` seconds, and output, both streams, of ``script``, run as root. Raises
        GoneError."""
        self._asked += 1
        text = base64.b64encode(script.encode()).decode()
        self._send(self._line, f"{self._asked} {timeout:.0f} {text}\n".encode())
        deadline = time.monotonic() + timeout + 30
        while True:
            answer = self._read("line", self._line, deadline - time.monotonic()).decode(errors="replace").split()
            if len(answer) == 3 and answer[0] == str(self._asked):  # others: to who has given up
                return int(answer[1]), base64.b64decode(answer[2]).decode(errors="replace")

    def sh(self, script: str, timeout: float = STUCK) -> str:
        """Output of ``script``, run as root with ``set -e``. Raises AssertionError if it fails."""
        status, output = self.run(f"set -e\n{script}", timeout)
        assert status != 124, f"{self.name}: not done after {timeout:g} s: {script}\n{output}"
        assert status == 0, f"{self.name}: exit {status}: {output}"
        return output.strip()

    def booted(self) -> None:
        """Waits for the end of a boot that is not the last one seen. Raises GoneError."""
        deadline = self._began + PATIENCE
        while time.monotonic() < deadline:
            with suppress(GoneError):
                status, output = self._glance()
                trouble, _, boot_id = output.strip().partition("\n")
                if status == 0 and boot_id != self.boot_id:
                    self.boot_id = boot_id
                    self.boot_seconds = time.monotonic() - self._began
                    assert trouble == "0", f"{self.name}: {self.run('cat /var/log/rc.local.log')[1]}"
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise GoneError(f"{self.name} did not boot: {self.last_words()}")

    def _glance(self) -> tuple[int, str]:
        """The ID of a boot that is complete; asked for shortly and again, for a question may be lost in a reset."""
        self._asked += 1
        text = base64.b64encode(b"cat /run/booted /proc/sys/kernel/random/boot_id").decode()
        self._send(self._line, f"{self._asked} 20 {text}\n".encode())
        while True:
            answer = self._read("line", self._line, 5).decode(errors="replace").split()
            if len(answer) == 3 and answer[0] == str(self._asked):
                return int(answer[1]), base64.b64decode(answer[2]).decode()

    def reset(self) -> None:
        """Presses the reset button, and waits for the boot."""
        self._began = time.monotonic()
        self.qmp("system_reset")
        self.booted()

    def leave(self, name: str) -> None:
        """Writes its memory to a file in its folder; it is at an end then. Only while it is stopped."""
        self.qmp("migrate", uri=f"exec:cat > {name}")
        self._until("completed")

    def arrived(self) -> None:
        """Waits until its memory is read (QEMU's ``-incoming``)."""
        self._until("completed")

    def _until(self, wanted: str) -> None:
        while (status := self.qmp("query-migrate").get("status")) != wanted:
            assert status not in ("failed", "cancelled"), f"{self.name}: migration {status}: {self.last_words()}"
            assert self.process.poll() is None, f"{self.name}: {self.last_words()}"
            time.sleep(0.05)

    def save(self) -> None:
        """Saves memory and disks, into its disks' files. Only while it is stopped. Raises AssertionError."""
        trouble = self.monitor("savevm begun")
        assert not trouble, f"{self.name}: {trouble}"
        self._saved_id = self.boot_id

    def load(self) -> None:
        """Goes back to what was saved. Only while it is stopped. Raises AssertionError."""
        trouble = self.monitor("loadvm begun")
        assert not trouble, f"{self.name}: {trouble}"
        self.boot_id = self._saved_id

    def _send(self, end: socket.socket, data: bytes) -> None:
        try:
            end.sendall(data)
        except OSError as error:
            raise GoneError(f"{self.name}: {error}; {self.last_words()}") from error

    def _read(self, which: str, end: socket.socket, timeout: float) -> bytes:
        """The next line. Raises GoneError."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._rest[which]:
            end.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = end.recv(1 << 16)
            except OSError as error:
                raise GoneError(f"{self.name} does not answer: {error}; {self.last_words()}") from error
            if not data:
                raise GoneError(f"{self.name} has ended: {self.last_words()}")
            self._rest[which] += data
        line, _, self._rest[which] = self._rest[which].partition(b"\n")
        return line

    def last_words(self) -> str:
        """The end of its console, and of QEMU's stderr."""
        texts = []
        for name in ("console", "errors"):
            with suppress(OSError):
                texts.append((self.folder / name).read_text(errors="replace")[-600:].strip())
        return "\n".join(texts)

    def close(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.wait()
        self._line.close()
        self._qmp.close()
