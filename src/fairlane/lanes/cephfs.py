"""CephFS: a file in a file system that the hypervisor has mounted with ceph-fuse, given to the guest as a raw disk.

It is what a filesystem-mode volume of a Kubernetes cluster is: a subvolume with a file in it, opened by QEMU. The
platform keeps the mount at ``fs`` in ``Site.cluster``.
"""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.lanes import _ceph as ceph
from fairlane.lanes._ceph import CephSpec, CephTransport
from fairlane.lanes.base import Site, Step

_OBJECT = 4 * 2**20
"""CephFS cuts files into objects of 4 MiB unless their layout says otherwise."""


class CephfsSpec(CephSpec):
    """CephFS (ceph-fuse on the hypervisor)."""

    transport: Literal["cephfs"]
    """A file in CephFS."""

    def known(self) -> Mapping[str, Any]:
        return {
            **super().known(),
            "backend": f"CephFS, {self.told}",
            "volume_mode": "Filesystem",
            "path_settings": ", ".join(("ceph-fuse", *self.settings)),
        }


class Cephfs(CephTransport[CephfsSpec]):
    Spec = CephfsSpec
    cluster = "cephfs"

    def steps(self, name: str, spec: CephfsSpec, site: Site) -> tuple[Step, ...]:
        data = spec.pool("cephfs")
        pool = Step(
            name=f"make the data pool of {name}",
            place="hypervisor",
            apply=ceph.use(site) + ceph.make_pool(spec, data, f"ceph fs add_data_pool cephfs {data}"),
            describe=ceph.use(site) + ceph.describe_pool(spec, data),
            expect=ceph.expected_pool(spec),
        )
        return (pool, self._file(name, spec, site))

    def _file(self, name: str, spec: CephfsSpec, site: Site) -> Step:
        data, file = spec.pool("cephfs"), _file(name, site)
        return Step(
            name=f"make the file of {name}",
            place="hypervisor",
            apply=ceph.use(site)
            + f"""
ceph fs subvolume create cephfs {name} --size {site.size} --pool_layout {data}
where={site.cluster}/fs$(ceph fs subvolume getpath cephfs {name})
truncate -s {site.size} "$where/disk"
ln -s "$where/disk" {file}
""",
            describe=ceph.use(site)
            + f"""
attribute() {{ python3 -c 'import os, sys; print(os.getxattr(*sys.argv[1:]).decode())' {file} "$1"; }}
row mount.kind "$(findmnt -n -o FSTYPE -T "$(readlink -f {file})")"
row file.bytes "$(stat -L -c %s {file})"
row file.pool "$(attribute ceph.file.layout.pool)"
row file.object_size "$(attribute ceph.file.layout.object_size)"
objects=$(rados -p {data} ls | grep -c "^$(printf %x "$(stat -L -c %i {file})")\\." || :)
row medium.allocated_bytes $((objects * {_OBJECT}))
""",
            remove=ceph.use(site) + f"rm {file}\nceph fs subvolume rm cephfs {name}\n",
            expect={
                "mount.kind": "fuse.ceph-fuse",
                "file.bytes": str(site.size),
                "file.pool": data,
                "file.object_size": str(_OBJECT),
            },
        )

    def backend(self, name: str, spec: CephfsSpec, site: Site) -> Mapping[str, Any]:  # noqa: ARG002
        return {"driver": "file", "filename": _file(name, site)}

    def path(self, name: str, spec: CephfsSpec, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        return ("fio", "QEMU", "file", "FUSE", "ceph-fuse", "TCP lo", "OSD", f"{spec.told} on OSDs")


def _file(name: str, site: Site) -> str:
    """Link to the volume's file, whose own path has a name of Ceph's choice in it."""
    return f"{site.cluster}/{name}.disk"


PLUGIN = Cephfs()
