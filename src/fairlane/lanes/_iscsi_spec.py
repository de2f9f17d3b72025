"""Keys of a lane of transport ``iscsi``. Not a transport."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.guard.values import NONE
from fairlane.lanes import _multipath as paths
from fairlane.lanes._external import External, Name, one_address
from fairlane.lanes._lio import ISCSI_PORT
from fairlane.lanes.base import digests
from fairlane.study.base import LaneSpec


class IscsiExternal(External):
    """A LUN of an existing iSCSI array: only connected, described, disconnected."""

    port: int = Field(default=ISCSI_PORT, ge=1, le=65535)
    """TCP port of its portals."""
    iqn: Name
    """IQN of the target."""
    lun: int | None = Field(default=None, ge=0, le=16383)
    """Number of the LUN; not given: the target must show one LUN only."""
    serial: str = ""
    """Unit serial number (VPD page 0x80) that the volume must have; not given: any."""
    user: Name | None = None
    """CHAP name; ``secret`` names the source of its secret."""

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if bool(self.user) != bool(self.secret):
            raise ValueError("user: CHAP needs user and secret")
        return self


class IscsiSpec(LaneSpec):
    """iSCSI (LIO target, open-iscsi initiator)."""

    transport: Literal["iscsi"]
    """iSCSI over TCP."""
    sessions: int = Field(default=1, ge=1, le=16)
    """Sessions to each portal (study 001's tuning); more than one are joined by dm-multipath, round robin unless
    ``multipath`` says otherwise."""
    chap: bool = False
    """One-way CHAP with a secret made per run; it never enters the run directory."""
    header_digest: bool = False
    """CRC32C over headers."""
    data_digest: bool = False
    """CRC32C over data."""
    multipath: paths.IscsiMultipath | None = None
    """Sessions over every path of the platform (``platform.paths``), joined by dm-multipath with ALUA."""
    external: IscsiExternal | None = None
    """An existing array. Its secret is for one-way CHAP."""
    initiators = ("guest", "hypervisor")

    @model_validator(mode="after")
    def _of_qemu(self) -> Self:
        if self.initiator == "hypervisor" and (self.sessions > 1 or self.data_digest):
            key = "sessions" if self.sessions > 1 else "data_digest"
            raise ValueError(f"{key}: QEMU's initiator supports only one session and no data digest; remove {key}")
        if self.initiator == "hypervisor" and (self.multipath or self.external):
            key = "multipath" if self.multipath else "external"
            raise ValueError(f"{key}: works only with initiator: guest; otherwise remove {key}")
        if self.external and self.chap:
            raise ValueError("chap: an external array takes external.user and external.secret instead; remove chap")
        one_address(self.external, self.multipath)
        return self

    def known(self) -> Mapping[str, Any]:
        several = self.sessions > 1
        chap = self.chap or bool(self.external and self.external.secret)
        settings = [f"{self.sessions} session{'s' * several}", *(["CHAP"] * chap), *digests(self)]
        joined = f"dm-multipath, round robin over {self.sessions} sessions" if several else NONE
        if self.multipath:
            joined = f"dm-multipath with ALUA, {self.multipath.policy}"
            settings.append(self.multipath.summary)
        outside = self.external.known() if self.external else {}
        return {**super().known(), **outside, "multipath": joined, "path_settings": ", ".join(settings)}
