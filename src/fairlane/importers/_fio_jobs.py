"""Which jobs of fio's logs ran together.

fio's logs lack groups. Clones of ``numjobs`` ran together and add up; jobs that ``stonewall`` kept apart look just the
same and must never be added. Times decide where they are Unix time (log_unix_epoch), else the import map; without both
each job is shown by itself, and the check ``jobs_unknown`` reports it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Stated = Literal["together", "apart"] | None
"""What the import map says: the equal jobs of a prefix ran together, or one after the other."""
_OVERLAP = 0.01
"""Jobs that share less of the shorter one's time did not run together, as in ``checks.added_up``."""


@dataclass(frozen=True)
class Loaded:
    """Jobs that are one load."""

    jobs: tuple[str, ...]
    """Their keys, see ``key``."""
    place: int = 1
    of: int = 1
    """Number of loads that the equal jobs are."""
    known: bool = True
    """False: whether the other loads ran at the same time is not known."""

    @property
    def part(self) -> bool:
        """Whether it is one of several loads, and in a file with others."""
        return self.of > 1 and any("#" in job for job in self.jobs)

    def name(self, prefix: str) -> str:
        """Name of its cell."""
        return f"{prefix[:60]} job {self.place} of {self.of}" if self.of > 1 else prefix

    def context(self, jobs: Mapping[str, int], where: str) -> dict[str, Any]:
        """``load.equal_jobs`` of a load whose relation to others is not known. ``jobs``: line at which each begins."""
        if self.known:
            return {}
        lines = [line for job, line in jobs.items() if "#" in job]
        return {"equal_jobs": {"place": self.place, "of": self.of, "file": where, "lines": lines[:20]}}


def key(host: str | None, job: str | None, place: int, of: int) -> str:
    """Key of the ``place``-th job of a file, from 1: ``host/2`` of a file with one, ``host/#2`` of one with several."""
    number = job or (f"#{place}" if of > 1 else "")
    return "/".join(filter(None, (host, number)))


def loads(spans: Mapping[str, tuple[float, float] | None], stated: Stated) -> list[Loaded]:
    """The loads that equal jobs are. ``spans``: job -> start and end, if they are Unix time. Machines of a client run
    the same job at the same time."""
    units: dict[str, list[str]] = {}
    for job in spans:
        units.setdefault(job.rpartition("/")[2], []).append(job)
    if len(units) == 1 or stated == "together":
        return [Loaded(tuple(spans))]
    if stated == "apart":
        return _numbered(list(units.values()))
    times = {job: span for job, span in spans.items() if span}
    if len(times) == len(spans):
        return _numbered(_clusters(times))
    return _numbered(list(units.values()), known=False)


def _numbered(parts: list[list[str]], *, known: bool = True) -> list[Loaded]:
    return [Loaded(tuple(part), n, len(parts), known) for n, part in enumerate(parts, 1)]


def _clusters(times: Mapping[str, tuple[float, float]]) -> list[list[str]]:
    """Jobs by the times at which they ran, in order: each shares time with another of its cluster."""
    clusters: list[list[str]] = []
    end = shortest = 0.0
    for job, (start, stop) in sorted(times.items(), key=lambda item: item[1]):
        if clusters and min(end, stop) - start > _OVERLAP * min(shortest, stop - start):
            clusters[-1].append(job)
            end, shortest = max(end, stop), min(shortest, stop - start)
        else:
            clusters.append([job])
            end, shortest = stop, stop - start
    return clusters
