"""Counts of a trace in bounded memory: what an analysis needs of any number of I/Os.

I/Os are of four classes: reads and writes, each beginning where one of the last ``LOOK_BACK`` I/Os of its direction
ended (sequential) or elsewhere (random). Depths and latencies are those at the disk: from issue to completion.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlane.capture.events import COMPLETE, DISCARD, EVENT, FLUSH, FUA, ISSUE, NONE, READ, SECTOR, SYNC, WRITE, Events
from fairlane.capture.popular import BLOCK, Popularity

Ints = NDArray[np.int64]

CLASSES = ("read_random", "read_sequential", "write_random", "write_sequential")
GROUPS: Mapping[str, tuple[int, ...]] = {
    "all": (0, 1, 2, 3), "read": (0, 1), "write": (2, 3), **{name: (i,) for i, name in enumerate(CLASSES)},
}  # fmt: skip
"""Name -> classes that it joins."""

LOOK_BACK = 128
"""I/Os of a direction, after any of which one counts as sequential: so many streams may run side by side."""
HOLD = 2_000_000_000
"""ns that an event waits for earlier ones: blktrace delivers processors one after the other, twice a second."""
DEEPEST = 4096
_PENDING, _LOST_AFTER, _LOSSY_AFTER = 1 << 16, 60_000_000_000, 500_000_000
_REGIONS = 1 << 20
_HEAT = 64
_STEPS = 8
"""Bins of times per power of two."""
_MOST_SECONDS = 7 * 86400


def time_bin(ns: NDArray[Any]) -> Ints:
    """Bin of a time: ``_STEPS`` bins per power of two."""
    bins: Ints = np.floor(np.log2(np.maximum(ns, 1)) * _STEPS).astype(np.int64)
    return bins


def bin_time(index: float) -> float:
    """Middle of a bin, ns."""
    return float(2 ** ((index + 0.5) / _STEPS))


class Tally:
    """Feed it events, in nearly the order of time; ``close``, then ``counts``."""

    def __init__(self, capacity: int) -> None:
        """``capacity``: of the disk, bytes. Set ``lossy`` when the source has dropped events: I/Os without a completion
        are then given up soon."""
        self._capacity = max(capacity, 1)
        self.region = max(1 << 16, 1 << max(0, (self._capacity - 1).bit_length() - _REGIONS.bit_length() + 1))
        self._held: list[Events] = []
        self._newest = self._done = 0
        self._first: int | None = None
        self.late = self.lost = self.unmatched = 0
        self.lossy = False
        self._ends = {READ: np.zeros(0, np.int64), WRITE: np.zeros(0, np.int64)}
        self._pending: Events = NONE
        self._pending_class = np.zeros(0, np.int64)
        self._flight = np.zeros(len(CLASSES), np.int64)
        self._clock: int | None = None
        self._last_arrival: dict[str, int] = {}
        self._since_flush = np.zeros(len(CLASSES), np.int64)
        self._sizes: list[Counter[int]] = [Counter() for _ in CLASSES]
        self._depth_time = {name: np.zeros(DEEPEST) for name in GROUPS}
        self._depth_issue = {name: np.zeros(DEEPEST, np.int64) for name in GROUPS}
        self._latency: dict[str, Counter[int]] = {name: Counter() for name in ("read", "write")}
        self._gaps: dict[str, dict[int, list[float]]] = {name: {} for name in ("all", "read", "write")}
        self._between: dict[str, Counter[int]] = {name: Counter() for name in ("write", *CLASSES[2:])}
        self._seconds = np.zeros((0, len(CLASSES) * 2 + 1), np.int64)
        self._special: Counter[str] = Counter()
        self._touched = np.zeros((len(CLASSES), -(-self._capacity // self.region)), bool)
        self._heat = np.zeros((2, _HEAT), np.int64)
        self._span = {name: [self._capacity, 0] for name in CLASSES}
        self.popular = Popularity()

    def feed(self, events: Events, complete: int | None = None) -> None:
        """Takes events; works on those of which no earlier one can come. ``complete``: time (ns) up to which all have
        come; None: the source does not know, so they wait for ``HOLD``."""
        if len(events):
            self._held.append(events)
            self._newest = max(self._newest, int(events["time"].max()))
        until = self._newest - HOLD if complete is None else complete
        if until - self._done > HOLD // 2:
            self._work(until)

    def close(self) -> None:
        """Works on what is held back."""
        self._work(self._newest + 1)

    def _work(self, until: int) -> None:
        events = np.concatenate(self._held) if self._held else NONE
        ready = events["time"] < until
        self._held = [events[~ready]]
        events = events[ready]
        events = events[np.argsort(events["time"], kind="stable")]
        self.late += int((events["time"] < self._done).sum())
        self._done = until
        if len(events):
            self._first = int(events["time"][0]) if self._first is None else self._first
            self._count(events)

    def _count(self, events: Events) -> None:
        issued = events[events["kind"] == ISSUE]
        moves = issued[((issued["op"] == READ) | (issued["op"] == WRITE)) & (issued["bytes"] > 0)]
        classes = self._classify(moves)
        flushes = issued[issued["op"] == FLUSH]
        self._count_sizes(moves, classes)
        self._count_seconds(moves, classes, flushes)
        self._count_places(moves, classes)
        self._count_gaps(moves)
        self._count_flushes(moves, classes, flushes)
        discards = issued[issued["op"] == DISCARD]
        self._special.update(
            flushes=len(flushes),
            discards=len(discards),
            discard_bytes=int(discards["bytes"].sum()),
            fua=int(((moves["flags"] & FUA) != 0).sum()),
            sync_writes=int((((moves["flags"] & SYNC) != 0) & (moves["op"] == WRITE)).sum()),
        )
        ended = events[(events["kind"] == COMPLETE) & (events["op"] <= WRITE) & (events["bytes"] > 0)]
        self._count_depths(moves, classes, ended)

    def _classify(self, moves: Events) -> Ints:
        """Class of each I/O."""
        classes = moves["op"].astype(np.int64) * 2
        for op, before in self._ends.items():
            mine = moves["op"] == op
            start = moves["sector"][mine]
            ends = np.concatenate([before, start + moves["bytes"][mine] // SECTOR])
            # an end at place i of `ends` is of I/O i - len(before); an I/O may follow ends of lower place only
            place = np.arange(len(start)) + len(before)
            keys = np.concatenate([ends, start])
            places = np.concatenate([np.arange(len(ends)) * 2 + 1, place * 2])
            order = np.lexsort((places, keys))
            is_end = order < len(ends)
            newest = np.maximum.accumulate(np.where(is_end, np.arange(len(order)), -1))
            found = order[np.maximum(newest, 0)]
            follows = (newest >= 0) & ~is_end & (keys[found] == keys[order])
            near = np.zeros(len(order), bool)
            near[follows] = (order[follows] - len(ends) + len(before)) - found[follows] <= LOOK_BACK
            flags = np.zeros(len(start), np.int64)
            flags[order[near] - len(ends)] = 1
            classes[mine] += flags
            self._ends[op] = ends[-LOOK_BACK:]
        return classes

    def _count_sizes(self, moves: Events, classes: Ints) -> None:
        for i, sizes in enumerate(self._sizes):
            for size, number in zip(*np.unique(moves["bytes"][classes == i], return_counts=True), strict=True):
                sizes[int(size)] += int(number)

    def _count_seconds(self, moves: Events, classes: Ints, flushes: Events) -> None:
        assert self._first is not None  # noqa: S101 - set with the first event
        second = np.clip((moves["time"] - self._first) // 10**9, 0, _MOST_SECONDS)
        flushed = np.clip((flushes["time"] - self._first) // 10**9, 0, _MOST_SECONDS)
        most = max(int(second.max(initial=-1)), int(flushed.max(initial=-1)), len(self._seconds) - 1) + 1
        more = np.zeros((most - len(self._seconds), self._seconds.shape[1]), np.int64)
        self._seconds = np.concatenate([self._seconds, more])
        for i in range(len(CLASSES)):
            mine = classes == i
            self._seconds[:, i * 2] += np.bincount(second[mine], minlength=most)
            weights = np.bincount(second[mine], weights=moves["bytes"][mine], minlength=most)
            self._seconds[:, i * 2 + 1] += weights.astype(np.int64)
        self._seconds[:, -1] += np.bincount(flushed, minlength=most)

    def _count_places(self, moves: Events, classes: Ints) -> None:
        start = moves["sector"] * SECTOR
        end = start + moves["bytes"]
        first, last = start // self.region, (end - 1) // self.region
        for i in range(len(CLASSES)):
            mine = classes == i
            for edge in (first, last):
                self._touched[i][np.clip(edge[mine], 0, self._touched.shape[1] - 1)] = True
        column = np.clip(start * _HEAT // self._capacity, 0, _HEAT - 1)
        for i in range(2):
            mine = classes // 2 == i
            self._heat[i] += np.bincount(column[mine], minlength=_HEAT)
        for i, span in enumerate(self._span.values()):
            mine = classes == i
            span[0] = min(span[0], int(start[mine].min(initial=self._capacity)))
            span[1] = max(span[1], int(end[mine].max(initial=0)))
        random = classes % 2 == 0
        self.popular.add(start[random] // BLOCK, classes[random] // 2)

    def _count_gaps(self, moves: Events) -> None:
        for name, gaps in self._gaps.items():
            times = moves["time"][np.isin(moves["op"], _ops(name))]
            if not len(times):
                continue
            before = [self._last_arrival[name]] if name in self._last_arrival else []
            self._last_arrival[name] = int(times[-1])
            gap = np.maximum(np.diff(np.concatenate([np.array(before, np.int64), times])), 0).astype(float)
            bins, inverse = np.unique(time_bin(gap), return_inverse=True)
            sums = [np.bincount(inverse, weights=w, minlength=len(bins)) for w in (np.ones(len(gap)), gap, gap * gap)]
            for j, index in enumerate(bins):
                old = gaps.get(int(index), [0.0, 0.0, 0.0])
                gaps[int(index)] = [a + float(s[j]) for a, s in zip(old, sums, strict=True)]

    def _count_flushes(self, moves: Events, classes: Ints, flushes: Events) -> None:
        """Writes between one flush and the next, all and of each class."""
        places = np.searchsorted(moves["time"], flushes["time"])
        done = np.zeros(len(CLASSES), np.int64)
        of_class = [np.cumsum(classes == i) for i in range(len(CLASSES))]
        before = self._since_flush
        counts = []
        for i, cumulated in enumerate(of_class):
            at = np.where(places > 0, cumulated[np.maximum(places - 1, 0)], 0) if len(cumulated) else places * 0
            counts.append(np.diff(np.concatenate([[-before[i]], at])))
            total = int(cumulated[-1]) if len(cumulated) else 0
            done[i] = total - int(at[-1]) if len(at) else before[i] + total
        self._since_flush = done
        if len(places):
            self._between["write_random"].update(counts[2].tolist())
            self._between["write_sequential"].update(counts[3].tolist())
            self._between["write"].update((counts[2] + counts[3]).tolist())

    def _count_depths(self, moves: Events, classes: Ints, ended: Events) -> None:
        issue, of_class, end = self._match(moves, classes, ended)
        time = np.concatenate([moves["time"], end])
        change = np.concatenate([np.ones(len(moves), np.int64), -np.ones(len(end), np.int64)])
        classes = np.concatenate([classes, of_class])
        order = np.argsort(time, kind="stable")
        time, classes, change = time[order], classes[order], change[order]
        for i, name in enumerate(("read", "write")):
            mine = of_class // 2 == i
            bins, number = np.unique(time_bin(end[mine] - issue[mine]), return_counts=True)
            self._latency[name].update(dict(zip(bins.tolist(), number.tolist(), strict=True)))
        if not len(time):
            return
        clock = np.concatenate([[time[0] if self._clock is None else self._clock], time])
        self._clock = int(time[-1])
        lasted = np.maximum(np.diff(clock), 0)
        for name, which in GROUPS.items():
            mine = np.isin(classes, which)
            carried = int(self._flight[list(which)].sum())
            depth = np.clip(carried + np.cumsum(change * mine), 0, DEEPEST - 1)
            before = np.concatenate([[min(max(carried, 0), DEEPEST - 1)], depth[:-1]])
            self._depth_time[name] += np.bincount(before, weights=lasted, minlength=DEEPEST)
            self._depth_issue[name] += np.bincount(depth[mine & (change > 0)], minlength=DEEPEST)
        self._flight += np.bincount(classes[change > 0], minlength=4) - np.bincount(classes[change < 0], minlength=4)
        self._give_up()

    def _match(self, moves: Events, classes: Ints, ended: Events) -> tuple[Ints, Ints, Ints]:
        """Pairs of issue and completion of one place, the first with the first where several are in flight there: times
        of issue, classes, times of completion. Completions of I/Os from before the capture are left out."""
        every = np.concatenate([self._pending, moves, ended])
        which = np.concatenate([self._pending_class, classes, np.full(len(ended), -1)])
        key = every["sector"] * 2 + (every["op"] == WRITE)
        order = np.lexsort((every["kind"], every["time"], key))
        every, which, key = every[order], which[order], key[order]
        group = np.cumsum(np.diff(key, prepend=key[:1]) != 0)
        change = np.where(which >= 0, 1, -1)
        begin = np.flatnonzero(np.diff(group, prepend=-1) != 0)
        level = np.cumsum(change)
        level -= np.repeat((level - change)[begin], np.diff(np.append(begin, len(level))))
        # the lowest level so far of the group, or 0: groups are set apart by more than any level
        floor = -group * (len(level) + 1)
        lowest = np.minimum.accumulate(np.minimum(level, 0) + floor) - floor
        before = np.concatenate([[0], lowest[:-1]])
        before[begin] = 0
        orphan = (change < 0) & (lowest < before)
        self.unmatched += int(orphan.sum())
        every, which, group = every[~orphan], which[~orphan], group[~orphan]
        issues, ends = np.flatnonzero(which >= 0), np.flatnonzero(which < 0)
        ended_in = np.bincount(group[ends], minlength=int(group.max(initial=0)) + 1)
        first = np.searchsorted(group[issues], group[issues])
        matched = np.arange(len(issues)) - first < ended_in[group[issues]]
        pair, open_ = issues[matched], issues[~matched]
        self._pending, self._pending_class = every[open_], which[open_]
        return every["time"][pair], which[pair], every["time"][ends]

    def _give_up(self) -> None:
        """I/Os whose completion was missed do not stay in flight for ever."""
        assert self._clock is not None  # noqa: S101 - set by the caller
        keep = self._pending["time"] > self._clock - (_LOSSY_AFTER if self.lossy else _LOST_AFTER)
        if keep.sum() > _PENDING:
            keep &= self._pending["time"] >= np.sort(self._pending["time"])[-_PENDING]
        self.lost += int((~keep).sum())
        self._flight -= np.bincount(self._pending_class[~keep], minlength=len(CLASSES))
        self._pending, self._pending_class = self._pending[keep], self._pending_class[keep]

    def counts(self) -> dict[str, Any]:
        """All counts as plain JSON; times in ns, sizes in bytes. Histograms are lists of [value, number]."""
        return {
            "first": self._first or 0,
            "sizes": {name: _pairs(self._sizes[i]) for i, name in enumerate(CLASSES)},
            "depth_time": {name: _bins(h) for name, h in self._depth_time.items()},
            "depth_issue": {name: _bins(h) for name, h in self._depth_issue.items()},
            "latency": {name: _pairs(c) for name, c in self._latency.items()},
            "gaps": {name: [[k, *v] for k, v in sorted(bins.items())] for name, bins in self._gaps.items()},
            "writes_between_flushes": {name: _pairs(c) for name, c in self._between.items()},
            "seconds": self._seconds.tolist(),
            **{key: self._special[key] for key in ("flushes", "fua", "sync_writes", "discards", "discard_bytes")},
            "touched": {
                name: int(self._touched[list(which)].any(axis=0).sum()) * self.region for name, which in GROUPS.items()
            },
            "heat": {"read": self._heat[0].tolist(), "write": self._heat[1].tolist()},
            "span": {name: s if s[1] else [0, 0] for name, s in self._span.items()},
            "blocks_sampled": self.popular.share,
            "repeats": {n: self.popular.repeats(c) for n, c in (("all", (0, 1)), ("read", (0,)), ("write", (1,)))},
            "late": self.late,
            "lost": self.lost,
        }


def _ops(name: str) -> tuple[int, ...]:
    return {"all": (READ, WRITE), "read": (READ,), "write": (WRITE,)}[name]


def _pairs(counter: Counter[int]) -> list[list[int]]:
    return [[int(k), int(n)] for k, n in sorted(counter.items()) if n]


def _bins(histogram: NDArray[Any]) -> list[list[float]]:
    return [[int(i), float(histogram[i])] for i in np.flatnonzero(histogram)]


__all__ = ["CLASSES", "EVENT", "GROUPS", "Tally", "bin_time", "time_bin"]
