"""The keys of workload ``fio``, and the cells that they make."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.errors import Invalid
from fairlane.formats import fio_job_file, fio_options
from fairlane.metrics import METRICS, SYNC, WAYS
from fairlane.records import Cell
from fairlane.study.base import MOST_CELLS, WorkloadSpec
from fairlane.units import Duration, Size, format_size
from fairlane.workloads import _fio_keys as keys
from fairlane.workloads._fio_keys import MIXES, Engine, Job, JobName, Pattern, Sync, within
from fairlane.workloads._fio_steady import Steady, steady_name


class FioSpec(WorkloadSpec):
    """fio jobs: every combination of the lists is one cell."""

    kind: Literal["fio"]
    """fio, the flexible I/O tester."""
    rw: tuple[Pattern, ...] = Field(("randread",), min_length=1)
    """Access patterns, fio's names."""
    bs: tuple[Size, ...] = Field((4096,), min_length=1)
    """Block sizes: multiples of 512 bytes, and with ``direct: false`` any."""
    bssplit: str | None = None
    """Block sizes mixed in one cell, with their shares in percent, in place of bs: 4k/60:64k/40; for reads and for
    writes: 4k/100,64k/100."""
    iodepth: tuple[int, ...] = Field((1,), min_length=1)
    """I/Os in flight per job."""
    numjobs: tuple[int, ...] = Field((1,), min_length=1)
    """Jobs (processes) at once; their bins are merged, never averaged."""
    rwmixread: tuple[int, ...] = Field((70,), min_length=1)
    """Share of reads in percent, for the patterns rw and randrw."""
    rate_iops: tuple[int, ...] = ()
    """Target rates (IOPS) per job, reads and writes together, split by rwmixread, so that 70/30 stays 70/30. Three or
    more make an open-loop ladder. Default: as fast as iodepth allows."""
    fsync: tuple[int, ...] = ()
    """An fsync after every N writes; each N is a cell, 0 is none. Cells that only read have none. The time of syncs has
    metrics of its own (sync_lat_p99); iops, the default primary, then counts writes with their syncs: commits."""
    fdatasync: tuple[int, ...] = ()
    """An fdatasync after every N writes, as fsync."""
    sync: Sync = "none"
    """Synchronous writes: the device is open with O_SYNC (sync) or O_DSYNC (dsync), and each write is durable when it
    returns."""
    end_fsync: bool = False
    """One fsync when a job ends. No figure includes it."""
    direct: bool = True
    """Direct I/O (O_DIRECT). false: I/O goes through the machine's page cache, so no figure is the device's alone;
    every report states it."""
    random_distribution: str = "random"
    """Distribution of random addresses, as fio writes it: zipf:1.2, pareto:0.9, normal:50 (percent), or zones with
    their shares of I/Os and of the area, zoned:60/10:30/20:8/30:2/40."""
    percentage_random: int = Field(default=100, ge=0, le=100)
    """Share of a random pattern's I/Os that are random, in percent; the others are sequential."""
    buffer_compress_percentage: int | None = Field(default=None, ge=0, le=100)
    """Compressibility of all written data, the prefill included, in percent. Default: incompressible."""
    dedupe_percentage: int | None = Field(default=None, ge=0, le=100)
    """Share of duplicate blocks in all written data, the prefill included, in percent."""
    thinktime: Duration = 0
    """Pause of a job after thinktime_blocks I/Os, in whole microseconds."""
    thinktime_blocks: int = Field(default=1, ge=1, le=10**9)
    """I/Os before each pause."""
    jobs: dict[JobName, Job] = Field(default_factory=dict)
    """Several named jobs at once, {log: {rw: write, fdatasync: 1}, reader: {rw: randread, iodepth: 8}}. Each has its
    own figures in the report. Keys that a job does not set come from the workload, whose lists still make cells."""
    judged: JobName | None = None
    """The job that the verdict is about; the others are background load. Default: all jobs together. CPU per I/O always
    counts all jobs and all their I/Os."""
    job_file: str | None = None
    """A fio job file in place of jobs: its path, relative to the study file, or its text itself, on several lines. The
    text becomes part of the study. Fairlane sets devices, paths, seeds and output itself and ignores such options. It
    refuses options that break a comparison, that may name a file, or that are unknown; the others go to fio. runtime
    and ramp_time of the file apply unless the study sets them."""
    engine: Engine = "io_uring"
    """fio's ioengine. psync has no depth: iodepth must be 1. Default with fsync or fdatasync and iodepth 1: psync,
    because fio times the syncs of other engines wrongly; these have no sync latency."""
    mem: Literal["malloc", "mmaphuge"] = "malloc"
    """Memory of the I/O buffers. mmaphuge takes reserved 2 MiB pages: buffers are contiguous in every trial, where
    malloc leaves their layout to chance, and with it the cost of large I/Os."""
    runtime: Duration = 30 * 10**9
    """Time measured per trial."""
    ramp: Duration = 0
    """Ramp-up: time under load before the measurement, in no figure."""
    size: Size | None = None
    """Part of the device that is used, from its offset; the whole device if not given."""
    offset: Size = 0
    """Where that part begins."""
    prefill: bool = True
    """Write the whole part once before the first trial. Without it storage may answer reads with zeros and no I/O."""
    series: Duration | None = None
    """Interval at which fio logs IOPS within each trial: 1s, or another whole part of a second from 100ms. Reports draw
    the series, and `fairlane pilot` finds in it how short a trial may be. Not given: no log."""
    steady: Steady | None = None
    """Precondition every lane before its first trial until steady state: {} for rounds of 60 s, one hour at most."""

    @model_validator(mode="after")
    def _settled(self) -> Self:
        """Defaults that depend on other keys; a study that is written back has them as any other key."""
        set_here: dict[str, Any] = {}
        if not self.jobs and any(n for key in keys.SYNCS for n in getattr(self, key)) and set(self.iodepth) == {1}:
            set_here["engine"] = "psync"
        if self.job_file is not None:
            set_here |= {"runtime": self._file.runtime, "ramp": self._file.ramp}
        for key, value in set_here.items():
            if value is not None and key not in self.model_fields_set:
                object.__setattr__(self, key, value)  # the model is frozen
        return self

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        within("bs", self.bs, 512, 2**31, multiple=512 if self.direct else 1)
        within("iodepth", self.iodepth, 1, 65536)
        within("numjobs", self.numjobs, 1, 100)
        within("rwmixread", self.rwmixread, 0, 100)
        within("rate_iops", self.rate_iops, 1, 10**9)
        for key in keys.SYNCS:
            within(key, getattr(self, key), 0, 10**9)
        # fio counts run time in ms: 500us would be no time at all, and time_based without time runs for ever
        if self.runtime < 10**6 or self.runtime % 10**6:
            raise ValueError("runtime: expected whole milliseconds, at least 1ms")
        if self.ramp % 10**6:
            raise ValueError("ramp: expected whole milliseconds")
        if self.series is not None and (self.series < 10**8 or 10**9 % self.series or self.series > self.runtime):
            raise Invalid("series", "series: expected 1s or a whole part of it, at least 100ms and at most runtime")
        keys.check_values({key: getattr(self, key) for key in _VALUES}, "")
        for name, job in self.jobs.items():
            keys.check_values(keys.given(job), f"jobs.{name}.")
        self._several()
        self._meant()
        if self.most > MOST_CELLS:  # the study says so; they are never made
            return self
        for params in self._points():
            for name, job_params in (params.get("jobs") or {"": params}).items():
                self._check(name, job_params)
            self._metrics(params)
        return self

    def _check(self, name: str, params: Mapping[str, Any]) -> None:
        if self.job_file is None:
            keys.check_job(params, f"jobs.{name}." if name else "")
            return
        try:
            keys.check_job(params)
        except ValueError as error:
            kind, hint = getattr(error, "kind", "value"), getattr(error, "hint", "")
            raise Invalid(kind, f"job_file: job {name}: {error}", hint=hint) from None

    def _several(self) -> None:
        """Raise Invalid for jobs, or a job file, that cannot be told apart or clash with other keys."""
        if self.job_file is not None:
            if self.jobs:
                raise Invalid("job-file-and-jobs", "job_file: jobs is set, too", hint="set only one of them")
            if own := [key for key in _SHAPES if self._given(key)]:
                raise Invalid(
                    "job-file-and-keys",
                    f"job_file: {sorted(own)[0]} belongs into the job file",
                    hint="move it into the job file, or use jobs instead of job_file",
                )
            names = list(self._file.jobs)
        else:
            names = list(self.jobs)
        if self.judged is not None and self.judged not in names:
            raise Invalid("job-unknown", f"judged: {self.judged!r} is not a job (jobs: {', '.join(names) or 'none'})")
        if some := [name for name in self.jobs if name.startswith("global")]:
            raise Invalid(
                "job-name", f"jobs.{some[0]}: fio takes every section whose name begins with global for global options",
                hint="give the job another name",
            )  # fmt: skip
        if len(self.jobs) > fio_job_file.MOST_JOBS:
            raise Invalid("limit", f"jobs: expected at most {fio_job_file.MOST_JOBS}, found {len(self.jobs)}")

    def _meant(self) -> None:
        """Raise Invalid for keys that no cell would follow."""
        if self.bssplit and self._given("bs"):
            raise Invalid("bssplit", "bssplit: bs is set, too", hint="set only one of them")
        if self._given("thinktime_blocks") and not self.thinktime and not self.jobs:
            raise Invalid("thinktime", "thinktime_blocks: requires thinktime", hint="set thinktime")
        if self.jobs or self.job_file is not None:
            return
        for names, fits, what in (
            (keys.WRITES_ONLY, keys.writes, "writes"), (keys.RANDOM_ONLY, keys.RANDOM.__contains__, "is random"),
        ):  # fmt: skip
            for key in names:
                if self._given(key) and not any(map(fits, self.rw)):
                    raise Invalid("key-unused", f"{key}: has no effect, because no pattern of rw {what}")

    def _metrics(self, params: Mapping[str, Any]) -> None:
        """Raise Invalid for a metric to be judged that a cell will not have."""
        jobs = params.get("jobs") or {"": params}
        judged = [jobs[params["judged"]]] if params.get("judged") else list(jobs.values())
        for key, names in (("primary", (self.primary,)), ("slo", self.slo)):
            for name in names:
                way = METRICS[name].way
                patterns = {job["rw"] for job in judged}
                if way in WAYS and (pure := sorted(patterns - set(MIXES))) and len(jobs) == 1:
                    raise Invalid("no-mix", f"{key}: {name} needs a mix of reads and writes, but rw has {pure[0]}")
                if way == SYNC and not any(map(keys.times_syncs, judged)):
                    some = any(job.get(sync) for job in judged for sync in keys.SYNCS)
                    raise Invalid(
                        "no-syncs",
                        f"{key}: {name} needs fsync or fdatasync, but "
                        + ("fio times them correctly with psync only" if some else "a cell has none"),
                        hint="set engine: psync, and numjobs instead of iodepth" if some else "set fdatasync: [1]",
                    )

    @cached_property
    def _file(self) -> fio_job_file.JobFile:
        """The job file, sorted. Raises Invalid."""
        text = self.job_file or ""
        if "\n" not in text:
            raise Invalid(
                "job-file-path",
                f"job_file: {text[:80]!r} is a path, but this study does not come from a file",
                hint="write the text of the job file here, on several lines",
            )
        try:
            return fio_job_file.parse(text)
        except Invalid as error:
            raise Invalid(error.kind, f"job_file: {error}", hint=error.hint) from None

    @property
    def left_out(self) -> tuple[str, ...]:
        """Options of the job file that are Fairlane's, and are not passed on."""
        if self.job_file is None:
            return ()
        taken = {"runtime": self._file.runtime == self.runtime, "ramp_time": self._file.ramp == self.ramp}
        return tuple(option for option in self._file.dropped if not taken.get(option))

    @property
    def one_file(self) -> bool:
        """Whether processes of the job file load the lane's one file, where fio would give each its own."""
        return self.job_file is not None and self._file.files

    def cells(self, name: str) -> tuple[Cell, ...]:
        cells = (Cell(name, "fio", self._name(params), params) for params in self._points())
        return tuple(dict.fromkeys(cells))  # a value listed twice is one cell

    def _points(self) -> Iterator[dict[str, Any]]:
        """The parameters of every cell."""
        common: dict[str, Any] = {"mem": self.mem, "runtime": self.runtime, "ramp": self.ramp}
        last: dict[str, Any] = {"prefill": self.prefill}
        if self.series:
            last["series"] = self.series
        if self.steady:
            last["steady"] = {name: getattr(self.steady, name) for name in Steady.model_fields}
        last |= {key: value for key in keys.OF_DATA if (value := getattr(self, key)) is not None}
        if self.job_file is not None:
            yield self._together(self._in_file(), common, last)
            return
        for rw, bs, depth, jobs, rate, mix in self._matrix():
            for syncs in self._syncs(rw):
                point = {"rw": rw, "bs": bs, "iodepth": depth, "numjobs": jobs, "rwmixread": mix, "rate_iops": rate}
                if self.jobs:
                    named = {name: self._job(job, point, syncs) for name, job in self.jobs.items()}
                    yield self._together(named, common, last)
                else:
                    own = self._own(point, {key: getattr(self, key) for key in keys.SCALARS} | syncs)
                    yield point | {"engine": self.engine} | common | {"size": self.size} | last | own

    def _matrix(self) -> Iterator[tuple[Any, ...]]:
        for rw in self.rw:
            for mix in self.rwmixread if rw in MIXES else (None,):
                for bs, depth, jobs, rate in product(
                    (None,) if self.bssplit else self.bs, self.iodepth, self.numjobs, self.rate_iops or (None,)
                ):
                    yield rw, bs, depth, jobs, rate, mix

    def _syncs(self, rw: str) -> list[dict[str, int]]:
        """Syncs of the cells of one pattern: each combination that is not the same as another."""
        if not self.jobs and not keys.writes(rw):
            return [{}]
        lists = [[{key: n} if n else {} for n in getattr(self, key)] or [{}] for key in keys.SYNCS]
        every = [first | second for first in lists[0] for second in lists[1]]
        return [syncs for n, syncs in enumerate(every) if syncs not in every[:n]]

    def _own(self, point: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the keys ``given`` that say something to a job of this pattern, and are not fio's default."""
        left_out = (*(() if keys.writes(point["rw"]) else keys.WRITES_ONLY),
                    *(() if point["rw"] in keys.RANDOM else keys.RANDOM_ONLY))  # fmt: skip
        own = {
            key: value
            for key, value in given.items()
            if value is not None and key not in left_out and value != _DEFAULTS.get(key)
        }
        if "thinktime" not in own:
            own.pop("thinktime_blocks", None)
        return own if self.direct else {**own, "direct": False}

    def _job(self, job: Job, point: Mapping[str, Any], syncs: Mapping[str, int]) -> dict[str, Any]:
        """One of ``jobs``: its own keys over the workload's."""
        own = keys.given(job)
        shape = {key: own.get(key, point[key]) for key in point}
        shape["rwmixread"] = own.get("rwmixread", point["rwmixread"] or self.rwmixread[0])
        if shape["rw"] not in MIXES:
            shape["rwmixread"] = None
        scalars = {key: getattr(self, key) for key in keys.SCALARS}
        if "bs" in own:
            scalars["bssplit"] = None
        if "bssplit" in own:
            shape["bs"] = None
        every = {key: own[key] or None for key in keys.SYNCS if key in own} or dict(syncs)
        chosen = self._own(shape, scalars | every | {key: own[key] for key in keys.SCALARS if key in own})
        params = {**shape, **chosen, "size": own.get("size", self.size)}
        return params | {"engine": own.get("engine") or keys.engine(params, self.engine)}

    def _in_file(self) -> dict[str, dict[str, Any]]:
        """The jobs of the job file: what is known of them, and their options as they stand."""
        jobs = {}
        for name, options in self._file.jobs.items():
            known = fio_options.parameters(options)
            read = {key: known.get(key) for key in ("rw", "bs", "rwmixread", "rate_iops")}
            depth, jobs_of = (fio_job_file.number(options, key, 1) or 1 for key in ("iodepth", "numjobs"))
            params = {
                **read, "iodepth": depth, "numjobs": jobs_of, "engine": known.get("engine", "psync"),
                "size": fio_job_file.number(options, "size", None),
                **{key: known[key] for key in (*keys.SYNCS, *keys.SCALARS) if known.get(key) is not None},
                **({} if known.get("direct") else {"direct": False}),
                "options": dict(options),
            }  # fmt: skip
            if params["engine"] not in ("io_uring", "libaio", "posixaio"):
                params["iodepth"] = 1
            jobs[name] = params
        return jobs

    def _together(
        self, jobs: Mapping[str, Mapping[str, Any]], common: Mapping[str, Any], last: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The parameters of a cell of several jobs: those of the job that is judged, else what all have in common."""
        judged = self.judged or (next(iter(jobs)) if len(jobs) == 1 else None)
        if judged:
            shown = {key: value for key, value in jobs[judged].items() if key != "options"}
        else:
            first = next(iter(jobs.values()))
            same = {key: value for key, value in first.items() if all(job.get(key) == value for job in jobs.values())}
            shown = dict.fromkeys(_SHAPE) | {"engine": same.get("engine"), "size": same.get("size")}
            shown["numjobs"] = sum(job["numjobs"] for job in jobs.values())
        if any(job.get("direct") is False for job in jobs.values()):
            shown["direct"] = False
        return {**shown, **common, **last, "jobs": jobs, **({"judged": judged} if judged else {})}

    def _name(self, params: Mapping[str, Any]) -> str:
        if "jobs" not in params:
            return keys.name(params)
        parts = ["+".join(params["jobs"])]
        if self.job_file is None:
            parts += self._listed(params)
        return " ".join(parts) + (" cached" if params.get("direct") is False else "")

    def _listed(self, params: Mapping[str, Any]) -> Iterator[str]:
        """What tells the cells of the same jobs apart: those of the workload's lists that have several values."""
        inherit: dict[str, Mapping[str, Any]] = {
            key: next((p for name, p in params["jobs"].items() if getattr(self.jobs[name], key, None) is None), {})
            for key in (*_SHAPE, *keys.SYNCS)
        }
        for key, show in _LISTED.items():
            if len(getattr(self, key)) > 1 and (value := inherit[key].get(key)) is not None:
                yield show(value)

    def known(self, cell: Cell) -> Mapping[str, Any]:
        params = {name: value for name, value in cell.params.items() if value is not None}
        if steady := cell.params.get("steady"):
            params["steady"] = steady_name(steady)
        params.pop("series", None)  # a log beside the load, not a part of it
        jobs = params.pop("jobs", None)
        if jobs:
            params["jobs"] = "; ".join(f"{name}: {keys.described(job)}" for name, job in jobs.items())
        reads = all(job["rw"] in keys.READS for job in (jobs or {"": cell.params}).values())
        writes = {} if reads else {"refill_buffers": "1"}
        return {"size": "whole disk", **params, **writes, "tool": "fio", "direct": params.get("direct", True)}

    def trial_seconds(self, cell: Cell) -> float:
        return float(cell.params["ramp"] + cell.params["runtime"]) / 1e9


_SHAPE = ("rw", "bs", "iodepth", "numjobs", "rwmixread", "rate_iops")
_SHAPES = frozenset({*_SHAPE, *keys.SYNCS, *keys.SCALARS, *keys.OF_DATA, "engine", "mem", "size", "direct", "steady"})
"""Keys that a job file has in their place."""
_VALUES = ("bssplit", "random_distribution", "thinktime", "offset")
_DEFAULTS: Mapping[str, Any] = {
    "sync": "none", "end_fsync": False, "offset": 0, "random_distribution": "random", "percentage_random": 100,
    "thinktime": 0,
}  # fmt: skip
_LISTED: Mapping[str, Any] = {
    "bs": format_size, "rw": str, "rwmixread": lambda mix: f"{mix}/{100 - mix}", "iodepth": lambda n: f"qd{n}",
    "numjobs": lambda n: f"x{n}", "rate_iops": lambda n: f"at {n}", "fsync": lambda n: f"fsync {n}",
    "fdatasync": lambda n: f"fdatasync {n}",
}  # fmt: skip
"""Key with a list -> a value of it in a cell's name."""
