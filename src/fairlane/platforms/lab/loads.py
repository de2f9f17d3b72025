"""Check that the study's loads fit the lab's volumes and huge pages: from the study alone."""

from collections.abc import Iterator

from fairlane.errors import FairlaneError
from fairlane.platforms.lab.spec import LabSpec
from fairlane.study.spec import Study
from fairlane.units import format_size

_HUGE = 2 * 1024**2


def unfit(study: Study, spec: LabSpec, *, own: bool) -> list[FairlaneError]:
    """Loads larger than a volume, or than the pages reserved for their buffers. ``own``: the lab makes a
    volume, of platform.medium.size bytes."""
    return [*(_larger(study, spec) if own else ()), *_buffers(study, spec)]


def _larger(study: Study, spec: LabSpec) -> Iterator[FairlaneError]:
    for name, load in study.workloads.items():
        size = getattr(load, "size", None)
        if size and size > spec.medium.size:
            yield FairlaneError(
                "working-set",
                f"{format_size(size)} are to be used of volumes of {format_size(spec.medium.size)}",
                where=f"workloads.{name}.size",
                hint="lower size, or raise platform.medium.size",
            )


def _buffers(study: Study, spec: LabSpec) -> Iterator[FairlaneError]:
    needed: dict[str, int] = {}
    for cell in study.cells():
        p = cell.params
        if p.get("mem") == "mmaphuge":
            pages = -(-p["bs"] * p["iodepth"] // _HUGE) * p["numjobs"]
            needed[cell.workload] = max(pages, needed.get(cell.workload, 0))
    for name, pages in needed.items():
        if pages > spec.hugepages:
            yield FairlaneError(
                "hugepages",
                f"the I/O buffers take {pages} pages of 2 MiB, and platform.hugepages reserves {spec.hugepages}",
                where=f"workloads.{name}.mem",
                hint="raise platform.hugepages (and memory), lower bs x iodepth x numjobs, or set mem: malloc",
            )
