"""A storage path whose figures were imported: Fairlane did not build it, and knows only what its keys state."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.errors import FairlaneError
from fairlane.lanes.base import Step, Transport
from fairlane.study.base import LaneSpec


class ImportedLane(LaneSpec):
    """A lane of imported results; its ``conditions`` state how it was built."""

    transport: Literal["imported"]
    """Built by others."""
    source: str = ""
    """Where its figures come from: files, page, run."""

    def known(self) -> Mapping[str, Any]:
        return {}  # ``conditions`` may state how the volume reached the guest


class Imported(Transport[ImportedLane]):
    Spec = ImportedLane
    backing = "external"

    def steps(self) -> tuple[Step, ...]:
        raise FairlaneError("imported", f"lane {self.name} is imported and cannot be built")

    def find(self) -> str:
        raise FairlaneError("imported", f"lane {self.name} is imported and has no device")


PLUGIN = Imported
