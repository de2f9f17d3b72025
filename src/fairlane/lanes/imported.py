"""A storage path that somebody else built: known by what is said of it."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.errors import FairlaneError
from fairlane.lanes.base import Site, Step, Transport
from fairlane.study.base import LaneSpec


class ImportedLane(LaneSpec):
    """A lane of imported results; what is known of it stands in ``conditions``."""

    transport: Literal["imported"]
    """Built by others."""
    source: str = ""
    """Where its figures come from: files, page, run."""

    def known(self) -> Mapping[str, Any]:
        return {}  # how the volume reached the guest, ``conditions`` may say


class Imported(Transport[ImportedLane]):
    Spec = ImportedLane

    def steps(self, name: str, spec: ImportedLane, site: Site) -> tuple[Step, ...]:  # noqa: ARG002
        raise FairlaneError(f"lane {name} is imported and cannot be built")

    def find(self, name: str, spec: ImportedLane, site: Site) -> str:  # noqa: ARG002
        raise FairlaneError(f"lane {name} is imported and has no device")


PLUGIN = Imported()
