"""CephFS: a file in a file system that the hypervisor has mounted with ceph-fuse, given to the guest as a raw disk.

Equals a filesystem-mode volume of a Kubernetes cluster: a subvolume with a file in it, opened by QEMU. The platform
keeps the mount at ``fs`` in ``Site.cluster``.
"""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.lanes._ceph import CephSpec, CephTransport
from fairlane.lanes.base import Step

_OBJECT = 4 * 2**20
"""CephFS splits files into objects of 4 MiB by default."""


class CephfsSpec(CephSpec):
    """CephFS (ceph-fuse on the hypervisor)."""

    transport: Literal["cephfs"]
    """A file in CephFS."""

    def known(self) -> Mapping[str, Any]:
        return {
            **super().known(),
            "backend": f"CephFS, {self.redundancy_text}",
            "volume_mode": "Filesystem",
            "path_settings": ", ".join(("ceph-fuse", *self.settings)),
        }


class Cephfs(CephTransport[CephfsSpec]):
    Spec = CephfsSpec
    backing = "cephfs"
    kind = "cephfs"

    def steps(self) -> tuple[Step, ...]:
        return (self._make_pool(f"ceph fs add_data_pool cephfs {self.pool}"), self._file())

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
        return ("fio", "QEMU", "file", "FUSE", "ceph-fuse", "TCP lo", "OSD", f"{self.spec.redundancy_text} on OSDs")


PLUGIN = Cephfs
