"""NVMe over RDMA: on soft-RoCE, which does RDMA in software, or to an existing array.

Soft-RoCE (nvmet's and the kernel's rdma transports over rdma_rxe) shows that the path works, with which functions and
settings, and that data are intact; never RDMA's speed: rdma_rxe computes on the CPU what an RDMA card does in hardware.
Its figures are shown, not ranked (check ``stand_in``). With an MTU below 4200 bytes rdma_rxe uses a path MTU below 4096
(kernel: sw/rxe). To an array of somebody's (``external``) the machine's own RDMA device is used.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes import _multipath as paths
from fairlane.lanes._external import one_address
from fairlane.lanes._nvmet import NvmeExternal, Nvmet, NvmetSpec
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
    multipath: paths.NvmeMultipath | None = None
    """One controller per address of ``external``, joined by the kernel's native multipath."""
    external: NvmeExternal | None = None
    """An existing array, reached through the machine's RDMA device. Its secret is a DH-HMAC-CHAP key."""

    @model_validator(mode="after")
    def _outside(self) -> Self:
        if self.multipath and not self.external:
            raise ValueError("multipath: soft-RoCE has only one path; remove multipath")
        one_address(self.external, self.multipath)
        return self

    @property
    def stand_in(self) -> str:
        return "" if self.external else "soft-RoCE is software"

    def known(self) -> Mapping[str, Any]:
        outside = self.external.known() if self.external else {}
        settings = self.sizes if self.external else f"soft-RoCE, {self.sizes}"
        policy = f"native NVMe, {self.multipath.policy}" if self.multipath else NONE
        settings += f", {self.multipath.summary}" if self.multipath else ""
        return {**super().known(), **outside, "multipath": policy, "path_settings": settings}


class NvmeRdma(Nvmet[NvmeRdmaSpec]):
    Spec = NvmeRdmaSpec
    living = True
    fabric = "rdma"
    first_port = _PORT
    packages = (*Nvmet.packages, "rdma-core", "iproute2")
    programs = (*Nvmet.programs, "rdma")
    modules = ("nvmet", "nvmet_rdma", "nvme_fabrics", "nvme_rdma", "rdma_rxe")

    @property
    def remark(self) -> str:
        return "" if self.spec.external else ", soft-RoCE"

    def problems(self, ground: Ground) -> Iterable[FairlaneError]:
        if not self.spec.external and ground.mtu < _MTU:
            yield self.problem(
                "mtu",
                f"RDMA messages of 4096 bytes need an MTU of {_MTU}, but the link has {ground.mtu}",
                hint=f"set platform.link.mtu: {_MTU} or more",
            )

    def steps(self) -> tuple[Step, ...]:
        if self.spec.external:
            rows = """\
row transport "$(cat $c/transport)"
row rdma.devices "$(echo $(for d in /sys/class/infiniband/*; do echo "${d##*/}"; done))"
row rdma.driver "$(echo $(for d in /sys/class/infiniband/*; do
  if [ -e $d/device/driver ]; then basename "$(readlink $d/device/driver)"; else echo software; fi
done | sort -u))"
"""
            return (self._connect_to_all(rows, expect={"transport": "rdma"}),)
        if self.site.living:
            raise self.problem(
                "rdma-own-target",
                "NVMe/RDMA needs an existing array: Fairlane sets up no soft-RoCE on your machines",
                hint="give the lane external: {addresses: [...], nqn: ...}",
                key="external",
            )
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
        if outside := self.spec.external:
            where = " + ".join(outside.addresses)
            joined = (f"NVMe multipath, {self.spec.multipath.policy}",) if self.spec.multipath else ()
            return ("fio", *joined, "nvme", "nvme-rdma", f"RDMA {where}", f"external {outside.nqn}")
        return ("fio", "nvme", "nvme-rdma", f"soft-RoCE {self.site.interface}", "nvmet", self.site.medium)


PLUGIN = NvmeRdma
