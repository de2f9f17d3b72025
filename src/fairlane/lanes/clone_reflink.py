"""Clones that share the golden image's blocks in the file system until they are written (FICLONE: XFS, btrfs)."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.lanes._clones import OF_FILES, Clone, CloneLane, CloningFiles
from fairlane.lanes.base import Site, Step


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

    def steps(self, name: str, spec: CloneReflinkSpec, site: Site) -> tuple[Step, ...]:  # noqa: ARG002
        return ()

    def clone(self, name: str, spec: CloneReflinkSpec, site: Site, number: int) -> Clone:  # noqa: ARG002
        file = f"{site.medium}/{name}-{number}"
        step = Step(
            name=f"reflink the golden image for clone {number} of {name}",
            place="hypervisor",
            apply=f"cp --reflink=always {site.golden} {file}",
            remove=f"rm -f {file}",
        )
        return Clone(step, {"driver": "file", "filename": file})


PLUGIN = CloneReflink()
