"""Latency histograms as in fio's json+: merged by adding bins, never averaged.

A bin is ``midpoint in ns -> count``. fio splits every power of two into 64 bins (above 128 ns), so a midpoint is within
1/128 = 0.78 % of every latency in its bin. Percentiles are by nearest rank: the smallest bin that holds rank ceil(q N).
The mean of two p99s is not the p99 of anything; the p99 of the added bins is that of all the I/Os together.

Functions take any mapping; ``Bins`` is the compact one, 16 bytes a bin, that readers make.
"""

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlane.metrics import METRICS, SYNC, WAYS
from fairlane.records import Histogram

BIN_ERROR = 1 / 128
"""Largest relative distance of a latency from its bin's midpoint (fio's FIO_IO_U_PLAT_BITS = 6)."""

BEYOND = 10
"""Fewest samples (I/Os, machines) beyond a percentile for it to be a figure: p50 from 20 on, p95 from 200, p99 from
1000. See ``enough``."""

_MOST = 2**62
"""No histogram holds so many I/Os; sums below it are exact."""

Ints = NDArray[np.int64]


class Bins(Mapping[int, int]):
    """A histogram in two arrays, immutable: ``ns``, the midpoints, rising, and ``counts``, all above 0. Equal to any
    mapping with the same bins."""

    __slots__ = ("_known", "counts", "ns", "total")

    ns: Ints
    counts: Ints
    total: int
    """Number of I/Os."""
    _known: Sequence[int]

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

    @classmethod
    def checked(cls, ns: Ints, counts: Ints) -> "Bins":
        """From arrays of its own whose values were checked as they were read: not negative, fewer than 2^62 I/Os."""
        if not counts.all():
            ns, counts = ns[counts > 0], counts[counts > 0]
        if not (ns[1:] > ns[:-1]).all():
            ns, counts = _added(ns, counts)
        return cls.__new__(cls)._keep(ns, counts)

    def _keep(self, ns: Ints, counts: Ints) -> "Bins":
        ns.flags.writeable = counts.flags.writeable = False
        self.ns, self.counts, self.total = ns, counts, int(counts.sum())
        return self

    def pieces(self) -> list[tuple[Ints, Ints]]:
        """Midpoints and counts of the histograms that it is the sum of: here, itself."""
        return [(self.ns, self.counts)]

    def fingerprint(self) -> str:
        """Equal for equal bins alone."""
        return hashlib.sha256(self.ns.tobytes() + self.counts.tobytes()).hexdigest()

    @property
    def known(self) -> Sequence[int]:
        """Percentiles at ``SHARES``, in ns, worked out once: figures, checks and verdicts ask for them. There are
        I/Os."""
        try:
            return self._known
        except AttributeError:
            self._known = _ranked(self, SHARES)
            return self._known

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


class Stored(Bins):
    """Bins that lie in a file: the arrays are read at every use, so that a hundred thousand of these take little
    memory. What every trial is asked, number of I/Os, mean, the registry's percentiles, the longest, is known."""

    __slots__ = ("_length", "_mark", "_pieces", "average", "longest")

    def __init__(self, pieces: Callable[[], list[tuple[Ints, Ints]]], summary: "Summary") -> None:
        """``pieces`` reads the arrays of the histograms that it is the sum of."""
        self._pieces = pieces
        self.total, self.average, self.longest, self._known, self._length, self._mark = summary

    def pieces(self) -> list[tuple[Ints, Ints]]:
        return self._pieces()

    @property
    def ns(self) -> Ints:  # type: ignore[override]
        return _sum(self._pieces())[0]

    @property
    def counts(self) -> Ints:  # type: ignore[override]
        return _sum(self._pieces())[1]

    def fingerprint(self) -> str:
        return self._mark or super().fingerprint()

    def __len__(self) -> int:
        return self._length

    def __reduce__(self) -> tuple[Any, ...]:
        return _kept, _sum(self._pieces())


class Apart(Mapping[str, Histogram]):
    """Histograms of an observation that know their ``lat`` bins merged."""

    @property
    @abstractmethod
    def whole(self) -> Bins:
        """The ``lat`` bins of all directions."""


Summary = tuple[int, float, int, Sequence[int], int, str]
"""Number of I/Os, mean, longest, percentiles at ``SHARES``, all in ns, number of bins, fingerprint or nothing."""


def summary(histogram: Histogram, *, mark: bool = False) -> Summary:
    """What ``Stored`` knows, with ``mark`` the fingerprint too. ValueError: no I/Os."""
    bins = Bins.of(histogram)
    return bins.total, mean(bins), longest(bins), bins.known, len(bins), bins.fingerprint() if mark else ""


def _sum(pieces: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    if len(pieces) == 1:
        return pieces[0]
    return _added(np.concatenate([ns for ns, _ in pieces]), np.concatenate([counts for _, counts in pieces]))


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
    return Bins.__new__(Bins)._keep(*_sum([piece for part in parts for piece in part.pieces()]))


def latency(histograms: Mapping[str, Histogram]) -> Bins:
    """The ``lat`` bins (submission to completion) of all directions of an ``Observation``'s histograms, merged."""
    if isinstance(histograms, Apart):
        return histograms.whole
    return merge(histograms[name] for name in histograms if name.rpartition(".")[2] == "lat")


SYNCS = f"{SYNC}.sync_lat"
"""Name of the histogram of syncs in an ``Observation``: no ``lat``, because a sync is no I/O."""


def directions(histograms: Mapping[str, Histogram]) -> dict[str, Bins]:
    """What has metrics of its own: the ``lat`` bins of reads and of writes, by direction, where there are I/Os of both,
    and the bins of syncs, where there are any."""
    ways = {way: bins for way in WAYS if (bins := Bins.of(histograms.get(f"{way}.lat", _EMPTY)))}
    syncs = Bins.of(histograms.get(SYNCS, _EMPTY))
    return (ways if len(ways) == len(WAYS) else {}) | ({SYNC: syncs} if syncs else {})


def count(histogram: Histogram) -> int:
    """Number of I/Os."""
    return Bins.of(histogram).total


def percentile(histogram: Histogram, q: float) -> int:
    """Latency in ns at or below which a share ``q`` (0 < q <= 1) of the I/Os lies. ValueError: no I/Os, or bad q."""
    return quantiles(histogram, [q])[0]


def quantiles(histogram: Histogram, shares: Iterable[float]) -> list[int]:
    """``percentile`` at each of ``shares``."""
    bins, shares = Bins.of(histogram), tuple(shares)
    if shares and not bins.total:
        raise ValueError("an empty histogram has no percentile")
    if all(q in _AT for q in shares):
        return [bins.known[_AT[q]] for q in shares]
    return _ranked(bins, shares)


def _ranked(bins: Bins, shares: Iterable[float]) -> list[int]:
    ranks = [_rank(bins.total, q) for q in shares]
    below: list[int] = bins.ns[bins.counts.cumsum().searchsorted(ranks)].tolist()
    return below


def mean(histogram: Histogram) -> float:
    """Mean latency in ns, within ``BIN_ERROR`` of that of the I/Os. ValueError: no I/Os."""
    bins = Bins.of(histogram)
    if not bins.total:
        raise ValueError("an empty histogram has no mean")
    if isinstance(bins, Stored):
        return bins.average
    return float(bins.ns.astype(np.float64) @ bins.counts) / bins.total


def longest(histogram: Histogram) -> int:
    """Midpoint of the highest bin, in ns. ValueError: no I/Os."""
    bins = Bins.of(histogram)
    if not bins.total:
        raise ValueError("an empty histogram has no longest I/O")
    return bins.longest if isinstance(bins, Stored) else int(bins.ns[-1])


def beyond(histogram: Histogram, q: float) -> int:
    """Number of I/Os that rank beyond the percentile ``q``; 0 for an empty histogram."""
    total = count(histogram)
    return total - _rank(total, q) if total else 0


def enough(samples: int, q: float) -> bool:
    """Whether ten or more of so many samples lie beyond the percentile ``q``: with fewer, a single one moves it far."""
    return samples > 0 and samples - _rank(samples, q) >= BEYOND


def percentiles_of(values: Sequence[float], shares: Mapping[str, float]) -> dict[str, float]:
    """Percentiles of single ``values`` by nearest rank: name -> value, those of ``shares`` (name -> share) that ten
    lie beyond."""
    rising, n = sorted(values), len(values)
    return {name: rising[_rank(n, q) - 1] for name, q in shares.items() if enough(n, q)}


def reportable(histogram: Histogram, q: float) -> bool:
    """``enough`` of the I/Os in ``histogram``."""
    return count(histogram) >= fewest(q)


@cache
def fewest(q: float) -> int:
    """Fewest I/Os of a histogram whose percentile ``q`` is ``reportable``: the more there are, the more lie beyond."""
    if q >= 1:
        return _MOST
    total = max(1, round(BEYOND / (1 - q)) - 2)
    while total - _rank(total, q) < BEYOND:
        total += 1
    return total


PERCENTILES = {
    way: {m.name: m.percentile for m in METRICS.values() if m.way == way and m.percentile is not None}
    for way in ("", *WAYS, SYNC)
}
"""The registry's percentiles: ``Metric.way`` (empty: all I/Os) -> metric -> share."""


SHARES = tuple(sorted({q for of_way in PERCENTILES.values() for q in of_way.values()}))
"""Every share that the registry has a percentile for, rising."""
_AT = {q: place for place, q in enumerate(SHARES)}


def percentiles(histograms: Mapping[str, Histogram]) -> dict[str, float]:
    """The registry's percentiles, in ns, by metric, of an ``Observation``'s histograms: those that ten I/Os lie beyond.
    Of a mix also those of each direction, and of syncs."""
    result: dict[str, float] = {}
    for way, bins in {"": latency(histograms), **directions(histograms)}.items():
        shares = {name: q for name, q in PERCENTILES[way].items() if bins.total >= fewest(q)}  # ``reportable``
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


def coarse(counts: Mapping[int, int]) -> dict[int, int]:
    """Latencies in ns -> bins as fio's, 64 to a power of two, so there are few for any latencies; unlike
    fio's they do not end at 17 s."""
    bins: dict[int, int] = {}
    for ns, count in counts.items():
        shift = max(ns.bit_length() - 7, 0)
        middle = (ns >> shift << shift) + (1 << shift >> 1)
        bins[middle] = bins.get(middle, 0) + count
    return bins
