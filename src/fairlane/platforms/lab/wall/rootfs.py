"""The root file system of wall-clock machines: Debian packages as they are, on a disk that every machine boots from and
none writes to (QEMU's ``snapshot=on``). Built once and cached like the image of the virtual clock.

mke2fs writes the disk from a folder, so that nothing is mounted and no root is needed; files then belong to whoever
built it, which matters to no program here (sshd's ``StrictModes`` is off).
"""

import asyncio
import hashlib
import json
import shutil
import tarfile
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.platforms.base import Notify
from fairlane.platforms.lab import compose, cpio, elf, image
from fairlane.platforms.lab.cache import hold
from fairlane.runs.files import cache_dir

SUITE = compose.SUITE
KERNEL_PACKAGE = "linux-image-6.12-amd64"
"""The full kernel: the cloud kernel lacks ALUA, soft-RoCE, FCoE and nfsd."""
BASE_PACKAGES = (
    KERNEL_PACKAGE, "busybox-static", "iproute2", "kmod", "openssh-server", "udev", "util-linux", "fdisk", "ethtool",
    "e2fsprogs", "xfsprogs", "sg3-utils", "lvm2", "thin-provisioning-tools", "mdadm", "dmsetup", "multipath-tools",
    "open-iscsi", "nvme-cli", "nfs-kernel-server", "nfs-common", "rdma-core", "ibverbs-providers", "procps", "fio",
)  # fmt: skip
"""On every machine, array or guest; transports and workloads add theirs."""
_NEVER_CALLED = ("libgfapi.", "libnbd.", "librados.", "librbd.", "libpmem.", "libpmemblk.")
"""Libraries of fio that no machine uses. To load and link them takes an emulated processor most of a second for every
trial: stand-ins take their place, as in the image of the virtual clock (elf.py)."""
_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
_BOOT_MODULES = ("virtio_pci", "virtio_blk", "ext4", "crc32c_generic")
_KEPT = 3
_SPACE = 3 * 2**30
"""Bytes that building takes at most, temporary files included."""
_SPARE = 300 * 2**20
"""Free space on the disk, for logs and files that programs make."""
_TAR = ("tar", "--no-same-owner", "--exclude=./dev/*", "--exclude=./boot/*")
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True)
class Root:
    """A built root file system in the cache: ``kernel``, ``initrd``, ``disk``, ``manifest.json``."""

    folder: Path

    @property
    def kernel(self) -> Path:
        return self.folder / "kernel"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd"

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    @property
    def key(self) -> str:
        return self.folder.name

    @property
    def manifest(self) -> dict[str, Any]:
        """Package versions, kernel release."""
        loaded: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text("utf-8"))
        return loaded


def packages() -> tuple[str, ...]:
    """What this version's transports and workloads need, on the array and in guests."""
    plugins = [plugin for package in ("lanes", "workloads") for _, plugin in registry.every(package)]
    return tuple(sorted({*BASE_PACKAGES, *(name for plugin in plugins for name in plugin.packages)}))


def key() -> str:
    """Hash of the package list and of the code that makes the disk."""
    here = resources.files(__package__)
    elf_code = resources.files("fairlane.platforms.lab").joinpath("elf.py").read_text("utf-8")
    texts = (
        elf_code,
        here.joinpath("rootfs.py").read_text("utf-8"),
        here.joinpath("guest/initrd-init").read_text("utf-8"),
    )
    return hashlib.sha256(json.dumps([SUITE, packages(), *texts]).encode()).hexdigest()[:16]


def cached_root() -> Root | None:
    """The root file system for this version if it is in the cache."""
    folder = cache_dir() / "roots" / key()
    return Root(folder) if (folder / "manifest.json").exists() else None


async def build(notify: Notify, held: ExitStack, *, force: bool = False) -> Root:
    """The root file system, built if it is not cached (some 2 minutes) and kept there until ``held`` is closed.

    Raises FairlaneError with what is missing and the fix."""
    folder = cache_dir() / "roots" / key()

    async def make(made: Path) -> None:
        image.room(Path(tempfile.gettempdir()), _SPACE // 3, "TMPDIR")
        image.room(made, _SPACE, "FAIRLANE_CACHE")
        notify("downloading Debian packages for the lab's machines (once, some 2 minutes)")
        tar = made / "root.tar"
        command = (
            "mmdebstrap", "--quiet", "--variant=minbase", "--format=tar", f"--include={','.join(packages())}",
            '--aptopt=Acquire::Languages "none"', "--aptopt=Acquire::Retries 5",
            *(f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT),
            '--customize-hook=chroot "$1" dpkg-query -W -f "\\${Package} \\${Version}\\n" > "$1/packages.txt"',
            SUITE, str(tar),
        )  # fmt: skip
        await image.unpack(command)
        notify("writing the root disk")
        await asyncio.to_thread(_compose, tar, made)
        await _disk(tar, made)
        tar.unlink()

    held.enter_context(await hold(folder, "manifest.json", make, keep=_KEPT, again=force))
    return Root(folder)


def _compose(tar_path: Path, out: Path) -> None:
    """Writes kernel, initrd and manifest.json."""
    with tarfile.open(tar_path) as tar:
        root = compose.Unpacked(tar)
        release = root.release()
        (out / "kernel").write_bytes(root.read(f"boot/vmlinuz-{release}"))
        init = resources.files(__package__).joinpath("guest/initrd-init").read_text("utf-8")
        nodes = {
            "dev/console": cpio.character_device(5, 1),
            "bin/busybox": cpio.file(root.read(root.find("busybox", compose.PROGRAM_FOLDERS)), executable=True),
            "init": cpio.file(init.encode(), executable=True),
            **{name: cpio.folder() for name in ("proc", "sys", "root", "fairlane")},
            **compose.modules(_BOOT_MODULES, release, root),
        }
        (out / "initrd").write_bytes(cpio.archive(nodes))
        versions = dict(line.split() for line in root.read("packages.txt").decode().splitlines())
    manifest = {"suite": SUITE, "kernel_release": release, "packages": versions}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


async def _disk(tar: Path, out: Path) -> None:
    folder = out / "root"
    folder.mkdir()
    try:
        await _run(*_TAR, "-C", str(folder), "-xf", str(tar))
        await asyncio.to_thread(_lighten, folder)
        used = sum(p.lstat().st_size + 4096 for p in folder.rglob("*") if not p.is_symlink())
        mebibytes = (used + used // 10 + _SPARE) // 2**20
        await _run("mke2fs", "-q", "-t", "ext4", "-d", str(folder), str(out / "disk"), f"{mebibytes}M")
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _lighten(root: Path) -> None:
    """Puts stand-ins in the place of the libraries that fio is linked to and never calls here."""
    wants = elf.links((root / "usr/bin/fio").read_bytes())
    for name in wants.needed:
        if name.startswith(_NEVER_CALLED):
            library = root / _LIBRARIES / name
            offered = elf.links(library.read_bytes()).defined
            stand_in = elf.stand_in(name, {s: v for s, v in sorted(wants.undefined.items()) if s in offered})
            library.unlink()  # a link to the file with its whole version
            library.write_bytes(stand_in)


async def _run(*command: str) -> None:
    done = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
    _, said = await done.communicate()
    if done.returncode:
        raise FairlaneError(
            "image-build", f"{command[0]} failed ({done.returncode}): {said.decode(errors='replace').strip()[-400:]}"
        )
