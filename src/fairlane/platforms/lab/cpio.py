"""Write a newc cpio archive (the kernel's initramfs format), reproducibly and without root.

Device nodes are entries like any other here, so nothing needs mknod. Format: the kernel's
Documentation/driver-api/early-userspace/buffer-format.rst.
"""

import stat
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """One entry. ``mode`` holds type and permissions; ``data`` a file's content or a link's target."""

    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def folder() -> Node:
    return Node(stat.S_IFDIR | 0o755)


def file(data: bytes, *, executable: bool = False) -> Node:
    return Node(stat.S_IFREG | (0o755 if executable else 0o644), data)


def link(target: str) -> Node:
    return Node(stat.S_IFLNK | 0o777, target.encode())


def character_device(major: int, minor: int) -> Node:
    return Node(stat.S_IFCHR | 0o600, device=(major, minor))


def archive(nodes: Mapping[str, Node]) -> bytes:
    """The archive of path -> node, paths without a leading slash; missing parent folders are added, order is by name.

    Owner 0:0, time 0: equal nodes give equal bytes."""
    whole = dict(nodes)
    for path in nodes:
        parts = path.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            whole.setdefault("/".join(parts[:depth]), folder())
    out = bytearray()
    for number, path in enumerate([*sorted(whole), "TRAILER!!!"], start=1):
        node = whole.get(path, Node(0))
        name = path.encode() + b"\0"
        major, minor = node.device
        # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        fields = (number, node.mode, 0, 0, 1, 0, len(node.data), 0, 0, major, minor, len(name), 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        out += b"\0" * (-len(out) % 4)
        out += node.data
        out += b"\0" * (-len(out) % 4)
    return bytes(out)
