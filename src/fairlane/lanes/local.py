"""The medium itself, with no transport: what the other lanes can at best reach."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.guard.values import NONE
from fairlane.lanes.base import Site, Step, Transport
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
    target = False

    def steps(self, name: str, spec: LocalSpec, site: Site) -> tuple[Step, ...]:  # noqa: ARG002
        return ()

    def find(self, name: str, spec: LocalSpec, site: Site) -> str:  # noqa: ARG002
        return f"echo {site.medium}"

    def backend(self, name: str, spec: LocalSpec, site: Site) -> Mapping[str, Any]:  # noqa: ARG002
        if site.medium:
            return {"driver": "file", "filename": site.medium}
        return {"driver": "null-co", "size": site.size, "latency-ns": site.latency, "read-zeroes": True}

    def path(self, name: str, spec: LocalSpec, site: Site) -> tuple[str, ...]:
        if spec.initiator == "guest":
            return super().path(name, spec, site)
        return ("fio", "QEMU", "a file of this machine" if site.medium else "null-co")  # no path of a file in a run


PLUGIN = Local()
