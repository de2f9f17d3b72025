"""fio's json and json+: one record per load that ran by itself, its jobs and machines merged.

Formats: ``stat.c`` and ``client.c`` of fio 2.1 to 3.36 and later; nothing is guessed.

* Equal jobs of one group (clones of ``numjobs``, sections that differ in their file only, machines of a client's
  report) ran together and are one record. Jobs with other parameters, or of another group (``stonewall``), are records
  of their own; loads that ran beside it are the parameter ``beside``.
* Under ``group_reporting`` an entry adds up its whole group and shows the options of the first job. Where their number
  shows that there were others, only options common to the file's jobs are kept.
* Options that are not set have fio's defaults. ``runtime`` is known where it was used up: json lacks ``time_based``.
* Latency is ``lat``. Percentiles of ``clat`` (completion alone, all that fio has without ``lat_percentiles``) are not
  those of lat: they are left out, or, with the option ``percentiles: clat``, all latency figures are clat's, which the
  parameter ``metric_definition`` then says.
* Reports that ``--status-interval`` wrote before the last one are part of it, and are left out.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from fairlane.errors import Garbage
from fairlane.formats import fio_options
from fairlane.formats.fio_documents import report_in, terse
from fairlane.formats.fio_figures import members, numjobs, summary
from fairlane.formats.fio_jobs import Job
from fairlane.formats.fio_json import Report, reports
from fairlane.formats.record import Record
from fairlane.importers._consistent import consistent
from fairlane.importers._reading import LARGEST_TREE, shown
from fairlane.importers.base import HEAD, Importer, Source, Unreadable
from fairlane.records import Figures
from fairlane.study.strict import Strict
from fairlane.units import format_size

_USED_UP = 0.95
"""Least share of the requested run time for it to count as used up."""
_FIRST_ONLY = "adds up {n} jobs under group_reporting and shows the options of the first: only common ones are kept"
_CLAT_ONLY = (
    "percentiles are of clat (completion alone) and left out; fio_json: {percentiles: clat} in a map takes them"
)
PARAMETERS_OF = {"ioengine": "engine", "ramp_time": "ramp", "buffered": "direct", "rwmixwrite": "rwmixread"}
"""fio's option -> the parameter that it becomes, where the names differ."""
_TARGETS = ("filename", "directory", "description", "hostname", "pool", "rbdname", "uri")
"""Options that tell where a job ran, or what somebody wrote of it: labels."""


@dataclass
class _Load:
    """Equal jobs that ran together."""

    group: int
    params: dict[str, Any]
    jobs: list[Job] = field(default_factory=list)

    @property
    def title(self) -> str:
        rw, bs, depth = (self.params.get(key) for key in ("rw", "bs", "iodepth"))
        return shown(self.jobs[0].name, 80) if rw is None or bs is None else f"{format_size(bs)} {rw} qd{depth}"


class FioJsonOptions(Strict):
    """Options of fio's json."""

    percentiles: Literal["lat", "clat"] = "lat"
    """Which latency is meant: lat (submission to completion), or clat (completion alone) for files that have no other
    percentiles. Then all latency figures are clat's, and compared with clat's only."""


class FioJson(Importer):
    title = "fio json and json+, 2.x to 3.x, client/server included"
    source = "fio's HOWTO, and stat.c and client.c"
    Options = FioJsonOptions

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        return report_in(head) or terse(head)

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        for file in files:
            data = file.read(LARGEST_TREE)
            try:
                parsed = self.parsed(data)
            except Garbage as reason:
                hint = "run fio with --output-format=json+" if terse(data[:HEAD]) else ""
                raise Unreadable(reason.kind, str(reason), where=file.name, hint=hint) from None
            for report in _last(parsed):
                yield from (consistent(record, file.name) for record in self._records(report))

    def parsed(self, data: bytes) -> Sequence[Report]:
        """The reports in a file. Raises Garbage."""
        return reports(data, "fio's output")

    def params(self, job: Job, every: Sequence[Job]) -> dict[str, Any]:
        """Parameters from the job's options; empty: the file has none (before fio 2.3)."""
        return _params(job, every)

    def counts(self, report: Report, jobs: Sequence[Job]) -> dict[str, Any]:
        """Parameters of the jobs together: numjobs, fleet, disks, runtime."""
        return _counts(report, jobs)

    def _records(self, report: Report) -> Iterator[Record]:
        loads = _loads(report, self.params)
        for load in loads:
            params = load.params | self.counts(report, load.jobs)
            beside = [other for other in loads if other is not load and _together(load, other)]
            if beside:
                params["beside"] = ", ".join(sorted(other.title for other in beside))
            yield self._record(report, load.jobs, params, alone=len(loads) == 1)

    def _record(self, report: Report, jobs: Sequence[Job], params: dict[str, Any], *, alone: bool) -> Record:
        first = jobs[0]
        named = "rw" in params and "bs" in params
        record = Record(
            params=params,
            name="" if named else shown(first.name, 80),
            labels=_labels(jobs),
            started=_started(report, jobs),
        )
        if bad := next((job for job in jobs if job.error), None):
            return replace(record, failed=f"fio: error {bad.error} ({os.strerror(bad.error)}) in {shown(bad.name, 80)}")
        try:
            figures = summary(report, jobs, kind=self.options.percentiles, disk=alone)
        except Garbage as reason:
            return replace(record, failed=str(reason))
        return replace(record, figures=self.noted(figures, report, jobs))

    def noted(self, figures: Figures, report: Report, jobs: Sequence[Job]) -> Figures:
        """``figures`` with the definition of latency, and warnings about the file."""
        context = dict(figures.context)
        if self.options.percentiles == "clat":
            context["conditions"] = {**context["conditions"], "metric_definition": "latency is clat: completion alone"}
        notes = [f"{shown(job.name, 80)} {_FIRST_ONLY.format(n=n)}" for job, n in _mixed(jobs, report.jobs)]
        sides = [side for job in jobs for side in job.sides.values()]
        if self.options.percentiles == "lat" and all(
            (clat.printed or clat.percentiles) and not (lat.printed or lat.percentiles)
            for lat, clat in ((side.latency["lat"], side.latency["clat"]) for side in sides)
        ):
            notes.append(_CLAT_ONLY)
        if notes:
            warnings = context["fio"].get("warnings", "")
            context["fio"] = {**context["fio"], "warnings": "\n".join([*notes, *([warnings] if warnings else [])])}
        return replace(figures, context=context)


def _last(every: Sequence[Report]) -> Iterator[Report]:
    """The reports without those that a later one of the same run includes."""
    for earlier, later in pairwise(every):
        if not _continues(earlier, later):
            yield earlier
    yield from every[-1:]


def _continues(earlier: Report, later: Report) -> bool:
    """Whether ``later`` is a report of the same run: its jobs ran for the time between the two."""
    if (
        earlier.printed is None
        or later.printed is None
        or [j.name for j in earlier.jobs] != [j.name for j in later.jobs]
    ):
        return False
    if any(_ios(before) > _ios(after) for before, after in zip(earlier.jobs, later.jobs, strict=True)):
        return False
    passed, ran = later.printed - earlier.printed, _ran(later) - _ran(earlier)
    unsure = 20 if earlier.printed % 1000 or later.printed % 1000 else 1000  # versions before 2.12 have whole seconds
    return ran > 0 and abs(passed - ran) <= unsure + passed / 2


def _ios(job: Job) -> int:
    return sum(side.ios for side in job.sides.values())


def _ran(report: Report) -> int:
    """ms under load; groups run one after the other."""
    groups: dict[int, int] = {}
    for job in report.jobs:
        groups[job.group] = max(groups.get(job.group, 0), job.runtime)
    return sum(groups.values())


def _loads(report: Report, read: Callable[[Job, Sequence[Job]], dict[str, Any]]) -> list[_Load]:
    """Loads in the order of their first jobs."""
    loads: dict[Any, _Load] = {}
    for job in report.jobs:
        params = read(job, report.jobs)
        options = job.options or {}
        alike = tuple(sorted(params.items())) or job.name  # nothing is known: only jobs of one name are alike
        key = (job.group, alike, options.get("runtime"), options.get("wait_for"))
        loads.setdefault(key, _Load(job.group, params)).jobs.append(job)
    return list(loads.values())


def _together(first: _Load, second: _Load) -> bool:
    waits = any("wait_for" in (job.options or {}) for load in (first, second) for job in load.jobs)
    return first.group == second.group and not waits


def _mixed(jobs: Iterable[Job], every: Sequence[Job]) -> Iterator[tuple[Job, int]]:
    """(entry, number of jobs) for entries that add up other jobs than their options state."""
    for job in jobs:
        n = members(job, every)
        if n > 1 and n != numjobs(job):
            yield job, n


def _params(job: Job, every: Sequence[Job]) -> dict[str, Any]:
    if job.options is None:
        return {}
    params = fio_options.parameters(job.options)
    if any(_mixed([job], every)):
        common, own = (
            {PARAMETERS_OF.get(name, name) for name in fio_options.named(options)}
            for options in (job.common, job.own or {})
        )
        params = {name: value for name, value in params.items() if name in common - own}
    return params


def _counts(report: Report, jobs: Sequence[Job]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    hosts = len({job.host for job in jobs})
    if report.clients:
        params["fleet"] = hosts
    options = jobs[0].options
    count = sum(members(job, report.jobs) for job in jobs)
    if count % hosts == 0 and (options is not None or jobs[0].job_runtime is not None):
        params["numjobs"] = count // hosts
    devices = [fio_options.devices(job.options or {}) for job in jobs]
    if all(devices) and not any(_mixed(jobs, report.jobs)):
        params["disks"] = len({name for names in devices for name in names})
    try:
        requested = fio_options.duration((options or {})["runtime"])
    except (KeyError, ValueError):
        return params
    if max(job.runtime for job in jobs) * 10**6 >= _USED_UP * requested > 0:
        params["runtime"] = requested
    return params


def _labels(jobs: Sequence[Job]) -> dict[str, str]:
    """Labels that all jobs of the load share, for import maps."""
    by_key = {
        "job": {job.name for job in jobs},
        "host": {job.host for job in jobs},
        "group": {str(job.group) for job in jobs},
        **{name: {(job.options or {}).get(name, "") for job in jobs} for name in _TARGETS},
    }
    return {key: label for key, values in by_key.items() if len(values) == 1 and (label := shown(min(values)))}


def _started(report: Report, jobs: Sequence[Job]) -> float | None:
    """Start of the jobs (since 3.36), else of fio, to a second; Unix time."""
    if starts := [job.started for job in jobs if job.started]:
        return min(starts) / 1000
    if report.printed is None or report.clients:
        return None if report.printed is None else report.printed / 1000
    elapsed = jobs[0].elapsed
    return None if elapsed is None else max(report.printed / 1000 - elapsed, 0.0)


PLUGIN = FioJson(FioJsonOptions())
