"""The medium itself, with no transport: what the other lanes can at best reach."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.guard.values import NONE
from fairlane.lanes.base import Transport
from fairlane.study.base import LaneSpec


class LocalSpec(LaneSpec):
    """The medium as a local block device."""

    transport: Literal["local"]
    """The medium itself."""
    initiators = ("guest", "hypervisor")

    def known(self) -> Mapping[str, Any]:
        missing = ("multipath", "path_settings", "link_speed", "link_delay", "mtu")
        return {**super().known(), **dict.fromkeys(missing, NONE)}


class Local(Transport[LocalSpec]):
    Spec = LocalSpec
    virtual = True
    backing = "machine"

    def find(self) -> str:
        return f"echo {self.site.medium}"

    def backend(self) -> Mapping[str, Any]:
        if self.site.medium:
            return {"driver": "file", "filename": self.site.medium}
        return {"driver": "null-co", "size": self.site.size, "latency-ns": self.site.latency, "read-zeroes": True}

    def path(self) -> tuple[str, ...]:
        if self.spec.initiator == "guest":
            return super().path()
        # a run contains no path of a file
        return ("fio", "QEMU", "a file of this machine" if self.site.medium else "null-co")


PLUGIN = Local
