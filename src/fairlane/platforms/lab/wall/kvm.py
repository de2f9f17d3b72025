"""Check whether KVM works here by booting: /dev/kvm may open, and even create a vCPU, yet never boot a kernel."""

import os
import select
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

READY = b"FAIRLANE-READY"
"""The first output of the guest's init."""

_QEMU = (
    # QEMU goes when we go, even after kill -9
    *("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-M", "q35", "-nodefaults", "-accel", "kvm"),
    *("-cpu", "host", "-m", "512", "-nic", "none", "-display", "none", "-serial", "stdio", "-no-reboot"),
)


class Bootable(Protocol):
    """An image whose initrd prints READY and stops if the kernel command line has ``fairlane.probe=1``."""

    @property
    def kernel(self) -> Path: ...

    @property
    def initrd(self) -> Path: ...


def usable(device: Path = Path("/dev/kvm")) -> bool:
    """Whether this user may open the device: necessary for ``boots``, not sufficient."""
    return os.access(device, os.R_OK | os.W_OK)


def boots(image: Bootable, seconds: float = 20) -> bool:
    """Whether the lab's kernel gets to its init under KVM within ``seconds``; no QEMU is left behind."""
    boot = ("-kernel", str(image.kernel), "-initrd", str(image.initrd))
    probe = ("-append", "console=ttyS0 quiet panic=-1 fairlane.probe=1")
    try:
        qemu = subprocess.Popen(
            [*_QEMU, *boot, *probe], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return False
    with qemu:  # waits for its end, also after an exception
        try:
            return _prints(qemu, READY, time.monotonic() + seconds)
        finally:
            qemu.kill()


def remembered(image: Bootable, folder: Path) -> bool:
    """``boots``, tried once per kernel and boot of this machine; ``folder`` stores the answer. Otherwise every run on a
    machine where KVM fails would wait for the time-out."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    key = f"{boot} {image.kernel} {image.kernel.stat().st_mtime_ns}"
    note = folder / "kvm"
    with suppress(OSError):
        stored_key, _, answer = note.read_text().rpartition(" ")
        if stored_key == key:
            return answer == "boots"
    works = boots(image)
    with suppress(OSError):  # not remembered, then
        note.write_text(f"{key} {'boots' if works else 'fails'}")
    return works


def _prints(process: "subprocess.Popen[bytes]", word: bytes, deadline: float) -> bool:
    """Whether ``word`` appears in the process's output before it ends and before the deadline."""
    assert process.stdout is not None  # noqa: S101 - it was opened as a pipe
    tail = b""
    while (remaining := deadline - time.monotonic()) > 0 and select.select([process.stdout], [], [], remaining)[0]:
        chunk = os.read(process.stdout.fileno(), 65536)
        tail = tail[-len(word) :] + chunk
        if word in tail:
            return True
        if not chunk:
            return False
    return False
