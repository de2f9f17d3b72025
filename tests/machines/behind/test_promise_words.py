"""The words of refusals before a run, and of promises."""

from typing import TYPE_CHECKING

from fairlane.machines.behind import Behind, Direct, problems
from fairlane.machines.behind.facts import Mount
from fairlane.machines.behind.flush import promise
from fairlane.machines.behind.records import Disk, Layer, Volume

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

GIB = 2**30


def folder(path: str, **fields: object) -> Behind:
    known: dict[str, object] = {
        "real": path, "device": "8:1", "inode": 7, "mount_point": "/mnt", "fstype": "ext4", "readable": True,
        "writable": True, "free_bytes": 2 * GIB, "total_bytes": 10 * GIB, "direct": Direct(True, 512),
    }  # fmt: skip
    return Behind("alpha", path, "directory", **{**known, **fields})  # type: ignore[arg-type]


def test_refusals(snapshot: "SnapshotAssertion") -> None:
    thin = Volume("file-system", "/srv", 10 * GIB, GIB // 2)
    behinds = {
        "a": folder("/mnt/a"),
        "b": folder("/mnt/link", real="/mnt/a"),
        "gone": Behind("alpha", "/nope", "missing"),
        "link": Behind("alpha", "/l", "missing", missing="is a link to /nope, which does not exist"),
        "odd": Behind("alpha", "/dev/null", "other"),
        "ro": folder("/mnt/ro", inode=1, read_only=True),
        "mine": folder("/mnt/mine", inode=2, writable=False),
        "shm": folder("/dev/shm", inode=3, device="0:3", fstype="tmpfs", free_bytes=100 * GIB),
        "old": folder("/mnt/old", inode=4, device="0:4", fstype="fuse.x",
                      direct=Direct(False, reason="Invalid argument")),
        "disk": Behind("beta", "/dev/sdb", "device", real="/dev/sdb", device="8:16", readable=True, writable=True,
                       used=("mounted at /x", "part of dm-3")),
        "thin": folder("/thin", device="7:1", mount_point="/thin", free_bytes=9 * GIB, thin=("sparse",),
                       volumes=(thin,)),
        "inodes": folder("/i", device="7:2", mount_point="/i", free_bytes=99 * GIB, inodes=10, free_inodes=0),
    }  # fmt: skip
    found = problems(behinds, buffered=False, writes=True, size=GIB, keep_free=GIB)
    assert "\n".join(f"{e.labelled()}\n  hint: {e.hint}" for e in found) == snapshot


def test_promises(snapshot: "SnapshotAssertion") -> None:
    def disk(cache: str, *, fua: bool = True) -> Disk:
        return Disk("sda", "wwn:1", "SSD", "sata", GIB, False, cache, fua, "none", None, False, 512)

    def mount(*options: str, fstype: str = "ext4") -> list[Mount]:
        return [Mount("8:1", "/", "/mnt", fstype, "/dev/sda1", options, False)]

    loop = Layer("loop", "loop0", {"file": "/srv/image", "dio": "no"})
    cases = {
        "write back": promise((), (disk("write back"),), mount(), ["disks"]),
        "write back, no FUA, nobarrier": promise((), (disk("write back", fua=False),), mount("nobarrier"), ["disks"]),
        "write through, nobarrier": promise((), (disk("write through"),), mount("nobarrier"), ["disks"]),
        "sync": promise((), (disk("write back"),), mount("sync"), ["disks"]),
        "loop": promise((loop,), (disk("write back"),), mount(), ["disks"]),
        "memory": promise((), (), mount(fstype="tmpfs"), ["memory"]),
        "nfs": promise((Layer("nfs", "nas:/x", {"options": "vers=4.2"}),), (), mount(), ["network"]),
        "cifs": promise((Layer("cifs", "//nas/x", {"options": "nostrictsync"}),), (), mount(), ["network"]),
        "ceph": promise((Layer("ceph", "m:/"),), (), mount(), ["network"]),
        "fuse": promise((Layer("fuse", "x"),), (), mount(), ["unknown"]),
        "volatile overlay": promise((), (disk("write back"),), mount("volatile", fstype="overlay"), ["disks"]),
        **{f"zfs {word}": promise((Layer("zfs", "t/x", {"sync": word}),), (disk("write back"),), mount(), ["disks"])
           for word in ("standard", "always", "disabled")},
        "nothing known": promise((), (), mount(), ["unknown"]),
    }  # fmt: skip
    assert "\n".join(f"{name}: {p.write}, {p.sync}. {p.words}" for name, p in cases.items()) == snapshot
