"""The lab is closed: lanes end on its own media, never on an existing array. Pure."""

from collections.abc import Iterator

from fairlane.errors import FairlaneError
from fairlane.study.spec import Study


def external_lanes(study: Study) -> Iterator[FairlaneError]:
    """One problem for each lane with ``external``. A figure taken through emulated machines and QEMU's user network
    would be theirs, not the array's."""
    for name, lane in study.lanes.items():
        if getattr(lane, "external", None) and not lane.copy_of:
            yield FairlaneError(
                "external-on-lab",
                "the lab's machines cannot reach an array outside the lab",
                where=f"lanes.{name}.external",
                hint="set platform: {kind: hosts} to measure it from your own machines (docs/hosts.md)",
            )
