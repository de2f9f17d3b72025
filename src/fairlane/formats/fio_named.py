"""Named jobs of fio that ran together: figures of each beside those of the trial. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from fairlane.errors import Garbage
from fairlane.formats.fio_jobs import Job
from fairlane.records import Figures

AT = "@"
"""Between the kind of latency and a job's name, in the name of a histogram: ``write.lat@log``. It counts towards no
figure of the trial."""
_METRICS = ("iops", "bw", "lat_mean", "sync_lat_mean")


def of_name(jobs: Sequence[Job], name: str) -> list[Job]:
    """The entries of the job ``name``: its clones, and those on other devices (``log.1``). Raises Garbage: none."""
    entries = [entry for entry in jobs if entry.name.partition(".")[0] == name]
    if not entries:
        raise Garbage("no-jobs", f"fio.json has no job {name!r}")
    return entries


def together(whole: Figures, parts: Mapping[str, Figures], judged: str) -> Figures:
    """The figures of a trial of named jobs. ``whole``: of all of them, to which counters of disks and CPU time belong;
    ``parts``: of each. With ``judged`` the metrics, histograms and load are that job's; I/Os of all are in
    ``load.all``. Every job is in the context ``jobs``, and its histograms are there too, by name (``write.lat@log``).
    """
    chosen = parts[judged] if judged else whole
    load = dict(chosen.context["load"])
    if judged:
        every = whole.context["load"]
        load |= {key: every[key] for key in ("parts", "runtime_ms_min") if key in every}
        load["all"] = {"ios": every["ios"], "bytes": every["bytes"]}
    jobs = {name: _job(part) for name, part in parts.items()}
    own = {
        f"{histogram}{AT}{name}": bins
        for name, part in parts.items()
        for histogram, bins in part.histograms.items()
        if histogram.rpartition(".")[2] in ("lat", "sync_lat")
    }
    context = {**whole.context, "load": load, "jobs": jobs}
    return Figures(chosen.metrics, {**chosen.histograms, **own}, context, chosen.steps)


def _job(part: Figures) -> dict[str, Any]:
    load = part.context["load"]
    job: dict[str, Any] = {name: part.metrics[name] for name in _METRICS if name in part.metrics}
    job["ios"] = sum(load["ios"].values())
    return job | ({"syncs": load["syncs"]} if "syncs" in load else {})
