"""NFS: knfsd on the target, the kernel's client in the guest; the volume is a file in the share.

The server stores the volume's file in its own file system on the medium, and caches it: with direct I/O in the guest,
reads still come from the array's memory once the data has been read or written (``path_settings`` states this). The
server answers a write once it is on the medium, unless ``sync`` is off (exports(5)). Mounts of one server and version
share TCP connections (nfs(5), nconnect), so lanes of one version must agree in their number.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes import _living as living
from fairlane.lanes._external import Folder, Server
from fairlane.lanes._share import ExternalShare, Share
from fairlane.lanes.base import NO_MEDIUM_KEPT, Ground, Step, Transport
from fairlane.study.base import LaneSpec
from fairlane.units import Size, format_size

_MIB = 2**20
_LARGEST = _MIB
"""The largest rsize and wsize of Linux' server and client."""
_MKFS = {"ext4": "mkfs.ext4 -q -F -m 0 -E nodiscard,lazy_itable_init=0", "xfs": "mkfs.xfs -q -f -K"}


class NfsExternal(ExternalShare):
    """A share of an existing NFS server, mounted; the volume's file is created in it and removed."""

    server: Server
    """Host name or address."""
    share: Folder
    """The exported path."""

    def known(self) -> dict[str, Any]:
        """Parameters (see ``guard.parameters``): ``conditions`` may state those of the server and its links."""
        unknown = ("copies", "write_ack", "flush", "link_speed", "link_delay", "mtu", "disk_size")
        return {**dict.fromkeys(unknown), "backend": f"external NFS server {self.server}"}


class NfsSpec(LaneSpec):
    """NFS (knfsd server, kernel client): the volume is a file in a share."""

    transport: Literal["nfs"]
    """NFS over TCP."""
    version: Literal["3", "4.1", "4.2"] = "4.2"
    """Version of the protocol, in quotes: '4.1'."""
    nconnect: int = Field(default=1, ge=1, le=16)
    """TCP connections to the server; lanes of the same version share them, and must agree."""
    rsize: Size = _LARGEST
    """Largest read on the wire."""
    wsize: Size = _LARGEST
    """Largest write on the wire."""
    filesystem: Literal["ext4", "xfs"] = "xfs"
    """File system on the server, below the share."""
    sparse: bool = False
    """A sparse file: space is allocated at the first write. Otherwise it is fully allocated."""
    sync: bool = True
    """The server answers a write when the medium has it. False: when its memory has it; a crash loses data."""
    threads: int = Field(default=8, ge=1, le=256)
    """Threads of the server. Lanes share it, so the largest value counts."""
    external: NfsExternal | None = None
    """An existing share. ``rsize`` and ``wsize``, unless given, are the server's choice."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        for key in ("filesystem", "sync", "threads"):
            if self.external and key in self.model_fields_set:
                raise ValueError(f"{key}: an external server sets it itself; remove {key}")
        for key, value in (("rsize", self.rsize), ("wsize", self.wsize)):
            # the client rounds down to a power of two, at least a page
            if not 4096 <= value <= _LARGEST or value & (value - 1):
                raise ValueError(f"{key}: expected a power of two from 4k to {format_size(_LARGEST)}")
        return self

    def known(self) -> Mapping[str, Any]:
        connections = f"{self.nconnect} connection{'s' * (self.nconnect > 1)}"
        sizes = [f"{key} {format_size(getattr(self, key))}" for key in ("rsize", "wsize") if self.sized(key)]
        where = "" if self.external else f"a file on the array's {self.filesystem}, cached by the array"
        settings = ", ".join(text for text in (f"NFSv{self.version}", connections, *sizes, where) if text)
        acknowledged = {} if self.sync else {"write_ack": "when the array's memory has it",
                                             "flush": "answered by the array's memory"}  # fmt: skip
        return {
            **super().known(),
            **(self.external.known() if self.external else {}),
            "multipath": NONE,
            "path_settings": settings,
            "volume_mode": "file in a share",
            "provisioning": "thin" if self.sparse else "thick",
            **acknowledged,
        }

    def sized(self, key: str) -> bool:
        """Whether the lane decides on ``rsize`` or ``wsize``."""
        return not self.external or key in self.model_fields_set

    @property
    def existing(self) -> str:
        return ""


class Nfs(Transport[NfsSpec]):
    Spec = NfsSpec
    living = True
    packages = ("nfs-kernel-server", "nfs-common", "e2fsprogs", "xfsprogs")
    programs = ("rpcbind", "rpc.nfsd", "rpc.mountd", "exportfs", "mount.nfs", "mkfs.ext4", "mkfs.xfs")
    modules = ("nfsd", "nfs", "nfsv4", "nfsv3", "ext4", "xfs")
    stores_files = True

    def problems(self, ground: Ground) -> Iterable[FairlaneError]:
        version, nconnect = self.spec.version, self.spec.nconnect
        if not ground.keeps and not self.spec.external:
            yield self.problem(
                "medium-kept",
                "NFS stores its volume in a file system, but the modelled medium discards writes",
                hint=NO_MEDIUM_KEPT,
            )
        for other, lane in ground.lanes.items():
            if isinstance(lane, NfsSpec) and lane.version == version and lane.nconnect > nconnect:
                yield self.problem(
                    "nfs-shared-connections",
                    f"NFSv{version} shares connections with lane {other}, which has nconnect: {lane.nconnect}",
                    hint="set the same nconnect in both lanes, or different versions",
                    key="nconnect",
                )

    def medium_size(self) -> int:
        """Room for the file system's journal and tables; mkfs.xfs makes none below 300 MiB (xfsprogs 5.19 and on)."""
        needed = self.site.size + self.site.size // 16 + 64 * _MIB
        return max(needed, 320 * _MIB) if self.spec.filesystem == "xfs" else needed

    @property
    def _share(self) -> str:
        """Mount point and export on the server."""
        return f"/srv/fairlane/{self.name}"

    @property
    def _mount(self) -> str:
        """Mount point in the guest."""
        return f"/run/fairlane/nfs/{self.name}"

    @property
    def _device(self) -> str:
        """The share as mounted by the guest."""
        return f"{self.site.address}:{self._share}"

    def steps(self) -> tuple[Step, ...]:
        if self.spec.external:
            return self._external_steps(self._external_share(self.spec.external))
        if self.site.living:
            raise self.problem(
                "nfs-own-server",
                "NFS needs an existing server: Fairlane starts no server on your machines",
                hint="give the lane external: {server: ..., share: ...}",
                key="external",
            )
        return (self._file(), self._server(), self._export(), self._connect())

    def _file(self) -> Step:
        """The file system on the medium, with the volume's file."""
        spec, share, medium, size = self.spec, self._share, self.site.medium, self.site.size
        make = _MKFS[spec.filesystem]
        file = f"{share}/{self.name}.img"
        allocate = f"truncate -s {size} {file}" if spec.sparse else f"fallocate -l {size} {file}"
        return Step(
            name=f"a file for {self.name} in {spec.filesystem} on the medium",
            place="target",
            apply=f"""
guard_own {medium}
{make} {medium}
mkdir -p {share}
mount -t {spec.filesystem} -o noatime {medium} {share}
{allocate}
sync -f {share}
""",
            describe=f"""
row target.filesystem "$(grep " {share} " /proc/mounts | cut -d' ' -f3)"
row target.filesystem_options "$(grep " {share} " /proc/mounts | cut -d' ' -f4)"
row target.file_bytes "$(stat -c %s {file})"
row target.file_full "$([ "$(($(stat -c %b {file}) * 512))" -ge {size} ] && echo 1 || echo 0)"
""",
            remove=f"""
umount {share}
rmdir {share}
wipefs -q -a {medium}
""",
            expect={
                "target.filesystem": spec.filesystem,
                "target.file_bytes": str(size),
            },
        )

    def _server(self) -> Step:
        """knfsd and its helpers, once per machine, with the largest thread count of all lanes; the last export removes
        them.

        Its largest I/O depends on the machine's memory unless set, which needs all threads stopped (kernel:
        fs/nfsd/nfsctl.c). No client has state to reclaim yet, so the grace period is ended at once; clients would wait
        for it.
        """
        return Step(
            name="start knfsd",
            place="target",
            apply=f"""
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
pidof rpcbind > /dev/null || rpcbind -w
threads=$(cat /proc/fs/nfsd/threads)
if [ "$threads" -eq 0 ]; then
  echo {_LARGEST} > /proc/fs/nfsd/max_block_size
  rpc.nfsd --grace-time 10 --lease-time 10 {self.spec.threads}
  echo Y > /proc/fs/nfsd/v4_end_grace
elif [ "$threads" -lt {self.spec.threads} ]; then
  echo {self.spec.threads} > /proc/fs/nfsd/threads
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

    def _export(self) -> Step:
        """One client's network may mount the share as root, the user of the lab's guests."""
        share, sync = self._share, "sync" if self.spec.sync else "async"
        network = f"{self.site.address.rsplit('.', 1)[0]}.0/24"
        options = f"rw,{sync},no_subtree_check,no_root_squash,insecure,fsid={self.site.index + 1}"
        listed = f"exportfs -v | tr '\\n' ' ' | grep -o '{share}[[:space:]]*{network}([^)]*)'"
        return Step(
            name=f"export {self.name} through knfsd",
            place="target",
            apply=f"exportfs -o {options} {network}:{share}",
            describe=f"""
row target.export "$({listed} | tr -s ' \\t' ' ')"
row target.sync "$({listed} | grep -c '[(,]sync[,)]')"
""",
            remove=f"exportfs -u {network}:{share}",
            expect={"target.sync": str(int(self.spec.sync))},
        )

    def _options(self) -> str:
        spec = self.spec
        sizes = "".join(f",{key}={getattr(spec, key)}" for key in ("rsize", "wsize") if spec.sized(key))
        # v3: one client per file, so that no lock manager is needed
        return (
            f"vers={spec.version},proto=tcp,hard,noatime,nconnect={spec.nconnect}{sizes}"
            f"{',nolock' if spec.version == '3' else ''}"
        )

    def _external_share(self, outside: NfsExternal) -> Share:
        options = ",".join((self._options(), *outside.options))
        before = living.modules("nfs", "nfsv3" if self.spec.version == "3" else "nfsv4")
        source = f"{outside.server}:{outside.share}"
        return Share(self.site, self.title, "nfs", source, options, outside.folder, before)

    def _external_steps(self, share: Share) -> tuple[Step, ...]:
        spec, at = self.spec, share.at
        shared = f"""\
{_connections(at)}[ $connections -eq {spec.nconnect} ] ||
  fail "{share.source} has $connections connections, shared with other NFSv{spec.version} mounts of the server: set \
nconnect: $connections, or another version"
"""
        expect = {
            "nfs.mounted": share.source,
            "nfs.vers": spec.version,
            "nfs.proto": "tcp",
            "nfs.hard": "1",
            "nfs.connections": str(spec.nconnect),
            **{f"nfs.{key}": str(getattr(spec, key)) for key in ("rsize", "wsize") if spec.sized(key)},
        }
        name = f"mount {self.name} over NFSv{spec.version}"
        return (share.mounting(name, shared, _rows(at), expect), share.making(sparse=spec.sparse))

    def _connect(self) -> Step:
        spec, mount, file = self.spec, self._mount, f"{self._mount}/{self.name}.img"
        return Step(
            name=f"mount {self.name} over NFSv{spec.version}",
            place="initiator",
            session=True,
            apply=f"""
mkdir -p {mount}
mount -t nfs -o {self._options()} {self._device} {mount}
""",
            describe=f"""{_rows(mount)}\
row file.bytes "$(stat -c %s {file})"
row file.allocated "$(($(stat -c %b {file}) * 512))"
""",
            remove=f"""
umount {mount}
rmdir {mount}
""",
            expect={
                "nfs.mounted": self._device,
                "nfs.vers": spec.version,
                "nfs.proto": "tcp",
                "nfs.rsize": str(spec.rsize),
                "nfs.wsize": str(spec.wsize),
                "nfs.hard": "1",
                "nfs.connections": str(spec.nconnect),
                "file.bytes": str(self.site.size),
            },
        )

    def find(self) -> str:
        """The file, if its share is this lane's."""
        if self.spec.external:
            return self._external_share(self.spec.external).find()
        file = f"{self._mount}/{self.name}.img"
        return f'grep -q "^{self._device} {self._mount} nfs" /proc/mounts && [ -f {file} ] && echo {file}; true'

    def path(self) -> tuple[str, ...]:
        if outside := self.spec.external:
            return ("fio", f"NFSv{self.spec.version}", f"TCP {outside.server}", f"external {outside.share}")
        link, file = f"TCP {self.site.interface}", f"{self.spec.filesystem} file"
        return ("fio", f"NFSv{self.spec.version}", link, "knfsd", file, self.site.medium)


def _connections(mount: str) -> str:
    """Shell that sets ``$connections`` to the number of TCP connections below a mount."""
    return f"""\
inside=0 connections=0
while read -r word rest; do
  case $word in
    device) inside=0; case $rest in *" mounted on {mount} "*) inside=1 ;; esac ;;
    xprt:) connections=$((connections + inside)) ;;
  esac
done < /proc/self/mountstats
"""


def _rows(mount: str) -> str:
    """Shell that describes a mount."""
    return f"""
row initiator.kind "nfs $(uname -r)"
options=$(grep " {mount} nfs" /proc/mounts | cut -d' ' -f4 | tr , '\\n')
row nfs.mounted "$(grep " {mount} nfs" /proc/mounts | cut -d' ' -f1)"
for k in vers proto rsize wsize timeo retrans sec; do
  row nfs.$k "$(echo "$options" | grep "^$k=" | cut -d= -f2)"
done
row nfs.hard "$(echo "$options" | grep -c '^hard$')"
{_connections(mount)}row nfs.connections $connections
"""


PLUGIN = Nfs
