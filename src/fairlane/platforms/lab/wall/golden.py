"""The golden image that clones are made of: a root file system small enough to boot many times, and data beside it.

mke2fs writes it from a folder, so nothing is mounted and no root is needed. The lab's initrd finds the disk by its
serial and starts ``guest/clone-init`` on it.
"""

import asyncio
import hashlib
import random
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass
from pathlib import Path

from fairlane.errors import RunFailed
from fairlane.platforms.lab.wall.rootfs import Root

OWN = "golden"
"""First word of the block that every clone overwrites, in the golden image."""
BLOCK = 4096
_STAMP = 65536
_PROGRAMS = ("sh", "dd", "cut", "sha256sum", "sleep")
_CHUNK = 2**20
_SYSTEM = 24 * 2**20
"""Most bytes that the system, the journal and the inodes take."""


@dataclass(frozen=True)
class Golden:
    """A golden image: a raw file with holes where nothing was written."""

    file: Path
    size: int
    stamp: str
    """SHA-256 of its file /stamp."""


def least(data: int) -> int:
    """Fewest bytes of an image with ``data`` bytes of data."""
    return data + data // 16 + _SYSTEM + 8 * 2**20


async def make(root: Root, folder: Path, size: int, data: int) -> Golden:
    """The image in ``folder``: ``size`` bytes, ``data`` of them random (from a fixed seed), so that no method can
    compress them. Raises RunFailed."""
    tree, image = folder / "golden.d", folder / "golden"
    for name in ("bin", "dev", "proc", "sys", "fairlane", "root"):
        (tree / name).mkdir(parents=True)
    await _run("debugfs", "-R", f"dump /bin/busybox {tree}/bin/busybox", str(root.disk))
    (tree / "bin/busybox").chmod(0o755)
    for name in _PROGRAMS:
        (tree / "bin" / name).symlink_to("busybox")
    numbers = random.Random(1)  # noqa: S311 - not for secrets: incompressible and the same each time
    stamp = numbers.randbytes(_STAMP)
    (tree / "stamp").write_bytes(stamp)
    (tree / "own").write_bytes(block(OWN))
    with (tree / "data").open("wb") as file:
        for _ in range(0, data, _CHUNK):
            file.write(numbers.randbytes(_CHUNK))
    # without lazy initialisation, which would go on in every clone
    lazy = ("-E", "lazy_itable_init=0,lazy_journal_init=0")
    await _run("mke2fs", "-q", "-t", "ext4", *lazy, "-d", str(tree), str(image), f"{size // 1024}k")
    await asyncio.to_thread(shutil.rmtree, tree)
    return Golden(image, size, hashlib.sha256(stamp).hexdigest())


def block(word: str) -> bytes:
    """One block that begins with ``word``."""
    return f"{word} ".encode().ljust(BLOCK)


async def _run(*command: str) -> None:
    done = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
    _, stderr = await done.communicate()
    if done.returncode:
        text = stderr.decode(errors="replace").strip()[-400:]
        raise RunFailed("golden-image", f"{command[0]} could not make the golden image ({done.returncode}): {text}")
