"""NVMe over RDMA, on soft-RoCE: nvmet's and the kernel's rdma transports over rdma_rxe, which does RDMA in software.

Shows that the path works, with which functions and settings, and that data are intact; never RDMA's speed: rdma_rxe
computes on the CPU what an RDMA card does in hardware. Figures are shown, not ranked (check ``stand_in``). With an MTU
below 4200 bytes rdma_rxe uses a path MTU below 4096 (kernel: sw/rxe).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes._nvmet import Nvmet, NvmetSpec
from fairlane.lanes.base import Ground, Step

_PORT = 24420
"""Above the ports of NVMe/TCP, so that volume numbers never collide."""
_MTU = 4200


class NvmeRdmaSpec(NvmetSpec):
    """NVMe over RDMA on soft-RoCE (nvmet target, kernel initiator): functional, never ranked."""

    transport: Literal["nvme_rdma"]
    """NVMe over RDMA (RoCE v2), done in software: soft-RoCE."""
    queue_size: int = Field(default=128, ge=16, le=128)
    """Entries per queue (``nvme connect -Q``); nvmet's RDMA transport has at most 128."""
    stand_in = "soft-RoCE is software"

    def known(self) -> Mapping[str, Any]:
        return {**super().known(), "multipath": NONE, "path_settings": f"soft-RoCE, {self.sizes}"}


class NvmeRdma(Nvmet[NvmeRdmaSpec]):
    Spec = NvmeRdmaSpec
    fabric = "rdma"
    remark = ", soft-RoCE"
    first_port = _PORT
    packages = (*Nvmet.packages, "rdma-core", "iproute2")
    programs = (*Nvmet.programs, "rdma")
    modules = ("nvmet", "nvmet_rdma", "nvme_fabrics", "nvme_rdma", "rdma_rxe")

    def problems(self, ground: Ground) -> Iterable[FairlaneError]:
        if ground.mtu < _MTU:
            yield self.problem(
                "mtu",
                f"RDMA messages of 4096 bytes need an MTU of {_MTU} on the link, which has {ground.mtu}",
                hint=f"set platform.link.mtu: {_MTU}, or more",
            )

    def steps(self) -> tuple[Step, ...]:
        export = self._export('row target.transport "$(cat addr_trtype)"\n', {"target.transport": "rdma"})
        rows = f"""\
row transport "$(cat $c/transport)"
row rdma.pairs "$(rdma resource show qp link {self._link} | grep -c 'type RC state RTS')"
row mtu "$(cat /sys/class/net/{self.site.interface}/mtu)"
"""
        connect = self._connect(rows, {"transport": "rdma"})
        return (self._soft("target"), export, self._soft("initiator"), connect)

    @property
    def _link(self) -> str:
        return f"rxe-{self.site.interface}"

    def _soft(self, place: Literal["target", "initiator"]) -> Step:
        """The software RDMA device, once per machine and interface; the last lane removes it."""
        link, interface = self._link, self.site.interface
        return Step(
            name=f"soft-RoCE on {interface} of the {place}",
            place=place,
            apply=f"""
rdma link show {link}/1 > /dev/null 2>&1 || rdma link add {link} type rxe netdev {interface}
await 1 'rdma link show {link}/1 | grep -c "state ACTIVE"'
""",
            describe=f"""
row {place}.rdma "$(rdma link show {link}/1 | sed 's/ *$//')"
""",
            remove=f"""
case $(rdma resource show qp link {link} 2> /dev/null) in
  *'type RC'*) ;;
  *) [ ! -e /sys/class/infiniband/{link} ] || rdma link delete {link} ;;
esac
""",
        )

    def path(self) -> tuple[str, ...]:
        return ("fio", "nvme", "nvme-rdma", f"soft-RoCE {self.site.interface}", "nvmet", self.site.medium)


PLUGIN = NvmeRdma
