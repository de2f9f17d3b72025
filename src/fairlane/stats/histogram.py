"""Latency histograms as in fio's json+: merged by adding bins, never averaged.

A bin is ``midpoint in ns -> count``. fio splits every power of two into 64 bins (above 128 ns), so a midpoint is within
1/128 = 0.78 % of every latency in its bin. Percentiles are by nearest rank: the smallest bin that holds rank ceil(q N).
The mean of two p99s is not the p99 of anything; the p99 of the added bins is that of all the I/Os together.

Functions take any mapping; ``Bins`` is the compact one, 16 bytes a bin, that readers make.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlane.metrics import METRICS, WAYS
from fairlane.records import Histogram

BIN_ERROR = 1 / 128
"""Largest relative distance of a latency from its bin's midpoint (fio's FIO_IO_U_PLAT_BITS = 6)."""

BEYOND = 10
"""Fewest I/Os beyond a percentile for it to be a figure."""

_MOST = 2**62
"""No histogram holds so many I/Os; sums below it are exact."""

Ints = NDArray[np.int64]


class Bins(Mapping[int, int]):
    """A histogram in two arrays, immutable: ``ns``, the midpoints, rising, and ``counts``, all above 0. Equal to any
    mapping with the same bins."""

    __slots__ = ("counts", "ns", "total")

    ns: Ints
    counts: Ints
    total: int
    """Number of I/Os."""

    def __init__(self, ns: Any = (), counts: Any = ()) -> None:
        """From midpoints and counts in any order; equal midpoints are added, empty bins left out. ValueError: not whole
        numbers, negative, of different lengths, or more I/Os than 2^62."""
        at, n = _whole(ns), _whole(counts)
        if at.shape != n.shape:
            raise ValueError(f"{at.size} bins, but {n.size} counts")
        if n.size:
            least, rising = n.min(), (at[1:] > at[:-1]).all()
            if least < 0 or (at[0] if rising else at.min()) < 0:
                raise ValueError("a bin is below 0")
            if n.max() > _MOST // n.size and n.sum(dtype=np.float64) >= _MOST:
                raise ValueError("more I/Os than there can be")
            if not least:
                at, n = at[n > 0], n[n > 0]
            if not rising:
                at, n = _added(at, n)
        self._keep(at, n)

    def _keep(self, ns: Ints, counts: Ints) -> "Bins":
        ns.flags.writeable = counts.flags.writeable = False
        self.ns, self.counts, self.total = ns, counts, int(counts.sum())
        return self

    @classmethod
    def of(cls, histogram: Histogram) -> "Bins":
        """``histogram`` itself if it is one already. Raises ValueError as the constructor does."""
        if isinstance(histogram, Bins):
            return histogram
        return cls(list(histogram.keys()), list(histogram.values()))

    def __getitem__(self, ns: int) -> int:
        if isinstance(ns, int) and self.ns.size and 0 <= ns <= self.ns[-1]:
            i = int(self.ns.searchsorted(ns))
            if self.ns[i] == ns:
                return int(self.counts[i])
        raise KeyError(ns)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ns.tolist())

    def __len__(self) -> int:
        return len(self.ns)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Bins):
            return np.array_equal(self.ns, other.ns) and np.array_equal(self.counts, other.counts)
        if isinstance(other, Mapping):
            return dict(zip(self.ns.tolist(), self.counts.tolist(), strict=True)) == dict(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal to dicts, which have none

    def __repr__(self) -> str:
        return f"Bins({self.ns.tolist()}, {self.counts.tolist()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _kept, (self.ns, self.counts)


def _kept(ns: Ints, counts: Ints) -> Bins:
    """Bins that were checked before they were pickled."""
    return Bins.__new__(Bins)._keep(ns, counts)


def _whole(values: Any) -> Ints:
    """A copy as int64. ValueError unless it is a list of whole numbers that fit."""
    try:
        array = np.array(values)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise ValueError("a histogram is made of whole numbers below 2^63")
        return array.astype(np.int64, casting="same_kind" if array.size else "unsafe", copy=False)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a histogram is made of whole numbers below 2^63: {error}") from None


def _added(at: Ints, n: Ints) -> tuple[Ints, Ints]:
    """Bins in rising order, equal midpoints added."""
    order = at.argsort(kind="stable")
    at, n = at[order], n[order]
    if not at.size:
        return at, n
    first = np.concatenate(([True], at[1:] != at[:-1])).nonzero()[0]
    return at[first], np.add.reduceat(n, first)


_EMPTY = Bins()


def merge(histograms: Iterable[Histogram]) -> Bins:
    """All I/Os together (of jobs, VMs, directions, blocks). Raises ValueError as ``Bins`` does."""
    parts = [bins for histogram in histograms if (bins := Bins.of(histogram))]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return _EMPTY
    if sum(p.total for p in parts) >= _MOST:
        raise ValueError("more I/Os than there can be")
    # the constructor has checked each part
    return Bins.__new__(Bins)._keep(
        *_added(np.concatenate([p.ns for p in parts]), np.concatenate([p.counts for p in parts]))
    )


def latency(histograms: Mapping[str, Histogram]) -> Bins:
    """The ``lat`` bins (submission to completion) of all directions of an ``Observation``'s histograms, merged."""
    return merge(histograms[name] for name in histograms if name.rpartition(".")[2] == "lat")


def directions(histograms: Mapping[str, Histogram]) -> dict[str, Bins]:
    """The ``lat`` bins of reads and of writes, by direction, where there are I/Os of both; empty: no mix."""
    ways = {way: bins for way in WAYS if (bins := Bins.of(histograms.get(f"{way}.lat", _EMPTY)))}
    return ways if len(ways) == len(WAYS) else {}


def count(histogram: Histogram) -> int:
    """Number of I/Os."""
    return Bins.of(histogram).total


def percentile(histogram: Histogram, q: float) -> int:
    """Latency in ns at or below which a share ``q`` (0 < q <= 1) of the I/Os lies. ValueError: no I/Os, or bad q."""
    return quantiles(histogram, [q])[0]


def quantiles(histogram: Histogram, shares: Iterable[float]) -> list[int]:
    """``percentile`` at each of ``shares``."""
    bins = Bins.of(histogram)
    ranks = [_rank(bins.total, q) for q in shares]
    if ranks and not bins.total:
        raise ValueError("an empty histogram has no percentile")
    below: list[int] = bins.ns[bins.counts.cumsum().searchsorted(ranks)].tolist() if ranks else []
    return below


def mean(histogram: Histogram) -> float:
    """Mean latency in ns, within ``BIN_ERROR`` of that of the I/Os. ValueError: no I/Os."""
    bins = Bins.of(histogram)
    if not bins.total:
        raise ValueError("an empty histogram has no mean")
    return float(bins.ns.astype(np.float64) @ bins.counts) / bins.total


def beyond(histogram: Histogram, q: float) -> int:
    """Number of I/Os that rank beyond the percentile ``q``; 0 for an empty histogram."""
    total = count(histogram)
    return total - _rank(total, q) if total else 0


def reportable(histogram: Histogram, q: float) -> bool:
    """Whether at least ten I/Os lie beyond the percentile: with fewer, a single I/O moves it far."""
    return beyond(histogram, q) >= BEYOND


PERCENTILES = {
    way: {m.name: m.percentile for m in METRICS.values() if m.way == way and m.percentile is not None}
    for way in ("", *WAYS)
}
"""The registry's percentiles: direction (empty: all I/Os) -> metric -> share."""


def percentiles(histograms: Mapping[str, Histogram]) -> dict[str, float]:
    """The registry's percentiles, in ns, by metric, of an ``Observation``'s histograms: those that ten I/Os lie beyond.
    Of a mix also those of each direction."""
    result: dict[str, float] = {}
    for way, bins in {"": latency(histograms), **directions(histograms)}.items():
        shares = {name: q for name, q in PERCENTILES[way].items() if reportable(bins, q)}
        result |= zip(shares, map(float, quantiles(bins, shares.values())), strict=True)
    return result


def ecdf(histogram: Histogram, points: int = 256) -> list[tuple[int, float]]:
    """(latency in ns, share of I/Os at or below it), rising and ending at share 1; empty for an empty histogram.

    Bins are thinned for drawing to about twice ``points``, without moving any: one is kept where the share rose by
    1/points since the last one kept, or the share *beyond* shrank by the factor that cuts six decades into ``points``,
    so that the tail keeps its shape on a logarithmic axis too.
    """
    bins = Bins.of(histogram)
    kept: list[tuple[int, float]] = []
    last = 0.0
    shrink = 10 ** (-6 / points)
    for ns, cumulative in zip(bins.ns.tolist(), bins.counts.cumsum().tolist(), strict=True):
        share = cumulative / bins.total
        if not kept or cumulative == bins.total or share - last >= 1 / points or 1 - share <= (1 - last) * shrink:
            kept.append((ns, share))
            last = share
    return kept


def _rank(total: int, q: float) -> int:
    if not 0 < q <= 1:
        raise ValueError(f"a percentile is a share above 0 and up to 1, not {q}")
    return math.ceil(round(q * total, 6))  # a product that is a whole number in decimal may lie just above it in binary


# --- fio's own bins

_BITS = 6
_GROUPS = 29
"""FIO_IO_U_PLAT_BITS and FIO_IO_U_PLAT_GROUP_NR of fio's stat.h since 3.0, in ns. Before: microseconds, 19 groups."""
_LAST = _GROUPS * 2**_BITS - 1
"""Every latency beyond the last bin (17 s) is counted in it."""


def midpoints(groups: int = _GROUPS) -> Ints:
    """fio's bins by their index: the value that it prints for each (``plat_idx_to_val`` of its stat.c)."""
    index = np.arange(groups << _BITS, dtype=np.int64)
    bits = np.maximum((index >> _BITS) - 1, 0)
    above = (1 << (bits + _BITS)) + (index % 2**_BITS << bits) + (1 << bits >> 1)
    middles: Ints = np.where(index < 2 << _BITS, index, above)
    return middles


def indices(ns: Ints) -> Ints:
    """Index of the bin in which fio counts each latency (``plat_val_to_idx`` of its stat.c)."""
    bits = np.maximum(np.frexp(ns.astype(np.float64))[1] - 1 - _BITS, 0).astype(np.int64)
    # the float of a value of more than 53 bits may be rounded up to the next power of two; all of those are in _LAST
    inside = (bits + 1 << _BITS) + (ns >> bits & 2**_BITS - 1)
    result: Ints = np.minimum(np.where(ns < 2 << _BITS, ns, inside), _LAST)
    return result


def binned(ns: Ints) -> Bins:
    """Latencies in ns, none below 0, counted in fio's bins."""
    counts = np.bincount(indices(ns), minlength=_LAST + 1)
    return Bins(midpoints(), counts)
