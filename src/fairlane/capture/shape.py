"""The shape of a captured load: reported, compared with its replay, and converted into a workload."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlane.capture import diskstats
from fairlane.capture.fit import Locality, locality
from fairlane.capture.record import Capture
from fairlane.capture.tally import CLASSES, GROUPS, bin_time

Sizes = Mapping[int, float]
"""Size in bytes -> share of the I/Os."""

_BURST_SHARE, _BURST_PAUSES = 0.8, 0.1
"""Bursts: the pauses take at least so much of the time, and are at most so many of the gaps."""
_BURST_RATIO, _BURST_LEAST = 10.0, 20e6
"""A pause is so many times the median gap, and so many ns: a busy machine halts a paced load for some milliseconds."""


@dataclass(frozen=True)
class Bursts:
    """I/Os in bursts with pauses between them."""

    ios: float
    """I/Os of a burst, on average."""
    pause: float
    """Mean pause, s."""


@dataclass(frozen=True)
class Part:
    """One kind of I/O: a direction, a class, or all. ``None``: not known without a trace."""

    name: str
    iops: float
    rate: float
    """Bytes per second."""
    sizes: Sizes
    """Without a trace: the mean size alone."""
    count: int
    sequential: float | None = None
    depth: float | None = None
    """I/Os in flight on average while there are any."""
    flight: float = 0.0
    """I/Os in flight on average over the whole time."""
    depth_high: float | None = None
    """I/Os in flight at 95 % of the issues, the new one included."""
    depth_most: float | None = None
    """The same at 99 %."""
    latency: tuple[float, float] | None = None
    """Median and 99th percentile, s; of reads and writes only."""
    locality: Locality | None = None
    working_set: float | None = None
    """Bytes that the load uses, as estimated; None: not known."""
    bursts: Bursts | None = None
    variation: float | None = None
    """Coefficient of variation of the time between two I/Os: 0 a clock, 1 a Poisson process."""

    @property
    def size(self) -> float:
        """Mean size, bytes."""
        return self.rate / self.iops if self.iops else 0.0


@dataclass(frozen=True)
class Shape:
    """The load of a disk over a capture."""

    seconds: float
    traced: bool
    parts: Mapping[str, Part]
    """``all``, ``read``, ``write``; with a trace also the four classes of ``tally.CLASSES``. Without I/Os: absent."""
    read_share: float
    flushes: float | None
    """Per second; None: not known."""
    writes_per_flush: float | None
    """Mean number of writes from one flush to the next; None: no flushes, or not known."""
    flush_of: Mapping[str, float]
    """Class of writes -> its share of the flushes that come right after at least one of it."""
    fua: float | None
    """Share of the writes that are to be durable by themselves."""
    depth: float
    """I/Os in flight on average, those that wait before the disk included (its counters)."""
    busy: float
    """Share of the time with I/O in flight."""
    by_second: tuple[tuple[float, float], ...]
    """Reads and writes in each second."""
    heat: Mapping[str, Sequence[int]]
    """I/Os in each 64th of the disk; empty without a trace."""
    captured: float | None
    """Share of the disk's I/Os that the trace has; None: no trace."""


def shape(capture: Capture) -> Shape:
    """Computes the shape of a capture."""
    steps = diskstats.intervals(capture.samples)
    whole = diskstats.interval(capture.samples[0], capture.samples[-1]) if len(capture.samples) > 1 else None
    trace = capture.trace
    by_second = tuple((step.reads, _data_writes(step)) for step in steps)
    if trace is None:
        parts = _untraced(whole) if whole else {}
        flushes = whole.flushes if whole else None
        per_flush = _data_writes(whole) / whole.flushes if whole and whole.flushes else None
        flush_of: Mapping[str, float] = {}
        fua = captured = None
    else:
        parts = _parts(trace, capture)
        flushes = trace["flushes"] / capture.seconds
        between = trace["writes_between_flushes"]
        per_flush = _writes_per_flush(between["write"])
        flush_of = {name: _after(between[name]) for name in CLASSES[2:]}
        writes = parts["write"].count if "write" in parts else 0
        fua = trace["fua"] / writes if writes else None
        counted = (whole.reads + _data_writes(whole)) * whole.seconds if whole else 0
        captured = min(parts["all"].count / counted, 1.0) if counted and "all" in parts else None
        if trace["seconds"]:
            by_second = tuple((float(s[0] + s[2]), float(s[4] + s[6])) for s in trace["seconds"])
    both = [parts[name].iops if name in parts else 0.0 for name in ("read", "write")]
    return Shape(
        seconds=capture.seconds,
        traced=trace is not None,
        parts=parts,
        read_share=both[0] / sum(both) if sum(both) else 0.0,
        flushes=flushes,
        writes_per_flush=per_flush,
        flush_of=flush_of,
        fua=fua,
        depth=whole.depth if whole else 0.0,
        busy=whole.busy if whole else 0.0,
        by_second=by_second,
        heat=trace["heat"] if trace else {},
        captured=captured,
    )


def _data_writes(of: diskstats.Interval) -> float:
    """Writes per second without those that only flush: the kernel counts these among the writes, without data."""
    return max(of.writes - (of.flushes or 0.0), 0.0) if of.write_bytes else 0.0


def _untraced(whole: diskstats.Interval) -> dict[str, Part]:
    parts, writes = {}, _data_writes(whole)
    for name, iops, rate, latency in (
        ("all", whole.reads + writes, whole.read_bytes + whole.write_bytes, None),
        ("read", whole.reads, whole.read_bytes, whole.read_latency),
        ("write", writes, whole.write_bytes, whole.write_latency),
    ):
        if not iops:
            continue
        # Little's law gives a direction's share of the depth
        flight = whole.depth if latency is None else latency * iops
        busy = max(flight / whole.busy if whole.busy else 0.0, 1.0)
        mean = max(512, round(rate / iops / 512) * 512)
        parts[name] = Part(
            name=name,
            iops=iops,
            rate=rate,
            sizes={mean: 1.0},
            count=round(iops * whole.seconds),
            depth=busy,
            flight=flight,
        )
    return parts


def _parts(trace: Mapping[str, Any], capture: Capture) -> dict[str, Part]:
    parts = {}
    for name, classes in GROUPS.items():
        sizes: dict[int, int] = {}
        for i in classes:
            for size, number in trace["sizes"][CLASSES[i]]:
                sizes[size] = sizes.get(size, 0) + number
        count = sum(sizes.values())
        if not count:
            continue
        total = sum(size * number for size, number in sizes.items())
        unit = min(size for size, number in sizes.items() if number >= 0.01 * count or number == max(sizes.values()))
        sequential = sum(n for i in classes if i % 2 for _, n in trace["sizes"][CLASSES[i]]) / count
        way = {"all": "all", "read": "read", "write": "write"}.get(name, name.partition("_")[0])
        place = None if name.endswith("sequential") else _locality(trace, name, way, unit, capture.disk.size)
        gaps = trace["gaps"].get(name, [])
        depth, flight, high, most = _depths(trace["depth_time"][name], trace["depth_issue"][name])
        parts[name] = Part(
            name,
            count / capture.seconds,
            total / capture.seconds,
            {size: number / count for size, number in sorted(sizes.items())},
            count,
            sequential,
            depth,
            flight,
            high,
            most,
            _latency(trace["latency"].get(name, [])),
            place,
            _working_set(trace, name, place, sequential, (unit, total / count)),
            _bursts(gaps),
            _variation(gaps),
        )
    return parts


def _locality(trace: Mapping[str, Any], name: str, way: str, unit: int, disk: int) -> Locality | None:
    spans = [trace["span"][CLASSES[i]] for i in GROUPS[name] if i % 2 == 0 and trace["span"][CLASSES[i]][1]]
    if not spans:
        return None
    span = min(max(s[1] for s in spans) - min(s[0] for s in spans), disk)
    return locality(trace["repeats"][way], trace["blocks_sampled"], max(span / unit, 1.0))


def _working_set(
    trace: Mapping[str, Any], name: str, place: Locality | None, sequential: float, size: tuple[int, float]
) -> float | None:
    """Bytes: places that are estimated, each as large as the smallest usual I/O, or what was really touched. ``size``:
    of that I/O, and the mean."""
    touched = float(trace["touched"][name])
    if place is None or sequential > 0.9:
        return touched
    return max(place.places * size[0], min(place.blocks * size[1], touched))


def _depths(lasted: Sequence[Sequence[float]], issued: Sequence[Sequence[float]]) -> tuple[float, float, float, float]:
    """Mean depth while there is any, over the whole time, and the 95th and 99th percentile at issue."""
    whole, busy = sum(time for _, time in lasted), sum(time for depth, time in lasted if depth)
    area = sum(depth * time for depth, time in lasted)
    return (
        area / busy if busy else 1.0,
        area / whole if whole else 0.0,
        _percentile(issued, 0.95),
        _percentile(issued, 0.99),
    )


def _percentile(histogram: Sequence[Sequence[float]], q: float) -> float:
    total, cumulated = sum(n for _, n in histogram), 0.0
    for value, number in histogram:
        cumulated += number
        if cumulated >= q * total:
            return float(value)
    return 1.0


def _latency(histogram: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    if not histogram:
        return None
    return bin_time(_percentile(histogram, 0.5)) / 1e9, bin_time(_percentile(histogram, 0.99)) / 1e9


def _variation(gaps: Sequence[Sequence[float]]) -> float | None:
    number, total, squares = (sum(gap[i] for gap in gaps) for i in (1, 2, 3))
    if number < 2 or not total:
        return None
    mean = total / number
    return float(max(squares / number - mean * mean, 0.0) ** 0.5 / mean)


def _bursts(gaps: Sequence[Sequence[float]]) -> Bursts | None:
    number, total = sum(gap[1] for gap in gaps), sum(gap[2] for gap in gaps)
    if number < 20 or not total:
        return None
    median = bin_time(_percentile([gap[:2] for gap in gaps], 0.5))
    pauses = [gap for gap in gaps if bin_time(gap[0]) >= max(_BURST_RATIO * median, _BURST_LEAST)]
    # the usual pause, by time: what is far shorter is an I/O that was late
    usual = bin_time(_percentile([(gap[0], gap[2]) for gap in pauses], 0.5)) if pauses else 0.0
    pauses = [gap for gap in pauses if bin_time(gap[0]) >= usual / 4]
    many, long = sum(gap[1] for gap in pauses), sum(gap[2] for gap in pauses)
    if not many or many > _BURST_PAUSES * number or long < _BURST_SHARE * total:
        return None
    return Bursts((number + 1) / (many + 1), long / many / 1e9)  # a burst before the first pause and after the last


def _writes_per_flush(between: Sequence[Sequence[float]]) -> float | None:
    number = sum(n for _, n in between)
    return sum(writes * n for writes, n in between) / number if number else None


def _after(between: Sequence[Sequence[float]]) -> float:
    number = sum(n for _, n in between)
    return sum(n for writes, n in between if writes) / number if number else 0.0
