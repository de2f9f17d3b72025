"""Clone storms: time to ready against machines made at once, and the parts of that time. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, geometric_mean, median
from typing import Any

from markupsafe import Markup

from fairlane.checks._trials import at, number
from fairlane.metrics import rounded
from fairlane.records import Evidence, Observation
from fairlane.report import svg
from fairlane.report.phrases import count as counted
from fairlane.report.phrases import value
from fairlane.report.plot import SHAPES
from fairlane.report.svg import INK, LANES, WIDTH, Figure, Scale, Table, colour
from fairlane.report.text import DASH

_METRICS = ("vm_created_mean", "vm_booted_mean", "vm_ready_mean", "job_time")
_HEADS = ("created", "booted", "answered", "last answered")
_PHASES = (("bound", "cloned"), ("scheduled",), ("running",), ("answers",), ("first_io",))
"""Phases that end each part of a machine's time, where a cluster reports them: the last of these."""
_PARTS = ("volume", "scheduled", "started", "booted", "first I/O")
_NAMED = 3
"""Stragglers that are named."""


@dataclass(frozen=True)
class Size:
    """One lane in storms of one size: the geometric means of ``_METRICS`` over its trials, ns."""

    count: int
    times: tuple[float, ...]
    parts: tuple[float, ...] = ()
    """Mean time that a machine spent in each of ``_PARTS``, ns; empty where the platform does not report it."""


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
    notes: tuple[str, ...] = ()
    """Sentences: how clones were made, stragglers, waits."""


def view(evidence: Evidence, workload: str, label: Mapping[str, str]) -> StormView | None:
    """The storms of ``workload``; None: fewer than two sizes, or no figures."""
    cells = {c.key: _count(c.params) for c in evidence.cells() if c.workload == workload and c.kind == "clone"}
    by_size: dict[tuple[str, int], list[tuple[float, ...]]] = {}
    split: dict[tuple[str, int], list[tuple[float, ...]]] = {}
    good = []
    for o in evidence.observations:
        times = tuple(o.metrics.get(metric, 0.0) for metric in _METRICS)
        if not o.failed and cells.get(o.cell) and all(time > 0 for time in times):
            by_size.setdefault((o.lane, cells[o.cell]), []).append(times)
            good.append(o)
            if parts := _split(o):
                split.setdefault((o.lane, cells[o.cell]), []).append(parts)
    baseline = evidence.study.baseline
    lines = []
    for index, lane in enumerate([baseline, *(lane for lane in label if lane != baseline)]):
        sizes = [
            Size(
                count,
                tuple(geometric_mean(column) for column in zip(*by_size[lane, count], strict=True)),
                tuple(fmean(column) for column in zip(*split.get((lane, count), ()), strict=True)),
            )
            for count in sorted(set(cells.values()))
            if (lane, count) in by_size
        ]
        if sizes:
            lines.append(Line(label[lane], index, tuple(sizes)))
    if len({s.count for x in lines for s in x.sizes}) < 2:
        return None
    notes = (*_made(good, label), *_known(good), *_stragglers(good, cells, label), *_waited(good))
    return StormView(workload, tuple(lines), notes)


def _split(o: Observation) -> tuple[float, ...]:
    """Mean time of a trial's machines in each part, ns; empty: not reported for every machine."""
    vms = o.context.get("vms")
    ends = []
    for vm in vms if isinstance(vms, list | tuple) else ():
        phases = [[t for name in names if (t := number(vm, "phases_ms", name)) is not None] for names in _PHASES]
        if not all(phases):
            return ()
        reached = [0.0]
        for times in phases:  # two watches may report two phases in the other order
            reached.append(max(reached[-1], *times))
        ends.append([(b - a) * 1e6 for a, b in pairwise(reached)])
    return tuple(fmean(column) for column in zip(*ends, strict=True))


def _made(observations: Sequence[Observation], label: Mapping[str, str]) -> list[str]:
    """A sentence on how clones were made, as read back."""
    ways: dict[str, list[str]] = {}
    for o in observations:
        used = at(o.context, "storm", "used")
        for way in used if isinstance(used, list | tuple) else ():
            if label[o.lane] not in ways.setdefault(str(way), []):
                ways[str(way)].append(label[o.lane])
    listed = "; ".join(f"{way} ({', '.join(lanes)})" for way, lanes in ways.items())
    return [f"Clones were made by {listed}, as read back."] if listed else []


def _known(observations: Sequence[Observation]) -> list[str]:
    """Sentences on how exactly the end of a storm is known: machines are polled until they answer."""
    steps = [step for o in observations if (step := o.steps.get("job_time"))]
    cut = sum(bool(number(o.context, "storm", "gaps")) for o in observations)
    sentences = []
    if steps:
        worst = f"the last machine may have answered up to {max(steps):.1%} earlier than recorded"
        sentences.append(f"Machines are tried until they answer: {worst} (the median storm: {median(steps):.1%}).")
    if cut:
        sentences.append(
            f"A watch was cut in {counted(cut, 'storm')}: events during the cut are recorded late, never early."
        )
    return sentences


def _stragglers(observations: Sequence[Observation], cells: Mapping[str, int], label: Mapping[str, str]) -> list[str]:
    """A sentence on machines that took far longer than the others of their storm."""
    stragglers = []
    for o in observations:
        slow = at(o.context, "storm", "stragglers")
        for machine in slow if isinstance(slow, list | tuple) else ():
            if (time := number(machine, "answered_ms")) is not None:
                warnings = at(machine, "warnings")
                why = f" ({warnings[0]})" if isinstance(warnings, list | tuple) and warnings else ""
                where = f"{label[o.lane]}, {cells[o.cell]} at once, block {o.block}"
                stragglers.append((-time, f"{machine.get('name')} after {value('job_time', time * 1e6)}{why}: {where}"))
    if not stragglers:
        return []
    listed = "; ".join(text for _, text in sorted(stragglers)[:_NAMED])
    more = f"; and {len(stragglers) - _NAMED} more" if len(stragglers) > _NAMED else ""
    return [f"{counted(len(stragglers), 'machine')} straggled: {listed}{more}."]


def _waited(observations: Sequence[Observation]) -> list[str]:
    """A sentence if our own rate limit affects the figures."""
    waits = [w for o in observations if (w := number(o.context, "storm", "rates", "waited"))]
    rates = {r for o in observations if (r := number(o.context, "storm", "rates", "qps"))}
    if not waits or not rates:
        return []
    return [
        f"Requests of {counted(len(waits), 'storm')} waited for the limit of {rounded(min(rates))} per second, at most "
        f"{rounded(max(waits))} s over all of them: raise platform.qps if the cluster allows it."
    ]


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
    described = "; ".join(
        f"{x.lane}: {value('job_time', x.sizes[-1].times[-1])} at {x.sizes[-1].count}" for x in storms.lines
    )
    caption = (
        "Solid: until a read and a flushed write of the last machine's volume were answered. Dashed: until volumes "
        "were there, mean of the machines. Time since the storm began; geometric means over blocks; lower is better."
    )
    height: float = bottom + _FOOT
    split = any(s.parts for line in storms.lines for s in line.sizes)
    if split:
        drawn, height = _bars(storms.lines, counts, height)
        parts += drawn
        caption += (
            " Bars: the mean time of a machine, arithmetic means over blocks. Its phases end, in this order, when the "
            "volume is there with its data, the pod is on a node, QEMU runs, sshd answers, the first I/O is answered."
        )
    columns = ["machines", *(f"{line.lane}: {head}" for line in storms.lines for head in _HEADS)]
    if split:
        columns += [f"{line.lane}, part: {part}" for line in storms.lines for part in _PARTS]
    rows = []
    for n in counts:
        row = [str(n), *(cell for line in storms.lines for cell in _cells(line, n))]
        rows.append((*row, *(cell for line in storms.lines for cell in _shares(line, n))) if split else tuple(row))
    return Figure(
        ident, title, " ".join((caption, *storms.notes)), svg.picture(ident, height, title, described, *parts),
        Table(tuple(columns), tuple(rows)),
    )  # fmt: skip


_NAME, _ROW, _HEAD = 118, 18, 20
_STRENGTH = (1.0, 0.25, 0.75, 0.4, 0.9)
"""Opacity of the lane's colour, part by part: neighbours differ without a second hue."""


def _bars(lines: Sequence[Line], counts: Sequence[int], top: float) -> tuple[list[Markup], float]:
    """A stacked bar for each size and lane, and where they end."""
    sums = [sum(s.parts) for line in lines for s in line.sizes]
    along = Scale(0, max(sums), _NAME, WIDTH - _RIGHT - 58)
    parts: list[Markup] = []
    x, y = 0.0, top + 12
    for name, strength in zip(_PARTS, _STRENGTH, strict=True):
        box = svg.tag("rect", x=x, y=y, width=14, height=12, fill=INK, fill_opacity=strength, stroke=INK)
        parts += [box, svg.text(x + 19, y + 10.5, name, font_size=12)]
        x += 40 + 7.2 * len(name)
    y += 26
    for n in counts:
        rows = [(line, size) for line in lines for size in line.sizes if size.count == n and size.parts]
        if not rows:
            continue
        parts.append(svg.text(0, y + 12, f"{n} at once", font_size=12, font_weight="600"))
        y += _HEAD
        for line, size in rows:
            parts.append(_bar(line, size, along, y))
            y += _ROW
        y += 6
    return parts, y


def _bar(line: Line, size: Size, along: Scale, y: float) -> Markup:
    paint, done, pieces = colour(f"lane-{line.index % LANES}"), 0.0, []
    for part, strength in zip(size.parts, _STRENGTH, strict=True):
        start, end = along(done), along(done + part)
        if end - start >= 0.3:
            box = {"x": start, "y": y + 2, "width": end - start, "height": _ROW - 5}
            pieces.append(svg.tag("rect", **box, fill=paint, fill_opacity=strength, stroke=paint, stroke_width=0.8))
        done += part
    title = ", ".join(f"{name} {value('job_time', p)}" for name, p in zip(_PARTS, size.parts, strict=True))
    return svg.tag(
        "g",
        svg.tag("title", f"{line.lane}, {size.count} at once: {title}"),
        svg.text(0, y + 12, svg.fit(line.lane, _NAME - 8, 12), font_size=12),
        *pieces,
        svg.text(along(done) + 6, y + 12, value("vm_ready_mean", done), font_size=12, fill=colour("muted")),
    )


def _shares(line: Line, count: int) -> Sequence[str]:
    parts = next((s.parts for s in line.sizes if s.count == count), ())
    return [value("job_time", part) for part in parts] or [DASH] * len(_PARTS)


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
