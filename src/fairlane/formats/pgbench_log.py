"""The logs that pgbench writes under -l: transactions, all or a sample of them, or sums per interval."""

import math
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fairlane.errors import Garbage
from fairlane.records import Figures, Histogram
from fairlane.stats.histogram import coarse, percentiles

US = 1000
"""Nanoseconds of a microsecond."""
POINTS = 100_000
"""Most points of a series (a day in seconds); a longer one is left out."""
File = tuple[str, Iterable[tuple[int, str]]]
"""A log's name, and its lines with their numbers from 1."""

_NAME = re.compile(r"(.{1,200}?\.[0-9]{1,10})(?:\.[0-9]{1,6})?", re.DOTALL)
_NOT_COMPLETED = {"skipped", "failed", "serialization", "deadlock", "other"}
_TRANSACTION = re.compile(
    r"[0-9]{1,8} [0-9]{1,18} (?:[0-9]{1,18}|skipped|failed|serialization|deadlock|other) [0-9]{1,9} [0-9]{9,11} "
    r"[0-9]{1,6}(?: [0-9]{1,18}){0,2}"
)
"""client, number, us, script, seconds, us; lag under --rate; retries under --max-tries."""
_SUMS = re.compile(r"[0-9]{9,11} [0-9]{1,18}(?: [0-9]{1,40}(?:\.[0-9]{1,9})?){4}(?: [0-9.]{1,40}){0,12}")
"""Unix time, transactions, then sums; a log of transactions begins with the number of a client, which is shorter."""
_LONGEST = 10**13
"""Microseconds, a hundred days."""
_LARGEST = 1e18
"""Of a sum."""
_UNORDERED = 10**6
"""Microseconds by which transactions of one thread may be out of order: clocks are set."""
_MOST_CLIENTS = 100_000
_DISTINCT = 50_000
"""Latencies kept apart before they are put into bins."""


def process(base: str) -> str:
    """``pgbench_log.123`` of the file names pgbench_log.123 and pgbench_log.123.4; empty for any other name."""
    match = _NAME.fullmatch(base)
    return match[1] if match else ""


def is_log(name: str, text: Sequence[str]) -> bool:
    """Whether a file is a pgbench log, by its name and first lines (all but the last, which may be cut off)."""
    if not process(posixpath.basename(name)) or not text:
        return False
    return all(map(_kind, (text[:-1] or text)[:100]))


def _kind(line: str) -> str:
    """``sums``, ``transaction``, or empty for any other line."""
    if _TRANSACTION.fullmatch(line):
        return "transaction"
    return "sums" if _SUMS.fullmatch(line) else ""


@dataclass
class Log:
    """The logs of one process, added up."""

    count: int = 0
    """Transactions that completed."""
    sums: bool = False
    total: float = 0
    """Sum of their latencies in us."""
    latencies: dict[int, int] = field(default_factory=dict)
    """us -> count, while they are few; then they go into ``bins``."""
    bins: dict[int, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    """skipped, failed, ... -> count."""
    first: float = 0
    """When the first transaction began, Unix time in us."""
    last: float = 0
    by_client: dict[str, list[int]] = field(default_factory=dict)
    """Client -> lowest and highest number of its transactions, and how many of them there are."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """For each log of sums: transactions, and seconds covered by its intervals (0: not known)."""
    by_second: dict[int, int] = field(default_factory=dict)
    scripts: dict[int, "Log"] | None = None
    """Number of a script -> its transactions; None: not asked for."""
    latest: int = 0
    """End of the last transaction, or start of the last interval, of the file that is being read, Unix time in us."""

    @property
    def clients(self) -> int:
        return len(self.by_client)

    @property
    def complete(self) -> bool:
        """Whether every transaction is there: each client's numbers begin at 0 or 1 and have no gaps."""
        return not self.sums and all(low <= 1 and high - low + 1 == n for low, high, n in self.by_client.values())

    @property
    def started(self) -> float | None:
        """Unix time in s."""
        return self.first / 1e6 if self.first else None

    def figures(self, seconds: float = 0.0) -> Figures:
        """Latencies; the rate where every transaction is there, or every interval is known. ``seconds``: length of the
        window that was read, in which every transaction is there."""
        metrics: dict[str, float] = {}
        load: dict[str, Any] = {"processed": self.count, **self.others}
        if self.count:
            metrics["lat_mean"] = self.total / self.count * US
        steps: dict[str, float] = {}
        if self.sums:
            if self.spans and all(seconds for _, seconds in self.spans):
                metrics["tps"] = sum(count / seconds for count, seconds in self.spans)
        elif seconds:
            metrics["tps"] = self.count / seconds
            load |= self._series()
        elif self.complete and self.last > self.first:
            metrics["tps"] = self.count * 1e6 / (self.last - self.first)
            load |= self._series()
        histograms: dict[str, Histogram] = {} if self.sums else {"tx.lat": self.histogram()}
        ranked = {name: ns for name, ns in percentiles(histograms).items() if ns}
        metrics |= ranked
        steps |= {name: US / 2 / ns for name, ns in ranked.items() if ns < 128 * US / 2}
        return Figures(metrics, {name: bins for name, bins in histograms.items() if bins}, {"load": load}, steps)

    def histogram(self) -> dict[int, int]:
        """All latencies so far, in ns."""
        whole = dict(self.bins)
        for ns, count in coarse({us * US: count for us, count in self.latencies.items()}).items():
            whole[ns] = whole.get(ns, 0) + count
        return whole

    def _series(self) -> dict[str, Any]:
        """Transactions in each whole second between the first and the last."""
        low, high = min(self.by_second, default=0) + 1, max(self.by_second, default=0)
        if not 2 < high - low <= POINTS:
            return {}
        rates = [float(self.by_second.get(second, 0)) for second in range(low, high)]
        return {"series": {"interval_ms": 1000, "tps": rates}}

    def add(self, us: int, script: int = 0) -> None:
        """One transaction that took ``us``."""
        if self.scripts is not None:
            self.scripts.setdefault(script, Log()).add(us)
        self.count += 1
        self.total += us
        self.latencies[us] = self.latencies.get(us, 0) + 1
        if len(self.latencies) > _DISTINCT:
            self.bins, self.latencies = self.histogram(), {}


class Misread(Garbage):
    """A log cannot be read. ``where``: file and line."""

    def __init__(self, kind: str, message: str, *, where: str) -> None:
        super().__init__(kind, message)
        self.where = where


def read_log(files: Sequence[File], window: tuple[float, float] = (0.0, math.inf), *, scripts: bool = False) -> Log:
    """The logs of one process, one per thread; of its transactions those that ended in ``window`` (Unix time in us, the
    end excluded). ``scripts``: each script's also apart. Raises Misread."""
    log = Log(scripts={} if scripts else None)
    for place, (name, lines) in enumerate(files):
        starts: list[int] = []
        log.latest = 0
        counted = log.count
        for number, line in lines:
            where = f"{name}:{number}"
            kind = _kind(line)
            fields = line.split(" ")
            if not kind:
                raise Misread("not-this-tool", f"expected a line of a pgbench log, found {line[:60]!r}", where=where)
            first = place == 0 and number == 1
            if (kind == "sums") != log.sums and not first:
                raise Misread("mixed-log", "a log of transactions and one of sums do not go together", where=where)
            log.sums = kind == "sums"
            if log.sums:
                _interval(log, fields, starts, where)
            else:
                _transaction(log, fields, window, where)
        if log.sums:
            log.spans.append((log.count - counted, _covered(starts)))
    if not log.by_client and not log.sums:
        raise Misread("empty", "expected transactions, found an empty log", where=files[0][0] if files else "")
    return log


def _transaction(log: Log, fields: Sequence[str], window: tuple[float, float], where: str) -> None:
    client, index, seconds = fields[0], int(fields[1]), int(fields[4])
    at = seconds * 10**6 + int(fields[5])
    if at < log.latest - _UNORDERED:
        raise Misread("time-back", "a transaction ended before the one in the line above", where=where)
    log.latest = at
    if not window[0] <= at < window[1]:
        return
    span = log.by_client.setdefault(client, [index, index, 0])
    span[0], span[1], span[2] = min(span[0], index), max(span[1], index), span[2] + 1
    if len(log.by_client) > _MOST_CLIENTS:
        raise Misread("too-large", f"more than {_MOST_CLIENTS} clients", where=where)
    if fields[2] in _NOT_COMPLETED:
        log.others[fields[2]] = log.others.get(fields[2], 0) + 1
        began = at
    else:
        us = int(fields[2])
        if us > _LONGEST:
            raise Misread("not-a-number", f"a transaction of {us} µs", where=where)
        began = max(at - us, 0)
        log.add(us, int(fields[3]))
        if len(log.by_second) <= POINTS:
            log.by_second[seconds] = log.by_second.get(seconds, 0) + 1
    log.first = min(log.first or began, began)
    log.last = max(log.last, at)


def _interval(log: Log, fields: Sequence[str], starts: list[int], where: str) -> None:
    start, count = int(fields[0]), int(fields[1])
    if start * 10**6 <= log.latest:
        raise Misread("time-back", "an interval that does not follow the one in the line above", where=where)
    log.latest = start * 10**6
    log.count += count
    log.total += _sum(fields[2], where)
    log.first = min(log.first or start * 1e6, start * 1e6)
    if len(starts) <= POINTS:
        starts.append(start)


def _sum(text: str, where: str) -> float:
    value = float(text)
    if value > _LARGEST:
        raise Misread("not-a-number", f"expected a sum of latencies, found {text!r}", where=where)
    return value


def _covered(starts: Sequence[int]) -> int:
    """Seconds of all intervals together, if they follow each other evenly; else 0."""
    gaps = {after - before for before, after in pairwise(starts)}
    even = len(gaps) == 1 and len(starts) <= POINTS
    return max(gaps.pop(), 0) * len(starts) if even else 0
