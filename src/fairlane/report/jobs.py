"""Tables of named jobs that ran at once: the figures of each on every lane. Pure."""

from collections.abc import Iterator, Mapping
from statistics import geometric_mean

from fairlane.formats.fio_named import AT
from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence, Histogram
from fairlane.report.lanes import labels
from fairlane.report.parts import Part, part
from fairlane.report.phrases import value
from fairlane.report.text import DASH
from fairlane.stats.histogram import Bins, merge, percentile, reportable

_RATES = ("iops", "bw")
_SHARES = (("p50", 0.50), ("p99", 0.99), ("p999", 0.999))


def parts(evidence: Evidence) -> tuple[Part, ...]:
    """One table for each workload that has named jobs and figures of them."""
    return tuple(table for name in evidence.study.workloads if (table := _table(evidence, name)))


def _table(evidence: Evidence, workload: str) -> Part | None:
    cells = [cell for cell in evidence.cells() if cell.workload == workload and cell.params.get("jobs")]
    rows = [row for cell in cells for row in _rows(evidence, cell)]
    if not rows:
        return None
    judged = cells[0].params.get("judged")
    many = len(cells) > 1
    columns = ("Cell", "Job", "Lane", "IOPS", "Bandwidth", "Latency p50", "p99", "p99.9",
               "Sync p50", "Sync p99", "Sync p99.9")  # fmt: skip
    return part(
        f"Jobs at once: {workload}",
        sentences=(
            f"The verdicts are of {judged}; the other jobs run beside it as load."
            if judged
            else "The verdicts are of all jobs together.",
        ),
        columns=columns if many else columns[1:],
        rows=[row if many else row[1:] for row in rows],
        numbers=range(3 if many else 2, len(columns) if many else len(columns) - 1),
        notes=(
            "Rates are geometric means over the trials; percentiles are of the I/Os, or syncs, of all trials merged, "
            "where at least 10 lie beyond them. Jobs that are not judged are not tested statistically.",
        ),
    )


def _rows(evidence: Evidence, cell: Cell) -> Iterator[tuple[str, ...]]:
    label = labels(evidence.study)
    for job in cell.params["jobs"]:
        for lane in label:
            trials = [o for o in evidence.observations if (o.cell, o.lane) == (cell.key, lane) and not o.failed]
            own = [o.context["jobs"][job] for o in trials if _has(o.context.get("jobs"), job)]
            if not own:
                continue
            rates = [_rate(own, name) for name in _RATES]
            lat = merge(bins for o in trials for bins in _bins(o.histograms, "lat", job))
            syncs = merge(bins for o in trials for bins in _bins(o.histograms, "sync_lat", job))
            yield cell.name, job, label[lane], *rates, *_percentiles(lat, "lat"), *_percentiles(syncs, "sync_lat")


def _has(jobs: object, name: str) -> bool:
    return isinstance(jobs, Mapping) and isinstance(jobs.get(name), Mapping)


def _rate(jobs: list[Mapping[str, float]], name: str) -> str:
    values = [job[name] for job in jobs if isinstance(job.get(name), int | float) and job[name] > 0]
    return value(name, geometric_mean(values)) if values else DASH


def _bins(histograms: Mapping[str, Histogram], kind: str, job: str) -> Iterator[Histogram]:
    for name, bins in histograms.items():
        if name.partition(".")[2] == f"{kind}{AT}{job}":
            yield bins


def _percentiles(bins: Bins, kind: str) -> Iterator[str]:
    for short, share in _SHARES:
        name = f"{kind}_{short}"
        known = name in METRICS and reportable(bins, share)
        yield value(name, float(percentile(bins, share))) if known else DASH
