"""fio: a matrix of access patterns, block sizes and depths."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.errors import FairlaneError, Invalid
from fairlane.formats.fio_figures import figures
from fairlane.formats.fio_series import read_series
from fairlane.metrics import METRICS
from fairlane.records import Cell, Figures
from fairlane.stats.steady import ROUNDS
from fairlane.study.base import WorkloadSpec
from fairlane.study.strict import Strict
from fairlane.units import Duration, Size, format_duration, format_size
from fairlane.workloads import _fio_text
from fairlane.workloads.base import Invention, Rounds, Stage, Workload

Pattern = Literal["read", "write", "randread", "randwrite", "rw", "randrw"]

_MIXES = ("rw", "randrw")
_SERIES = "series_iops.log"


class Steady(Strict):
    """A gate before the first trial: rounds of one load until the medium is steady, as SNIA's Solid State Storage
    Performance Test Specification defines it (the range of five rounds within 20 % of their mean, their slope within
    10 %)."""

    rw: Pattern = "randwrite"
    """Pattern of the load."""
    bs: Size = 4096
    """Its block size."""
    iodepth: int = Field(default=16, ge=1, le=65536)
    """I/Os in flight."""
    round: Duration = 60 * 10**9
    """Length of a round."""
    limit: Duration = 3600 * 10**9
    """Time after which the trials begin all the same; that it was not reached is told."""

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        _within("bs", (self.bs,), 512, 2**31, multiple=512)
        if self.round < 10**6 or self.round % 10**6:
            raise ValueError("round: expected whole milliseconds, at least 1ms")
        if self.limit < ROUNDS * self.round:
            raise ValueError(f"limit: {ROUNDS} rounds of {format_duration(self.round)} are needed to judge at all")
        return self


class FioSpec(WorkloadSpec):
    """fio jobs: every combination of the lists is one cell."""

    kind: Literal["fio"]
    """fio, the flexible I/O tester."""
    rw: tuple[Pattern, ...] = Field(("randread",), min_length=1)
    """Access patterns, fio's names."""
    bs: tuple[Size, ...] = Field((4096,), min_length=1)
    """Block sizes."""
    iodepth: tuple[int, ...] = Field((1,), min_length=1)
    """I/Os in flight per job."""
    numjobs: tuple[int, ...] = Field((1,), min_length=1)
    """Jobs (processes) at once; their bins are merged, never averaged."""
    rwmixread: tuple[int, ...] = Field((70,), min_length=1)
    """Share of reads in percent, for the patterns rw and randrw."""
    rate_iops: tuple[int, ...] = ()
    """Rates to ask for, per job, reads and writes together; split by rwmixread, so that 70/30 stays 70/30. Three and
    more make a ladder of an open loop. Not given: as fast as iodepth allows."""
    engine: Literal["io_uring", "libaio", "psync"] = "io_uring"
    """fio's ioengine. psync has no depth: iodepth must be 1."""
    mem: Literal["malloc", "mmaphuge"] = "malloc"
    """Memory of the I/O buffers. mmaphuge takes reserved 2 MiB pages: buffers are contiguous in every trial, where
    malloc leaves their layout to chance, and with it the cost of large I/Os."""
    runtime: Duration = 30 * 10**9
    """Time measured per trial."""
    ramp: Duration = 0
    """Time under load before it, cut off."""
    size: Size | None = None
    """Part of the device that is used, from its start; the whole device if not given."""
    prefill: bool = True
    """Write the whole part once before the first trial. Without it reads may be served as zeros, unmeasured."""
    series: Duration | None = None
    """Interval at which fio logs IOPS within each trial: 1s, or another whole part of a second from 100ms. Reports draw
    the series, and `fairlane pilot` finds in it how short a trial may be. Not given: no log."""
    steady: Steady | None = None
    """Load every lane before its first trial until it is steady: {} for rounds of 60 s, one hour at most."""

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        _within("bs", self.bs, 512, 2**31, multiple=512)
        _within("iodepth", self.iodepth, 1, 65536)
        _within("numjobs", self.numjobs, 1, 100)
        _within("rwmixread", self.rwmixread, 0, 100)
        # fio counts run time in ms: 500us would be no time at all, and time_based without time runs for ever
        if self.runtime < 10**6 or self.runtime % 10**6:
            raise ValueError("runtime: expected whole milliseconds, at least 1ms")
        if self.ramp % 10**6:
            raise ValueError("ramp: expected whole milliseconds")
        if self.series is not None and (self.series < 10**8 or 10**9 % self.series or self.series > self.runtime):
            raise Invalid("series", "series: expected 1s or a whole part of it, at least 100ms and at most runtime")
        if self.engine == "psync" and (deep := [d for d in self.iodepth if d != 1]):
            raise ValueError(f"iodepth: psync has one I/O in flight, so iodepth must be 1 (found {deep[0]})")
        if self.size is not None and self.size < max(self.bs) * max(self.numjobs):
            raise ValueError(f"size: {format_size(self.size)} has no room for one block of every job")
        for key, names in (("primary", (self.primary,)), ("slo", self.slo)):
            for name in names:
                if METRICS[name].way and (pure := [rw for rw in self.rw if rw not in _MIXES]):
                    raise Invalid("no-mix", f"{key}: {name} is of mixes of reads and writes, and rw has {pure[0]}")
        _within("rate_iops", self.rate_iops, 1, 10**9)
        for rate in self.rate_iops if any(rw in _MIXES for rw in self.rw) else ():
            for mix in self.rwmixread:
                if abs(round(rate * mix / 100) / rate - mix / 100) > 0.005:
                    raise ValueError(f"rate_iops: {rate} cannot be split {mix}/{100 - mix} into whole I/Os per second")
        return self

    def cells(self, name: str) -> tuple[Cell, ...]:
        points = [
            {"rw": rw, "bs": bs, "iodepth": depth, "numjobs": jobs, "rwmixread": mix, "rate_iops": rate}
            for rw in self.rw
            for mix in (self.rwmixread if rw in _MIXES else (None,))
            for bs in self.bs
            for depth in self.iodepth
            for jobs in self.numjobs
            for rate in self.rate_iops or (None,)
        ]
        common: dict[str, Any] = {
            "engine": self.engine,
            "mem": self.mem,
            "runtime": self.runtime,
            "ramp": self.ramp,
            "size": self.size,
            "prefill": self.prefill,
        }
        if self.series:
            common["series"] = self.series
        if self.steady:
            common["steady"] = {name: getattr(self.steady, name) for name in Steady.model_fields}
        cells = (Cell(name, "fio", _name(point), point | common) for point in points)
        return tuple(dict.fromkeys(cells))  # a value listed twice is one cell

    def known(self, cell: Cell) -> Mapping[str, Any]:
        params = {name: value for name, value in cell.params.items() if value is not None}
        if steady := cell.params.get("steady"):
            params["steady"] = _steady_name(steady)
        params.pop("series", None)  # a log beside the load, not a part of it
        writes = {} if cell.params["rw"] in ("read", "randread") else {"refill_buffers": "1"}
        return {"size": "whole disk", **params, **writes, "tool": "fio", "direct": True}

    def trial_seconds(self, cell: Cell) -> float:  # noqa: ARG002
        return (self.ramp + self.runtime) / 1e9


def _within(key: str, values: tuple[int, ...], least: int, most: int, *, multiple: int = 1) -> None:
    for value in values:
        if not least <= value <= most or value % multiple:
            of = f", a multiple of {multiple}" if multiple > 1 else ""
            raise ValueError(f"{key}: expected {least} to {most}{of}, found {value}")


def _name(point: Mapping[str, Any]) -> str:
    """``4k randread qd16``, ``8k randrw 70/30 qd8 x4``, ``4k randread qd64 at 5000``."""
    mix, jobs, rate = point["rwmixread"], point["numjobs"], point["rate_iops"]
    pattern = point["rw"] if mix is None else f"{point['rw']} {mix}/{100 - mix}"
    name = f"{format_size(point['bs'])} {pattern} qd{point['iodepth']}" + (f" x{jobs}" if jobs != 1 else "")
    return name if rate is None else f"{name} at {rate}"


def _steady_name(steady: Mapping[str, Any]) -> str:
    load = f"{format_size(steady['bs'])} {steady['rw']} qd{steady['iodepth']}"
    return f"{load}, rounds of {format_duration(steady['round'])}"


@dataclass(frozen=True)
class _Part:
    """Region of the device that the jobs of a cell use: fio's ``size`` and, for disjoint regions,
    ``offset_increment``."""

    size: str
    increment: str = ""


def _part(params: Mapping[str, Any]) -> _Part:
    """The jobs' regions. Sequential jobs on the same blocks would hit each other's cached data: each gets its own
    region."""
    size, jobs, bs = params["size"], params["numjobs"], params["bs"]
    if jobs == 1 or params["rw"] in ("randread", "randwrite", "randrw"):
        return _Part("100%" if size is None else str(size))
    share = f"{100 // jobs}%" if size is None else str(size // jobs // bs * bs)
    return _Part(share, share)


def _filename(device: str) -> str:
    """``device`` escaped for fio's job file. Raises FairlaneError for a name that a job file cannot carry.

    fio splits names at ``:``, which by-path names have; it cuts lines at ``;`` and ``#`` and expands ``$``.
    """
    if not device.startswith("/") or device != device.strip() or not device.isprintable() or set(device) & set(";#$\\"):
        raise FairlaneError(
            "device-name",
            f"fio cannot be given the device name {device!r}",
            hint="use an absolute path without ; # $ or backslash, such as /dev/disk/by-id/...",
        )
    return device.replace(":", "\\:")


def fio_shell(devices: Sequence[str], options: Mapping[str, Any], job: str, out: str) -> str:
    """Shell that writes ``JOB.fio`` and runs it, with every device under the same load at once; the shell expands
    nothing in the quoted heredoc."""
    lines = "\n".join(f"{key}={value}" for key, value in options.items())
    names = [_filename(device) for device in devices]
    if len(names) == 1:
        text = f"[{job}]\nfilename={names[0]}\n{lines}"
    else:
        text = f"[global]\n{lines}" + "".join(f"\n[{job}{i}]\nfilename={name}" for i, name in enumerate(names))
    return (
        f"cat > {job}.fio <<'END-OF-JOB'\n{text}\nEND-OF-JOB\n"
        f"fio --output-format=json+ --output={out}.json {job}.fio 2>{out}.err\n"
    )


class Fio(Workload):
    """Outputs: ``job.fio`` (the job), ``fio.json`` (json+), ``fio.err`` (stderr); with ``series``: ``series_iops.log``,
    the interval log of all jobs."""

    Spec = FioSpec
    virtual = True
    invents = True
    packages = ("fio",)
    programs = ("fio",)

    async def drive(self, cell: Cell, devices: Callable[[int], Sequence[str]], seed: int, stage: Stage) -> None:
        jobs = cell.params["numjobs"] * len(devices(0))
        scripts = partial(self._script, cell, gate=stage.gate(jobs))
        await stage.load(lambda machine: scripts(devices(machine), seed + machine), stage.seconds)

    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:
        return self._script(cell, devices, seed)

    def _script(self, cell: Cell, devices: Sequence[str], seed: int, *, gate: str = "") -> str:
        params = cell.params
        part = _part(params)
        options: dict[str, Any] = {
            "ioengine": params["engine"],
            "direct": 1,
            "mem": params["mem"],
            "rw": params["rw"],
            "bs": params["bs"],
            "iodepth": params["iodepth"],
            "numjobs": params["numjobs"],
            "size": part.size,
            "time_based": 1,
            "runtime": f"{params['runtime'] // 10**6}ms",
            "ramp_time": f"{params['ramp'] // 10**6}ms",
            # fio 3.33 ignores randseed for the offsets unless randrepeat is 0 (axboe/fio issue 1502), and its
            # generator takes the low 32 bits of seed * job number, so that 0 would give all jobs the same stream.
            "randrepeat": 0,
            "randseed": 1 + seed % (2**32 - 1),
            "norandommap": 1,  # a map would make late I/Os of a long trial hunt for blocks not yet hit
            "refill_buffers": 1,
            "lat_percentiles": 1,
            "clat_percentiles": 1,
            "slat_percentiles": 1,
        }
        if part.increment:
            options["offset_increment"] = part.increment
        if series := params.get("series"):
            options |= {"write_iops_log": "series", "log_avg_msec": series // 10**6, "per_job_logs": 0}
        if gate:  # fio has set everything up by then; its own CPU time counts from here
            options["exec_prerun"] = gate
        rate, mix = params["rate_iops"], params["rwmixread"]
        if mix is not None:
            options["rwmixread"] = mix
        if rate is not None:
            reads = round(rate * (50 if mix is None else mix) / 100)
            # one number would cap each direction by itself: 70/30 would become 50/50 (STATISTICS.md)
            options["rate_iops"] = f"{rate},{rate}" if mix is None else f"{reads},{rate - reads}"
        return fio_shell(devices, options, "job", "fio")

    def prepare(self, cell: Cell, device: str) -> str:
        params = cell.params
        if not params["prefill"]:
            return ""
        options = {
            "ioengine": params["engine"],
            "direct": 1,
            "rw": "write",
            "bs": 2**20 if params["size"] is None or params["size"] % 2**20 == 0 else params["bs"],
            "iodepth": 1 if params["engine"] == "psync" else 16,
            "size": "100%" if params["size"] is None else params["size"],
            "refill_buffers": 1,
        }
        return fio_shell((device,), options, "prefill", "prefill")

    def prepares(self, cell: Cell, capacity: int) -> int:
        size = cell.params["size"] or capacity
        return min(size, capacity) // cell.params["bs"] * cell.params["bs"] if cell.params["prefill"] else 0

    def rounds(self, cell: Cell) -> Rounds | None:
        if (steady := cell.params.get("steady")) is None:
            return None
        own = {"rw": steady["rw"], "bs": steady["bs"], "iodepth": steady["iodepth"], "numjobs": 1, "rate_iops": None,
               "rwmixread": 70 if steady["rw"] in _MIXES else None, "runtime": steady["round"], "ramp": 0,
               "series": None}  # fmt: skip
        load = Cell(cell.workload, cell.kind, _steady_name(steady), {**cell.params, **own})
        return Rounds(load, steady["round"] / 1e9, steady["limit"] // steady["round"])

    def writes(self, cell: Cell) -> bool:
        return cell.params["rw"] not in ("read", "randread")

    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:
        result = figures(outputs.get("fio.json"))
        ramp, runtime = cell.params["ramp"], cell.params["runtime"]
        load = dict(result.context["load"])
        if ramp:
            load["window"] = (ramp + runtime) / runtime
        if interval := cell.params.get("series"):
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
