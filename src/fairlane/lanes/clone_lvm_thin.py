"""Clones that are thin snapshots on the array (dm-thin: the kernel's Documentation/admin-guide/device-mapper/
thin-provisioning.rst), each a LUN of one iSCSI target (LIO) that QEMU's own initiator opens."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes._clones import Clone, CloneLane, Cloning
from fairlane.lanes.base import Ground, Site, Step
from fairlane.lanes.iscsi import QEMU_ISCSI

_PORT = 3260
_TARGET = "/sys/kernel/config/target"


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


def _group(site: Site) -> str:
    return f"fairlane{site.index}"


def _portals(name: str) -> str:
    return f"{_TARGET}/iscsi/{_iqn(name)}/tpgt_1"


def _iqn(name: str) -> str:
    return f"iqn.2026-01.dev.fairlane:{name}"


class CloneLvmThin(Cloning[CloneLvmThinSpec]):
    Spec = CloneLvmThinSpec
    driver: ClassVar[Mapping[str, str]] = QEMU_ISCSI
    packages = ("lvm2", "thin-provisioning-tools")
    modules: ClassVar[tuple[str, ...]] = ("dm_thin_pool", "target_core_mod", "target_core_iblock", "iscsi_target_mod")

    def steps(self, name: str, spec: CloneLvmThinSpec, site: Site) -> tuple[Step, ...]:
        group, portals = _group(site), _portals(name)
        golden = Step(
            name=f"the golden image of {name} in a thin pool",
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
            name=f"a target for the clones of {name}",
            place="target",
            apply=f"""
mkdir -p /etc/target {_TARGET}/core/iblock_{site.index} {portals}/np/{site.address}:{self.port(spec, site)}
cd {portals}
echo 1 > attrib/generate_node_acls
echo 0 > attrib/demo_mode_write_protect
echo 0 > attrib/authentication
echo 1 > enable
""",
            describe=f"""
row target.kind "LIO $(cat {_TARGET}/version)"
row target.portal "$(ls {portals}/np)"
row target.enabled "$(cat {portals}/enable)"
""",
            remove=f"""
echo 0 > {portals}/enable
rmdir {portals}/np/* {portals} {_TARGET}/iscsi/{_iqn(name)} {_TARGET}/core/iblock_{site.index}
""",
            expect={"target.enabled": "1"},
        )
        return golden, export

    def problems(self, name: str, spec: CloneLvmThinSpec, ground: Ground) -> list[FairlaneError]:  # noqa: ARG002
        if ground.keeps:
            return []
        return [
            FairlaneError(
                "a thin pool needs a medium that keeps what is written",
                where=f"lanes.{name}",
                hint="platform: {medium: {file: true}}",
            )
        ]

    def medium_size(self, spec: CloneLvmThinSpec, size: int) -> int:  # noqa: ARG002
        return size + size // 4

    def clone(self, name: str, spec: CloneLvmThinSpec, site: Site, number: int) -> Clone:  # noqa: ARG002
        group, volume = _group(site), f"clone{number}"
        store, lun = f"{_TARGET}/core/iblock_{site.index}/{name}-{number}", f"{_portals(name)}/lun/lun_{number}"
        step = Step(
            name=f"snapshot and export clone {number} of {name}",
            place="target",
            # -kn -ay: thin snapshots are made inactive otherwise
            apply=f"""
lvcreate -q -y -s -kn -ay -n {volume} {group}/golden > /dev/null
mkdir {store}
echo udev_path=/dev/{group}/{volume} > {store}/control
echo {name}-{number} > {store}/wwn/vpd_unit_serial
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
        backend = {
            "driver": "iscsi",
            "transport": "tcp",
            "portal": site.reach,
            "target": _iqn(name),
            "lun": number,
            "initiator-name": f"iqn.2026-01.dev.fairlane:{name}-{number}",
        }
        return Clone(step, backend)

    def read_golden(self, name: str, spec: CloneLvmThinSpec, site: Site) -> Step:  # noqa: ARG002
        return Step(
            "read the golden image", "target", f"dd if=/dev/{_group(site)}/golden of=/dev/null bs=1M 2> /dev/null"
        )

    def port(self, spec: CloneLvmThinSpec, site: Site) -> int:  # noqa: ARG002
        return _PORT + site.index

    def path(self, name: str, spec: CloneLvmThinSpec, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        return ("clone", "virtio-blk", "QEMU's iscsi", f"TCP {site.reach} (forwarded)", "LIO", "dm-thin", site.medium)


PLUGIN = CloneLvmThin()
