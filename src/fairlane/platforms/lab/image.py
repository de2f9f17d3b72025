"""The lab image: a kernel and one initramfs that holds everything a guest needs, made from Debian packages and cached.

mmdebstrap downloads and unpacks the packages (unprivileged where the machine allows); what goes into the initramfs is
picked here, in Python: the programs that transports and workloads name, the libraries they link to, the kernel modules
they need. Nothing of it runs on the host, and no root is needed.

The cache key covers every input but the package versions, which the archive decides; those are recorded in the
manifest, and the hash of the finished image is part of every run's fingerprint.
"""

import asyncio
import errno
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import tarfile
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.platforms.base import Notify
from fairlane.platforms.lab import cpio, elf
from fairlane.platforms.lab.cache import cache_dir, hold

SUITE = "bookworm"
KERNEL_PACKAGE = "linux-image-6.12-cloud-amd64"
_BASE_PACKAGES = (KERNEL_PACKAGE, "busybox-static", "iproute2", "libgcc-s1")
_BASE_PROGRAMS = ("ip", "tc")
_BASE_MODULES = ("configfs", "null_blk", "sch_netem", "qemu_fw_cfg")
_NEVER_CALLED = ("libgfapi.", "libnbd.", "libibverbs.", "librdmacm.", "librados.", "librbd.", "libpmem.", "libpmemblk.")
_LIBRARY_FOLDERS = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64")
_PROGRAM_FOLDERS = ("usr/sbin", "usr/bin", "sbin", "bin")
_KEPT = 4
"""Images in the cache at once; one has 40 MB."""
STOP_PORT, QUIT_PORT = 0x443, 0x501
STOP_IN_2_S = 0x0E
"""The watchdog's count: it stops the guest after 2 virtual seconds."""


@dataclass(frozen=True)
class Image:
    """A built image in the cache."""

    folder: Path
    key: str

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


@dataclass(frozen=True)
class Recipe:
    """Every input of an image."""

    suite: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    modules: tuple[str, ...]
    files: dict[str, str]

    @property
    def key(self) -> str:
        builder = "".join(
            resources.files(__package__).joinpath(name).read_text("utf-8") for name in ("image.py", "elf.py", "cpio.py")
        )
        text = json.dumps([asdict(self), builder], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def recipe() -> Recipe:
    """What this version's plugins need in a guest: the union over all transports of the lab and all workloads."""
    plugins = [plugin for package in ("lanes", "workloads") for _, plugin in registry.every(package)]

    def union(attribute: str, base: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({*base, *(item for plugin in plugins for item in getattr(plugin, attribute, ()))}))

    guest = resources.files(__package__).joinpath("guest")
    return Recipe(
        SUITE,
        union("packages", _BASE_PACKAGES),
        union("programs", _BASE_PROGRAMS),
        union("modules", _BASE_MODULES),
        {name: guest.joinpath(name).read_text("utf-8") for name in ("init", "lib.sh")},
    )


def cached_image() -> Image | None:
    """The image for this version's recipe if it is in the cache."""
    key = recipe().key
    folder = cache_dir() / "images" / key
    return Image(folder, key) if (folder / "manifest.json").exists() else None


async def build(notify: Notify, held: ExitStack, *, force: bool = False) -> Image:
    """The image, built if it is not cached (about 20 s) and kept there until ``held`` is closed.

    Raises FairlaneError with what is missing and the fix."""
    wanted = recipe()
    folder = cache_dir() / "images" / wanted.key

    async def make(made: Path) -> None:
        root = made / "root.tar"
        notify("downloading Debian packages for the lab image (once)")
        await _mmdebstrap(wanted, root)
        notify("composing the lab image")
        await asyncio.to_thread(_compose, wanted, root, made)
        root.unlink()

    held.enter_context(await hold(folder, "manifest.json", make, keep=_KEPT, again=force))
    return Image(folder, wanted.key)


async def _mmdebstrap(wanted: Recipe, root: Path) -> None:
    if not shutil.which("mmdebstrap"):
        raise FairlaneError("mmdebstrap is not installed: the lab image cannot be built", hint="run: make setup")
    command = [
        "setpriv", "--pdeathsig", "TERM",  # ended, however we end, it removes what it has unpacked
        "mmdebstrap", "--quiet", "--variant=extract", "--format=tar", f"--include={','.join(wanted.packages)}",
        '--aptopt=Acquire::Languages "none"', "--aptopt=Acquire::Retries 5",
        '--extract-hook=ls "$1/var/cache/apt/archives" > "$1/packages.txt"',
        wanted.suite, str(root),
    ]  # fmt: skip
    done = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL, stderr=PIPE)
    try:
        _, said = await done.communicate()
    finally:
        if done.returncode is None:
            done.terminate()
            await done.wait()
    if done.returncode:
        tail = "\n".join(said.decode(errors="replace").strip().splitlines()[-8:])
        if os.strerror(errno.ENOSPC) in tail:
            hint = "make room for 1 GB there and in the cache (`fairlane doctor` shows where), or set TMPDIR"
            raise FairlaneError(f"mmdebstrap found no room:\n{tail}", where=tempfile.gettempdir(), hint=hint)
        raise FairlaneError(
            f"mmdebstrap failed ({done.returncode}):\n{tail}",
            hint="is a Debian mirror reachable, and debian-archive-keyring installed? `fairlane doctor` looks",
        )


class _Root:
    """The unpacked packages, read from the tar: no extraction, no ownership, no symlink leads outside."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self.tar = tar
        self.members = {m.name.removeprefix("./").rstrip("/"): m for m in tar}

    def read(self, path: str) -> bytes:
        for _ in range(8):
            member = self.members[path]
            if member.issym():
                path = os.path.normpath(os.path.join(os.path.dirname(path), member.linkname)).lstrip("/")  # noqa: PTH118, PTH120
            elif member.islnk():
                path = member.linkname.removeprefix("./")
            else:
                handle = self.tar.extractfile(member)
                if handle is None:
                    break
                return handle.read()
        raise KeyError(path)

    def find(self, name: str, folders: Iterable[str]) -> str:
        for folder in folders:
            if f"{folder}/{name}" in self.members:
                return f"{folder}/{name}"
        raise FairlaneError(
            f"{name} is in none of the packages of the lab image", hint="name its package in the plugin"
        )


def _compose(wanted: Recipe, root_tar: Path, out: Path) -> None:
    with tarfile.open(root_tar) as tar:
        root = _Root(tar)
        release = next(p.removeprefix("boot/vmlinuz-") for p in root.members if p.startswith("boot/vmlinuz-"))
        kernel = root.read(f"boot/vmlinuz-{release}")
        nodes = {
            "dev/console": cpio.character_device(5, 1),
            "bin/busybox": cpio.file(root.read(root.find("busybox", _PROGRAM_FOLDERS)), executable=True),
            "init": cpio.file(wanted.files["init"].encode(), executable=True),
            "fairlane/lib.sh": cpio.file(wanted.files["lib.sh"].encode()),
            "fairlane/programs": cpio.file("".join(f"{p}\n" for p in wanted.programs).encode()),
            "fairlane/stop": cpio.file(elf.port_writer(STOP_PORT, STOP_IN_2_S), executable=True),
            "fairlane/quit": cpio.file(elf.port_writer(QUIT_PORT, 0), executable=True),
            "etc/passwd": cpio.file(b"root:x:0:0:root:/:/bin/sh\n"),
            "etc/hosts": cpio.file(b"127.0.0.1 localhost\n"),
            **{name: cpio.folder() for name in ("proc", "sys", "run", "tmp", "var")},
            **_programs(wanted.programs, root),
            **_modules(wanted.modules, release, root),
        }
        packages = _versions(root.read("packages.txt").decode().split())
    initrd = cpio.archive(nodes)
    (out / "kernel").write_bytes(kernel)
    (out / "initrd").write_bytes(initrd)
    manifest = {
        "suite": wanted.suite,
        "kernel_release": release,
        "packages": packages,
        "initrd_bytes": len(initrd),
        "sha256": {"kernel": _sha256(kernel), "initrd": _sha256(initrd)},
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def _programs(programs: Iterable[str], root: _Root) -> dict[str, cpio.Node]:
    """The programs and, recursively, the libraries they link to; stand-ins for what a guest never calls."""
    nodes: dict[str, cpio.Node] = {}
    loader = root.find("ld-linux-x86-64.so.2", _LIBRARY_FOLDERS)
    nodes["lib64/ld-linux-x86-64.so.2"] = cpio.file(root.read(loader), executable=True)
    waiting = ["libgcc_s.so.1"]  # glibc opens it by name when a thread ends itself
    asked: dict[str, dict[str, str]] = {}
    for program in programs:
        path = root.find(program, _PROGRAM_FOLDERS)
        data = root.read(path)
        # Merged names: /usr/sbin/tc may sit in /sbin; every program is in PATH and some are called by full path.
        nodes[f"sbin/{program}"] = cpio.file(data, executable=True)
        nodes[f"usr/sbin/{program}"] = cpio.link(f"/sbin/{program}")
        wants = elf.links(data)
        waiting += wants.needed
        for name in wants.needed:
            asked.setdefault(name, {}).update(wants.undefined)
    while waiting:
        name = waiting.pop()
        path = f"usr/lib/x86_64-linux-gnu/{name}"
        if path in nodes or name.startswith("ld-linux"):
            continue
        data = root.read(root.find(name, _LIBRARY_FOLDERS))
        if name.startswith(_NEVER_CALLED):
            offered = elf.links(data).defined
            data = elf.stand_in(name, {s: v for s, v in sorted(asked[name].items()) if s in offered})
        nodes[path] = cpio.file(data)
        waiting += elf.links(data).needed
    nodes["lib/x86_64-linux-gnu"] = cpio.link("/usr/lib/x86_64-linux-gnu")
    return nodes


def _modules(names: Iterable[str], release: str, root: _Root) -> dict[str, cpio.Node]:
    """The modules, what they depend on, and a modules.dep for busybox's modprobe."""
    pattern = re.compile(rf"(?:usr/)?lib/modules/{re.escape(release)}/kernel/.*/([^/]+)\.ko(\.xz)?")
    paths = {m[1].replace("-", "_"): p for p in root.members if (m := pattern.fullmatch(p))}
    builtin_list = root.read(root.find(f"{release}/modules.builtin", ("lib/modules", "usr/lib/modules"))).decode()
    builtin = {line.rsplit("/", 1)[-1].removesuffix(".ko").replace("-", "_") for line in builtin_list.split()}
    dependencies: dict[str, list[str]] = {}
    nodes: dict[str, cpio.Node] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in dependencies or name in builtin:
            continue
        if name not in paths:
            raise FairlaneError(f"kernel {release} has no module {name}", hint="name the right module in the plugin")
        data = root.read(paths[name])
        data = lzma.decompress(data) if paths[name].endswith(".xz") else data
        found = re.search(rb"\0depends=([^\0]*)\0", data)
        dependencies[name] = [d.replace("-", "_") for d in found[1].decode().split(",") if d] if found else []
        nodes[f"lib/modules/{release}/{name}.ko"] = cpio.file(data)
        waiting += dependencies[name]

    def ordered(name: str) -> list[str]:
        """Dependencies in modprobe's order: the nearest first, each before what it needs itself."""
        out: list[str] = []
        for child in dependencies.get(name, []):
            if child in dependencies:
                out += [child, *ordered(child)]
        return list(dict.fromkeys(reversed(list(dict.fromkeys(reversed(out))))))

    lines = [f"{n}.ko: {' '.join(f'{d}.ko' for d in ordered(n))}\n" for n in sorted(dependencies)]
    nodes[f"lib/modules/{release}/modules.dep"] = cpio.file("".join(lines).encode())
    aliases = f"# built in: {' '.join(sorted(builtin & set(names)))}\n"
    nodes[f"lib/modules/{release}/modules.builtin"] = cpio.file(builtin_list.encode())
    nodes[f"lib/modules/{release}/modules.alias"] = cpio.file(aliases.encode())
    return nodes


def _versions(debs: Iterable[str]) -> dict[str, str]:
    """Package -> version from the names of .deb files (apt writes the epoch's colon as %3a)."""
    parts = (name.removesuffix(".deb").split("_") for name in debs if name.endswith(".deb"))
    return {p[0]: p[1].replace("%3a", ":") for p in sorted(parts)}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def as_initrd(files: dict[str, str]) -> bytes:
    """A further initramfs part with text files: the kernel unpacks one archive after the other."""
    buffer = io.BytesIO()
    buffer.write(cpio.archive({path: cpio.file(text.encode()) for path, text in files.items()}))
    return buffer.getvalue()
