"""NFS: knfsd on the target, the kernel's client in the guest; the volume is a file in the share.

The server has the volume's file in a file system of its own on the medium, and in its page cache: with direct I/O in
the guest, reads still come from the array's memory once they were read or written (``path_settings`` says so). Writes
are answered when they are on the medium, unless ``sync`` is off (exports(5)). Every mount of one server and version
shares its TCP connections (nfs(5), nconnect), so lanes of one version must agree in their number.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes.base import Ground, Site, Step, Transport
from fairlane.study.base import LaneSpec
from fairlane.units import Size, format_size

_MIB = 2**20
_LARGEST = _MIB
"""The largest rsize and wsize of Linux' server and client."""


class NfsSpec(LaneSpec):
    """NFS (knfsd server, kernel client): the volume is a file in a share."""

    transport: Literal["nfs"]
    """NFS over TCP."""
    version: Literal["3", "4.1", "4.2"] = "4.2"
    """Version of the protocol, in quotes: '4.1'."""
    nconnect: int = Field(default=1, ge=1, le=16)
    """TCP connections to the server; lanes of the same version share theirs, and must agree."""
    rsize: Size = _LARGEST
    """Largest read on the wire."""
    wsize: Size = _LARGEST
    """Largest write on the wire."""
    filesystem: Literal["ext4", "xfs"] = "xfs"
    """On the server, below the share."""
    sparse: bool = False
    """The file is made without space; space comes with the first write. Otherwise it is fully allocated."""
    sync: bool = True
    """The server answers a write when the medium has it. False: when its memory has it; a crash loses data."""
    threads: int = Field(default=8, ge=1, le=256)
    """Threads of the server; the most that any lane asks for, because lanes share it."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        for key, value in (("rsize", self.rsize), ("wsize", self.wsize)):
            # the client rounds: at least a page, and downwards to a power of two below a page's multiples
            if not 4096 <= value <= _LARGEST or value & (value - 1):
                raise ValueError(f"{key}: expected a power of two from 4k to {format_size(_LARGEST)}")
        return self

    def known(self) -> Mapping[str, Any]:
        connections = f"{self.nconnect} connection{'s' * (self.nconnect > 1)}"
        settings = (
            f"NFSv{self.version}, {connections}, rsize {format_size(self.rsize)}, wsize {format_size(self.wsize)}, "
            f"a file on the array's {self.filesystem}, cached by the array"
        )
        acknowledged = {} if self.sync else {"write_ack": "when the array's memory has it",
                                             "flush": "answered by the array's memory"}  # fmt: skip
        return {
            **super().known(),
            "multipath": NONE,
            "path_settings": settings,
            "volume_mode": "file in a share",
            "provisioning": "thin" if self.sparse else "thick",
            **acknowledged,
        }


def _share(name: str) -> str:
    """Where the medium's file system is mounted on the server, and what is exported."""
    return f"/srv/fairlane/{name}"


def _mount(name: str) -> str:
    return f"/run/fairlane/nfs/{name}"


class Nfs(Transport[NfsSpec]):
    Spec = NfsSpec
    packages = ("nfs-kernel-server", "nfs-common", "e2fsprogs", "xfsprogs")
    programs = ("rpcbind", "rpc.nfsd", "rpc.mountd", "exportfs", "mount.nfs", "mkfs.ext4", "mkfs.xfs")
    modules = ("nfsd", "nfs", "nfsv4", "nfsv3", "ext4", "xfs")
    stores_files = True

    def problems(self, name: str, spec: NfsSpec, ground: Ground) -> list[FairlaneError]:
        found = []
        if not ground.keeps:
            found.append(
                FairlaneError(
                    "NFS keeps its volume in a file system, and the modelled medium keeps nothing",
                    where=f"lanes.{name}.transport",
                    hint="set platform.medium.memory_backed: true with a size that fits, or platform.medium.file: true",
                )
            )
        for other, lane in ground.lanes.items():
            if isinstance(lane, NfsSpec) and lane.version == spec.version and lane.nconnect > spec.nconnect:
                found.append(
                    FairlaneError(
                        f"NFSv{spec.version} shares its connections with lane {other}, which has nconnect: "
                        f"{lane.nconnect}",
                        where=f"lanes.{name}.nconnect",
                        hint="give both lanes the same nconnect, or another version",
                    )
                )
        return found

    def medium_size(self, spec: NfsSpec, size: int) -> int:
        """Room for the file system's journal and tables; mkfs.xfs makes none below 300 MiB (xfsprogs 5.19 and on)."""
        needed = size + size // 16 + 64 * _MIB
        return max(needed, 320 * _MIB) if spec.filesystem == "xfs" else needed

    def steps(self, name: str, spec: NfsSpec, site: Site) -> tuple[Step, ...]:
        return (_file(name, spec, site), _server(spec), _export(name, spec, site), self._connect(name, spec, site))

    def _connect(self, name: str, spec: NfsSpec, site: Site) -> Step:
        options = (
            f"vers={spec.version},proto=tcp,hard,noatime,nconnect={spec.nconnect},rsize={spec.rsize},wsize={spec.wsize}"
        )
        if spec.version == "3":
            options += ",nolock"  # one client per file: no lock manager to run
        device = f"{site.address}:{_share(name)}"
        file = f"{_mount(name)}/{name}.img"
        return Step(
            name=f"mount {name} over NFSv{spec.version}",
            place="initiator",
            apply=f"""
mkdir -p {_mount(name)}
mount -t nfs -o {options} {device} {_mount(name)}
""",
            describe=f"""
row initiator.kind "nfs $(uname -r)"
options=$(grep " {_mount(name)} nfs" /proc/mounts | cut -d' ' -f4 | tr , '\\n')
row nfs.mounted "$(grep " {_mount(name)} nfs" /proc/mounts | cut -d' ' -f1)"
for k in vers proto rsize wsize timeo retrans sec; do
  row nfs.$k "$(echo "$options" | grep "^$k=" | cut -d= -f2)"
done
row nfs.hard "$(echo "$options" | grep -c '^hard$')"
inside=0 connections=0
while read -r word rest; do
  case $word in
    device) inside=0; case $rest in *" mounted on {_mount(name)} "*) inside=1 ;; esac ;;
    xprt:) connections=$((connections + inside)) ;;
  esac
done < /proc/self/mountstats
row nfs.connections $connections
row file.bytes "$(stat -c %s {file})"
row file.allocated "$(($(stat -c %b {file}) * 512))"
""",
            remove=f"""
umount {_mount(name)}
rmdir {_mount(name)}
""",
            expect={
                "nfs.mounted": device,
                "nfs.vers": spec.version,
                "nfs.proto": "tcp",
                "nfs.rsize": str(spec.rsize),
                "nfs.wsize": str(spec.wsize),
                "nfs.hard": "1",
                "nfs.connections": str(spec.nconnect),
                "file.bytes": str(site.size),
            },
        )

    def find(self, name: str, spec: NfsSpec, site: Site) -> str:  # noqa: ARG002
        """The file, if the share it lies in is the one that was exported for it."""
        device, file = f"{site.address}:{_share(name)}", f"{_mount(name)}/{name}.img"
        return f'grep -q "^{device} {_mount(name)} nfs" /proc/mounts && [ -f {file} ] && echo {file}; true'

    def path(self, name: str, spec: NfsSpec, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        return ("fio", f"NFSv{spec.version}", f"TCP {site.interface}", "knfsd", f"{spec.filesystem} file", site.medium)


def _file(name: str, spec: NfsSpec, site: Site) -> Step:
    """The file system on the medium, and the volume's file in it."""
    make = {"ext4": "mkfs.ext4 -q -F -m 0 -E nodiscard,lazy_itable_init=0", "xfs": "mkfs.xfs -q -f -K"}[spec.filesystem]
    share, file = _share(name), f"{_share(name)}/{name}.img"
    allocate = f"truncate -s {site.size} {file}" if spec.sparse else f"fallocate -l {site.size} {file}"
    return Step(
        name=f"a file for {name} in {spec.filesystem} on the medium",
        place="target",
        apply=f"""
guard_own {site.medium}
{make} {site.medium}
mkdir -p {share}
mount -t {spec.filesystem} -o noatime {site.medium} {share}
{allocate}
sync -f {share}
""",
        describe=f"""
row target.filesystem "$(grep " {share} " /proc/mounts | cut -d' ' -f3)"
row target.filesystem_options "$(grep " {share} " /proc/mounts | cut -d' ' -f4)"
row target.file_bytes "$(stat -c %s {file})"
row target.file_full "$([ "$(($(stat -c %b {file}) * 512))" -ge {site.size} ] && echo 1 || echo 0)"
""",
        remove=f"""
umount {share}
rmdir {share}
wipefs -q -a {site.medium}
""",
        expect={
            "target.filesystem": spec.filesystem,
            "target.file_bytes": str(site.size),
        },
    )


def _server(spec: NfsSpec) -> Step:
    """knfsd and its helpers, once per machine, with the most threads that a lane asks for; gone with the last export.

    Its largest I/O follows from the machine's memory unless it is set, and only while no thread runs (kernel:
    fs/nfsd/nfsctl.c). No client has a state to reclaim yet, so its grace period is ended at once: without that, clients
    would wait for it."""
    return Step(
        name="start knfsd",
        place="target",
        apply=f"""
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
pidof rpcbind > /dev/null || rpcbind -w
threads=$(cat /proc/fs/nfsd/threads)
if [ "$threads" -eq 0 ]; then
  echo {_LARGEST} > /proc/fs/nfsd/max_block_size
  rpc.nfsd --grace-time 10 --lease-time 10 {spec.threads}
  echo Y > /proc/fs/nfsd/v4_end_grace
elif [ "$threads" -lt {spec.threads} ]; then
  echo {spec.threads} > /proc/fs/nfsd/threads
fi
pidof rpc.mountd > /dev/null || rpc.mountd
""",
        describe="""
row target.kind "knfsd $(uname -r)"
row target.threads "$(cat /proc/fs/nfsd/threads)"
row target.max_block_size "$(cat /proc/fs/nfsd/max_block_size)"
""",
        remove="""
[ -z "$(exportfs)" ] || exit 0 # another lane's
rpc.nfsd 0
for p in rpc.mountd rpcbind; do
  kill $(pidof $p)
done
i=0
until umount /proc/fs/nfsd 2> /dev/null; do
  i=$((i + 1))
  [ $i -lt 100 ] || { echo "knfsd did not end" >&2; exit 1; }
  sleep 0.1
done
""",
    )


def _export(name: str, spec: NfsSpec, site: Site) -> Step:
    """One client's network may mount it, as root: guests of the lab are root."""
    network = f"{site.address.rsplit('.', 1)[0]}.0/24"
    options = f"rw,{'sync' if spec.sync else 'async'},no_subtree_check,no_root_squash,insecure,fsid={site.index + 1}"
    listed = f"exportfs -v | tr '\\n' ' ' | grep -o '{_share(name)}[[:space:]]*{network}([^)]*)'"
    return Step(
        name=f"export {name} through knfsd",
        place="target",
        apply=f"exportfs -o {options} {network}:{_share(name)}",
        describe=f"""
row target.export "$({listed} | tr -s ' \\t' ' ')"
row target.sync "$({listed} | grep -c '[(,]sync[,)]')"
""",
        remove=f"exportfs -u {network}:{_share(name)}",
        expect={"target.sync": str(int(spec.sync))},
    )


PLUGIN = Nfs()
