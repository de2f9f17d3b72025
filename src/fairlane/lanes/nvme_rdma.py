"""NVMe over RDMA, on soft-RoCE: nvmet's and the kernel's rdma transports over rdma_rxe, which does RDMA in software.

It shows that the path works and what it can do (functions, settings, data that come back right), never how fast RDMA
is: rdma_rxe computes on the CPU what an RDMA card does in hardware. Its figures are shown and not ranked (check
``stand_in``). With an MTU below 4200 bytes rdma_rxe takes a smaller path MTU than 4096 (kernel: sw/rxe).
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes.base import Ground, Site, Step, Transport
from fairlane.study.base import LaneSpec

_PORT = 24420
"""Above those of NVMe/TCP, so that numbers of volumes never meet."""
_MTU = 4200


class NvmeRdmaSpec(LaneSpec):
    """NVMe over RDMA on soft-RoCE (nvmet target, kernel initiator): functional, never ranked."""

    transport: Literal["nvme_rdma"]
    """NVMe over RDMA (RoCE v2), done in software: soft-RoCE."""
    queues: int = Field(default=1, ge=1, le=128)
    """I/O queues (``nvme connect -i``)."""
    queue_size: int = Field(default=128, ge=16, le=128)
    """Entries per queue (``nvme connect -Q``); nvmet's RDMA transport has at most 128."""
    stand_in = "soft-RoCE is software"

    def known(self) -> Mapping[str, Any]:
        settings = f"soft-RoCE, {self.queues} queue{'s' * (self.queues > 1)} of {self.queue_size}"
        return {**super().known(), "multipath": NONE, "path_settings": settings}


def _nqn(name: str) -> str:
    return f"nqn.2026-01.dev.fairlane:{name}"


class NvmeRdma(Transport[NvmeRdmaSpec]):
    Spec = NvmeRdmaSpec
    packages = ("nvme-cli", "rdma-core", "iproute2")
    programs = ("nvme", "rdma")
    modules = ("nvmet", "nvmet_rdma", "nvme_fabrics", "nvme_rdma", "rdma_rxe")

    def problems(self, name: str, spec: NvmeRdmaSpec, ground: Ground) -> list[FairlaneError]:  # noqa: ARG002
        if ground.mtu >= _MTU:
            return []
        return [
            FairlaneError(
                f"RDMA messages of 4096 bytes need an MTU of {_MTU} on the link, which has {ground.mtu}",
                where=f"lanes.{name}.transport",
                hint=f"set platform.link.mtu: {_MTU}, or more",
            )
        ]

    def steps(self, name: str, spec: NvmeRdmaSpec, site: Site) -> tuple[Step, ...]:
        nqn, port = _nqn(name), _PORT + site.index
        export = Step(
            name=f"export {name} through nvmet over RDMA",
            place="target",
            apply=f"""
N=/sys/kernel/config/nvmet
mkdir -p $N/subsystems/{nqn}/namespaces/1 && cd $N/subsystems/{nqn}
echo 1 > attr_allow_any_host
echo fairlane-{site.index:02d} > attr_serial
echo -n {site.medium} > namespaces/1/device_path
echo 1 > namespaces/1/enable
mkdir -p $N/ports/{port} && cd $N/ports/{port}
echo rdma > addr_trtype
echo ipv4 > addr_adrfam
echo {site.address} > addr_traddr
echo {port} > addr_trsvcid
ln -s $N/subsystems/{nqn} subsystems/{nqn}
""",
            describe=f"""
cd /sys/kernel/config/nvmet/ports/{port}
row target.kind "nvmet $(uname -r), soft-RoCE"
row target.transport "$(cat addr_trtype)"
row target.nqn {nqn}
row target.portal "$(cat addr_traddr):$(cat addr_trsvcid)"
row target.inline_data_size "$(cat param_inline_data_size)"
""",
            remove=f"""
N=/sys/kernel/config/nvmet
rm $N/ports/{port}/subsystems/{nqn}
rmdir $N/ports/{port}
echo 0 > $N/subsystems/{nqn}/namespaces/1/enable
rmdir $N/subsystems/{nqn}/namespaces/1 $N/subsystems/{nqn}
""",
            expect={"target.transport": "rdma"},
        )
        connect = Step(
            name=f"connect {name} with nvme-rdma",
            place="initiator",
            apply=f"""
nvme connect -t rdma -a {site.address} -s {port} -n {nqn} -i {spec.queues} -Q {spec.queue_size} \\
  --hostnqn nqn.2026-01.dev.fairlane:host{site.host or ""} --hostid 00000000-0000-4000-8000-{site.host + 1:012x}
await 1 '{{ {self.find(name, spec, site)}; }} | wc -l'
""",
            describe=f"""
c=$(controller {nqn})
row initiator.kind "nvme-rdma $(uname -r), soft-RoCE"
row transport "$(cat $c/transport)"
row queues $(($(cat $c/queue_count) - 1))
row queue_size $(($(cat $c/sqsize) + 1))
row kato "$(cat $c/kato)"
row rdma.pairs "$(rdma resource show qp link {_link(site)} | grep -c 'type RC state RTS')"
row mtu "$(cat /sys/class/net/{site.interface}/mtu)"
d=$({self.find(name, spec, site)})
d=${{d#/dev/}}
row block.scheduler "$(cat /sys/block/$d/queue/scheduler)"
row block.max_sectors_kb "$(cat /sys/block/$d/queue/max_sectors_kb)"
""",
            remove=f"nvme disconnect -n {nqn} > /dev/null",
            expect={"transport": "rdma", "queues": str(spec.queues), "queue_size": str(spec.queue_size)},
        )
        return (_soft("target", site), export, _soft("initiator", site), connect)

    def find(self, name: str, spec: NvmeRdmaSpec, site: Site) -> str:  # noqa: ARG002
        return (
            "for s in /sys/class/nvme-subsystem/nvme-subsys*; do "
            f'[ "$(cat $s/subsysnqn)" = {_nqn(name)} ] || continue; '
            "for n in $s/nvme*n1; do n=${n##*/}; [ -b /dev/$n ] && echo /dev/$n; done; done; true"
        )

    def path(self, name: str, spec: NvmeRdmaSpec, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        return ("fio", "nvme", "nvme-rdma", f"soft-RoCE {site.interface}", "nvmet", site.medium)


def _link(site: Site) -> str:
    return f"rxe-{site.interface}"


def _soft(place: Literal["target", "initiator"], site: Site) -> Step:
    """The RDMA device in software, once per machine and interface; whichever lane is undone last takes it away."""
    link = _link(site)
    return Step(
        name=f"soft-RoCE on {site.interface} of the {place}",
        place=place,
        apply=f"""
rdma link show {link}/1 > /dev/null 2>&1 || rdma link add {link} type rxe netdev {site.interface}
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


PLUGIN = NvmeRdma()
