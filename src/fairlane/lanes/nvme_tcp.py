"""NVMe/TCP: nvmet on the target, nvme-tcp on the initiator."""

from typing import Literal

from pydantic import Field

from fairlane.lanes.base import Site, Step, Transport
from fairlane.study.base import LaneSpec


class NvmeTcpSpec(LaneSpec):
    """NVMe/TCP (nvmet target, kernel initiator)."""

    transport: Literal["nvme_tcp"]
    """NVMe over TCP."""
    queues: int = Field(default=1, ge=1, le=128)
    """I/O queues (``nvme connect -i``)."""
    queue_size: int = Field(default=128, ge=16, le=1024)
    """Entries per queue (``nvme connect -Q``)."""
    header_digest: bool = False
    """CRC32C over headers."""
    data_digest: bool = False
    """CRC32C over data."""


class NvmeTcp(Transport[NvmeTcpSpec]):
    Spec = NvmeTcpSpec

    def steps(self, name: str, spec: NvmeTcpSpec, site: Site) -> tuple[Step, ...]:
        raise NotImplementedError

    def find(self, name: str, spec: NvmeTcpSpec, site: Site) -> str:
        raise NotImplementedError


PLUGIN = NvmeTcp()
