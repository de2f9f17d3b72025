"""FCoE in software: LIO with tcm_fc on the target, the kernel's fcoe initiator, VN2VN between the two.

VN2VN (FC-BB-6) joins two ports without a switch, and so without Fibre Channel's fabric services. Ports are named after
the interfaces' MAC addresses (kernel: fcoe_wwn_from_mac). It carries I/O; its ports do not come back after their link
was cut, and the array's kernel may hang, so that no fault of it is offered and none should be tried.
"""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes.base import Ground, Site, Step, Transport
from fairlane.study.base import LaneSpec

_MTU = 2500
"""Of Ethernet for FCoE: a full frame has 2112 bytes of data, and 2180 with all headers (FC-BB-5)."""
_CREATE, _DESTROY = (f"/sys/module/libfcoe/parameters/{name}" for name in ("create_vn2vn", "destroy"))


class FcoeSpec(LaneSpec):
    """FCoE in software (LIO with tcm_fc, kernel initiator), for I/O without faults."""

    transport: Literal["fcoe"]
    """Fibre Channel over Ethernet between two machines, without a switch (VN2VN), on one path."""

    def known(self) -> Mapping[str, Any]:
        settings = "VN2VN in software, one port; no faults: its ports do not come back after a cut"
        return {**super().known(), "multipath": NONE, "path_settings": settings}


def wwpn(mac: str) -> str:
    """World-wide port name of the interface with address ``mac``, as the kernel's fcoe makes it: NAA 2, port 0."""
    return f"20:00:{mac.lower()}"


def _serial(name: str, site: Site) -> str:
    return f"fairlane-{site.index:02d}-{name}"


class Fcoe(Transport[FcoeSpec]):
    Spec = FcoeSpec
    modules = ("target_core_mod", "target_core_iblock", "fcoe", "tcm_fc", "sd_mod")

    def problems(self, name: str, spec: FcoeSpec, ground: Ground) -> list[FairlaneError]:  # noqa: ARG002
        found = []
        where = f"lanes.{name}.transport"
        if ground.fleet > 1:
            found.append(
                FairlaneError(
                    "FCoE without a switch joins one guest to the array; several guests reach it through a bridge",
                    where=where,
                    hint="set platform.fleet: 1, or leave the lane away",
                )
            )
        if ground.faults:
            found.append(
                FairlaneError(
                    "software FCoE does not come back after a fault, and the array's kernel may hang",
                    where=where,
                    hint="leave the lane away, or put the faults into a study of their own",
                )
            )
        if ground.mtu < _MTU:
            found.append(
                FairlaneError(
                    f"a full FCoE frame needs an MTU of {_MTU} on the link, which has {ground.mtu}",
                    where=where,
                    hint=f"set platform.link.mtu: {_MTU}, or more",
                )
            )
        return found

    def steps(self, name: str, spec: FcoeSpec, site: Site) -> tuple[Step, ...]:
        if len(site.hardware) != 2:
            raise FairlaneError(f"lane {name}: FCoE needs the MAC addresses of both ends of its link")
        return (_port("target", site), self._export(name, site), _port("initiator", site), self._scan(name, spec, site))

    def _export(self, name: str, site: Site) -> Step:
        target, initiator = (wwpn(mac) for mac in site.hardware)
        lun = f"lun_{site.index}"
        return Step(
            name=f"export {name} through LIO and tcm_fc",
            place="target",
            apply=f"""
mkdir -p /etc/target
T=/sys/kernel/config/target
mkdir -p $T/core/iblock_{site.index}/{name} && cd $T/core/iblock_{site.index}/{name}
echo udev_path={site.medium} > control
echo {_serial(name, site)} > wwn/vpd_unit_serial
echo 1 > enable
mkdir -p $T/fc/{target}/tpgt_1/lun/{lun} && cd $T/fc/{target}/tpgt_1
ln -s $T/core/iblock_{site.index}/{name} lun/{lun}/medium
mkdir -p acls/{initiator}/{lun}
ln -s $T/fc/{target}/tpgt_1/lun/{lun} acls/{initiator}/{lun}/medium
""",
            describe=f"""
cd /sys/kernel/config/target/fc/{target}/tpgt_1
row target.kind "LIO $(cat /sys/kernel/config/target/version), tcm_fc"
row target.wwpn {target}
row target.lun "$(ls -d acls/{initiator}/{lun} | sed 's/.*_//')"
row target.write_cache "$(cat lun/{lun}/medium/attrib/emulate_write_cache)"
row target.queue_depth "$(cat lun/{lun}/medium/attrib/queue_depth)"
""",
            remove=f"""
T=/sys/kernel/config/target
cd $T/fc/{target}/tpgt_1
rm acls/{initiator}/{lun}/medium
rmdir acls/{initiator}/{lun}
rm lun/{lun}/medium
rmdir lun/{lun}
rmdir $T/core/iblock_{site.index}/{name} $T/core/iblock_{site.index}
ls -d acls/{initiator}/lun_* > /dev/null 2>&1 && exit 0 # another lane's
rmdir acls/{initiator}
cd /
rmdir $T/fc/{target}/tpgt_1 $T/fc/{target} $T/fc
""",
            expect={"target.lun": str(site.index)},
        )

    def _scan(self, name: str, spec: FcoeSpec, site: Site) -> Step:
        target, initiator = (wwpn(mac).replace(":", "") for mac in site.hardware)
        find = self.find(name, spec, site)
        return Step(
            name=f"find the LUN of {name}",
            place="initiator",
            # VN2VN claims its port id for seconds before it logs in; a LUN that came later is found by asking again
            apply=f"""
i=0
while [ -z "$({find})" ]; do
  i=$((i + 1))
  [ $i -le 60 ] || {{ echo "the LUN did not appear within 60 s" >&2; exit 1; }}
  sleep 1
  for h in /sys/class/fc_host/host*; do
    [ $((i % 3)) -ne 0 ] || echo '- - -' > /sys/class/scsi_host/${{h##*/}}/scan
  done
done
""",
            describe=f"""
d=$({find})
b=/sys/block/${{d#/dev/}}
for h in /sys/class/fc_host/host*; do
  [ "$(cat $h/port_name)" = 0x{initiator} ] || continue
  row initiator.kind "fcoe $(uname -r), VN2VN"
  row initiator.wwpn "$(cat $h/port_name)"
  row initiator.port_state "$(cat $h/port_state)"
  row frame "$(cat $h/maxframe_size)"
done
for r in /sys/class/fc_remote_ports/*; do
  [ "$(cat $r/port_name)" = 0x{target} ] || continue
  row remote.port_state "$(cat $r/port_state)"
  row dev_loss_tmo "$(cat $r/dev_loss_tmo)"
done
row mtu "$(cat /sys/class/net/{site.interface}/mtu)"
row scsi.queue_depth "$(cat $b/device/queue_depth)"
row block.nr_hw_queues "$(ls $b/mq | wc -l)"
row block.nr_requests "$(cat $b/queue/nr_requests)"
row block.scheduler "$(cat $b/queue/scheduler)"
row block.max_sectors_kb "$(cat $b/queue/max_sectors_kb)"
""",
            remove=f"""
d=$({find})
echo 1 > /sys/block/${{d#/dev/}}/device/delete
""",
            expect={
                "initiator.wwpn": f"0x{initiator}",
                "initiator.port_state": "Online",
                "remote.port_state": "Online",
                "frame": "2112 bytes",
            },
        )

    def find(self, name: str, spec: FcoeSpec, site: Site) -> str:  # noqa: ARG002
        return (
            "for v in /sys/block/sd*/device/vpd_pg80; do [ -e $v ] || continue; "
            f'[ "$(tail -c +5 $v | tr -d "\\0")" = {_serial(name, site)} ] && v=${{v#/sys/block/}} && '
            "echo /dev/${v%%/*}; done; true"
        )

    def path(self, name: str, spec: FcoeSpec, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        return ("fio", "sd", "fcoe", f"Ethernet {site.interface} (VN2VN)", "tcm_fc", "LIO", "iblock", site.medium)


def _port(place: Literal["target", "initiator"], site: Site) -> Step:
    """The FCoE port, once per machine; whichever lane is undone last takes it away."""
    own = wwpn(site.hardware[0 if place == "target" else 1]).replace(":", "")
    there = f"grep -qs 0x{own} /sys/class/fc_host/host*/port_name"
    users = (
        "/sys/kernel/config/target/fc/*/tpgt_1" if place == "target" else "/sys/class/fc_remote_ports/*/device/target*"
    )
    return Step(
        name=f"FCoE port of the {place}",
        place=place,
        apply=f"""
{there} || echo {site.interface} > {_CREATE}
i=0
until {there}; do
  i=$((i + 1))
  [ $i -lt 200 ] || {{ echo "no FCoE port with name 0x{own} on {site.interface}" >&2; exit 1; }}
  sleep 0.05
done
""",
        remove=f"""
for u in {users}; do
  [ ! -e "$u" ] || exit 0 # another lane's
done
! {there} || echo {site.interface} > {_DESTROY}
""",
    )


PLUGIN = Fcoe()
