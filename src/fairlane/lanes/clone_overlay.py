"""Clones that are qcow2 overlays: QEMU reads from the golden image what the overlay does not have."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.lanes._clones import OF_FILES, CloneLane, CloningFiles


class CloneOverlaySpec(CloneLane):
    """An empty qcow2 image with the golden image as its backing file."""

    transport: Literal["clone_overlay"]
    """A qcow2 overlay."""

    def known(self) -> Mapping[str, Any]:
        return {
            **super().known(),
            **OF_FILES,
            "image_format": "qcow2 over raw",
            "provisioning": "overlay, copied on write by QEMU",
        }


class CloneOverlay(CloningFiles[CloneOverlaySpec]):
    Spec = CloneOverlaySpec

    def copy(self, file: str) -> str:
        return f"qemu-img create -q -f qcow2 -F raw -b {self.site.golden} {file}"

    def node(self, file: str) -> Mapping[str, Any]:
        golden = {"driver": "raw", "file": {"driver": "file", "filename": self.site.golden}, "read-only": True}
        return {"driver": "qcow2", "file": super().node(file), "backing": golden}


PLUGIN = CloneOverlay
