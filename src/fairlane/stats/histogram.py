"""Latency histograms as fio's json+ gives them: merged by adding bins, read by one walk, never averaged.

A bin is ``midpoint in ns -> count``. fio splits every power of two into 64 bins (above 128 ns), so a midpoint is within
1/128 = 0.78 % of every latency in its bin. Percentiles are by nearest rank: the smallest bin that holds rank ceil(q N).
The mean of two p99s is not the p99 of anything; the p99 of the added bins is that of all the I/Os together.
"""

import math
from collections.abc import Iterable, Mapping

from fairlane.records import Histogram

BIN_ERROR = 1 / 128
"""Largest relative distance of a latency from its bin's midpoint (fio's FIO_IO_U_PLAT_BITS = 6)."""

BEYOND = 10
"""I/Os that must lie beyond a percentile before it is a figure."""


def merge(histograms: Iterable[Histogram]) -> dict[int, int]:
    """All I/Os together (of jobs, VMs, directions, blocks), bins in rising order; those without I/Os are left out."""
    total: dict[int, int] = {}
    for histogram in histograms:
        for ns, count in histogram.items():
            total[ns] = total.get(ns, 0) + count
    return {ns: total[ns] for ns in sorted(total) if total[ns]}


def latency(histograms: Mapping[str, Histogram]) -> dict[int, int]:
    """The ``lat`` bins (submission to completion) of all directions of an ``Observation``'s histograms, merged."""
    return merge(bins for name, bins in histograms.items() if name.rpartition(".")[2] == "lat")


def count(histogram: Histogram) -> int:
    """Number of I/Os."""
    return sum(histogram.values())


def percentile(histogram: Histogram, q: float) -> int:
    """Latency in ns at or below which a share ``q`` (0 < q <= 1) of the I/Os lies. ValueError: no I/Os, or bad q."""
    rank = _rank(count(histogram), q)
    seen = 0
    for ns in sorted(histogram):
        seen += histogram[ns]
        if seen >= rank:
            return ns
    raise ValueError("an empty histogram has no percentile")


def beyond(histogram: Histogram, q: float) -> int:
    """Number of I/Os that rank beyond the percentile ``q``; 0 for an empty histogram."""
    total = count(histogram)
    return total - _rank(total, q) if total else 0


def reportable(histogram: Histogram, q: float) -> bool:
    """At least ten I/Os lie beyond the percentile: with fewer, one I/O more or less moves it far."""
    return beyond(histogram, q) >= BEYOND


def ecdf(histogram: Histogram, points: int = 256) -> list[tuple[int, float]]:
    """(latency in ns, share of I/Os at or below it), rising and ending at share 1; empty for an empty histogram.

    Bins are thinned for drawing to about twice ``points``, without moving any: one is kept where the share rose by
    1/points since the last one kept, or the share *beyond* shrank by the factor that cuts six decades into ``points``,
    so that the tail keeps its shape on a logarithmic axis too.
    """
    total = count(histogram)
    kept: list[tuple[int, float]] = []
    seen, last = 0, 0.0
    shrink = 10 ** (-6 / points)
    for ns in sorted(histogram):
        if not histogram[ns]:
            continue
        seen += histogram[ns]
        share = seen / total
        if not kept or seen == total or share - last >= 1 / points or 1 - share <= (1 - last) * shrink:
            kept.append((ns, share))
            last = share
    return kept


def _rank(total: int, q: float) -> int:
    if not 0 < q <= 1:
        raise ValueError(f"a percentile is a share above 0 and up to 1, not {q}")
    return math.ceil(round(q * total, 6))  # a product that is a whole number in decimal may lie just above it in binary
