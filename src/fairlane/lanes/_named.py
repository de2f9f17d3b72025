"""Lanes whose volumes a platform creates by name: of a storage class, or on a datastore. Not a transport.

The cluster or hypervisor attaches the volume, so that there are no steps; the study states its properties, and the
platform reads back what it can.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeVar

from pydantic import model_validator

from fairlane.errors import FairlaneError
from fairlane.lanes.base import Step, Transport
from fairlane.study.base import LaneSpec

Protocol = Literal[
    "iscsi", "nvme_tcp", "nvme_rdma", "nvme_fc", "fc", "fcoe", "nfs", "rbd", "cephfs", "vsan", "local"
]  # fmt: skip
"""Protocol between a host and its storage."""


class NamedVolume(LaneSpec):
    """A lane whose volumes the platform creates under a name. Derived classes add ``transport``."""

    protocol: Protocol | None = None
    """Protocol between hosts and storage, for reports; read back where the platform can. Default: unknown."""
    initiators = ("hypervisor",)

    @model_validator(mode="after")
    def _own_disk(self) -> Self:
        if self.device is not None:
            raise ValueError(f"device: {self.transport} sets its disk with its own keys; remove device")
        return self

    def known(self) -> Mapping[str, Any]:
        return {"transport": self.protocol or self.transport, "initiator": "hypervisor"}


SpecT = TypeVar("SpecT", bound=NamedVolume)


class Named(Transport[SpecT]):
    """The platform creates and finds the volume; there are no steps."""

    backing = "external"

    def steps(self) -> tuple[Step, ...]:
        raise FairlaneError(
            "volumes-of-platform", f"lane {self.name}: the platform creates volumes of {self.spec.transport}"
        )

    def find(self) -> str:
        raise FairlaneError(
            "volumes-of-platform", f"lane {self.name}: the platform finds volumes of {self.spec.transport}"
        )
