"""The first screen: the answer for each contender, a small forest plot, what qualifies it, where it comes from. Pure.

The contenders of a question are the lanes that are neither the baseline nor a reference. Where the study names no
reference, a lane of transport ``local`` is none either, as long as another lane is left.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairlane.records import Evidence, Finding, Verdict, Word
from fairlane.report import origin, phrases
from fairlane.report.phrases import SYMBOL, count, metric_of
from fairlane.report.svg import Scale
from fairlane.report.text import DASH
from fairlane.stats.histogram import count as bins_count
from fairlane.stats.histogram import fewest, latency
from fairlane.verdicts.scorecard import Outcome
from fairlane.verdicts.turns import Turn, turn

ROWS = 8
"""Most rows of the figure, over all contenders."""
LANES = 4
"""Most contenders with rows of their own; the others have their line."""
_LATENCIES = ("lat_p99", "lat_p95", "lat_p50", "lat_mean")


@dataclass(frozen=True)
class Mark:
    """One row of the figure. Places are percentages of the axis; None: not drawn."""

    cell: str
    word: Word
    symbol: str
    outcome: Outcome
    at: float | None
    low: float | None
    high: float | None
    change: str
    interval: str
    values: tuple[tuple[str, str], ...]
    """(baseline's, lane's) figure of each of the plot's metrics."""
    trials: str


@dataclass(frozen=True)
class Plot:
    """The figure of one contender."""

    metrics: tuple[str, ...]
    """Titles with units: the primary metric, and a latency or a rate beside it."""
    rows: tuple[Mark, ...]
    zero: float
    """Place of no change."""
    band: tuple[float, float]
    """Places of the margin's ends."""
    ticks: tuple[tuple[float, str], ...]
    better: int
    note: str
    """Which cells were left out; empty: none."""
    tail: str
    """Why a lower percentile stands in for p99; empty: none does, or the figures came without histograms."""


@dataclass(frozen=True)
class Answer:
    """One contender against the baseline."""

    lane: str
    """Label."""
    baseline: str
    headline: str
    """``Yes``, ``It depends``, ``Yes in 6 of 8 cells``."""
    outcome: Outcome
    """Colour of the headline."""
    where: str
    """Where it turns, or how many cells agree; a sentence."""
    sizes: str
    """The range of estimates with their intervals; empty: no figures."""
    plot: Plot | None


@dataclass(frozen=True)
class Caveat:
    """A finding that qualifies the answer."""

    severity: str
    text: str
    """Its first sentence."""
    where: str


@dataclass(frozen=True)
class Opening:
    """The first screen."""

    answers: tuple[Answer, ...]
    more: tuple[Answer, ...]
    """Contenders beyond ``LANES``: their line alone."""
    refused: Answer | None
    """Several contenders that cannot be compared at all, in one."""
    contenders: tuple[str, ...]
    """Labels of all, in the study's order."""
    caveats: tuple[Caveat, ...]
    badges: tuple[tuple[str, str, str], ...]
    """(kind, text, anchor): ``("modelled", "modelled", "about")``, ``("warning", "2 warnings", "findings")``."""
    facts: tuple[tuple[str, str], ...]
    """Date, duration, host, platform, versions."""


def opening(
    evidence: Evidence,
    verdicts: Sequence[Verdict],
    findings: Sequence[Finding],
    label: Mapping[str, str],
    *,
    invented: bool = False,
) -> Opening:
    """``verdicts``: without those of the baseline against itself. ``invented``: figures of a joined run are."""
    every = contenders(evidence, verdicts)
    alike = [n for n in every if {v.verdict for v in verdicts if v.lane == n and v.primary} == {"refused"}]
    alike = alike if len(alike) > 1 else []
    lanes = [n for n in every if n not in alike]
    room = max(2, ROWS // max(1, min(len(lanes), LANES)))
    answers = tuple(_answer(evidence, verdicts, lane, label, room if n < LANES else 0) for n, lane in enumerate(lanes))
    return Opening(
        answers=answers[:LANES],
        more=answers[LANES:],
        refused=_refused(alike, verdicts, label) if alike else None,
        contenders=tuple(label[n] for n in every),
        caveats=tuple(_caveats(evidence, verdicts, findings, every)),
        badges=tuple(_badges(evidence, findings, invented=invented)),
        facts=tuple(origin.facts(evidence)),
    )


def _refused(lanes: Sequence[str], verdicts: Sequence[Verdict], label: Mapping[str, str]) -> Answer:
    mine = [v for v in verdicts if v.primary and v.lane in lanes]
    baseline = label.get(mine[0].baseline, mine[0].baseline)
    names = [label[n] for n in lanes]
    listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    cells = count(len({v.key for v in mine}), "cell")
    where = f"None of {len(names)} lanes can be compared with {baseline} in any of {cells}."
    return Answer(listed, baseline, "Not comparable", "refused", where, "", None)


_NAMED = 4
"""Lanes that the line of refused ones names."""


def contenders(evidence: Evidence, verdicts: Sequence[Verdict]) -> list[str]:
    """The lanes that the question is about, in the study's order: see the module."""
    study = evidence.study
    known = {v.lane for v in verdicts if v.primary and not v.control}
    lanes = [n for n in study.lanes if n in known and n != study.baseline and n not in study.references]
    remote = [name for name in lanes if study.lanes[name].transport != "local"]
    return remote if remote and not study.references else lanes


def _answer(evidence: Evidence, verdicts: Sequence[Verdict], lane: str, label: Mapping[str, str], room: int) -> Answer:
    mine = [v for v in verdicts if v.lane == lane and v.primary]
    baseline = label.get(mine[0].baseline, mine[0].baseline)
    found = turn(mine, evidence.cells(), label[lane], baseline)
    return Answer(
        lane=label[lane],
        baseline=baseline,
        headline=found.headline,
        outcome=_tone(found),
        where=_where(found, label[lane], baseline),
        sizes=_sizes(mine, evidence),
        plot=_plot(evidence, verdicts, mine, found, room) if room else None,
    )


def _tone(found: Turn) -> Outcome:
    tones: dict[str, Outcome] = {"Yes": "better", "No": "worse", "No difference beyond the margin": "even"}
    return tones.get(found.word, "refused" if found.word == "Not comparable" else "open")


def _where(found: Turn, lane: str, baseline: str) -> str:
    """One sentence: where the answer turns, or that all cells agree."""
    if found.where:
        return f"{found.where}."
    (kind, group), n = found.groups[0], found.cells
    every, any_ = (f"all {n} cells", f"any of {n} cells") if n > 1 else ("the one cell measured",) * 2
    fast = {v.metric for v in group} <= {"iops", "bw"}
    reasons = {phrases.reason(v) for v in group}
    why = f": {reasons.pop()}" if len(reasons) == 1 and reasons != {""} else ""
    words: dict[Outcome, str] = {
        "better": f"{lane} is {'faster' if fast else 'better'} than {baseline} in {every}",
        "worse": f"{lane} is {'slower' if fast else 'worse'} than {baseline} in {every}",
        "even": f"{lane} and {baseline} differ by less than the margin in {every}",
        "refused": f"{lane} cannot be compared with {baseline} in {any_}{why}",
        "withheld": f"The verdict is withheld in {every}",
        "open": f"Neither a difference nor a tie is proven in {any_}",
    }
    return f"{words[kind]}."


def _sizes(verdicts: Sequence[Verdict], evidence: Evidence) -> str:
    """``IOPS 12.0 % higher (11.0 to 13.1 %) at 4k randread qd1 to 65.0 % higher (63.0 to 67.1 %) at ...``."""
    several = len(evidence.study.workloads) > 1
    sentences = []
    for workload in evidence.study.workloads:
        sized = [v for v in verdicts if v.workload == workload and v.ratio and v.low and v.verdict != "refused"]
        if not sized:
            continue
        rising = sorted(sized, key=lambda v: (v.ratio or 1) ** metric_of(v.metric).better)
        first, last = rising[0], rising[-1]
        text = f"{metric_of(first.metric).title} {phrases.effect(first)}"
        if first is not last:
            text += f" at {first.cell} to {phrases.effect(last)} at {last.cell}"
        sentences.append(f"{workload}: {text}" if several else text)
    return f"{'; '.join(sentences)}." if sentences else ""


@dataclass(frozen=True)
class _Names:
    anchors: Mapping[str, str]
    """Cell's key -> anchor of its trials."""
    several: bool
    """Whether cells are of several workloads."""


def _plot(
    evidence: Evidence, verdicts: Sequence[Verdict], mine: Sequence[Verdict], found: Turn, room: int
) -> Plot | None:
    """The cells of a contender, at most ``room``: then the smallest and the largest effect of each outcome."""
    metric = mine[0].metric
    of_metric = [v for v in mine if v.metric == metric]
    outcomes = {v.key: o for o, group in found.groups for v in group}
    drawn = of_metric if len(of_metric) <= room else _extremes(of_metric, outcomes, room)
    note = f"{len(drawn)} of {len(mine)} cells" if len(drawn) < len(mine) else ""
    shown = [v for v in drawn if v.ratio and 0 < v.ratio < math.inf and v.verdict != "refused"]
    if not shown:
        return None
    metrics = (metric, *_second(verdicts, drawn))
    scale = _scale(shown, mine[0].margin)
    units, columns = zip(*(_figures(verdicts, drawn, m) for m in metrics), strict=True)
    anchors = {cell.key: f"trials-{n}" for n, cell in enumerate(evidence.cells(), start=1)}
    names = _Names(anchors, several=len({v.workload for v in mine}) > 1)
    rows = tuple(
        _mark(v, outcomes[v.key], scale if v in shown else None, figures, names)
        for v, *figures in zip(drawn, *columns, strict=True)
    )
    margin = 1 + mine[0].margin
    return Plot(
        metrics=tuple(
            f"{metric_of(m).title}, {unit}" if unit else metric_of(m).title
            for m, unit in zip(metrics, units, strict=True)
        ),
        rows=rows,
        zero=scale(1),
        band=(scale(1 / margin), scale(margin)),
        ticks=tuple(_ticks(scale)),
        better=metric_of(metric).better,
        note=note,
        tail=_tail(evidence, metrics[1:], {v.key for v in drawn}, {mine[0].lane, mine[0].baseline}),
    )


def _tail(evidence: Evidence, second: Sequence[str], cells: Collection[str], lanes: Collection[str]) -> str:
    """Why the latency beside the primary metric is none as deep as p99: too few I/Os in a slot."""
    if not second or second[0] not in _LATENCIES[1:]:
        return ""
    least = fewest(0.99)
    own = [o for o in evidence.observations if o.cell in cells and o.lane in lanes and o.histograms]
    short = {o.cell for o in own if 0 < bins_count(latency(o.histograms)) < least}
    if not short:
        return ""
    return f"No p99: in {len(short)} of {count(len(cells), 'cell')} a trial has fewer than the {least:,} I/Os it needs."


def _extremes(verdicts: Sequence[Verdict], outcomes: Mapping[str, Outcome], room: int) -> list[Verdict]:
    """The smallest and the largest effect of each outcome, in the order of the study."""
    chosen: dict[str, Verdict] = {}
    for kind in dict.fromkeys(outcomes.values()):
        group = sorted((v for v in verdicts if outcomes[v.key] == kind), key=lambda v: abs(math.log(v.ratio or 1)))
        chosen |= {v.key: v for v in group[:1] + group[-1:]}
    kept = list(chosen)[:room]
    return [v for v in verdicts if v.key in kept]


def _second(verdicts: Sequence[Verdict], drawn: Sequence[Verdict]) -> tuple[str, ...]:
    """The metric beside the primary one: the deepest latency of which all cells have a figure, else none."""
    first, keys = drawn[0], {v.key for v in drawn}
    own = [v for v in verdicts if v.lane == first.lane and v.key in keys and v.lane_value and v.baseline_value]
    rates = ("iops", "tps") if metric_of(first.metric).better < 0 else _LATENCIES
    return tuple(m for m in rates if {v.key for v in own if v.metric == m} == keys and m != first.metric)[:1]


def _scale(shown: Sequence[Verdict], margin: float) -> Scale:
    """Per cent of the width. An interval of two wild blocks can span decades: the axis ends at three times the
    estimates."""
    points = [v.ratio for v in shown if v.ratio]
    ends = [x for v in shown for x in (v.low, v.high) if x and math.isfinite(x)]
    low = max(min([1 / (1 + margin), *ends, *points]), min([1 / (1 + margin), *points]) / 3)
    high = min(max([1 + margin, *ends, *points]), max([1 + margin, *points]) * 3)
    pad = (high / low) ** 0.05
    return Scale(low / pad, high * pad, 0, 100, log=True)


def _mark(v: Verdict, kind: Outcome, scale: Scale | None, figures: Sequence[tuple[str, str]], names: _Names) -> Mark:
    return Mark(
        cell=f"{v.workload}: {v.cell}" if names.several else v.cell,
        word=v.verdict,
        symbol=SYMBOL[v.verdict],
        outcome=kind,
        at=scale(v.ratio) if scale and v.ratio else None,
        low=scale(v.low) if scale and v.low else None,
        high=scale(v.high) if scale and v.high else None,
        change=phrases.change(v.ratio) if scale and v.ratio else DASH,
        interval=phrases.interval(v.low, v.high),
        values=tuple(figures),
        trials=names.anchors.get(v.key, "trials"),
    )


def _figures(verdicts: Sequence[Verdict], drawn: Sequence[Verdict], metric: str) -> tuple[str, list[tuple[str, str]]]:
    """The column's unit, and (baseline's, lane's) figure of each cell."""
    at = {(v.key, v.lane): v for v in verdicts if v.metric == metric}
    pairs = [(x.baseline_value, x.lane_value) if (x := at.get((v.key, v.lane))) else (None, None) for v in drawn]
    unit, column = phrases.column(metric, [f for pair in pairs for f in pair])
    return unit, list(zip(column[::2], column[1::2], strict=True))


def _ticks(scale: Scale) -> Iterator[tuple[float, str]]:
    """Places and changes; 0 % always, others only where they have room."""
    wanted = sorted(scale.ticks(4), key=lambda t: (abs(t - 1) > 1e-9, -abs(scale(t) - scale(1))))
    taken: list[tuple[float, float]] = []
    if not any(abs(t - 1) < 1e-9 for t in wanted):
        wanted.insert(0, 1.0)
    for tick in wanted:
        label = "0 %" if abs(tick - 1) < 1e-9 else phrases.change(tick, 0)
        begins, ends = _span(scale(tick), label)
        if all(ends + _APART <= left or begins >= right + _APART for left, right in taken):
            taken.append((begins, ends))
            yield scale(tick), label


_APART = 3
"""Per cent of the width between two labels, at least."""
_CHARACTER = 7
"""Width of a character of a label, in per cent of the narrowest axis: that of a phone."""


def anchor(at: float) -> str:
    """How a label at ``at`` per cent of the width stays within it: start, middle or end."""
    return "start" if at < 12 else "end" if at > 88 else "middle"


def _span(at: float, label: str) -> tuple[float, float]:
    """Where a label begins and ends, in per cent of the width."""
    wide = len(label) * _CHARACTER
    begins = at - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor(at)]
    return begins, begins + wide


def qualifying(
    evidence: Evidence, verdicts: Sequence[Verdict], findings: Sequence[Finding], lanes: Sequence[str]
) -> list[Finding]:
    """Warnings and critical findings about the compared lanes and cells, those between two lanes first. A refusal is
    the answer itself, and no caveat."""
    compared = {v.key for v in verdicts if v.primary and v.lane in lanes}
    sides = {*lanes, evidence.study.baseline}
    own = [
        f
        for f in findings
        if f.severity in ("critical", "warning")
        and not f.refuses
        and (not f.cells or compared & set(f.cells))
        and (not f.lanes or sides & set(f.lanes))
    ]
    return sorted(own, key=lambda f: (f.severity != "critical", len(sides & set(f.lanes)) < 2))


def _caveats(
    evidence: Evidence, verdicts: Sequence[Verdict], findings: Sequence[Finding], lanes: Sequence[str]
) -> Iterator[Caveat]:
    compared = {v.key for v in verdicts if v.primary and v.lane in lanes}
    for finding in qualifying(evidence, verdicts, findings, lanes):
        touched = len(compared & set(finding.cells))
        where = f"{touched} of {count(len(compared), 'cell')}" if finding.cells and touched < len(compared) else ""
        yield Caveat(finding.severity, _first_sentence(finding.message), where)


def _first_sentence(message: str) -> str:
    head, stop, rest = message.partition(". ")
    return head if stop and rest else message.removesuffix(".")


def _badges(evidence: Evidence, findings: Sequence[Finding], *, invented: bool) -> Iterator[tuple[str, str, str]]:
    for on, text in (
        (invented or evidence.study.platform.invented, "invented figures"),
        (evidence.modelled, "modelled: ratios hold, absolute figures do not"),
        (evidence.emulated, "emulated: ratios may differ on real machines"),
        (bool(evidence.study.quick), "quick form: a first try"),
    ):
        if on:
            yield "caution", text, "about"
    if not evidence.complete:
        yield "caution", "not complete", "sure"
    for severity, one, several in (
        ("critical", "critical finding", "critical findings"), ("warning", "warning", "warnings"),
    ):  # fmt: skip
        if n := sum(f.severity == severity for f in findings):
            yield severity, f"{n} {one if n == 1 else several}", "findings"
