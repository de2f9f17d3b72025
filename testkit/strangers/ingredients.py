"""What strangers' machines are made of: the lab's root disk, which has every storage program, and Debian's sudo, which
the lab does not need. Built once, and cached beside the lab's images."""

import asyncio
import hashlib
import tarfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from fairlane.platforms.lab import image
from fairlane.platforms.lab.cache import hold
from fairlane.platforms.lab.qemu import BINARY as QEMU
from fairlane.platforms.lab.wall import kvm, rootfs
from fairlane.platforms.lab.wall.rootfs import Root
from fairlane.runs.files import cache_dir

__all__ = ["QEMU", "Ingredients", "gather"]

_WANTED = ("etc/pam.d/sudo", "usr/bin/sudo", "usr/libexec/sudo", "etc/sudo.conf")


@dataclass(frozen=True)
class Ingredients:
    root: Root
    sudo: bytes
    """A tar with the files of the package that a machine needs."""
    accel: str
    """``kvm`` or ``tcg``."""


async def gather(held: ExitStack) -> Ingredients:
    """What machines are made of, built where it is not cached, and kept there until ``held`` is closed. Raises
    FairlaneError with what is missing and the fix."""
    root = await rootfs.build(print, held)
    entry = cache_dir() / "sudo" / hashlib.sha256(f"{rootfs.SUITE} {_WANTED}".encode()).hexdigest()[:16]

    async def make(made: Path) -> None:
        command = ("mmdebstrap", "--quiet", "--variant=extract", "--format=tar", "--include=sudo",
                   '--aptopt=Acquire::Languages "none"', "--aptopt=Acquire::Retries 5",
                   rootfs.SUITE, str(made / "all.tar"))  # fmt: skip
        await image.unpack(command)
        with tarfile.open(made / "all.tar") as package, tarfile.open(made / "sudo.tar", "w") as picked:
            for member in package:
                member.name = member.name.removeprefix("./")
                if member.name.startswith(_WANTED):
                    picked.addfile(member, package.extractfile(member) if member.isfile() else None)
        (made / "all.tar").unlink()

    held.enter_context(await hold(entry, "sudo.tar", make, keep=1))
    boots = kvm.usable() and await asyncio.to_thread(kvm.remembered, root, cache_dir())
    return Ingredients(root, (entry / "sudo.tar").read_bytes(), "kvm" if boots else "tcg")
