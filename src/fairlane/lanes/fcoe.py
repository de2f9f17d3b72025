"""FCoE in software: LIO with tcm_fc on the target, the kernel's fcoe initiator, VN2VN between the two.

VN2VN (FC-BB-6) joins two ports without a switch, and so without Fibre Channel's fabric services. Ports are named after
the interfaces' MAC addresses (kernel: fcoe_wwn_from_mac). It carries I/O; its ports do not come back after their link
was cut, and the array's kernel may hang, so that no fault of it is offered and none should be tried.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes._lio import CONFIG, DISK_ROWS, Lio
from fairlane.lanes.base import Ground, Step
from fairlane.study.base import LaneSpec

_MTU = 2500
"""MTU for FCoE: a full frame has 2112 bytes of data, 2180 with all headers (FC-BB-5)."""
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


class Fcoe(Lio[FcoeSpec]):
    Spec = FcoeSpec
    modules = ("target_core_mod", "target_core_iblock", "fcoe", "tcm_fc", "sd_mod")

    def problems(self, ground: Ground) -> Iterable[FairlaneError]:
        if ground.fleet > 1:
            yield self.problem(
                "fcoe-guests",
                "FCoE without a switch connects only one guest to the array; several guests would need a bridge",
                hint="set platform.fleet: 1, or remove the lane",
            )
        if ground.faults:
            yield self.problem(
                "fcoe-faults",
                "software FCoE does not recover after a fault, and the array's kernel may hang",
                hint="remove the lane, or move the faults into a separate study",
            )
        if ground.mtu < _MTU:
            yield self.problem(
                "mtu",
                f"a full FCoE frame needs an MTU of {_MTU}, but the link has {ground.mtu}",
                hint=f"set platform.link.mtu: {_MTU} or more",
            )

    def steps(self) -> tuple[Step, ...]:
        if len(self.site.hardware) != 2:
            raise FairlaneError(
                "fcoe-address", f"lane {self.name}: FCoE needs the MAC addresses of both ends of its link"
            )
        return (self._fcoe_port("target"), self._export(), self._fcoe_port("initiator"), self._scan())

    def _fcoe_port(self, place: Literal["target", "initiator"]) -> Step:
        """The FCoE port, once per machine; the last lane removes it."""
        interface = self.site.interface
        own = wwpn(self.site.hardware[0 if place == "target" else 1]).replace(":", "")
        there = f"grep -qs 0x{own} /sys/class/fc_host/host*/port_name"
        users = f"{CONFIG}/fc/*/tpgt_1" if place == "target" else "/sys/class/fc_remote_ports/*/device/target*"
        return Step(
            name=f"FCoE port of the {place}",
            place=place,
            apply=f"""
{there} || echo {interface} > {_CREATE}
i=0
until {there}; do
  i=$((i + 1))
  [ $i -lt 200 ] || {{ echo "no FCoE port with name 0x{own} on {interface}" >&2; exit 1; }}
  sleep 0.05
done
""",
            remove=f"""
for u in {users}; do
  [ ! -e "$u" ] || exit 0 # another lane's
done
! {there} || echo {interface} > {_DESTROY}
""",
        )

    def _export(self) -> Step:
        target, initiator = (wwpn(mac) for mac in self.site.hardware)
        lun = f"lun_{self.site.index}"
        return Step(
            name=f"export {self.name} through LIO and tcm_fc",
            place="target",
            apply=f"""{self._make_store()}\
mkdir -p $T/fc/{target}/tpgt_1/lun/{lun} && cd $T/fc/{target}/tpgt_1
ln -s $T/{self.store} lun/{lun}/medium
mkdir -p acls/{initiator}/{lun}
ln -s $T/fc/{target}/tpgt_1/lun/{lun} acls/{initiator}/{lun}/medium
""",
            describe=f"""
cd {CONFIG}/fc/{target}/tpgt_1
row target.kind "LIO $(cat {CONFIG}/version), tcm_fc"
row target.wwpn {target}
row target.lun "$(ls -d acls/{initiator}/{lun} | sed 's/.*_//')"
{self._store_rows(lun)}""",
            remove=f"""
T={CONFIG}
cd $T/fc/{target}/tpgt_1
rm acls/{initiator}/{lun}/medium
rmdir acls/{initiator}/{lun}
rm lun/{lun}/medium
rmdir lun/{lun}
{self._remove_store()}\
ls -d acls/{initiator}/lun_* > /dev/null 2>&1 && exit 0 # another lane's
rmdir acls/{initiator}
cd /
rmdir $T/fc/{target}/tpgt_1 $T/fc/{target} $T/fc
""",
            expect={"target.lun": str(self.site.index)},
        )

    def _scan(self) -> Step:
        target, initiator = (wwpn(mac).replace(":", "") for mac in self.site.hardware)
        return Step(
            name=f"find the LUN of {self.name}",
            place="initiator",
            # VN2VN claims its port id for seconds before it logs in; a LUN that came later needs another scan
            apply=f"""
i=0
while [ -z "$({self.find()})" ]; do
  i=$((i + 1))
  [ $i -le 60 ] || {{ echo "the LUN did not appear within 60 s" >&2; exit 1; }}
  sleep 1
  for h in /sys/class/fc_host/host*; do
    [ $((i % 3)) -ne 0 ] || echo '- - -' > /sys/class/scsi_host/${{h##*/}}/scan
  done
done
""",
            describe=f"""
d=$({self.find()})
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
row mtu "$(cat /sys/class/net/{self.site.interface}/mtu)"
{DISK_ROWS}""",
            remove=f"""
d=$({self.find()})
echo 1 > /sys/block/${{d#/dev/}}/device/delete
""",
            expect={
                "initiator.wwpn": f"0x{initiator}",
                "initiator.port_state": "Online",
                "remote.port_state": "Online",
                "frame": "2112 bytes",
            },
        )

    def path(self) -> tuple[str, ...]:
        link = f"Ethernet {self.site.interface} (VN2VN)"
        return ("fio", "sd", "fcoe", link, "tcm_fc", "LIO", "iblock", self.site.medium)


PLUGIN = Fcoe
