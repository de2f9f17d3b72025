"""The medium itself, with no transport: what the other lanes can at best reach."""

from typing import Literal

from fairlane.lanes.base import Site, Step, Transport
from fairlane.study.base import LaneSpec


class LocalSpec(LaneSpec):
    """The medium as a local block device."""

    transport: Literal["local"]
    """The medium itself."""


class Local(Transport[LocalSpec]):
    Spec = LocalSpec

    def steps(self, name: str, spec: LocalSpec, site: Site) -> tuple[Step, ...]:  # noqa: ARG002
        return ()

    def find(self, name: str, spec: LocalSpec, site: Site) -> str:  # noqa: ARG002
        return f"echo {site.medium}"


PLUGIN = Local()
