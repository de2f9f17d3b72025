"""Figures that exclude each other: an importer refuses them, with the place in the file. Pure.

A digit lost in copying, two columns swapped or a line of another run leave a file that reads well. What a tool prints
twice, or what follows from arithmetic alone, shows it. Only what cannot be is refused here; what is merely odd (a queue
that was not kept full, bins that lost I/Os) is left to the checks, which look at the run as a whole.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from fairlane.formats.record import Record
from fairlane.importers.base import Unreadable
from fairlane.metrics import METRICS, SYNC, WAYS, own_metric
from fairlane.stats.histogram import PERCENTILES

_ROUNDED = 0.02
"""Share by which figures may differ that a tool rounds, or takes at moments that are not quite the same."""
_BUSY = 0.1
"""Share by which I/Os in flight may exceed those asked for: those at either end count with all their time."""
_RISING = {
    way: sorted(of_way, key=of_way.__getitem__) for way, of_way in PERCENTILES.items()
} | {"vm_ready": [f"vm_ready_p{q}" for q in (50, 95, 99)]}  # fmt: skip


def consistent(record: Record, where: str, *, in_flight: float | None = None) -> Record:
    """``record``, if its figures can all be true at once.

    * Percentiles rise, and a share of the I/Os that took as long as one of them alone fits into the mean (Markov's
      inequality: mean >= (1 - q) x percentile).
    * Rates of reads and of writes add up to the whole, and the mean latency lies between theirs.
    * No I/O moves more than the block size.
    * Rate x mean latency is no more than ``in_flight``, the most I/Os or transactions at one time (Little's law).

    Each with what rounding allows (``Figures.steps``). ``where``: file:line. Raises Unreadable, kind ``contradiction``.
    """
    metrics, steps = record.figures.metrics, record.figures.steps
    if problem := (
        _percentiles(metrics, steps)
        or _ways(metrics, steps, record.figures.context.get("load", {}))
        or _blocks(metrics, steps, record.params)
        or _law(metrics, steps, in_flight)
    ):
        raise Unreadable("contradiction", problem, where=where)
    return record


def same(first: float, second: float, what: str, where: str, *, unsure: float = 0.0) -> None:
    """Two figures of a file that must be equal, give or take 2 % and the share ``unsure``. ``what`` names both.

    Raises Unreadable, kind ``contradiction``."""
    if abs(first - second) > (_ROUNDED + unsure) * max(first, second):
        raise Unreadable("contradiction", f"{what}: {first:.6g} and {second:.6g} exclude each other", where=where)


def ordered(values: Sequence[float], what: str, where: str) -> None:
    """Figures that must not fall. Raises Unreadable, kind ``contradiction``."""
    for low, high in pairwise(values):
        if low > high * (1 + 1e-6):
            raise Unreadable("contradiction", f"{what}: {low:.6g} above {high:.6g}", where=where)


def _unsure(steps: Mapping[str, float], *names: str) -> float:
    return sum(steps.get(name, 0.0) for name in names)


def _percentiles(metrics: Mapping[str, float], steps: Mapping[str, float]) -> str:
    for way, names in _RISING.items():
        known = [name for name in names if metrics.get(name)]
        for low, high in pairwise(known):
            if metrics[low] <= metrics[high]:  # as nearly always: the limit need not be worked out
                continue
            if metrics[low] > metrics[high] * (1 + _unsure(steps, low, high) + 1e-6):
                return f"{_shown(low, metrics)} is above {_shown(high, metrics)}"
        name = {"vm_ready": "vm_ready_mean", SYNC: "sync_lat_mean"}.get(way) or own_metric("lat_mean", way)
        mean = metrics.get(name)
        for rank in known if mean and way != "vm_ready" else ():
            share = 1 - (METRICS[rank].percentile or 1.0)
            if share * metrics[rank] <= (mean or 0.0):
                continue
            if share * metrics[rank] > (mean or 0.0) * (1 + _ROUNDED + _unsure(steps, name, rank)):
                return f"{_shown(name, metrics)} is too low for {_shown(rank, metrics)}"
    return ""


def _ways(metrics: Mapping[str, float], steps: Mapping[str, float], load: Mapping[str, Any]) -> str:
    ios = load.get("ios")
    trims = isinstance(ios, Mapping) and any(ios.get(way) for way in ("trim", "mixed"))
    for name in () if trims else ("iops", "bw"):
        parts = [own_metric(name, way) for way in WAYS]
        whole = metrics.get(name)
        if whole and all(part in metrics for part in parts):
            total = sum(metrics[part] for part in parts)
            if abs(total - whole) > (_ROUNDED + _unsure(steps, name, *parts)) * whole:
                return f"{_shown(name, metrics)}, but reads and writes add up to {METRICS[name].format(total)}"
    means = [own_metric("lat_mean", way) for way in WAYS]
    mean = metrics.get("lat_mean")
    if mean and not trims and all(metrics.get(name) for name in means):
        low, high = sorted(metrics[name] for name in means)
        unsure = _ROUNDED + _unsure(steps, "lat_mean", *means)
        if not low * (1 - unsure) <= mean <= high * (1 + unsure):
            return f"{_shown('lat_mean', metrics)} is not between {' and '.join(_shown(n, metrics) for n in means)}"
    return ""


def _blocks(metrics: Mapping[str, float], steps: Mapping[str, float], params: Mapping[str, Any]) -> str:
    bs, iops, bw = params.get("bs"), metrics.get("iops"), metrics.get("bw")
    if (
        isinstance(bs, int)
        and bs > 0
        and iops
        and bw
        and bw > iops * bs * (1 + _ROUNDED + _unsure(steps, "iops", "bw"))
    ):
        return f"{_shown('bw', metrics)} is more than {_shown('iops', metrics)} of {bs} bytes move"
    return ""


def _law(metrics: Mapping[str, float], steps: Mapping[str, float], in_flight: float | None) -> str:
    name = next((name for name in ("iops", "tps") if metrics.get(name)), "")
    mean = metrics.get("lat_mean")
    if not (in_flight and name and mean):
        return ""
    busy = metrics[name] * mean / 1e9
    if busy <= in_flight * (1 + _BUSY + _unsure(steps, name, "lat_mean")):
        return ""
    return (
        f"{_shown(name, metrics)} x {_shown('lat_mean', metrics)} is {busy:.3g} in flight (Little's law), but "
        f"{in_flight:g} were requested"
    )


def _shown(name: str, metrics: Mapping[str, float]) -> str:
    return f"{METRICS[name].title} {METRICS[name].format(metrics[name])}"
