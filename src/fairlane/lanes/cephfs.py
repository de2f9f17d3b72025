"""CephFS: a file in a file system that the hypervisor has mounted with ceph-fuse, or a machine's kernel.

In the lab the file is given to the guest as a raw disk, which equals a filesystem-mode volume of a Kubernetes cluster:
a subvolume with a file in it, opened by QEMU. The platform keeps the mount at ``fs`` in ``Site.cluster``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from fairlane.guard.values import NONE
from fairlane.lanes import _living as living
from fairlane.lanes._ceph import CephExternal, CephSpec, CephTransport
from fairlane.lanes._external import Folder, Name, Server
from fairlane.lanes._share import ExternalShare, Share
from fairlane.lanes.base import Step
from fairlane.study.base import LaneSpec

_OBJECT = 4 * 2**20
"""CephFS splits files into objects of 4 MiB by default."""


class CephfsExternal(CephExternal, ExternalShare):
    """An existing file system, mounted by the machine's kernel; the volume's file is created in it and removed."""

    monitors: Annotated[tuple[Server, ...], Field(max_length=16)] = ()
    """Monitors, HOST or HOST's address; not given: those of ``conf``."""
    path: Folder = "/"
    """Path in the file system that is mounted."""
    filesystem: Name | None = None
    """Name of the file system; not given: the cluster's default."""
    secretfile: Folder | None = None
    """File on the machine that holds only the user's key. Default: the keyring named in ``conf``."""


class CephfsSpec(CephSpec):
    """CephFS (ceph-fuse on the hypervisor)."""

    transport: Literal["cephfs"]
    """A file in CephFS."""
    external: CephfsExternal | None = None
    """An existing file system."""

    @property
    def existing(self) -> str:
        return ""

    def known(self) -> Mapping[str, Any]:
        if self.external:
            return {
                **LaneSpec.known(self),
                **self.external.known(),
                "backend": f"external CephFS {self.external.path}",
                "multipath": NONE,
                "volume_mode": "file in a share",
                "path_settings": ", ".join(("kernel client", *self.external.options)),
            }
        return {
            **super().known(),
            "backend": f"CephFS, {self.redundancy_text}",
            "volume_mode": "Filesystem",
            "path_settings": ", ".join(("ceph-fuse", *self.settings)),
        }


class Cephfs(CephTransport[CephfsSpec]):
    Spec = CephfsSpec
    living = True
    backing = "cephfs"
    kind = "cephfs"

    def steps(self) -> tuple[Step, ...]:
        if outside := self.spec.external:
            share = self._share(outside)
            rows = f"""
row initiator.kind "ceph $(uname -r)"
row ceph.mounted "$(grep " {share.at} ceph" /proc/mounts | cut -d' ' -f1)"
row ceph.options "$(grep " {share.at} ceph" /proc/mounts | cut -d' ' -f4 | sed 's/secret=[^,]*/secret=hidden/')"
"""
            mount = share.mounting(f"mount {self.name} with the kernel's ceph", "", rows, {})
            return (mount, share.making(sparse=False))
        return (self._make_pool(f"ceph fs add_data_pool cephfs {self.pool}"), self._file())

    @property
    def stores_files(self) -> bool:  # type: ignore[override] # in the lab the file is the guest's disk
        return bool(self.spec.external)

    def _share(self, outside: CephfsExternal) -> Share:
        options = [f"name={outside.user}", f"conf={outside.conf}", "noatime"]
        options += [f"fs={outside.filesystem}"] if outside.filesystem else []
        options += [f"secretfile={outside.secretfile}"] if outside.secretfile else []
        source = f"{','.join(outside.monitors)}:{outside.path}"
        options += outside.options
        return Share(self.site, self.title, "ceph", source, ",".join(options), outside.folder, living.modules("ceph"))

    def find(self) -> str:
        return self._share(self.spec.external).find() if self.spec.external else super().find()

    @property
    def _link(self) -> str:
        """Link to the volume's file, whose real path contains a name chosen by Ceph."""
        return f"{self.site.cluster}/{self.name}.disk"

    def _file(self) -> Step:
        name, site, link = self.name, self.site, self._link
        return self._step(
            f"make the file of {name}",
            f"""
ceph fs subvolume create cephfs {name} --size {site.size} --pool_layout {self.pool}
where={site.cluster}/fs$(ceph fs subvolume getpath cephfs {name})
truncate -s {site.size} "$where/disk"
ln -s "$where/disk" {link}
""",
            f"""
attribute() {{ python3 -c 'import os, sys; print(os.getxattr(*sys.argv[1:]).decode())' {link} "$1"; }}
row mount.kind "$(findmnt -n -o FSTYPE -T "$(readlink -f {link})")"
row file.bytes "$(stat -L -c %s {link})"
row file.pool "$(attribute ceph.file.layout.pool)"
row file.object_size "$(attribute ceph.file.layout.object_size)"
objects=$(rados -p {self.pool} ls | grep -c "^$(printf %x "$(stat -L -c %i {link})")\\." || :)
row medium.allocated_bytes $((objects * {_OBJECT}))
""",
            f"rm {link}\nceph fs subvolume rm cephfs {name}\n",
            expect={
                "mount.kind": "fuse.ceph-fuse",
                "file.bytes": str(site.size),
                "file.pool": self.pool,
                "file.object_size": str(_OBJECT),
            },
        )

    def backend(self) -> Mapping[str, Any]:
        return {"driver": "file", "filename": self._link}

    def path(self) -> tuple[str, ...]:
        if self.spec.external:
            return ("fio", "kernel's ceph", "TCP", f"external CephFS {self.spec.external.path}")
        return ("fio", "QEMU", "file", "FUSE", "ceph-fuse", "TCP lo", "OSD", f"{self.spec.redundancy_text} on OSDs")


PLUGIN = Cephfs
