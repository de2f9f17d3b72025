"""A further initramfs part for loads with large programs, such as a database server: built once, and cached.

The lab's image stays as it is, and with it every figure of studies that have no such load: the part is one more archive
behind it, which the kernel unpacks into the same root. It brings its own loader and libraries, because the archive's
versions may have moved since the image was built.
"""

import asyncio
import hashlib
import json
import tarfile
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlane import registry
from fairlane.machines import library
from fairlane.platforms.base import Notify
from fairlane.platforms.lab import compose, cpio, elf, image
from fairlane.platforms.lab.cache import hold
from fairlane.platforms.lab.compose import PROGRAM_FOLDERS, Recipe, Unpacked
from fairlane.runs.files import cache_dir
from fairlane.workloads.base import Part

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_KEPT = 4
"""Parts in the cache at once; PostgreSQL's has some 90 MB."""
_UNPACKED, _PACKED = 900 * 2**20, 700 * 2**20
"""Bytes needed to build PostgreSQL's: packages among the temporary files; in the cache their tar and the part."""
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_LIBRARY_FOLDERS = (_LIBRARIES, "lib/x86_64-linux-gnu", "lib64")


def wanted(study: "Study") -> Part | None:
    """What the study's loads need beyond the image."""
    parts = {part for cell in study.cells() if (part := registry.load("workloads", cell.kind).part)}
    return _union(parts) if parts else None


def _union(parts: set[Part]) -> Part:
    def of(name: str) -> tuple[str, ...]:
        return tuple(sorted({item for part in parts for item in getattr(part, name)}))

    return Part(of("packages"), of("programs"), of("files"), of("users"))


def cached(part: Part) -> bool:
    """Whether the part need not be built."""
    return (_folder(part) / "manifest.json").exists()


def manifest(folder: Path) -> dict[str, Any]:
    """Package versions, size and SHA-256 of the part in ``folder``."""
    loaded: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
    return loaded


def _folder(part: Part) -> Path:
    code = (resources.files(__package__).joinpath(f"{name}.py").read_text("utf-8")
            for name in ("part", "compose", "elf", "cpio"))  # fmt: skip
    parts = json.dumps([asdict(part), compose.SUITE, _texts(part), *code], sort_keys=True)
    return cache_dir() / "parts" / hashlib.sha256(parts.encode()).hexdigest()[:16]


async def build(part: Part, notify: Notify, held: ExitStack) -> Path:
    """The folder of the part (``initrd``, ``manifest.json``), built if it is not cached (about a minute) and kept there
    until ``held`` is closed. Raises FairlaneError with the missing part and the fix."""
    folder = _folder(part)

    async def make(scratch: Path) -> None:
        image.room(Path(tempfile.gettempdir()), _UNPACKED, "TMPDIR")
        image.room(scratch, _PACKED, "FAIRLANE_CACHE")
        root = scratch / "root.tar"
        notify("downloading Debian packages of the database server for the lab's guests (once)")
        await image.unpack(compose.mmdebstrap(Recipe(compose.SUITE, part.packages, (), (), {}), root))
        await asyncio.to_thread(_compose, part, root, scratch)
        root.unlink()

    held.enter_context(await hold(folder, "manifest.json", make, keep=_KEPT))
    return folder


def _texts(part: Part) -> dict[str, str]:
    """Files of the guest that the part replaces: its functions, the programs that busybox would hide, users."""
    programs = sorted({*image.recipe().programs, *(p for p in part.programs if "." not in p)})
    users = [("root", 0, "/"), *((user, 100 + place, "/") for place, user in enumerate(part.users))]
    return {
        "fairlane/lib.sh": library.part("lib.sh") + library.part("servers.sh"),
        "fairlane/programs": "".join(f"{name}\n" for name in programs),
        "etc/passwd": "".join(f"{name}:x:{number}:{number}::{home}:/bin/sh\n" for name, number, home in users),
        "etc/group": "".join(f"{name}:x:{number}:\n" for name, number, _ in users),
    }


def _compose(part: Part, root_tar: Path, out: Path) -> None:
    with tarfile.open(root_tar) as tar:
        root = Unpacked(tar)
        nodes = {path: cpio.file(text.encode()) for path, text in _texts(part).items()}
        loader = root.find("ld-linux-x86-64.so.2", _LIBRARY_FOLDERS)
        nodes["lib64/ld-linux-x86-64.so.2"] = cpio.file(root.read(loader), executable=True)
        programs = {f"usr/sbin/{name}": root.find(name, PROGRAM_FOLDERS) for name in part.programs}
        files = {
            path: path
            for path, member in root.members.items()
            if not member.isdir() and any(fnmatchcase(path, pattern) for pattern in part.files)
        }
        for path, source in (programs | files).items():
            data = root.read(source)
            nodes[path] = cpio.file(data, executable=data.startswith(b"\x7fELF"))
        nodes |= _libraries([node.data for node in nodes.values()], root)
        packages = compose._versions(root.read("packages.txt").decode().split())
    initrd = cpio.archive(nodes)
    (out / "initrd").write_bytes(initrd)
    digest = hashlib.sha256(initrd).hexdigest()
    written = {"suite": compose.SUITE, "packages": packages, "initrd_bytes": len(initrd), "sha256": {"initrd": digest}}
    (out / "manifest.json").write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")


def _libraries(programs: list[bytes], root: Unpacked) -> dict[str, cpio.Node]:
    """The libraries that ``programs`` link to, and recursively those that these link to."""
    nodes: dict[str, cpio.Node] = {}
    waiting = list(programs)
    while waiting:
        data = waiting.pop()
        for name in elf.links(data).needed if data.startswith(b"\x7fELF") else ():
            path = f"{_LIBRARIES}/{name}"
            if path in nodes or name.startswith("ld-linux"):
                continue
            library = root.read(root.find(name, _LIBRARY_FOLDERS))
            nodes[path] = cpio.file(library)
            waiting.append(library)
    return nodes
