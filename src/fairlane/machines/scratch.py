"""Scratch folders of running labs, and the leftovers of killed ones: processes, mounts, loop devices, folders.

Every process of a lab ends with its Fairlane (``machines/child``), so only folders should be left after ``kill -9``.
``fairlane lab clean --leftovers`` removes leftovers; it does not touch those of a live Fairlane.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fairlane.errors import RunFailed

_PREFIX = "fairlane-"
_OWNER = "owner"
_GRACE = 5.0
"""Seconds that a process has to end before it is killed."""


_SHORT = 40
"""Characters of a temporary folder's path up to which sockets in it have room for their names (108 bytes)."""


@contextmanager
def scratch(*, short: bool = False) -> Iterator[Path]:
    """A new folder in the system's temporary folder, removed at the end; ``short``: in /tmp, where that one has a long
    path. Raises RunFailed."""
    long = short and len(tempfile.gettempdir()) > _SHORT
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp" if long else None))  # noqa: S108
        (folder / _OWNER).write_text(_identity(os.getpid()))
    except OSError as error:
        raise RunFailed(
            "scratch",
            f"cannot make a folder for the lab: {error.strerror}",
            where=tempfile.gettempdir(),
            hint="make room there, or set TMPDIR to a folder on another disk",
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Leftover:
    """A process, mount, loop device or folder of a lab whose Fairlane has ended."""

    kind: str
    """process, mount, loop device, folder"""
    what: str

    def __str__(self) -> str:
        return f"{self.kind} {self.what}"


def abandoned() -> list[Path]:
    """Scratch folders of this user whose owning process has ended."""
    folders = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
        with suppress(OSError):
            if folder.is_dir() and folder.stat().st_uid == os.getuid() and not _owned(folder):
                folders.append(folder)
    return folders


def leftovers(folder: Path) -> list[Leftover]:
    """Everything left of an abandoned lab, in the order of removal."""
    items = [Leftover("process", f"{pid} ({_name(pid)})") for pid in _processes(folder)]
    items += [Leftover("mount", str(path)) for path in _mounts(folder)]
    items += [Leftover("loop device", device) for device in _loops(folder)]
    return [*items, Leftover("folder", str(folder))]


def remove(folder: Path) -> list[Leftover]:
    """Removes everything of an abandoned lab; returns what could not be removed."""
    for pid in _processes(folder):
        _end(pid)
    for mount in _mounts(folder):
        subprocess.run(["umount", "--lazy", str(mount)], capture_output=True, check=False)
    for device in _loops(folder):
        subprocess.run(["losetup", "--detach", device], capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)
    return [item for item in leftovers(folder) if item.kind != "folder" or folder.exists()]


def _identity(pid: int) -> str:
    """Pid and start time: a pid may be reused. Empty: there is no such process."""
    with suppress(OSError, IndexError):
        return f"{pid} {_stat(pid)[19]}"
    return ""


def _stat(pid: int) -> list[str]:
    """The fields of a process after its name: state, parent, ... (proc(5)). Raises OSError."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _owned(folder: Path) -> bool:
    try:
        owner = (folder / _OWNER).read_text()
    except OSError:
        return True  # of another program, or being created right now
    return bool(owner) and _identity(int(owner.split()[0])) == owner


def _processes(folder: Path) -> list[int]:
    """Processes with ``folder`` in their command line or as working directory, without this process and its ancestors:
    the user's shell may be in the folder."""
    needle, pids, ancestors = str(folder).encode(), [], _ancestors(os.getpid())
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            inside = str((entry / "cwd").readlink()).startswith(str(folder))
            if (needle in words or inside) and int(entry.name) not in ancestors:
                pids.append(int(entry.name))
    return sorted(pids)


def _ancestors(pid: int) -> set[int]:
    """Pids of a process and its ancestors."""
    pids: set[int] = set()
    while pid > 0:
        pids.add(pid)
        try:
            pid = int(_stat(pid)[1])
        except (OSError, IndexError, ValueError):
            break
    return pids


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return "gone"


def _end(pid: int) -> None:
    identity = _identity(pid)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
        deadline = time.monotonic() + _GRACE
        while _identity(pid) == identity and identity and time.monotonic() < deadline:
            if _state(pid) == "Z":
                return
            time.sleep(0.05)
        if _identity(pid) != identity:
            return


def _state(pid: int) -> str:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def _mounts(folder: Path) -> list[Path]:
    """Mount points in ``folder``, the innermost first."""
    with suppress(OSError):
        lines = Path("/proc/self/mounts").read_text().splitlines()
        paths = [line.split()[1].encode().decode("unicode_escape") for line in lines]
        return [Path(p) for p in sorted(paths, reverse=True) if p.startswith(f"{folder}/")]
    return []


def _loops(folder: Path) -> list[str]:
    """Loop devices whose file is, or was, in ``folder``."""
    devices = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if backing.read_text().startswith(f"{folder}/"):
                devices.append(f"/dev/{backing.parts[3]}")
    return sorted(devices)
