"""Clones that share the golden image's blocks in the file system until they are written (FICLONE: XFS, btrfs)."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.lanes._clones import OF_FILES, CloneLane, CloningFiles


class CloneReflinkSpec(CloneLane):
    """Golden image cloned by the file system (cp --reflink=always). Needs XFS or btrfs, or root and xfsprogs: then the
    lab puts the files of all file lanes on an XFS of its own."""

    transport: Literal["clone_reflink"]
    """A raw file that shares its blocks with the golden image until they are written."""

    def known(self) -> Mapping[str, Any]:
        return {
            **super().known(),
            **OF_FILES,
            "provisioning": "shared blocks, copied on write by the file system",
        }


class CloneReflink(CloningFiles[CloneReflinkSpec]):
    Spec = CloneReflinkSpec
    reflinks = True

    def copy(self, file: str) -> str:
        return f"cp --reflink=always {self.site.golden} {file}"


PLUGIN = CloneReflink
