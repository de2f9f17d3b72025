"""Where each microsecond goes, lane beside lane: the parts of the mean latency of one I/O in flight, and of one
transaction of a database (``report.commits``). Pure.

With one I/O in flight its latency is a sum of stations. Under the virtual clock the guest has one core and time is
instructions, so the stations are known: the generator's own CPU time within the I/O, that of the kernel's threads, the
configured time of the medium, and one round trip of the configured link with the payload at its rate. What is left to
the measured latency is *not attributed*: interrupts of an idle core, which the kernel charges to nobody, and further
round trips. The parts add up to the latency to the nanosecond, because the rest is their difference. It is negative
where stations worked at the same time (a large I/O is sent in pieces).

On live machines CPU time runs beside the I/O, and only fio's submission is known: all else is not attributed.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from markupsafe import Markup

from fairlane.checks._trials import number
from fairlane.records import Cell, Evidence, Observation
from fairlane.report import commits, svg
from fairlane.report.bars import ACROSS, axis, column_of, head, legend, row, swatch, zero
from fairlane.report.phrases import aligned
from fairlane.report.svg import INK, Figure, Table
from fairlane.stats.histogram import count, mean

STATIONS = {
    "submission": "fio's submission, down to the block device (its slat)",
    "completion": "fio's CPU time until it has the result",
    "initiator": "the initiator's kernel threads",
    "link": "one round trip of the configured link, and the payload at its rate",
    "target": "the target's kernel threads",
    "shared": "kernel workers of initiator and target",
    "other": "ksoftirqd, RCU, daemons",
    "medium": "the configured time of the modelled medium",
    "not attributed": "the rest of the measured latency",
}
_OF_COMMITS = {
    **commits.STATIONS,
    **STATIONS,
    "link": "a round trip of the configured link for each read and commit, and the payload at its rate",
    "medium": "the configured time of the modelled medium for each read and commit",
    "not attributed": STATIONS["not attributed"],
}
"""Part -> its meaning, in the order of the bars."""


@dataclass(frozen=True)
class Fall:
    """One lane in one cell, in ns, mean over blocks."""

    lane: str
    """Label."""
    latency: float
    """The measured mean latency: the sum of ``parts``."""
    parts: tuple[float, ...]
    """In the order of ``WaterView.stations``; the last one, not attributed, may be negative."""


@dataclass(frozen=True)
class WaterView:
    """The cells of a workload with one I/O, or one client's transaction, in flight."""

    workload: str
    modelled: bool
    what: Literal["an I/O", "a transaction"]
    stations: tuple[str, ...]
    cells: tuple[tuple[str, tuple[Fall, ...]], ...]


def views(evidence: Evidence, label: Mapping[str, str]) -> tuple[WaterView, ...]:
    """By workload, of cells with one job of iodepth 1 that does not sync, or one client of a database; none where
    figures are missing."""
    by_place: dict[tuple[str, str], list[dict[str, float]]] = {}
    for cell in evidence.cells():
        if _alone(cell) or commits.alone(cell):
            for o in (o for o in evidence.observations if o.cell == cell.key):
                if parts := _parts(evidence, cell, o):
                    by_place.setdefault((cell.key, o.lane), []).append(parts)
    result = []
    for workload in evidence.study.workloads:
        mine = [c for c in evidence.cells() if c.workload == workload]
        known = [by_place[c.key, lane] for c in mine for lane in label if (c.key, lane) in by_place]
        used = {name for trials in known for parts in trials for name, ns in parts.items() if ns}
        database = evidence.study.workloads[workload].kind == "oltp"
        meanings = _OF_COMMITS if database else STATIONS
        stations = tuple(name for name in meanings if name in used or name == "not attributed")
        cells = [
            (c.name, tuple(_fall(label[x], by_place[c.key, x], stations) for x in label if (c.key, x) in by_place))
            for c in mine
        ]
        if known:
            what: Literal["an I/O", "a transaction"] = "a transaction" if database else "an I/O"
            result.append(WaterView(workload, evidence.modelled, what, stations, tuple(c for c in cells if c[1])))
    return tuple(result)


def _alone(cell: Cell) -> bool:
    p = cell.params
    syncs = any(p.get(key) for key in ("fsync", "fdatasync", "sync"))
    return cell.kind == "fio" and p.get("iodepth") == 1 and p.get("numjobs", 1) == 1 and "jobs" not in p and not syncs


def _parts(evidence: Evidence, cell: Cell, o: Observation) -> dict[str, float]:
    """The stations of one trial in ns, that sum to its mean latency; empty: figures are missing."""
    if commits.alone(cell):
        known = commits.parts(evidence, o, _medium(evidence), partial(_link, evidence, o.lane))
        return {**known, "not attributed": o.metrics["lat_mean"] - math.fsum(known.values())} if known else {}
    latency, rate = number(o.metrics, "lat_mean"), number(o.metrics, "iops")
    submission = _mean(bins for name, bins in o.histograms.items() if name.endswith(".slat"))
    if o.failed or not latency or not rate or submission is None:
        return {}
    if not evidence.modelled:
        return {"submission": submission, "not attributed": latency - submission}
    places = (o.context.get("cpu") or {}).get("by_place") or {}
    medium, size = _medium(evidence), cell.params.get("bs")
    if not places or medium is None:
        return {}
    # what the generator does between two I/Os is in no latency
    within = max(0.0, float(places.get("generator") or 0) - max(0.0, 1e9 / rate - latency))
    parts = {
        "submission": min(submission, within),
        "completion": max(0.0, within - submission),
        **{name: float(places.get(name) or 0) for name in ("initiator", "target", "shared", "other")},
        "link": _link(evidence, o.lane, 1, size if isinstance(size, int) else 0),
        "medium": medium,
    }
    return parts | {"not attributed": latency - math.fsum(parts.values())}


def _medium(evidence: Evidence) -> float | None:
    """Completion time of the modelled medium, ns."""
    text = str((evidence.description.get("platform") or {}).get("medium.completion_nsec", ""))
    return float(text) if text.isdecimal() else None


def _mean(histograms: Iterable[Mapping[int, int]]) -> float | None:
    known = [(n, mean(histogram)) for histogram in histograms if (n := count(histogram))]
    total = sum(n for n, _ in known)
    return math.fsum(n * ns for n, ns in known) / total if total else None


_DELAY = re.compile(r"\bdelay ([\d.]+)(us|ms|s)\b")
_RATE = re.compile(r"\brate ([\d.]+)([KMG])bit\b", re.IGNORECASE)


def _link(evidence: Evidence, lane: str, trips: float, payload: float) -> float:
    """Round trips and the time of ``payload`` bytes, from the queueing discipline as read back; 0 for a local lane."""
    described: Any = evidence.description.get("platform") or {}
    text = str(described.get("link.qdisc") or "")
    if evidence.study.lanes[lane].transport == "local":
        return 0.0
    delay, rate = _DELAY.search(text), _RATE.search(text)
    trip = 2 * float(delay[1]) * {"us": 1e3, "ms": 1e6, "s": 1e9}[delay[2]] if delay else 0.0
    bits = float(rate[1]) * {"K": 1e3, "M": 1e6, "G": 1e9}[rate[2].upper()] if rate else math.inf
    return trips * trip + payload * 8 / bits * 1e9


def _fall(lane: str, trials: Sequence[Mapping[str, float]], stations: Sequence[str]) -> Fall:
    parts = tuple(math.fsum(t.get(name, 0.0) for t in trials) / len(trials) for name in stations)
    return Fall(lane, math.fsum(parts), parts)


_ROW, _HEAD, _GAP = 20, 20, 8


def figure(view: WaterView, ident: str) -> Figure:
    """A bar per lane, its parts in the order of an I/O; a line marks the measured latency."""
    falls = [fall for _, lanes in view.cells for fall in lanes]
    start = column_of(fall.lane for fall in falls)
    scale = zero(max(math.fsum(p for p in fall.parts if p > 0) for fall in falls), start, "lat_mean")
    texts = dict(zip(map(id, falls), aligned("lat_mean", [fall.latency for fall in falls]), strict=True))
    parts, y = legend(view.stations, ident)
    for cell, lanes in view.cells:
        parts.append(head(cell, y, len(lanes), start))
        y += _HEAD
        for fall in lanes:
            bar = _bar(fall, view.stations, scale, y, ident)
            parts.append(row(fall.lane, texts[id(fall)], y, f"{cell}, {fall.lane}", start, *bar))
            y += _ROW
        y += _GAP
    parts += axis(scale, "lat_mean", y)
    database = view.what == "a transaction"
    title = f"Where the time of {view.what} goes, one {'client' if database else 'in flight'}"
    meanings = _OF_COMMITS if database else STATIONS
    meant = "; ".join(f"{name}: {meanings[name]}" for name in view.stations)
    caption = f"Mean latency, mean over blocks, in its parts. {meant[:1].upper()}{meant[1:]}."
    if any(fall.parts[-1] < 0 for fall in falls):
        caption += " Where parts ran at the same time, they reach beyond the line, which is the measured latency."
    if not view.modelled:
        caption += (
            " On live machines reads and other waits cannot be separated from here."
            if database
            else " On live machines the parts behind the block device cannot be separated from here."
        )
    drawn = svg.picture(ident, y + 24, title, caption, *parts, width=ACROSS)
    return Figure(ident, title, caption, drawn, _table(view))


def _bar(fall: Fall, stations: Sequence[str], scale: svg.Scale, y: float, ident: str) -> list[Markup]:
    pieces, done = [], 0.0
    for name, ns in zip(stations, fall.parts, strict=True):
        begin, end = scale(done), scale(done + max(ns, 0.0))
        if end - begin >= 0.3:
            pieces.append(swatch(name, ident, x=begin, y=y + 2, width=end - begin, height=_ROW - 4))
        done += max(ns, 0.0)
    x = scale(fall.latency)
    return [*pieces, svg.line(x, y, x, y + _ROW, stroke=INK, stroke_width=1.5)]


def _table(view: WaterView) -> Table:
    falls = [fall for _, lanes in view.cells for fall in lanes]
    columns = [_fine(column) for column in zip(*((*f.parts, f.latency) for f in falls), strict=True)]
    texts = iter(zip(*columns, strict=True))
    rows = tuple((cell, fall.lane, *next(texts)) for cell, lanes in view.cells for fall in lanes)
    return Table(("cell", "lane", *(f"{name}, µs" for name in view.stations), "latency, µs"), rows)


def _fine(column: Sequence[float]) -> list[str]:
    return [f"{ns / 1e3:,.1f}".replace("-", "\N{MINUS SIGN}") for ns in column]
