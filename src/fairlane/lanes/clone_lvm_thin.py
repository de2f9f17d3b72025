"""Clones that are thin snapshots on the array (dm-thin: the kernel's Documentation/admin-guide/device-mapper/
thin-provisioning.rst), each a LUN of one iSCSI target (LIO) that QEMU's own initiator opens."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes._clones import Clone, CloneLane, Cloning
from fairlane.lanes._lio import CONFIG, ISCSI_PORT, QEMU_ISCSI, any_initiator, iqn, qemu_iscsi
from fairlane.lanes.base import Ground, Step


class CloneLvmThinSpec(CloneLane):
    """Golden image as a thin volume of the array, cloned by snapshots, exported through iSCSI."""

    transport: Literal["clone_lvm_thin"]
    """A thin snapshot on the array."""

    def known(self) -> Mapping[str, Any]:
        return {
            **super().known(),
            "path_settings": "QEMU's iSCSI initiator, a session per clone",
            "aio": NONE,
            "volume_mode": "device",
            "provisioning": "thin snapshot, copied on write by the array",
        }


class CloneLvmThin(Cloning[CloneLvmThinSpec]):
    Spec = CloneLvmThinSpec
    driver = QEMU_ISCSI
    first_port = ISCSI_PORT
    packages = ("lvm2", "thin-provisioning-tools")
    modules = ("dm_thin_pool", "target_core_mod", "target_core_iblock", "iscsi_target_mod")

    @property
    def _group(self) -> str:
        """The volume group."""
        return f"fairlane{self.site.index}"

    @property
    def _store(self) -> str:
        """Folder of the clones' backstores."""
        return f"{CONFIG}/core/iblock_{self.site.index}"

    @property
    def _portals(self) -> str:
        """Folder of the one target portal group."""
        return f"{CONFIG}/iscsi/{iqn(self.name)}/tpgt_1"

    def steps(self) -> tuple[Step, ...]:
        site, group, portals, store = self.site, self._group, self._portals, self._store
        golden = Step(
            name=f"the golden image of {self.name} in a thin pool",
            place="target",
            apply=f"""
guard_own {site.medium}
pvcreate -q -y {site.medium} > /dev/null
vgcreate -q {group} {site.medium} > /dev/null
lvcreate -q -y --type thin-pool -l 90%FREE -n pool {group} > /dev/null
lvcreate -q -y -V {site.size}b --thinpool pool -n golden {group} > /dev/null
dd if={site.golden} of=/dev/{group}/golden bs=1M conv=sparse,fsync 2> /dev/null
""",
            describe=f"""
row pool.chunk "$(lvs --noheadings -o chunk_size {group}/pool | tr -d ' ')"
row pool.zero "$(lvs --noheadings -o zero {group}/pool | tr -d ' ')"
row golden.allocated_percent "$(lvs --noheadings -o data_percent {group}/golden | tr -d ' ')"
""",
            remove=f"vgremove -q -f -y {group} > /dev/null\npvremove -q -y {site.medium} > /dev/null",
        )
        export = Step(
            name=f"a target for the clones of {self.name}",
            place="target",
            apply=f"""
mkdir -p /etc/target {store} {portals}/np/{site.address}:{self.port}
cd {portals}
{any_initiator()}echo 1 > enable
""",
            describe=f"""
row target.kind "LIO $(cat {CONFIG}/version)"
row target.portal "$(ls {portals}/np)"
row target.enabled "$(cat {portals}/enable)"
""",
            remove=f"""
echo 0 > {portals}/enable
rmdir {portals}/np/* {portals} {CONFIG}/iscsi/{iqn(self.name)} {store}
""",
            expect={"target.enabled": "1"},
        )
        return golden, export

    def problems(self, ground: Ground) -> Iterable[FairlaneError]:
        if not ground.keeps:
            yield FairlaneError(
                "medium-kept",
                "a thin pool needs a medium that stores writes",
                where=f"lanes.{self.name}",
                hint="set platform: {medium: {file: true}}",
            )

    def medium_size(self) -> int:
        return self.site.size + self.site.size // 4

    def clone(self, number: int) -> Clone:
        group, volume, own = self._group, f"clone{number}", f"{self.name}-{number}"
        store, lun = f"{self._store}/{own}", f"{self._portals}/lun/lun_{number}"
        step = Step(
            name=f"snapshot and export clone {number} of {self.name}",
            place="target",
            # -kn -ay: thin snapshots are inactive by default
            apply=f"""
lvcreate -q -y -s -kn -ay -n {volume} {group}/golden > /dev/null
mkdir {store}
echo udev_path=/dev/{group}/{volume} > {store}/control
echo {own} > {store}/wwn/vpd_unit_serial
echo 1 > {store}/enable
mkdir {lun}
ln -s {store} {lun}/medium
""",
            remove=f"""
[ ! -e {lun}/medium ] || rm {lun}/medium
[ ! -d {lun} ] || rmdir {lun}
[ ! -d {store} ] || rmdir {store}
if lvs {group}/{volume} > /dev/null 2>&1; then lvremove -q -f -y {group}/{volume} > /dev/null; fi
""",
        )
        return Clone(step, qemu_iscsi(self.site.reach, self.name, number, own))

    def read_golden(self) -> Step:
        reading = f"dd if=/dev/{self._group}/golden of=/dev/null bs=1M 2> /dev/null"
        return Step("read the golden image", "target", reading)

    def path(self) -> tuple[str, ...]:
        link = f"TCP {self.site.reach} (forwarded)"
        return ("clone", "virtio-blk", "QEMU's iscsi", link, "LIO", "dm-thin", self.site.medium)


PLUGIN = CloneLvmThin
