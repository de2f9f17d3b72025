"""Parse one job of fio's json, of any version: 2.x counts in us and KiB and has no ``N``, 3.x in ns and bytes.

Read strictly: an impossible value raises Garbage, because a wrong figure is worse than a lost file. Values that a
version lacks are None.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
import orjson

from fairlane.errors import Garbage
from fairlane.stats.histogram import Bins, midpoints

WAYS = ("read", "write", "trim", "mixed")
"""Directions of an I/O in fio's json; ``mixed``: all of them under unified_rw_reporting."""
KINDS = ("lat", "clat", "slat")
D = TypeVar("D", int, None)
_LARGEST = 2**63
"""Upper limit of sizes and times in fio's output; larger values are damaged (or float overflow)."""
_MOST = 2**48
"""Upper limit of a job's I/Os: ten million a second for 300 days. Sums of thousands of such jobs still are exact."""
_DEEPEST = {"1": 1, "2": 3, "4": 7, "8": 15, "16": 31, "32": 63, ">=64": 1024}
"""fio's classes of depth (``iodepth_level``) -> the deepest in it; the last has no end."""


@dataclass(frozen=True)
class Latency:
    """Latencies of one kind and direction, in ns."""

    ios: int | None
    mean: float | None
    percentiles: Mapping[float, int]
    """Share -> latency in ns, as fio took them from its bins. Empty where there are bins, or none were requested."""
    unit: int
    """Unit of fio's counts, in ns."""
    printed: Mapping[str, int] = field(default_factory=dict)
    """The bins as fio printed them: midpoint in ``unit`` -> count. Empty where there are none (slat of psync, a
    direction without I/O)."""

    @cached_property
    def bins(self) -> Bins:
        """The bins in ns. Computed on first use: of six histograms of a json+ an import needs two."""
        if not self.printed:
            return _NONE
        try:
            at = np.fromiter(map(_midpoints().__getitem__, self.printed), np.int64, len(self.printed))
        except KeyError:  # not fio's own: from a build with other bins
            at = np.array([int(key) for key in self.printed])
        return Bins.checked(at * self.unit, np.fromiter(self.printed.values(), np.int64, len(self.printed)))


@dataclass(frozen=True)
class Side:
    """One direction of one job."""

    ios: int
    """Completions where latencies were taken (their number), as fio counts submissions otherwise; see ``exact``."""
    exact: bool
    """``ios`` are completions of the time measured. Submissions lack the I/Os in flight when the ramp ended."""
    slack: float
    """Error of ``ios`` where fio printed a rounded rate and no count (before 2.1.14)."""
    submitted: int | None
    size: int
    """Bytes."""
    runtime: int
    """ms."""
    short: int
    dropped: int
    latency: Mapping[str, Latency]
    """By kind."""
    samples: tuple[int, float, float] | None = None
    """fio's own samples of IOPS, one each 500 ms: number, mean, standard deviation."""


@dataclass(frozen=True)
class Job:
    """One entry of ``jobs`` or ``client_stats``: a job, or all of a group under group_reporting."""

    name: str
    group: int
    error: int
    host: str
    """``host:port`` of fio's client/server mode, else empty."""
    own: Mapping[str, str] | None
    """The job's options as the user wrote them, without flags (stonewall, group_reporting, time_based). None: not in
    the file."""
    common: Mapping[str, str]
    """Options of all jobs of the file."""
    sides: Mapping[str, Side]
    """Directions that had an I/O."""
    usr_cpu: float | None
    """Percent of one core, averaged over the jobs of the entry."""
    sys_cpu: float | None
    job_runtime: int | None
    """ms, all jobs of the entry added (since 3.8)."""
    started: int | None
    """Unix time in ms (since 3.36)."""
    elapsed: int | None
    """Seconds since fio was started, rounded up."""
    depth: int
    """Upper limit of the queue depth, from ``iodepth_level``."""
    sync: Latency | None = None
    """Times of syncs; None: there were none, or the version does not report them (before 3.6)."""

    @cached_property
    def runtime(self) -> int:
        """Run time of the longer direction, ms."""
        return max((side.runtime for side in self.sides.values()), default=0)

    @cached_property
    def options(self) -> Mapping[str, str] | None:
        """Own options over the common ones; None: not in the file."""
        return None if self.own is None and not self.common else {**self.common, **(self.own or {})}


def job(tree: Any, name: str, common: Mapping[str, str]) -> Job:
    """Reads one entry. ``name``: the file's, for messages. Raises Garbage."""
    return _Reader(name).job(tree, common)


@dataclass(frozen=True)
class _Reader:
    """The rules for one file."""

    file: str

    def job(self, tree: Any, common: Mapping[str, str]) -> Job:
        entry = self.mapping(tree, "a job")
        options = entry.get("job options")
        sides = {way: side for way in WAYS if way in entry and (side := self.side(entry[way], way))}
        if "read" in sides or "write" in sides:
            sides.pop("mixed", None)  # unified_rw_reporting=both: once more, added up
        return Job(
            name=text(entry.get("jobname")),
            group=self.count(entry, "groupid", 0),
            error=self.error(entry.get("error", 0)),
            host=host(entry),
            own=None if options is None else texts(options, self.file),
            common=common,
            sides=sides,
            usr_cpu=self.number(entry, "usr_cpu", None),
            sys_cpu=self.number(entry, "sys_cpu", None),
            job_runtime=self.count(entry, "job_runtime", None),
            started=self.count(entry, "job_start", None) or None,
            elapsed=self.count(entry, "elapsed", None),
            depth=self.depth(entry),
            sync=self.sync(entry),
        )

    def sync(self, entry: Mapping[str, Any]) -> Latency | None:
        read = self.latency(self.mapping(entry.get("sync", {}), "sync"), "lat")
        return read if read.ios and read.printed else None

    def side(self, tree: Any, way: str) -> Side | None:
        """One direction; None: no I/O."""
        side = self.mapping(tree, way)
        if side.get("total_ios") == 0 == side.get("io_bytes"):
            return None
        latency = {kind: self.latency(side, kind) for kind in KINDS}
        submitted = self.count(side, "total_ios", None, _MOST)
        runtime = self.count(side, "runtime", 0)
        size = self.count(side, "io_bytes", 0) * (1 if "io_kbytes" in side or f"{KINDS[0]}_ns" in side else 1024)
        # Completions: the number of latencies. fio's total_ios counts submissions: an I/O in flight at
        # the ramp's end is in the bytes and the latencies but not there, 4 % of a trial of 150 ms at 64k and depth 16.
        completed = latency["lat"].ios or latency["clat"].ios or 0
        slack = 0.0
        ios = completed or submitted or 0
        if submitted is None and not completed:
            ios = round(self.number(side, "iops", 0) * runtime / 1000)
            slack = 0.5 * runtime / 1000
        if ios >= _MOST:
            raise Garbage("too-large", f"{self.file}: {way} has {ios} I/Os, more than there can be")
        if not ios:
            return None
        return Side(
            ios=ios,
            exact=bool(completed),
            slack=slack,
            submitted=submitted,
            size=size,
            runtime=runtime,
            short=self.count(side, "short_ios", 0),
            dropped=self.count(side, "drop_ios", 0),
            latency=latency,
            samples=self.samples(side),
        )

    def samples(self, side: Mapping[str, Any]) -> tuple[int, float, float] | None:
        count = self.count(side, "iops_samples", 0)
        mean, sd = (self.number(side, key, None) for key in ("iops_mean", "iops_stddev"))
        return None if not count or mean is None or sd is None else (count, mean, sd)

    def latency(self, side: Mapping[str, Any], kind: str) -> Latency:
        ns = f"{kind}_ns" in side
        tree = self.mapping(side.get(f"{kind}_ns" if ns else kind, {}), kind)
        unit = 1 if ns else 1000
        mean = self.number(tree, "mean", None)
        percentiles = {} if tree.get("bins") else self.mapping(tree.get("percentile", {}), "percentile")
        ios = self.count(tree, "N", None, _MOST)
        bins, held = self.bins(tree.get("bins", {}), unit)
        if bins and ios is not None and kind != "slat" and abs(held - ios) > 0.01 * ios + 1:
            raise Garbage("contradiction", f"{self.file}: the bins of {kind} hold {held} of {ios} I/Os")
        return Latency(
            unit=unit,
            ios=ios,
            mean=None if mean is None else mean * unit,
            printed=bins,
            percentiles={
                round(share, 9): self.count(percentiles, key, 0) * unit
                for key in percentiles
                if key != "0.00" and 0 < (share := self.share(key)) <= 1  # 2.x: "0.00" fills the list up
            },
        )

    def bins(self, tree: Any, unit: int) -> tuple[Mapping[str, int], int]:
        """Bins that ``Latency.bins`` can be made of, and the number of their I/Os."""
        bins = self.mapping(tree, "bins")
        if not bins:
            return {}, 0
        if not _names().issuperset(bins):  # not fio's own: from a build with other bins, or damaged
            for key in bins:
                self.midpoint(key, unit)
        counted = _counts(bins.values())
        if not counted and set(map(type, bins.values())) != {int}:
            bins = {key: self.count(bins, key, 0) for key in bins}
        held = sum(bins.values())
        if (held >= _LARGEST and max(bins.values()) >= _LARGEST) or (not counted and min(bins.values()) < 0):
            raise Garbage("not-a-number", f"{self.file}: a latency bin holds {_wrong(bins)} I/Os")
        if held >= _MOST:
            raise Garbage("too-large", f"{self.file}: latency bins hold {held} I/Os, which is impossible")
        return (bins, held) if held else ({}, 0)

    def midpoint(self, key: str, unit: int) -> None:
        if not (key.isascii() and key.isdigit() and len(key) < 16 and int(key) * unit < _LARGEST):
            raise Garbage("unknown-bin", f"{self.file}: unknown latency bin {key[:40]!r}")

    def error(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**31:
            raise Garbage(
                "not-a-number",
                f"{self.file}: error is {str(value)[:40] if isinstance(value, float) else 'not a number'}",
            )
        return abs(value)

    def depth(self, entry: Mapping[str, Any]) -> int:
        levels = self.mapping(entry.get("iodepth_level", {}), "iodepth_level")
        return max((deep for key, deep in _DEEPEST.items() if self.number(levels, key, 0)), default=_DEEPEST[">=64"])

    def share(self, key: str) -> float:
        try:
            return float(key) / 100
        except ValueError:
            raise Garbage("unknown-percentile", f"{self.file}: unknown percentile {key[:40]!r}") from None

    def mapping(self, value: Any, what: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise Garbage("not-an-object", f"{self.file}: {what} is not an object")
        return value

    def number(self, parent: Mapping[str, Any], key: str, default: D) -> float | D:
        """A finite, not negative number; ``default`` if it is missing or NaN, fio's mean of nothing."""
        value = parent.get(key)
        if type(value) is float and 0 <= value < _LARGEST:  # as nearly always
            return value
        if value is None or value != value:  # noqa: PLR0124 - true of NaN alone
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
            raise Garbage("not-a-number", f"{self.file}: {key} is {str(value)[:40]!r}")
        return float(value)

    def count(self, parent: Mapping[str, Any], key: str, default: D, below: int = _LARGEST) -> int | D:
        value = parent.get(key)
        if type(value) is int and 0 <= value < below:
            return value
        read = self.number(parent, key, None)
        if read is None:
            return default
        if read != math.floor(read):
            raise Garbage("not-a-number", f"{self.file}: {key} is {read}, not a whole number")
        if read >= below:
            raise Garbage("too-large", f"{self.file}: {key} is {read:.0f}, which is impossible")
        return int(read)


_NONE = Bins()


@cache
def _midpoints() -> dict[str, int]:
    """fio's bins by their names in json."""
    return {str(ns): ns for ns in midpoints().tolist()}


@cache
def _names() -> frozenset[str]:
    """The names alone: a set is asked in half the time of the keys of a dict."""
    return frozenset(_midpoints())


def _counts(values: Iterable[Any]) -> bool:
    """Whether all ``values`` are whole numbers below 2^64, none negative; for true, every value is looked at in a third
    of the time of Python's own ways: as JSON they are digits alone. False means nothing."""
    try:
        return orjson.dumps([*values]).translate(None, b"0123456789,") == b"[]"
    except orjson.JSONEncodeError:
        return False


def texts(tree: Any, file: str) -> dict[str, str]:
    """Options: names and values, as text. Raises Garbage."""
    if not isinstance(tree, dict):
        raise Garbage("not-an-object", f"{file}: job options are not an object")
    return {name: text(value) for name, value in tree.items()}


def text(value: Any) -> str:
    """A text or number; empty for anything else."""
    return value[:4096] if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def host(entry: Mapping[str, Any]) -> str:
    """``host:port`` of an entry of the client/server mode; empty without it."""
    name, port = text(entry.get("hostname")), text(entry.get("port"))
    return f"{name}:{port}" if port else name


def _wrong(bins: Mapping[str, int]) -> str:
    """The count that no bin can hold: below 0, else the largest."""
    least = min(bins.values())
    return str(least if least < 0 else max(bins.values()))[:40]
