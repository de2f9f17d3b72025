"""Clones that are whole copies of the golden image: what the cheaper methods are held against."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.lanes._clones import OF_FILES, Clone, CloneLane, CloningFiles
from fairlane.lanes.base import Site, Step


class CloneCopySpec(CloneLane):
    """Golden image copied byte for byte (cp), holes left out."""

    transport: Literal["clone_copy"]
    """A full copy, a raw file."""

    def known(self) -> Mapping[str, Any]:
        return {
            **super().known(),
            **OF_FILES,
            "provisioning": "full copy, holes left out",
        }


class CloneCopy(CloningFiles[CloneCopySpec]):
    Spec = CloneCopySpec

    def steps(self, name: str, spec: CloneCopySpec, site: Site) -> tuple[Step, ...]:  # noqa: ARG002
        return ()

    def clone(self, name: str, spec: CloneCopySpec, site: Site, number: int) -> Clone:  # noqa: ARG002
        file = f"{site.medium}/{name}-{number}"
        step = Step(
            name=f"copy the golden image for clone {number} of {name}",
            place="hypervisor",
            # never shared, also where the file system could: that is another lane
            apply=f"cp --reflink=never --sparse=auto {site.golden} {file}",
            remove=f"rm -f {file}",
        )
        return Clone(step, {"driver": "file", "filename": file})


PLUGIN = CloneCopy()
