"""The one registry of metrics: name, unit, direction, margin, definition, how it is printed.

Everything that shows, compares or exports a figure looks here; no metric is defined twice.
"""

from collections.abc import Callable
from dataclasses import dataclass


def _si(value: float) -> str:
    """Three significant digits or whole numbers: 5387, 14525, 0.412."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _duration(ns: float) -> str:
    """Nanoseconds for a reader: 812 ns, 185 us, 1.74 ms."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


@dataclass(frozen=True)
class Metric:
    """One metric. ``better`` is +1 where more is better and -1 where less is."""

    name: str
    title: str
    unit: str
    better: int
    margin: float
    """Default smallest relative difference that matters."""
    definition: str
    format: Callable[[float], str]
    """Value in the registry's unit -> text with unit."""
    percentile: float | None = None
    """For percentiles of the merged ``lat`` histogram: 0.99."""


def _percentile(name: str, title: str, q: float) -> Metric:
    return Metric(
        name, title, "ns", -1, 0.10,
        f"{100 * q:g} % of I/Os took at most this long from submission to completion (fio's lat, the bins of all jobs "
        "and directions merged); reported only where at least 10 I/Os lie beyond it in every block",
        _duration, q,
    )  # fmt: skip


_ALL = (
    Metric("iops", "IOPS", "1/s", +1, 0.05,
           "I/Os of all jobs and directions that completed after the ramp / time until the last one was back", _si),
    Metric("bw", "bandwidth", "B/s", +1, 0.05,
           "bytes of the same I/Os / the same time",
           lambda v: f"{v / 2**20:,.4g} MiB/s"),
    Metric("lat_mean", "mean latency", "ns", -1, 0.05,
           "mean time of an I/O from submission to completion (fio's lat)", _duration),
    _percentile("lat_p50", "p50 latency", 0.50),
    _percentile("lat_p99", "p99 latency", 0.99),
    _percentile("lat_p999", "p99.9 latency", 0.999),
    Metric("cpu_per_io", "CPU per I/O", "ns", -1, 0.05,
           "CPU time of the generator and of every kernel thread and standing program of the machine, initiator and "
           "target included, during the load / I/Os; interrupts of an idle CPU are charged to nobody. Under the "
           "virtual clock 1 ns = 1 instruction", _duration),
)  # fmt: skip

METRICS: dict[str, Metric] = {m.name: m for m in _ALL}
