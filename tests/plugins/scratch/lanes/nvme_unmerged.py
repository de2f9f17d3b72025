"""NVMe/TCP whose device merges no requests: nvmet and nvme-tcp, and one setting more that is read back."""

from typing import Literal

from fairlane.lanes.base import Step
from fairlane.lanes.nvme_tcp import NvmeTcp, NvmeTcpSpec


class NvmeUnmergedSpec(NvmeTcpSpec):
    """NVMe/TCP without merging."""

    transport: Literal["nvme_unmerged"]  # type: ignore[assignment]
    """NVMe over TCP, the block layer merges nothing."""
    nomerges: Literal[1, 2] = 2
    """1: no merging but with the request before; 2: none at all."""


class NvmeUnmerged(NvmeTcp):
    Spec = NvmeUnmergedSpec
    spec: NvmeUnmergedSpec

    def steps(self) -> tuple[Step, ...]:
        device = f"d=$({self.find()})\nq=/sys/block/${{d#/dev/}}/queue/nomerges\n"
        unmerged = Step(
            name=f"switch merging off for {self.name}",
            place="initiator",
            apply=f"{device}echo {self.spec.nomerges} > $q",
            describe=f'{device}row nomerges "$(cat $q)"',
            remove=f"{device}echo 0 > $q",
            expect={"nomerges": str(self.spec.nomerges)},
        )
        return (*super().steps(), unmerged)


PLUGIN = NvmeUnmerged
