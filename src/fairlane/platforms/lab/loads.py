"""Check that the study's loads fit the lab's machines, volumes and huge pages: from the study alone."""

from collections.abc import Iterator

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.platforms.lab.spec import LabSpec
from fairlane.study.spec import Study
from fairlane.units import format_size

_HUGE = 2 * 1024**2


def unfit(study: Study, spec: LabSpec, *, own: bool) -> list[FairlaneError]:
    """Loads larger than a volume, or than the pages reserved for their buffers. ``own``: the lab makes a
    volume, of platform.medium.size bytes."""
    return [*(_larger(study, spec) if own else ()), *_buffers(study, spec), *_databases(study, spec)]


def _larger(study: Study, spec: LabSpec) -> Iterator[FairlaneError]:
    for name, load in study.workloads.items():
        database = getattr(load, "needs", 0)
        size = database or getattr(load, "size", None)
        if size and size > spec.medium.size:
            key = "scale" if database else "size"
            yield FairlaneError(
                "working-set",
                f"the workload needs {format_size(size)}, but a volume has {format_size(spec.medium.size)}",
                where=f"workloads.{name}.{key}",
                hint=f"lower {key}, or raise platform.medium.size",
            )


def _databases(study: Study, spec: LabSpec) -> Iterator[FairlaneError]:
    """Database loads that the lab's machines cannot run."""
    cells = {cell.workload: cell for cell in study.cells()}
    own = [name for name, cell in cells.items() if registry.load("workloads", cell.kind).part]
    for name in own:
        cell, load = cells[name], registry.load("workloads", cells[name].kind)
        where = f"workloads.{name}"
        if why := load.unable(cell, spec.kind):
            yield FairlaneError("workload-unsupported", why, where=where)
        elif spec.clock == "wall":
            yield FairlaneError(
                "virtual-clock-only",
                "the lab's machines have no database server under the wall clock",
                where=where,
                hint="set platform.clock: virtual",
            )
        elif not spec.medium.keeps:
            yield FairlaneError(
                "medium-forgets",
                "a database needs a medium that keeps written data",
                where=where,
                hint="set platform.medium.memory_backed: true with a size that fits",
            )
    if own and len({cell.kind for cell in cells.values()}) > 1:
        kinds = " and ".join(dict.fromkeys(cell.kind for cell in cells.values()))
        yield FairlaneError(
            "loads-mixed",
            f"{kinds} cannot share a volume: each writes over the other's data",
            where="workloads",
            hint="make two studies of it",
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
                f"the I/O buffers need {pages} pages of 2 MiB, but platform.hugepages reserves only {spec.hugepages}",
                where=f"workloads.{name}.mem",
                hint="raise platform.hugepages (and memory), lower bs x iodepth x numjobs, or set mem: malloc",
            )
