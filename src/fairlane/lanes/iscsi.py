"""iSCSI: LIO on the target, open-iscsi on the initiator."""

from typing import Literal

from pydantic import Field

from fairlane.lanes.base import Site, Step, Transport
from fairlane.study.base import LaneSpec


class IscsiSpec(LaneSpec):
    """iSCSI (LIO target, open-iscsi initiator)."""

    transport: Literal["iscsi"]
    """iSCSI over TCP."""
    sessions: int = Field(default=1, ge=1, le=16)
    """Sessions to the portal (study 001's tuning)."""
    chap: bool = False
    """One-way CHAP with a secret made per run; it never enters the run directory."""
    header_digest: bool = False
    """CRC32C over headers."""
    data_digest: bool = False
    """CRC32C over data."""


class Iscsi(Transport[IscsiSpec]):
    Spec = IscsiSpec

    def steps(self, name: str, spec: IscsiSpec, site: Site) -> tuple[Step, ...]:
        raise NotImplementedError

    def find(self, name: str, spec: IscsiSpec, site: Site) -> str:
        raise NotImplementedError


PLUGIN = Iscsi()
