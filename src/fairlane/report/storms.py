"""Clone storms: how long machines take against how many are made at once. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from markupsafe import Markup

from fairlane.records import Evidence
from fairlane.report import svg
from fairlane.report.phrases import value
from fairlane.report.plot import SHAPES
from fairlane.report.svg import INK, LANES, WIDTH, Figure, Scale, Table, colour
from fairlane.report.text import DASH

_METRICS = ("vm_created_mean", "vm_booted_mean", "vm_ready_mean", "job_time")
_HEADS = ("created", "booted", "answered", "last answered")


@dataclass(frozen=True)
class Size:
    """One lane in storms of one size: the geometric means of ``_METRICS`` over its trials, ns."""

    count: int
    times: tuple[float, ...]


@dataclass(frozen=True)
class Line:
    """One lane."""

    lane: str
    """Label."""
    index: int
    """0 for the baseline, then the other lanes in the study's order: the lane's colour."""
    sizes: tuple[Size, ...]


@dataclass(frozen=True)
class StormView:
    """The storms of one workload."""

    workload: str
    lines: tuple[Line, ...]


def view(evidence: Evidence, workload: str, label: Mapping[str, str]) -> StormView | None:
    """None: ``workload`` has no storms of two sizes or more, or none with figures."""
    cells = {c.key: _count(c.params) for c in evidence.cells() if c.workload == workload and c.kind == "clone"}
    found: dict[tuple[str, int], list[tuple[float, ...]]] = {}
    for o in evidence.observations:
        times = tuple(o.metrics.get(metric, 0.0) for metric in _METRICS)
        if not o.failed and cells.get(o.cell) and all(time > 0 for time in times):
            found.setdefault((o.lane, cells[o.cell]), []).append(times)
    baseline = evidence.study.baseline
    lines = []
    for index, lane in enumerate([baseline, *(lane for lane in label if lane != baseline)]):
        sizes = [
            Size(count, tuple(geometric_mean(column) for column in zip(*found[lane, count], strict=True)))
            for count in sorted(set(cells.values()))
            if (lane, count) in found
        ]
        if sizes:
            lines.append(Line(label[lane], index, tuple(sizes)))
    return StormView(workload, tuple(lines)) if len({s.count for x in lines for s in x.sizes}) > 1 else None


def _count(params: Mapping[str, Any]) -> int:
    count = params.get("count")
    return count if isinstance(count, int) else 0


_LEFT, _RIGHT, _TOP, _HEIGHT, _FOOT = 70, 14, 10, 230, 40


def figure(storms: StormView, ident: str) -> Figure:
    """Time against machines: a line per lane until the last one answered, a dashed one until volumes were created."""
    counts = sorted({s.count for line in storms.lines for s in line.sizes})
    bottom = _TOP + 20 * len(storms.lines) + _HEIGHT
    across = Scale(0, max(counts) * 1.06, _LEFT, WIDTH - _RIGHT)
    longest = max(s.times[-1] for line in storms.lines for s in line.sizes)
    up = Scale(0, longest * 1.08, bottom, _TOP + 20 * len(storms.lines))
    title = "Time to ready against machines made at once"
    parts = [*_legend(storms.lines), *_axes(across, up, counts, bottom)]
    for line in storms.lines:
        parts.append(_line(line, across, up))
    told = "; ".join(
        f"{x.lane}: {value('job_time', x.sizes[-1].times[-1])} at {x.sizes[-1].count}" for x in storms.lines
    )
    caption = (
        "Solid: until a read and a flushed write of the last machine's volume were answered. Dashed: until volumes "
        "were there, mean of the machines. From the storm's begin; means over blocks; lower is better."
    )
    columns = ("machines", *(f"{line.lane}: {head}" for line in storms.lines for head in _HEADS))
    rows = tuple((str(n), *(cell for line in storms.lines for cell in _cells(line, n))) for n in counts)
    return Figure(ident, title, caption, svg.picture(ident, bottom + _FOOT, title, told, *parts), Table(columns, rows))


def _cells(line: Line, count: int) -> Sequence[str]:
    times = next((s.times for s in line.sizes if s.count == count), None)
    if times is None:
        return [DASH] * len(_METRICS)
    return [value(metric, time) for metric, time in zip(_METRICS, times, strict=True)]


def _legend(lines: Sequence[Line]) -> list[Markup]:
    parts = []
    for i, line in enumerate(lines):
        y = _TOP + 20 * i + 6
        paint = colour(f"lane-{line.index % LANES}")
        parts.append(svg.marker(SHAPES[line.index % len(SHAPES)], _LEFT + 6, y, 4.5, fill=paint, stroke=INK))
        parts.append(svg.text(_LEFT + 18, y + 4, svg.fit(line.lane, WIDTH - _LEFT - 30, 12), font_size=12))
    return parts


def _axes(across: Scale, up: Scale, counts: Sequence[int], bottom: float) -> list[Markup]:
    muted = colour("muted")
    parts = [svg.line(_LEFT, bottom, WIDTH - _RIGHT, bottom, stroke=muted)]
    last = 0.0
    for count in counts:
        x = across(count)
        parts.append(svg.line(x, bottom, x, bottom + 5, stroke=muted))
        if x - last >= 22 or not last:  # numbers do not touch
            parts.append(svg.text(x, bottom + 18, str(count), text_anchor="middle", font_size=12, fill=muted))
            last = x
    parts.append(
        svg.text(WIDTH - _RIGHT, bottom + 34, "machines at once →", text_anchor="end", font_size=12, fill=muted)
    )
    for tick in up.ticks(5):
        y = up(tick)
        shown = "0" if tick == 0 else value("job_time", tick)
        parts.append(svg.line(_LEFT, y, WIDTH - _RIGHT, y, stroke=colour("grid")))
        parts.append(svg.text(_LEFT - 6, y + 4, shown, text_anchor="end", font_size=12, fill=muted))
    return parts


def _line(line: Line, across: Scale, up: Scale) -> Markup:
    paint, shape = colour(f"lane-{line.index % LANES}"), SHAPES[line.index % len(SHAPES)]
    done = [(across(s.count), up(s.times[-1])) for s in line.sizes]
    created = [(across(s.count), up(s.times[0])) for s in line.sizes]
    marks = [
        svg.tag(
            "g",
            svg.tag("title", f"{line.lane}, {s.count} at once: {value('job_time', s.times[-1])}"),
            svg.marker(shape, x, y, 4.5, fill=paint, stroke=INK),
        )
        for s, (x, y) in zip(line.sizes, done, strict=True)
    ]
    return svg.tag(
        "g",
        svg.tag("path", d=_path(created), fill="none", stroke=paint, stroke_width=1.5, stroke_dasharray="4 3"),
        svg.tag("path", d=_path(done), fill="none", stroke=paint, stroke_width=2),
        *marks,
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{svg.num(x)} {svg.num(y)}" for x, y in points)
