"""Which disk is meant, and what can be traced of it, on this machine or one behind ssh."""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from subprocess import DEVNULL, PIPE

from fairlane.capture.record import Disk
from fairlane.errors import FairlaneError, RunFailed
from fairlane.living.destination import problem as destination_problem
from fairlane.machines import library

_TIMEOUT = 60
_VMS = ("vm", "qmp")
_KINDS = ("dm", "md", "wwn", "serial", "nqn", "nullb", "loop", *_VMS)
"""Kinds of identity, and of virtual machines: such a word before a colon is no host."""
_ABSENT = ("number", "identity", "model", "rotational", "scheduler", "write_cache", "tracefs", "blktrace", "lockdown")
"""What is not known of a virtual machine's disk that is no disk of its host, or not available."""
_HINTS = {
    "vm-unknown": "virsh list shows the running machines; qmp:SOCKET reaches a QEMU without libvirt",
    "vm-off": "start it, and its load",
}
_HINT = "lsblk lists the disks; partitions, links in /dev/disk/by-id and identities are accepted too"


@dataclass(frozen=True)
class Place:
    """A machine: ``host`` as the user's ssh knows it, empty for this one."""

    host: str = ""

    def start(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """A command there, with pipes, in a session of its own: Ctrl-C is for us to pass on."""
        command = list(words)
        if self.host:
            ssh = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=5")
            command = [*ssh, "--", self.host, shlex.join(words)]
        try:
            return subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True)
        except FileNotFoundError:
            raise FairlaneError("program-missing", f"{command[0]} is not installed") from None


def shell(name: str) -> str:
    """A file of ``guest/``."""
    return resources.files(__package__).joinpath("guest", name).read_text("utf-8")


@dataclass(frozen=True)
class Target:
    """The disk to watch, and what its machine offers."""

    place: Place
    disk: Disk
    number: str
    """MAJOR:MINOR."""
    machine: str
    kernel: str
    cpus: int
    root: bool
    tracefs: str
    """Where the kernel's trace events are; empty: not available."""
    blktrace: bool
    debugfs: bool
    lockdown: str

    @property
    def counted(self) -> bool:
        """Whether it is a virtual machine's file or network volume, whose I/Os only QEMU counts."""
        return self.disk.name.partition(":")[0] in _VMS

    def source(self, wanted: str = "auto") -> tuple[str, str]:
        """(source, why there is no trace): ``events``, ``blktrace`` or ``none``. Raises FairlaneError if ``wanted`` is
        not available."""
        traced = self.root and not self.counted
        able = {"events": traced and bool(self.tracefs), "blktrace": traced and self.blktrace and self.debugfs}
        if wanted == "counters":
            return "none", "--source counters records no trace"
        if wanted == "auto":
            found = next((name for name, there in able.items() if there), "none")
            return found, "" if found != "none" else self._lacking()
        if not able[wanted]:
            raise FairlaneError("source-missing", f"{wanted} is not available on {self.machine}: {self._lacking()}")
        return wanted, ""

    def _lacking(self) -> str:
        if self.counted:
            return "the disk of the virtual machine is no disk of its host"
        if not self.root:
            return "tracing needs root"
        return "neither tracefs (mount -t tracefs none /sys/kernel/tracing) nor blktrace with debugfs is available"


def parse(asked: str) -> tuple[Place, str]:
    """``HOST:DISK`` or a disk of this machine. A path, an identity and a name that exists here are of this machine."""
    host, colon, rest = asked.partition(":")
    if not colon or "/" in host or host in _KINDS or Path(asked).exists():
        return Place(), asked
    if not host or not rest or destination_problem(host):
        raise FairlaneError("disk-name", f"{asked!r} is neither a disk nor HOST:DISK", hint="such as db1:/dev/nvme0n1")
    return Place("" if host == "localhost" else host), rest


def look(asked: str) -> Target:
    """Finds the disk. Raises FairlaneError if there is none."""
    place, disk = parse(asked)
    if not place.host and Path(disk).exists() and not Path("/dev", disk).is_block_device():
        disk = str(Path(disk).absolute())
    text = library.part("identity.sh") + shell("vm.sh") + shell("look.sh") + f"look {shlex.quote(disk)}\n"
    process = place.start(("sh", "-c", text))
    try:
        with process:
            out, err = process.communicate(timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise RunFailed("timeout", f"{place.host or 'this machine'} did not answer in {_TIMEOUT} s") from None
    rows = dict(line.split(" ", 1) for line in out.decode(errors="replace").splitlines() if " " in line)
    return _target(asked, place, rows, err.decode(errors="replace").strip())


def _target(asked: str, place: Place, rows: Mapping[str, str], stderr: str) -> Target:
    if wrong := rows.get("wrong"):
        kind, _, message = wrong.partition(" ")
        raise FairlaneError(kind, message, hint=_HINTS.get(kind, _HINT), where=asked)
    if "sectors" not in rows:
        at = place.host or "this machine"
        hint = "ssh must connect without prompts: ssh -o BatchMode=yes HOST true" if place.host else ""
        raise RunFailed("unreachable", f"cannot inspect the disk on {at}: {stderr[-600:] or 'no answer'}", hint=hint)
    found = {"stacked": "0", **dict.fromkeys(_ABSENT, ""), **rows}
    disk = Disk(
        found["name"],
        found["identity"].strip(),
        int(found["sectors"] or 0) * 512,
        found["model"].strip(),
        found["rotational"] == "1",
        found["scheduler"],
        found["write_cache"],
        asked,
        found["stacked"] == "1",
    )
    if not disk.size:
        raise FairlaneError("disk-empty", f"{disk.name} has no medium", where=asked)
    return Target(
        place,
        disk,
        found["number"],
        found["machine"],
        found["kernel"],
        int(found["cpus"]),
        found["uid"] == "0",
        found["tracefs"],
        bool(found["blktrace"].strip()),
        "debugfs" in rows,
        found["lockdown"],
    )


def quiet(words: Sequence[str]) -> str:
    """Output of a program of this machine; empty if it fails or is missing."""
    try:
        return subprocess.run(words, stdin=DEVNULL, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
