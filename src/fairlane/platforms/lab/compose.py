"""What an image is made of, and how: everything here decides its bytes, so this file is part of its key.

mmdebstrap unpacks Debian packages into a tar; what goes into the initramfs is picked from it here, in Python: the
programs that transports and workloads name, the libraries they link to, the kernel modules they need."""

import hashlib
import json
import lzma
import os
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fairlane.errors import FairlaneError
from fairlane.platforms.lab import cpio, elf

SUITE = "bookworm"
KERNEL_PACKAGE = "linux-image-6.12-cloud-amd64"
BASE_PACKAGES = (KERNEL_PACKAGE, "busybox-static", "iproute2", "libgcc-s1")
BASE_PROGRAMS = ("ip", "tc")
BASE_MODULES = ("configfs", "null_blk", "sch_netem", "qemu_fw_cfg")
_NEVER_CALLED = ("libgfapi.", "libnbd.", "libibverbs.", "librdmacm.", "librados.", "librbd.", "libpmem.", "libpmemblk.")
_LIBRARY_FOLDERS = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64")
PROGRAM_FOLDERS = ("usr/sbin", "usr/bin", "sbin", "bin")
STOP_PORT, QUIT_PORT = 0x443, 0x501
STOP_IN_2_S = 0x0E
"""The watchdog's count: it stops the guest after 2 virtual seconds."""


@dataclass(frozen=True)
class Recipe:
    """Every input of an image but the package versions."""

    suite: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    modules: tuple[str, ...]
    files: dict[str, str]


def mmdebstrap(wanted: Recipe, root: Path) -> tuple[str, ...]:
    """The command that unpacks the packages into the tar ``root``."""
    return (
        "mmdebstrap", "--quiet", "--variant=extract", "--format=tar", f"--include={','.join(wanted.packages)}",
        '--aptopt=Acquire::Languages "none"', "--aptopt=Acquire::Retries 5",
        '--extract-hook=ls "$1/var/cache/apt/archives" > "$1/packages.txt"',
        wanted.suite, str(root),
    )  # fmt: skip


class Unpacked:
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

    def release(self) -> str:
        """The kernel's release."""
        return next(p.removeprefix("boot/vmlinuz-") for p in self.members if p.startswith("boot/vmlinuz-"))

    def find(self, name: str, folders: Iterable[str]) -> str:
        for folder in folders:
            if f"{folder}/{name}" in self.members:
                return f"{folder}/{name}"
        raise FairlaneError(
            "lab-package", f"{name} is in none of the packages of the lab image", hint="name its package in the plugin"
        )


def compose(wanted: Recipe, root_tar: Path, out: Path) -> None:
    """Writes kernel, initrd and manifest.json into ``out``, from mmdebstrap's tar."""
    with tarfile.open(root_tar) as tar:
        root = Unpacked(tar)
        release = root.release()
        kernel = root.read(f"boot/vmlinuz-{release}")
        nodes = {
            "dev/console": cpio.character_device(5, 1),
            "bin/busybox": cpio.file(root.read(root.find("busybox", PROGRAM_FOLDERS)), executable=True),
            "init": cpio.file(wanted.files["init"].encode(), executable=True),
            "fairlane/lib.sh": cpio.file(wanted.files["lib.sh"].encode()),
            "fairlane/programs": cpio.file("".join(f"{p}\n" for p in wanted.programs).encode()),
            "fairlane/stop": cpio.file(elf.port_writer(STOP_PORT, STOP_IN_2_S), executable=True),
            "fairlane/quit": cpio.file(elf.port_writer(QUIT_PORT, 0), executable=True),
            "etc/passwd": cpio.file(b"root:x:0:0:root:/:/bin/sh\n"),
            "etc/hosts": cpio.file(b"127.0.0.1 localhost\n"),
            **{name: cpio.folder() for name in ("proc", "sys", "run", "tmp", "var")},
            **_programs(wanted.programs, root),
            **modules(wanted.modules, release, root),
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


def _programs(programs: Iterable[str], root: Unpacked) -> dict[str, cpio.Node]:
    """The programs and, recursively, the libraries they link to; stand-ins for what a guest never calls."""
    nodes: dict[str, cpio.Node] = {}
    loader = root.find("ld-linux-x86-64.so.2", _LIBRARY_FOLDERS)
    nodes["lib64/ld-linux-x86-64.so.2"] = cpio.file(root.read(loader), executable=True)
    waiting = ["libgcc_s.so.1"]  # glibc opens it by name when a thread ends itself
    asked: dict[str, dict[str, str]] = {}
    for program in programs:
        path = root.find(program, PROGRAM_FOLDERS)
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


def modules(names: Iterable[str], release: str, root: Unpacked) -> dict[str, cpio.Node]:
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
            raise FairlaneError(
                "kernel-module", f"kernel {release} has no module {name}", hint="name the right module in the plugin"
            )
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
