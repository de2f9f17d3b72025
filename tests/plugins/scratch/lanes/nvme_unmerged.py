"""NVMe/TCP whose device merges no requests: nvmet and nvme-tcp, and one setting more that is read back."""

from typing import Literal

from fairlane.lanes.base import Site, Step, Transport
from fairlane.lanes.nvme_tcp import PLUGIN as NVME_TCP
from fairlane.lanes.nvme_tcp import NvmeTcpSpec


class NvmeUnmergedSpec(NvmeTcpSpec):
    """NVMe/TCP without merging."""

    transport: Literal["nvme_unmerged"]  # type: ignore[assignment]
    """NVMe over TCP, the block layer merges nothing."""
    nomerges: Literal[1, 2] = 2
    """1: no merging but with the request before; 2: none at all."""


class NvmeUnmerged(Transport[NvmeUnmergedSpec]):
    Spec = NvmeUnmergedSpec
    virtual = NVME_TCP.virtual
    packages = NVME_TCP.packages
    programs = NVME_TCP.programs
    modules = NVME_TCP.modules

    def steps(self, name: str, spec: NvmeUnmergedSpec, site: Site) -> tuple[Step, ...]:
        device = f"d=$({self.find(name, spec, site)})\nq=/sys/block/${{d#/dev/}}/queue/nomerges\n"
        unmerged = Step(
            name=f"switch merging off for {name}",
            place="initiator",
            apply=f"{device}echo {spec.nomerges} > $q",
            describe=f'{device}row nomerges "$(cat $q)"',
            remove=f"{device}echo 0 > $q",
            expect={"nomerges": str(spec.nomerges)},
        )
        return (*NVME_TCP.steps(name, spec, site), unmerged)

    def find(self, name: str, spec: NvmeUnmergedSpec, site: Site) -> str:
        return NVME_TCP.find(name, spec, site)

    def path(self, name: str, spec: NvmeUnmergedSpec, site: Site) -> tuple[str, ...]:
        return NVME_TCP.path(name, spec, site)


PLUGIN = NvmeUnmerged()
