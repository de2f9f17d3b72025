"""A file system for the files of clones that can share blocks (reflinks), if a lane needs that."""

import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from fairlane.errors import FairlaneError, RunFailed
from fairlane.machines.child import WITH_US

_XFS_LEAST = 512 * 2**20


_PROGRAMS = {
    "mkfs.xfs": "xfsprogs", "losetup": "mount", "mount": "mount", "unshare": "util-linux",
}  # fmt: skip


def shares(folder: Path) -> bool:
    """Whether files in ``folder`` can share blocks, by trying: a file system's name does not show it."""
    with tempfile.TemporaryDirectory(prefix="fairlane-shares-", dir=folder) as place:
        source, copy = Path(place, "one"), Path(place, "other")
        source.write_bytes(b"x" * 65536)
        done = subprocess.run(["cp", "--reflink=always", str(source), str(copy)], capture_output=True, check=False)
    return done.returncode == 0


def problems(folder: Path) -> list[FairlaneError]:
    """Why files can share blocks neither in ``folder`` nor on a new XFS in it; empty: they can."""
    missing = [f"{program} (package {package})" for program, package in _PROGRAMS.items() if not shutil.which(program)]
    if shares(folder) or not (os.geteuid() or missing):
        return []
    return [
        FairlaneError(
            "reflink",
            "the file system here has no reflinks, so clone_reflink must mount its own XFS",
            where=str(folder),
            hint=("run as root" if os.geteuid() else f"install {', '.join(missing)}")
            + ", set TMPDIR to a folder on XFS or btrfs, or remove the lane",
        )
    ]


def sharing(scratch: Path, size: int, held: ExitStack) -> Path:
    """A folder on an XFS of ``size`` bytes, made in ``scratch`` and mounted through a loop device until ``held`` is
    closed. Raises RunFailed. Takes a second, in the main thread: a child that ends with Fairlane ends with its thread.

    The mount is in a namespace of its own, kept by a process that ends with Fairlane and reached through its
    ``/proc`` folder: the kernel removes mount and loop device with the process.
    """
    image, place = scratch / "xfs", scratch / "store"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(max(size, _XFS_LEAST))
    done = subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", str(image)], capture_output=True, check=False)
    if done.returncode:
        raise RunFailed(
            "reflink", f"mkfs.xfs failed: {done.stderr.decode(errors='replace').strip()[-300:]}", where=str(image)
        )
    # the loop device keeps no second copy in the page cache (direct I/O), and goes with its last user (-d)
    text = (
        'd=$(losetup --find --show --direct-io=on "$1") && mount -o noatime "$d" "$2"; s=$?; losetup -d "$d" && '
        "[ $s -eq 0 ] && echo mounted && exec sleep infinity"
    )
    keeper = subprocess.Popen(
        [*WITH_US, str(os.getpid()), "unshare", "--mount", "sh", "-c", text, "sh", str(image), str(place)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    held.callback(_end, keeper)
    assert keeper.stdout and keeper.stderr  # noqa: S101, PT018 - opened as pipes
    if keeper.stdout.readline() == b"mounted\n":
        return Path(f"/proc/{keeper.pid}/root{place}")
    stderr = keeper.stderr.read().decode(errors="replace").strip()[-300:]
    raise RunFailed("reflink", f"cannot mount the XFS for clone_reflink: {stderr or 'no answer'}", where=str(image))


def _end(keeper: subprocess.Popen[bytes]) -> None:
    """Ends the process that keeps the namespace; the kernel then unmounts."""
    keeper.kill()
    keeper.communicate()
