"""iSCSI: LIO on the target (through configfs), open-iscsi on the initiator.

LIO: Documentation/target of the kernel; open-iscsi: its README. The kernel's initiator works in the initial network
namespace only. Several sessions are joined by device-mapper multipath, round robin, one I/O per path in turn.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fairlane.lanes.base import Site, Step, Transport, digests
from fairlane.study.base import LaneSpec
from fairlane.study.values import NONE

_PORT = 3260


class IscsiSpec(LaneSpec):
    """iSCSI (LIO target, open-iscsi initiator)."""

    transport: Literal["iscsi"]
    """iSCSI over TCP."""
    sessions: int = Field(default=1, ge=1, le=16)
    """Sessions to the portal (study 001's tuning); more than one are joined by dm-multipath, round robin."""
    chap: bool = False
    """One-way CHAP with a secret made per run; it never enters the run directory."""
    header_digest: bool = False
    """CRC32C over headers."""
    data_digest: bool = False
    """CRC32C over data."""
    initiators = ("guest", "hypervisor")

    @model_validator(mode="after")
    def _of_qemu(self) -> Self:
        if self.initiator == "hypervisor" and (self.sessions > 1 or self.data_digest):
            key = "sessions" if self.sessions > 1 else "data_digest"
            raise ValueError(f"{key}: QEMU's initiator has one session and no data digest; leave {key} away")
        return self

    def known(self) -> Mapping[str, Any]:
        several = self.sessions > 1
        settings = [f"{self.sessions} session{'s' * several}", *(["CHAP"] * self.chap), *digests(self)]
        return {
            **super().known(),
            "multipath": f"dm-multipath, round robin over {self.sessions} sessions" if several else NONE,
            "path_settings": ", ".join(settings),
        }


def _iqn(name: str) -> str:
    return f"iqn.2026-01.dev.fairlane:{name}"


def _serial(name: str, site: Site) -> str:
    return f"fairlane-{site.index:02d}-{name}"


class Iscsi(Transport[IscsiSpec]):
    Spec = IscsiSpec
    virtual = True
    packages = ("open-iscsi", "dmsetup")
    programs = ("iscsid", "iscsiadm", "dmsetup")
    modules: ClassVar[tuple[str, ...]] = (
        "target_core_mod", "target_core_iblock", "iscsi_target_mod", "sd_mod", "iscsi_tcp", "crc32c_intel",
        "dm_multipath", "dm_round_robin",
    )  # fmt: skip

    def steps(self, name: str, spec: IscsiSpec, site: Site) -> tuple[Step, ...]:
        return (self._export(name, spec, site), _daemon(), self._connect(name, spec, site))

    def _export(self, name: str, spec: IscsiSpec, site: Site) -> Step:
        iqn, port = _iqn(name), _PORT + site.index
        auth = f"printf %s fairlane > auth/userid; printf %s {site.secret} > auth/password" if spec.chap else ":"
        return Step(
            name=f"export {name} through LIO",
            place="target",
            apply=f"""
mkdir -p /etc/target
T=/sys/kernel/config/target
mkdir -p $T/core/iblock_{site.index}/{name} && cd $T/core/iblock_{site.index}/{name}
echo udev_path={site.medium} > control
echo {_serial(name, site)} > wwn/vpd_unit_serial
echo 1 > enable
mkdir -p $T/iscsi/{iqn}/tpgt_1/lun/lun_0 $T/iscsi/{iqn}/tpgt_1/np/{site.address}:{port} && cd $T/iscsi/{iqn}/tpgt_1
ln -s $T/core/iblock_{site.index}/{name} lun/lun_0/medium
echo 1 > attrib/generate_node_acls
echo 0 > attrib/demo_mode_write_protect
echo {int(spec.chap)} > attrib/authentication
{auth}
echo 1 > enable
""",
            describe=f"""
cd /sys/kernel/config/target/iscsi/{iqn}/tpgt_1
row target.kind "LIO $(cat /sys/kernel/config/target/version)"
row target.iqn {iqn}
row target.portal "$(ls np)"
row target.authentication "$(cat attrib/authentication)"
row target.default_cmdsn_depth "$(cat attrib/default_cmdsn_depth)"
row target.write_cache "$(cat lun/lun_0/medium/attrib/emulate_write_cache)"
row target.queue_depth "$(cat lun/lun_0/medium/attrib/queue_depth)"
""",
            remove=f"""
T=/sys/kernel/config/target
cd $T/iscsi/{iqn}/tpgt_1
echo 0 > enable
rm lun/lun_0/medium
cd /
rmdir $T/iscsi/{iqn}/tpgt_1/np/* $T/iscsi/{iqn}/tpgt_1/lun/lun_0 $T/iscsi/{iqn}/tpgt_1 $T/iscsi/{iqn}
rmdir $T/core/iblock_{site.index}/{name} $T/core/iblock_{site.index}
""",
            expect={"target.authentication": str(int(spec.chap))},
        )

    def _connect(self, name: str, spec: IscsiSpec, site: Site) -> Step:
        node = f"iscsiadm -m node -T {_iqn(name)} -p {site.address}:{_PORT + site.index}"
        digest = {False: "None", True: "CRC32C"}
        settings = {
            "node.session.nr_sessions": spec.sessions,
            "node.conn[0].iscsi.HeaderDigest": digest[spec.header_digest],
            "node.conn[0].iscsi.DataDigest": digest[spec.data_digest],
        }
        if spec.chap:
            settings |= {
                "node.session.auth.authmethod": "CHAP",
                "node.session.auth.username": "fairlane",
                "node.session.auth.password": site.secret,
            }
        update = "\n".join(f"{node} -o update -n '{key}' -v '{value}' > /dev/null" for key, value in settings.items())
        join = _join(name, spec, site) if spec.sessions > 1 else ""
        return Step(
            name=f"connect {name} with open-iscsi",
            place="initiator",
            apply=f"""
{node} -o new > /dev/null
{update}
{node} --login > /dev/null
await {spec.sessions} '{{ {_scan(name, site)}; }} | wc -l'
{join}
""",
            describe=f"""
sessions=0
for s in /sys/class/iscsi_session/session*; do
  [ "$(cat $s/targetname)" = {_iqn(name)} ] || continue
  sessions=$((sessions + 1))
  c=/sys/class/iscsi_connection/connection${{s##*session}}:0
done
row initiator.kind "open-iscsi $(iscsiadm --version | cut -d' ' -f3)"
row sessions $sessions
row chap "$([ -n "$(cat $s/username 2>/dev/null | grep -v null)" ] && echo 1 || echo 0)"
row header_digest "$(cat $c/header_digest)"
row data_digest "$(cat $c/data_digest)"
for k in max_recv_dlength max_xmit_dlength tcp_window_size; do
  [ -e $c/$k ] && row $k "$(cat $c/$k 2>/dev/null || echo unknown)"
done
for k in first_burst_len max_burst_len immediate_data initial_r2t max_outstanding_r2t; do row $k "$(cat $s/$k)"; done
d=$({{ {_scan(name, site)}; }} | head -n 1)
row scsi.queue_depth "$(cat /sys/block/${{d#/dev/}}/device/queue_depth)"
row block.nr_hw_queues "$(ls /sys/block/${{d#/dev/}}/mq | wc -l)"
row block.nr_requests "$(cat /sys/block/${{d#/dev/}}/queue/nr_requests)"
row block.scheduler "$(cat /sys/block/${{d#/dev/}}/queue/scheduler)"
row block.max_sectors_kb "$(cat /sys/block/${{d#/dev/}}/queue/max_sectors_kb)"
""",
            remove=f"""
[ -e /dev/mapper/fairlane-{name} ] && dmsetup remove --noudevsync fairlane-{name}
{node} --logout > /dev/null
{node} -o delete > /dev/null
""",
            expect={
                "sessions": str(spec.sessions),
                "chap": str(int(spec.chap)),
                "header_digest": str(int(spec.header_digest)),
                "data_digest": str(int(spec.data_digest)),
            },
        )

    def find(self, name: str, spec: IscsiSpec, site: Site) -> str:
        if spec.sessions > 1:
            return (
                "for d in /sys/block/dm-*; do "
                f'[ "$(cat $d/dm/name)" = fairlane-{name} ] && echo /dev/${{d##*/}}; done; true'
            )
        return _scan(name, site)

    def port(self, spec: IscsiSpec, site: Site) -> int:  # noqa: ARG002
        return _PORT + site.index

    def backend(self, name: str, spec: IscsiSpec, site: Site) -> Mapping[str, Any]:
        """QEMU's iscsi driver (libiscsi). The secret is a QEMU object that the platform makes of ``Site.secret``."""
        chap = {"user": "fairlane", "password-secret": f"secret{site.index}"} if spec.chap else {}
        return {
            "driver": "iscsi",
            "transport": "tcp",
            "portal": site.reach,
            "target": _iqn(name),
            "lun": 0,
            "initiator-name": f"iqn.2026-01.dev.fairlane:hypervisor-{site.index}",
            "header-digest": "crc32c" if spec.header_digest else "none",
            **chap,
        }

    def path(self, name: str, spec: IscsiSpec, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        if spec.initiator == "hypervisor":
            return ("fio", "QEMU's iscsi", f"TCP {site.reach} (forwarded)", "LIO", "iblock", site.medium)
        joined = ("dm-multipath",) if spec.sessions > 1 else ()
        return ("fio", *joined, "sd", "open-iscsi", f"TCP {site.interface}", "LIO", "iblock", site.medium)


def _daemon() -> Step:
    """iscsid once per machine; later lanes find it running."""
    return Step(
        name="start iscsid",
        place="initiator",
        apply="""
mkdir -p /etc/iscsi /run/lock/iscsi
echo InitiatorName=iqn.2026-01.dev.fairlane:host > /etc/iscsi/initiatorname.iscsi
[ -s /etc/iscsi/iscsid.conf ] || echo 'node.startup = manual' > /etc/iscsi/iscsid.conf
[ -e /run/iscsid.pid ] || iscsid
""",
    )


def _scan(name: str, site: Site) -> str:
    """Shell that prints every path's device, found by the LUN's unit serial (VPD page 0x80)."""
    return (
        "for v in /sys/block/sd*/device/vpd_pg80; do [ -e $v ] || continue; "
        f'tr -d "\\0" < $v | grep -q {_serial(name, site)} && v=${{v#/sys/block/}} && echo /dev/${{v%%/*}}; done; true'
    )


def _join(name: str, spec: IscsiSpec, site: Site) -> str:
    """dm-multipath over all sessions: one priority group, round robin, one I/O per path (kernel: dm-mpath)."""
    return f"""
paths=$({_scan(name, site)})
size=$(cat /sys/block/$(basename $(echo "$paths" | head -n 1))/size)
table="0 $size multipath 0 0 1 1 round-robin 0 {spec.sessions} 1"
for p in $paths; do table="$table $p 1"; done
dmsetup create --noudevsync fairlane-{name} --table "$table"
"""


PLUGIN = Iscsi()
