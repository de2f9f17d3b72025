"""Shared by transports whose target is LIO, the kernel's SCSI target: the backstore, and the unit serial number that
identifies the LUN. Not a transport.

LIO: Documentation/target of the kernel.
"""

from typing import Any, TypeVar

from fairlane.lanes.base import Transport
from fairlane.study.base import LaneSpec

CONFIG = "/sys/kernel/config/target"
ISCSI_PORT = 3260
QEMU_ISCSI = {
    "driver": "iscsi",
    "transport": "tcp",
    "portal": "127.0.0.1:1",
    "target": "iqn.2026-01.dev.fairlane:probe",
}
"""QEMU's own iSCSI initiator (``Transport.driver``), where nothing listens."""

SpecT = TypeVar("SpecT", bound=LaneSpec)


class Lio(Transport[SpecT]):
    """The medium as backstore of a LUN. In a derived class's shell, ``$T`` is LIO's folder after ``_make_store``."""

    exclusive = True

    @property
    def serial(self) -> str:
        """Unit serial number of the LUN (VPD page 0x80)."""
        return f"fairlane-{self.site.index:02d}-{self.name}"

    @property
    def store(self) -> str:
        """Folder of the backstore in ``$T``."""
        return f"core/iblock_{self.site.index}/{self.name}"

    def _make_store(self) -> str:
        return f"""
mkdir -p /etc/target
T={CONFIG}
mkdir -p $T/{self.store} && cd $T/{self.store}
echo udev_path={self.site.medium} > control
echo {self.serial} > wwn/vpd_unit_serial
echo 1 > enable
"""

    def _store_rows(self, lun: str) -> str:
        return f"""\
row target.write_cache "$(cat lun/{lun}/medium/attrib/emulate_write_cache)"
row target.queue_depth "$(cat lun/{lun}/medium/attrib/queue_depth)"
"""

    def _remove_store(self) -> str:
        return f"rmdir $T/{self.store} $T/core/iblock_{self.site.index}\n"

    def find(self) -> str:
        return (
            "for v in /sys/block/sd*/device/vpd_pg80; do [ -e $v ] || continue; "
            f'tr -d "\\0" < $v | grep -q {self.serial} && v=${{v#/sys/block/}} && echo /dev/${{v%%/*}}; done; true'
        )


DISK_ROWS = """\
row scsi.queue_depth "$(cat /sys/block/${d#/dev/}/device/queue_depth)"
row block.nr_hw_queues "$(ls /sys/block/${d#/dev/}/mq | wc -l)"
row block.nr_requests "$(cat /sys/block/${d#/dev/}/queue/nr_requests)"
row block.scheduler "$(cat /sys/block/${d#/dev/}/queue/scheduler)"
row block.max_sectors_kb "$(cat /sys/block/${d#/dev/}/queue/max_sectors_kb)"
"""
"""Shell that describes the SCSI disk ``$d`` of the initiator."""


def iqn(name: str) -> str:
    """Name of one of Fairlane's iSCSI targets or initiators."""
    return f"iqn.2026-01.dev.fairlane:{name}"


def any_initiator(*, chap: bool = False) -> str:
    """Shell that lets every initiator write to an iSCSI target portal group, the current folder."""
    return f"""\
echo 1 > attrib/generate_node_acls
echo 0 > attrib/demo_mode_write_protect
echo {int(chap)} > attrib/authentication
"""


def qemu_iscsi(portal: str, target: str, lun: int, initiator: str) -> dict[str, Any]:
    """QEMU's block node of a LUN, with its iscsi driver (libiscsi)."""
    return {"driver": "iscsi", "transport": "tcp", "portal": portal, "target": iqn(target), "lun": lun,
            "initiator-name": iqn(initiator)}  # fmt: skip
