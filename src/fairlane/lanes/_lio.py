"""Shared by transports whose target is LIO, the kernel's SCSI target: the backstore, and the unit serial number that
identifies the LUN. Not a transport.

LIO: Documentation/target of the kernel.
"""

from typing import Any, TypeVar
from zlib import crc32

from fairlane.lanes import _living as living
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
    """The medium as backstore of a LUN. In a derived class's shell, ``$T`` is LIO's folder after ``_make_store``.

    On a machine with targets of somebody's (``Site.living``) names and the adapter's number follow from the run's id,
    and one initiator is let in. Nothing is saved: a ``targetcli saveconfig`` during the run would save it."""

    exclusive = True

    @property
    def serial(self) -> str:
        """Unit serial number of the LUN (VPD page 0x80)."""
        run = self.site.run if self.site.living else ""  # LIO makes the WWID of the hexadecimal digits alone
        return f"fairlane-{run}{self.site.index:02d}-{self.name}"

    @property
    def host(self) -> str:
        """Name of the initiator on a machine that belongs to somebody; its own stays unused."""
        return iqn(f"{self.site.run}-host{self.site.host}")

    @property
    def adapter(self) -> str:
        """Folder of the backstore's adapter in ``$T``."""
        number = self.site.index
        if self.site.living:  # far above those that targetcli counts; 32 bits
            number += 10**8 + crc32(self.site.run.encode()) % 10**6 * 1000
        return f"core/iblock_{number}"

    @property
    def store(self) -> str:
        """Folder of the backstore in ``$T``."""
        return f"{self.adapter}/{self.title}"

    def _make_store(self) -> str:
        if self.site.living:
            modules = living.configfs("target_core_mod", "target_core_iblock", "iscsi_target_mod")
            return f"""
{living.head(self.site.run)}{modules}[ -d /etc/target ] || {{ mkdir /etc/target; : > $L/target.made; }}
T={CONFIG}
[ ! -e $T/{self.adapter} ] || fail 'LIO already has {self.adapter}'
mkdir -p $T/{self.store} && cd $T/{self.store}
echo udev_path={self.site.medium} > control
echo {self.serial} > wwn/vpd_unit_serial
echo 1 > enable
"""
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
        if self.site.living:
            return f"""\
gone $T/{self.store} $T/{self.adapter}
if [ -e $L/target.made ]; then
  rmdir /etc/target 2> /dev/null || :
  rm -f $L/target.made
fi
{living.tail(self.site.run)}"""
        return f"rmdir $T/{self.store} $T/{self.adapter}\n"

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


def one_initiator(name: str, tpg: str, *, chap: bool) -> str:
    """Shell that lets one initiator write to LUN 0 of an iSCSI target portal group, the current folder ``tpg``."""
    return f"""\
echo 0 > attrib/generate_node_acls
echo {int(chap)} > attrib/authentication
mkdir -p acls/{name}/lun_0
ln -s {tpg}/lun/lun_0 acls/{name}/lun_0/lun
"""


def qemu_iscsi(portal: str, target: str, lun: int, initiator: str) -> dict[str, Any]:
    """QEMU's block node of a LUN, with its iscsi driver (libiscsi)."""
    return {"driver": "iscsi", "transport": "tcp", "portal": portal, "target": iqn(target), "lun": lun,
            "initiator-name": iqn(initiator)}  # fmt: skip
