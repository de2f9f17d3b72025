"""The lab image: a kernel and one initramfs with everything a guest needs, built from Debian packages and cached.

mmdebstrap downloads and unpacks the packages (unprivileged where the machine allows); compose.py picks what a guest
needs. None of the packages runs on the host, and no root is needed.

The cache key covers every input except the package versions, which the archive decides; these are recorded in the
manifest, and the hash of the finished image is part of every run's fingerprint.
"""

import asyncio
import hashlib
import io
import json
import shutil
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from fairlane import install, registry
from fairlane.errors import FairlaneError
from fairlane.machines import library
from fairlane.platforms.base import Notify
from fairlane.platforms.lab import compose, cpio
from fairlane.platforms.lab.cache import hold
from fairlane.platforms.lab.compose import Recipe
from fairlane.runs.files import cache_dir

_KEPT = 4
"""Images in the cache at once; one has 40 MB."""
_UNPACKED, _PACKED = 600 * 2**20, 400 * 2**20
"""Bytes needed to build: 530 MiB of packages among the temporary files; in the cache their tar and the image."""


@dataclass(frozen=True)
class Image:
    """A built image in the cache."""

    folder: Path
    key: str
    part: Path | None = None
    """Folder of the part that this study's loads need beside it (``part.py``)."""

    @property
    def kernel(self) -> Path:
        return self.folder / "kernel"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd"

    @property
    def manifest(self) -> dict[str, Any]:
        """Package versions, kernel release, sizes and SHA-256 of the parts."""
        loaded: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text("utf-8"))
        return loaded


def key(wanted: Recipe) -> str:
    """Hash of the recipe and of the code that builds from it."""
    code = (
        resources.files(__package__).joinpath(name).read_text("utf-8") for name in ("compose.py", "elf.py", "cpio.py")
    )
    return hashlib.sha256(json.dumps([asdict(wanted), *code], sort_keys=True).encode()).hexdigest()[:16]


def recipe() -> Recipe:
    """The guest's needs by this version's plugins: the union over all transports of the lab and all workloads but those
    with a part of their own (``part.py``)."""
    plugins = [p for package in ("lanes", "workloads") for _, p in registry.every(package)
               if p.virtual and not getattr(p, "part", None)]  # fmt: skip

    def union(attribute: str, base: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({*base, *(item for plugin in plugins for item in getattr(plugin, attribute, ()))}))

    init = resources.files("fairlane.platforms.lab.virtual").joinpath("guest/init").read_text("utf-8")
    return Recipe(
        compose.SUITE,
        union("packages", compose.BASE_PACKAGES),
        union("programs", compose.BASE_PROGRAMS),
        union("modules", compose.BASE_MODULES),
        {"init": init, "lib.sh": library.part("lib.sh")},
    )


def cached_image() -> Image | None:
    """The image for this version's recipe if it is in the cache."""
    wanted = key(recipe())
    folder = cache_dir() / "images" / wanted
    return Image(folder, wanted) if (folder / "manifest.json").exists() else None


async def build(notify: Notify, held: ExitStack, *, force: bool = False) -> Image:
    """The image, built if it is not cached (about 20 s) and kept there until ``held`` is closed.

    Raises FairlaneError with the missing part and the fix.
    """
    wanted = recipe()
    folder = cache_dir() / "images" / key(wanted)

    async def make(scratch: Path) -> None:
        room(Path(tempfile.gettempdir()), _UNPACKED, "TMPDIR")
        room(scratch, _PACKED, "FAIRLANE_CACHE")
        root = scratch / "root.tar"
        notify("downloading Debian packages for the lab image (once)")
        await unpack(compose.mmdebstrap(wanted, root))
        notify("composing the lab image")
        await asyncio.to_thread(compose.compose, wanted, root, scratch)
        root.unlink()

    held.enter_context(await hold(folder, "manifest.json", make, keep=_KEPT, again=force))
    return Image(folder, folder.name)


def builder_missing() -> FairlaneError | None:
    """The error where no image can be built; None: one can."""
    return install.missing("mmdebstrap", "mmdebstrap", "the lab image cannot be built")


async def unpack(command: Sequence[str]) -> None:
    """Runs mmdebstrap, which removes its temporary files even if Fairlane is killed. Raises FairlaneError."""
    if missing := builder_missing():
        raise missing
    prefix = ("setpriv", "--pdeathsig", "TERM")
    with (
        tempfile.TemporaryFile() as stderr
    ):  # a pipe would make us wait for whatever child of it still holds the other end
        done = await asyncio.create_subprocess_exec(*prefix, *command, stdout=DEVNULL, stderr=stderr)
        try:
            await done.wait()
        finally:
            if done.returncode is None:
                done.terminate()
                await done.wait()
        stderr.seek(0)
        tail = "\n".join(stderr.read().decode(errors="replace").strip().splitlines()[-8:])
    if done.returncode:
        raise FairlaneError(
            "image-build",
            f"mmdebstrap failed ({done.returncode}):\n{tail}",
            hint="is a Debian mirror reachable and debian-archive-keyring installed? `fairlane doctor` checks both",
        )


def room(folder: Path, needed: int, variable: str) -> None:
    """Raises FairlaneError if fewer than ``needed`` bytes are free: on a full disk apt retries and then gives no
    reason."""
    if (free := shutil.disk_usage(folder).free) < needed:
        raise FairlaneError(
            "disk-space",
            f"only {free // 2**20} MiB are free; building the lab image needs {needed // 2**20} MiB there",
            where=str(folder),
            hint=f"make room there, or set {variable} to a folder on another disk",
        )


def as_initrd(files: dict[str, str]) -> bytes:
    """A further initramfs part with text files: the kernel unpacks one archive after the other."""
    buffer = io.BytesIO()
    buffer.write(cpio.archive({path: cpio.file(text.encode()) for path, text in files.items()}))
    return buffer.getvalue()
