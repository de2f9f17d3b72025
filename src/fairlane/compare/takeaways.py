"""Takeaways: plain sentences made from verdicts, claiming no more than they do. Pure.

A difference is stated as its estimate with the printed interval. An open comparison is stated as open, with the trials
that may decide it. Differences of bare figures are called arithmetic.
"""

import math
from collections.abc import Iterator, Sequence
from typing import get_args

from fairlane.compare.comparison import Comparison
from fairlane.compare.deltas import Delta, Row, Table
from fairlane.records import Finding, Verdict
from fairlane.report.phrases import count, further, share, size, within
from fairlane.report.refusals import refusals
from fairlane.verdicts.scorecard import Outcome, by_reason, outcome, tally, why_withheld

_MANY = 8
"""Groups of metric and cell that get a sentence each; above this, a metric is one group."""
_NAMED = 3
"""Places listed by name, and reasons with a sentence each; more are counted."""
Place = tuple[Table, Row, Delta]


def takeaways(comparison: Comparison) -> tuple[str, ...]:
    """The sentences, run by run, differences first."""
    sentences: list[str] = []
    for alias in comparison.aliases:
        places = [
            (table, row, delta)
            for table in comparison.tables
            if table.primary
            for row in table.rows
            for delta in row.deltas
            if delta.alias == alias
        ]
        if places:
            single = [p for p in places if comparison.trials(p[1].key, alias) < 2]
            sentences += _of_run(comparison, alias, places, single)
    return (*dict.fromkeys(sentences), *_stained(comparison.findings), *_left_out(comparison))


def _of_run(comparison: Comparison, alias: str, places: Sequence[Place], single: Sequence[Place]) -> Iterator[str]:
    baseline = comparison.baseline
    by: dict[Outcome, list[Place]] = {
        word: [p for p in places if outcome(p[2].verdict) == word] for word in get_args(Outcome)
    }
    yield _count(alias, baseline, places)
    yield from _differences(alias, baseline, places)
    if by["even"]:
        margins = sorted({p[2].verdict.margin for p in by["even"]})
        most = " or ".join(share(m) for m in margins)
        yield f"{_where(by['even'], places)}: any difference is smaller than the margin ({most})."
    for reason in by_reason(p[2].verdict for p in by["withheld"]):
        held = [p for p in by["withheld"] if why_withheld(p[2].verdict) == reason]
        yield f"{_where(held, places)}: the interval shows a result, and is withheld: {reason}. No conclusion."
    if inconclusive := [p for p in by["open"] if p[2].verdict.verdict == "inconclusive"]:
        known = [p[2].verdict for p in inconclusive if p[2].verdict.more_blocks]
        advice = f" {_trials(known)} may decide it, if the spread stays the same." if known else ""
        yield f"{_where(inconclusive, places)}: neither a difference nor a tie is shown.{advice}"
    if single:
        yield (
            f"{_where(single, places)}: single results. Their spread is unknown, so no difference is claimed. "
            "At least two trials of each side are needed for a claim, and six or more for a reliable spread."
        )
    if by["better"] or by["worse"] or by["even"]:
        yield (
            "The runs were not interleaved: the intervals include the variation between trials within each run, but "
            "not other changes between the runs. To separate the two, measure the lanes in one run, block by block."
        )
    yield from _refused(by["refused"], places, comparison)
    if any(p[2].raw for p in places):
        yield "Differences without a verdict are not statistically tested."


def _refused(refused: Sequence[Place], places: Sequence[Place], comparison: Comparison) -> Iterator[str]:
    """One sentence per reason, with the places it refuses; a place may have several. Many reasons become one sentence
    with the causes, whose values are in the findings."""
    reasons: dict[str, list[Place]] = {}
    for place in refused:
        for reason in place[2].verdict.notes or ("see the findings",):
            reasons.setdefault(reason, []).append(place)
    if len(reasons) > _NAMED:
        verdicts = [p[2].verdict for p in refused]
        causes = refusals(comparison.evidence, verdicts, comparison.findings, ()).briefly
        yield f"{_where(refused, places)}: refused. Causes, with the comparisons they refuse: {causes}."
        return
    for reason, taken in sorted(reasons.items(), key=lambda item: -len(item[1])):
        yield f"{_where(taken, places)}: refused, because {reason.rstrip('.')}."


def _count(alias: str, baseline: str, places: Sequence[Place]) -> str:
    counts = tally(outcome(delta.verdict) for _, _, delta in places)
    listed = ", ".join(f"{n} {word}" for word, n in counts.items())
    head = f"{alias} against {baseline} in {count(len(places), 'primary comparison')}: {listed}."
    if "better" in counts and "worse" in counts:
        return f"{head} Neither is better throughout."
    return head if "better" in counts or "worse" in counts else f"{head} No winner can be named."


def _differences(alias: str, baseline: str, places: Sequence[Place]) -> Iterator[str]:
    """Per metric and cell: the differences, and whether their sign reverses between categories."""
    split = len({(t.metric.name, r.cell) for t, r, _ in places}) <= _MANY
    groups: dict[tuple[str, str], list[Place]] = {}
    for place in places:
        groups.setdefault((place[0].metric.name, place[1].cell if split else ""), []).append(place)
    for (_, cell), group in groups.items():
        metric = group[0][0].metric
        won = [p for p in group if outcome(p[2].verdict) in ("better", "worse")]
        higher = [p for p in won if (p[2].ratio or 1) > 1]
        lower = [p for p in won if (p[2].ratio or 1) < 1]
        at = f"{metric.title} at {cell}" if cell else metric.title
        both = "the order reverses: " if higher and lower else ""
        parts = [
            _size(chosen, group, (alias, baseline), word)
            for chosen, word in ((higher, "higher"), (lower, "lower"))
            if chosen
        ]
        if parts:
            yield f"{at}: {both}{'; '.join(parts)}."


def _size(chosen: Sequence[Place], group: Sequence[Place], names: tuple[str, str], word: str) -> str:
    alias, baseline = names
    metric = group[0][0].metric
    better = "better" if (word == "higher") == (metric.better > 0) else "worse"
    sized = sorted(chosen, key=lambda p: abs(math.log(p[2].ratio or 1)))
    least, most = sized[0], sized[-1]
    sizes = _sized(least)
    if len(chosen) > 1 and _sized(most) != sizes:
        sizes += f" in {_name(least, group)} to {_sized(most)} in {_name(most, group)}"
    return f"{word} ({better}) on {alias} than on {baseline} {_where(chosen, group, small=True)}: {sizes}"


def _sized(place: Place) -> str:
    """``13.5 % (12.1 to 14.8 %)``."""
    return f"{size(place[2].verdict)} ({within(place[2].verdict)})"


def _name(place: Place, among: Sequence[Place]) -> str:
    """The category, with cell and metric where ``among`` has several."""
    cells, metrics = {r.cell for _, r, _ in among}, {t.metric.title for t, _, _ in among}
    categories = {r.category for _, r, _ in among}
    table, row, _ = place
    parts = [
        row.category if len(categories) > 1 or (len(cells) == 1 and len(metrics) == 1) else "",
        row.cell if len(cells) > 1 else "",
        table.metric.title if len(metrics) > 1 else "",
    ]
    return " ".join(x for x in parts if x)


def _where(chosen: Sequence[Place], among: Sequence[Place], *, small: bool = False) -> str:
    """``In all 7 categories``, ``In 2 of 28 (Erasure coded, CephFS)``, ``In CephFS (4 of 28)``."""
    text = f"in all {len(chosen)}" if len(chosen) == len(among) else f"in {len(chosen)} of {len(among)}"
    categories = list(dict.fromkeys(p[1].category for p in chosen))
    whole = len(chosen) == sum(p[1].category in categories for p in among) < len(among)
    if whole and len(categories) <= _NAMED < len(chosen):
        text = f"in {', '.join(categories)} ({len(chosen)} of {len(among)})"
    elif len(among) == 1:
        text = f"in {_name(chosen[0], among)}"
    elif len(chosen) <= _NAMED and len(chosen) < len(among):
        text += f" ({', '.join(_name(p, among) for p in chosen)})"
    return text if small else text[0].upper() + text[1:]


def _trials(open_: Sequence[Verdict]) -> str:
    text = further(open_).replace("block", "trial")
    return text[0].upper() + text[1:] + " on each side"


def _stained(findings: Sequence[Finding]) -> Iterator[str]:
    """Critical findings that put figures in doubt; refusals are listed with their cells."""
    grave = [f for f in findings if f.severity == "critical" and not f.refuses]
    if grave:
        messages = "; ".join(f.message.rstrip(".") for f in grave[:_NAMED])
        more = f"; and {count(len(grave) - _NAMED, 'more critical finding')}" if len(grave) > _NAMED else ""
        yield f"Some figures are in doubt: {messages}{more}."


def _left_out(comparison: Comparison) -> Iterator[str]:
    joined = comparison.joined
    for left in joined.alone:
        shown = ", ".join(left.cells[:_NAMED]) + (" ..." if len(left.cells) > _NAMED else "")
        number = count(len(left.cells), "cell")
        yield f"Not compared: {number} of {left.alias}'s {left.lane} without a counterpart: {shown}."
    for alias, lanes in joined.unpaired.items():
        yield f"Not compared: {alias}'s {', '.join(lanes)}, which the mapping does not pair."
