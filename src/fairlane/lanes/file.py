"""An existing file of a machine, which is read and never written."""

from collections.abc import Mapping
from shlex import quote
from typing import Any, Literal

from fairlane.lanes.base import Transport
from fairlane.study.base import LaneSpec
from fairlane.study.paths import AbsolutePath


class FileSpec(LaneSpec):
    """An existing file, for workloads that read."""

    transport: Literal["file"]
    """An existing file, used read-only: workloads that write are refused."""
    path: AbsolutePath
    """The file."""
    platforms = ("hosts",)
    network = False

    @property
    def existing(self) -> str:
        return "an existing file"

    def known(self) -> Mapping[str, Any]:
        return {
            **super().known(),
            "backend": self.path,
            "volume_mode": "file in a directory",
        }


class File(Transport[FileSpec]):
    Spec = FileSpec
    living = True
    backing = "external"
    stores_files = True

    def find(self) -> str:
        return f"[ ! -f {quote(self.spec.path)} ] || readlink -f {quote(self.spec.path)}"

    def path(self) -> tuple[str, ...]:
        return ("fio", self.spec.path)


PLUGIN = File
