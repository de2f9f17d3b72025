"""File systems on loop devices of this machine, for tests of what lies behind paths. Not a test."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fairlane.machines.behind import Behind, look
from fairlane.machines.this_host import LocalGuest

REAL = [
    pytest.mark.xdist_group("loop"),  # they take the same numbers
    pytest.mark.skipif(
        os.geteuid() != 0 or not Path("/dev/loop-control").exists(),
        reason="loop devices need root and /dev/loop-control",
    ),
]
MIB = 2**20


class Bench:
    """Loop devices and mounts of one test, undone at its end."""

    def __init__(self, folder: Path, held: ExitStack) -> None:
        self.folder, self.held = folder, held
        (folder / "guest").mkdir()
        self.guest = LocalGuest(folder / "guest")

    def run(self, *words: str | Path) -> None:
        subprocess.run([str(word) for word in words], check=True, capture_output=True)

    def file(self, name: str, mib: int, *, full: bool = False) -> Path:
        """A file; ``full``: written, and on the disk."""
        path = self.folder / name
        with path.open("wb") as handle:
            if full:
                handle.write(os.urandom(mib * MIB))
                handle.flush()
                os.fsync(handle.fileno())
            handle.truncate(mib * MIB)
        return path

    def attached(self, file: str | Path, *options: str) -> str:
        """A loop device of ``file``, by a number that ``losetup --find`` of others does not come to."""
        for number in range(200, 300):
            node = f"/dev/loop{number}"
            words = ["losetup", *options, node, str(file)]
            if subprocess.run(words, check=False, capture_output=True).returncode == 0:
                self.held.callback(self.run, "losetup", "--detach", node)
                return node
        raise AssertionError(f"no loop device from 200 to 299 takes {file}")

    def mounted(self, name: str, source: str | Path, *options: str) -> Path:
        point = self.folder / name
        point.mkdir()
        self.run("mount", *options, source, point)
        self.held.callback(self.run, "umount", point)
        return point

    def system(self, name: str, fstype: str, mib: int = 320, *options: str) -> tuple[Path, str]:
        """(mount point, loop device) of a new file system of this type; skips where its mkfs is missing."""
        maker = f"mkfs.{fstype}"
        if subprocess.run(["sh", "-c", f"command -v {maker}"], check=False, capture_output=True).returncode:
            pytest.skip(f"needs {maker}")
        node = self.attached(self.file(f"{name}.img", mib))
        self.run(maker, "-q", node)
        return self.mounted(name, node, *options), node

    def look(self, **paths: str | Path) -> dict[str, Behind]:
        return asyncio.run(look(self.guest, {name: str(path) for name, path in paths.items()}))


@contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    with ExitStack() as held:
        yield Bench(folder, held)
