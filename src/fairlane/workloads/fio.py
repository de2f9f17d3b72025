"""fio: a matrix of access patterns, block sizes and depths, or several named jobs at once."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fairlane.errors import FairlaneError
from fairlane.formats.fio_figures import figures
from fairlane.formats.fio_series import read_series
from fairlane.records import Cell, Figures
from fairlane.units import format_size
from fairlane.workloads import _fio_keys as keys
from fairlane.workloads import _fio_script as text
from fairlane.workloads import _fio_text
from fairlane.workloads._fio_script import fio_shell
from fairlane.workloads._fio_spec import FioSpec
from fairlane.workloads._fio_steady import steady_name
from fairlane.workloads.base import Invention, Rounds, Stage, Workload

__all__ = ["Fio", "FioSpec", "fio_shell"]

_SERIES = "series_iops.log"
_STEADY_KEEPS = ("engine", "mem", "size", "prefill", "steady", "offset", *keys.OF_DATA)
"""Parameters of a cell that its rounds of load before the trials have too."""


class Fio(Workload):
    """Outputs: ``job.fio`` (the jobs), ``fio.json`` (json+), ``fio.err`` (stderr); with ``series``:
    ``series_iops.log``, the interval log of all jobs."""

    Spec = FioSpec
    virtual = True
    invents = True
    packages = ("fio",)
    programs = ("fio",)

    async def drive(self, cell: Cell, devices: Callable[[int], Sequence[str]], seed: int, stage: Stage) -> None:
        jobs = sum(job["numjobs"] for job in text.jobs_of(cell.params).values()) * len(devices(0))
        readonly = stage.readonly and not self.writes(cell)
        scripts = partial(self._script, cell, gate=stage.gate(jobs), readonly=readonly)
        await stage.load(lambda machine: scripts(devices(machine), seed + machine), stage.seconds)

    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:
        return self._script(cell, devices, seed)

    def _script(self, cell: Cell, devices: Sequence[str], seed: int, *, gate: str = "", readonly: bool = False) -> str:
        if "jobs" in cell.params:
            jobs = dict(text.sections(cell.params, seed, gate))
            return text.jobs_shell(devices, jobs, "job", "fio", readonly=readonly)
        return fio_shell(devices, text.options(cell.params, seed, gate), "job", "fio", readonly=readonly)

    def prepare(self, cell: Cell, device: str) -> str:
        if not cell.params["prefill"]:
            return ""
        return fio_shell((device,), text.fill(cell.params), "prefill", "prefill")

    def prepares(self, cell: Cell, capacity: int) -> int:
        begin, end = text.region(cell.params)
        needed = end or begin + 512
        # fio would make a file longer, and lay it out anew for that
        if needed > capacity and ("jobs" in cell.params or begin):
            raise FairlaneError(
                "volume-small",
                f"{cell.name} needs the first {format_size(needed)} of the volume, which has {format_size(capacity)}",
                hint="make the volumes larger, or size and offset smaller",
            )
        return text.filled(cell.params, capacity) if cell.params["prefill"] else 0

    def extent(self, cell: Cell, capacity: int) -> int:
        return text.needed(cell.params, capacity)

    def rounds(self, cell: Cell) -> Rounds | None:
        if (steady := cell.params.get("steady")) is None:
            return None
        own = {"rw": steady["rw"], "bs": steady["bs"], "iodepth": steady["iodepth"], "numjobs": 1, "rate_iops": None,
               "rwmixread": 70 if steady["rw"] in keys.MIXES else None, "runtime": steady["round"], "ramp": 0,
               "series": None}  # fmt: skip
        kept = {key: cell.params[key] for key in _STEADY_KEEPS if key in cell.params}
        if "jobs" in cell.params or any(cell.params.get(key) for key in keys.SYNCS):
            kept["engine"] = "io_uring"  # those of the cell may have no depth
        if "jobs" in cell.params:
            begin, end = text.region(cell.params)
            kept |= {"offset": begin, "size": None if end is None else end - begin}
        load = Cell(cell.workload, cell.kind, steady_name(steady), {**kept, **own})
        return Rounds(load, steady["round"] / 1e9, steady["limit"] // steady["round"])

    def writes(self, cell: Cell) -> bool:
        return any(keys.writes(job["rw"]) for job in text.jobs_of(cell.params).values())

    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:
        params = cell.params
        names = tuple(params.get("jobs") or ())
        result = figures(outputs.get("fio.json"), names, params.get("judged", ""))
        ramp, runtime = params["ramp"], params["runtime"]
        load = dict(result.context["load"])
        if ramp:
            load["window"] = (ramp + runtime) / runtime
        if params.get("direct") is False:
            load["cached"] = True
        if interval := params.get("series"):
            rates = read_series(io.BytesIO(outputs.get(_SERIES, b"")), interval // 10**6)
            load |= {"series": {"interval_ms": interval // 10**6, "iops": rates}} if rates else {}
        return replace(result, context={**result.context, "load": load})

    def merge(self, cell: Cell, machines: Mapping[str, Figures]) -> Figures:
        """As all fleets; series are added up, because the machines' loads begin at one instant."""
        merged = super().merge(cell, machines)
        each = [figures.context["load"].get("series") for figures in machines.values()]
        if not all(each):
            return merged
        rates = [sum(of_machines) for of_machines in zip(*(series["iops"] for series in each), strict=False)]
        load = {**merged.context["load"], "series": {**each[0], "iops": rates}}
        return replace(merged, context={**merged.context, "load": load})

    def invented(self, cell: Cell, invention: Invention) -> Mapping[str, bytes]:
        files = {"fio.err": b"", "fio.json": _fio_text.invented(cell, invention)}
        return files | ({_SERIES: _fio_text.invented_series(cell, invention)} if cell.params.get("series") else {})


PLUGIN = Fio()
