"""How well a replay resembles its capture, property by property."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fairlane.capture.shape import Part, Shape
from fairlane.capture.workload import distance
from fairlane.units import format_size

How = Literal["relative", "points", "distance"]

_TOLERANCE = {
    "rate": 0.10, "direction": 0.02, "size": 0.10, "sizes": 0.02, "sequential": 0.05, "hot": 0.10, "depth": 0.10,
    "flush": 0.10, "set": 0.20,
}  # fmt: skip
_NEGLIGIBLE = 0.005


@dataclass(frozen=True)
class Row:
    """One property. ``deviation``: a ratio minus 1, a difference of shares, or a distance (0 to 1), by ``how``."""

    name: str
    captured: str
    replayed: str
    deviation: float
    how: How
    tolerance: float
    judged: bool = True
    """Whether it is the load's own: the depth of a paced load is that of the storage below it."""

    @property
    def alike(self) -> bool:
        return not self.judged or abs(self.deviation) <= self.tolerance

    @property
    def text(self) -> str:
        """The deviation as it is printed."""
        if self.how == "relative":
            return f"{100 * self.deviation:+.1f} %"
        if self.how == "points":
            return f"{100 * self.deviation:+.1f} points"
        return f"{self.deviation:.3f} of 1"


def rows(captured: Shape, replayed: Shape, *, scaled: bool = False, closed: bool = False) -> list[Row]:
    """Every property that both know. ``scaled``: the replay used a smaller working set on purpose; ``closed``: it ran
    without the captured rate."""
    return [*_rows(captured, replayed, scaled=scaled, closed=closed)]


def _rows(a: Shape, b: Shape, *, scaled: bool, closed: bool) -> Iterator[Row]:
    if not closed:
        yield _relative("I/Os per second", _iops(a, "all"), _iops(b, "all"), "rate", "{:.0f}")
    yield _points("share of reads", a.read_share, b.read_share, "direction")
    ways = [way for way in ("read", "write") if _iops(a, way) > _NEGLIGIBLE * _iops(a, "all")]
    for way in ways:
        x, y = a.parts[way], b.parts.get(way)
        if y is None:
            yield Row(f"{way}s", f"{x.iops:.0f}/s", "none", -1.0, "relative", _TOLERANCE["rate"])
            continue
        yield _relative(f"{way}: mean size", x.size, y.size, "size", "{:.0f} B")
        if a.traced and b.traced:
            yield from _traced(way, x, y, scaled=scaled)
    x, y = a.parts["all"], b.parts.get("all")
    if y and x.depth and y.depth:
        depth = _relative("I/Os in flight", x.depth, y.depth, "depth", "{:.2f}")
        yield replace(depth, judged=closed)
    if a.flushes and b.flushes is not None and _iops(a, "write"):
        yield _relative("flushes per write", _per_write(a), _per_write(b), "flush", "{:.3f}")


def _traced(way: str, x: Part, y: Part, *, scaled: bool) -> Iterator[Row]:
    yield Row(f"{way}: sizes", _sizes(x), _sizes(y), distance(x.sizes, y.sizes), "distance", _TOLERANCE["sizes"])
    yield _points(f"{way}: sequential", x.sequential or 0.0, y.sequential or 0.0, "sequential")
    if x.locality and y.locality and (x.sequential or 0.0) < 0.9:
        yield _points(f"{way}: at the hottest tenth", x.locality.hot, y.locality.hot, "hot")
    if x.working_set and y.working_set and not scaled and (x.sequential or 0.0) < 0.9:
        yield _relative(f"{way}: working set", x.working_set, y.working_set, "set", "{:.3g} B")


def _iops(shape: Shape, name: str) -> float:
    return shape.parts[name].iops if name in shape.parts else 0.0


def _per_write(shape: Shape) -> float:
    writes = _iops(shape, "write")
    return (shape.flushes or 0.0) / writes if writes else 0.0


def _sizes(part: Part) -> str:
    top = sorted(part.sizes.items(), key=lambda item: -item[1])[:2]
    return ", ".join(f"{format_size(size)} {100 * share:.0f} %" for size, share in top)


def _relative(name: str, x: float, y: float, tolerance: str, form: str) -> Row:
    deviation = y / x - 1 if x else 0.0
    return Row(name, form.format(x), form.format(y), deviation, "relative", _TOLERANCE[tolerance])


def _points(name: str, x: float, y: float, tolerance: str) -> Row:
    return Row(name, f"{100 * x:.1f} %", f"{100 * y:.1f} %", y - x, "points", _TOLERANCE[tolerance])


def sentence(table: Sequence[Row]) -> str:
    """The whole in one sentence."""
    table = [row for row in table if row.judged]
    away = [row for row in table if not row.alike]
    if not away:
        return f"The replay resembles the capture: all {len(table)} properties lie within their tolerance."
    worst = ", ".join(f"{row.name} ({row.text})" for row in away)
    verb = "resembles" if len(away) <= len(table) / 4 else "does not resemble"
    alike = f"{len(table) - len(away)} of {len(table)} properties"
    return f"The replay {verb} the capture in {alike}; beyond tolerance: {worst}."
