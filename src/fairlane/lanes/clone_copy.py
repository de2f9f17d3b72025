"""Clones that are whole copies of the golden image: the baseline for cheaper methods of cloning."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.lanes._clones import OF_FILES, CloneLane, CloningFiles


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

    def copy(self, file: str) -> str:
        # never shared: reflinks are another lane
        return f"cp --reflink=never --sparse=auto {self.site.golden} {file}"


PLUGIN = CloneCopy
