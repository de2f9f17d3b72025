"""The verdicts: words from intervals, for every lane against the baseline, per cell and metric. See docs/verdict.md.

Which blocks count, and at which error rate, is decided in ``contests``.
"""

import math
from collections.abc import Iterator, Sequence

from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding, Held, Note, Verdict
from fairlane.stats import anytime, footnotes
from fairlane.stats.answers import (
    DECIDED,
    Answer,
    Doubt,
    Ends,
    answer,
    margin_of,
    moved,
    remembered,
    still_moving,
    word,
)
from fairlane.stats.contests import Claims, Contest, Stage, lent, remembering, stains
from fairlane.stats.effects import Effect
from fairlane.stats.looks import level
from fairlane.stats.neighbours import Memory
from fairlane.stats.pairs import Pair, Together, pair, typical
from fairlane.stats.stopping import too_wide
from fairlane.study.base import FEW_BLOCKS, OWN_BLOCKS

_WIDEST = math.log(1e12)
_NOTHING = 9.0
"""Relative difference from which on the note gives no number."""


def judge(evidence: Evidence, findings: Sequence[Finding], *, primary_only: bool = False) -> tuple[Verdict, ...]:
    """All verdicts of a run: by cell and lane in the order of the study, the primary metric first.

    ``primary_only``: those of primary metrics and controls, the same as among all, in a fraction of the time.
    Pure. A critical finding takes the headline from the cells and lanes it names, or from all if it names none. One
    that refuses takes the verdict.
    """
    return verdicts(claimed(evidence, findings, primary_only=primary_only), findings)


def claimed(evidence: Evidence, findings: Sequence[Finding], *, primary_only: bool = False) -> Claims:
    """The contests of a run, as ``judge`` decides them."""
    return Claims(
        evidence.study,
        evidence.observations,
        findings,
        evidence.complete,
        # A workload's exploratory metric may be another's primary, and cells lend each other the spread of a metric:
        # only of a single workload are the primaries the same without the rest.
        primary_only=primary_only and len(evidence.study.workloads) == 1,
        modelled=evidence.modelled,
        ended=evidence.complete,
    )


def verdicts(claims: Claims, findings: Sequence[Finding]) -> tuple[Verdict, ...]:
    """The verdicts on ``claims``, in their order."""
    waiting = frozenset() if claims.complete else too_wide(claims)
    together = Together()
    return tuple(_verdict(claims, c, findings, together, goes_on=c.cell.key in waiting) for c in claims.contests)


def _held(claims: Claims, contest: Contest, made: Answer, findings: Sequence[Finding]) -> tuple[Held, str]:
    """Why a decided word is no headline: a critical finding, or a doubt in which it would be another."""
    if grave := [f for f in findings if stains(f, contest.cell, contest.lane, contest.baseline)]:
        return "finding", f"critical finding: {_first_clause(grave[0].message)}"
    margin, better = margin_of(claims.study, contest.metric), METRICS[contest.metric].better
    stage = claims.stage(contest)
    for doubt in doubts(claims, contest):
        if stage and word(stage.effect.mean, doubt.joint, doubt.tie, margin, better) != made.word:
            return doubt.kind, doubt.because
    return "", ""


def doubts(claims: Claims, contest: Contest) -> Iterator[Doubt]:
    """Why the intervals of a contest may be wrong: its blocks are few, a lane moves, or its blocks remember."""
    stage, made = claims.stage(contest), answer(claims, contest)
    effect = stage.effect if stage else None
    if claims.modelled or not stage or not isinstance(effect, Effect) or not made.joint or not made.tie:
        return
    joint, tie = made.joint, made.tie
    unit, lanes = claims.unit, (contest.lane, contest.baseline)
    if effect.n < (least := OWN_BLOCKS if lent(stage) else FEW_BLOCKS):
        nothing = -math.inf, math.inf
        yield Doubt("few-blocks", f"{effect.n} {unit}s, {least} are needed", nothing, nothing)
    yield from still_moving(stage.past, joint, tie, lanes, unit)
    later, gone = claims.later(contest)
    if gone:
        units = stage.past.move.units
        because = f"{lanes[later.mover]} moved on by {gone:+.1%} after the {units} {unit}s of this cell"
        yield Doubt("moving", because, moved(joint, gone), moved(tie, gone))

    def again(memory: Memory) -> tuple[Ends, Ends]:
        widened = stage.with_effects(lambda own: remembering(own, memory))
        return widened.interval(claims.rate(contest)), widened.interval(2 * claims.alpha)

    for memory in (stage.past.memory, later.memory):
        yield from remembered(memory, effect.n, unit, again)


def _first_clause(message: str) -> str:
    """What stands before the first colon outside parentheses."""
    parts = message.split(": ")
    clauses = (": ".join(parts[:n]) for n in range(1, len(parts) + 1))
    return next((c for c in clauses if c.count("(") == c.count(")")), message).rstrip(".")


def _verdict(
    claims: Claims, contest: Contest, findings: Sequence[Finding], together: Together, *, goes_on: bool
) -> Verdict:
    """``goes_on``: the cell's interval is still too wide for its study, and no verdict is final."""
    margin, rate, stage = margin_of(claims.study, contest.metric), claims.rate(contest), claims.stage(contest)
    made = answer(claims, contest)
    word, outer, inner = made.word, made.joint, made.tie
    if goes_on and stage:
        word = "inconclusive"
    decided = contest.primary and word in DECIDED
    held, because = _held(claims, contest, made, findings) if decided else ("", "")
    data = claims.counted(contest)
    lane_blocks, baseline_blocks = ((), ()) if contest.refusal else data.blocks
    shown = bool(lane_blocks and baseline_blocks)
    shelf = claims.shelf(contest)
    printed = stage.printed(claims.alpha, rate) if outer and stage and contest.primary else outer
    return Verdict(
        workload=contest.cell.workload,
        cell=contest.cell.name,
        key=contest.cell.key,
        lane=contest.lane,
        baseline=contest.baseline,
        metric=contest.metric,
        primary=contest.primary,
        verdict=word,
        ratio=_factor(data.effect.mean) if shown and not contest.barred else None,
        low=_factor(printed[0]) if printed else None,
        high=_factor(printed[1]) if printed else None,
        joint_low=_factor(outer[0]) if outer else None,
        joint_high=_factor(outer[1]) if outer else None,
        tie_low=_factor(inner[0]) if inner else None,
        tie_high=_factor(inner[1]) if inner else None,
        margin=margin,
        level=_level(claims, contest, stage),
        blocks=data.n if shown else 0,
        voided=contest.data.n + contest.data.voided - data.n if shown else contest.data.voided,
        lane_value=typical(shelf, contest.lane, contest.metric, lane_blocks, together) if shown else None,
        baseline_value=typical(shelf, contest.baseline, contest.metric, baseline_blocks, together) if shown else None,
        headline=decided and not held,
        held=held,
        held_because=because,
        blocks_per_unit=claims.study.design.blocks_per_unit,
        more_blocks=_more(claims, stage, rate, margin)
        if stage and word == "inconclusive" and not made.withheld
        else None,
        notes=tuple(_notes(claims, contest, made, goes_on=goes_on)),
        detectable=_detectable(stage, rate) if stage else None,
        control=contest.control,
        unseen=None if claims.modelled or word not in DECIDED else unseen(data.n, claims.stalls_in_a_row(contest)),
    )


def unseen(blocks: int, in_a_row: float = 1.0) -> float:
    """Largest share of trials that may be slow without a single one among so many blocks, at 95 %; ``in_a_row``: how
    many come together."""
    return 1.0 - math.pow(0.05, in_a_row / blocks)


def _level(claims: Claims, contest: Contest, stage: Stage | None) -> float:
    """Nominal level of the printed interval; without a stage, of the one there would be."""
    if not stage:
        return claims.rate(contest)
    joint = stage.level(claims.rate(contest))
    return max(stage.printed_level(claims.alpha), joint) if contest.primary else joint  # it lies within the joint one


def _factor(log_ratio: float) -> float:
    """A log-ratio as a factor. The first look of two or three blocks can have an interval beyond any float: it is cut
    at 10**12."""
    return math.exp(max(-_WIDEST, min(_WIDEST, log_ratio)))


def factors(ends: Ends) -> Ends:
    """An interval of the log-ratio as one of the ratio."""
    return _factor(ends[0]), _factor(ends[1])


def _difference(detectable: float) -> str:
    return f"a difference of {detectable:.2%}" if detectable < _NOTHING else "not even a tenfold difference"


def _detectable(stage: Stage, rate: float) -> float:
    return _factor(stage.effect.detectable(stage.level(rate))) - 1


def _more(claims: Claims, stage: Stage, rate: float, margin: float) -> int | None:
    """Further blocks, in whole provisionings where there are several."""
    units = more_blocks(stage, rate, claims.alpha, margin)
    return None if units is None else units * claims.study.design.blocks_per_unit


def more_blocks(stage: Stage, rate: float, alpha: float, margin: float) -> int | None:
    """Further blocks that decide an open verdict, if ratio and spread stay the same: until the interval is within
    +- ``margin`` of the ratio, or until it excludes no difference where the ratio lies beyond the margin; whatever is
    sooner.

    Where it is within the margin already (the ratio lies near it): until the verdict would be decided. At the level of
    the last planned look. Of lanes that ran at different times: trials of each, if both had as many. None: no number of
    blocks is enough.
    """
    effect, edge, mean = stage.effect, math.log1p(margin), abs(stage.effect.mean)
    last = level(stage.plan, stage.plan, rate)
    tie = level(stage.plan, stage.plan, 2 * alpha)
    within = effect.needed(edge, last) if effect.resolution < edge else None
    if within is not None and within <= effect.n:
        ways = (effect.needed(mean, last), effect.needed(edge - mean, tie))
    else:
        ways = (within, effect.needed(mean, last) if mean > edge else None)
    needed = min((n for n in ways if n is not None), default=None)
    return None if needed is None else max(1, needed - effect.n)


_REPEATS = 6
"""Trials of each lane from which an interval is narrow enough to be useful, and a permutation test can check it."""


def _notes(claims: Claims, contest: Contest, made: Answer, *, goes_on: bool) -> Iterator[str]:
    if contest.refused:
        yield from (*contest.barred, *([contest.refusal] if contest.refusal else []))
        return
    stage, plan, reached = claims.stage(contest), contest.plan, contest.reached
    paired = isinstance(contest.data, Pair)
    if contest.control:
        yield Note(
            "control",
            f"A/A control: {contest.lane} is a copy of {contest.baseline}; the interval is the noise floor",
        )
    if contest.primary and not claims.complete and paired:
        yield from anytime.so_far(
            claims.study,
            pair(
                claims.shelf(contest),
                contest.lane,
                contest.baseline,
                contest.metric,
                claims.study.design.blocks_per_unit,
            ),
        )
    if contest.waiting and reached < len(plan):
        yield Note(
            "waiting", f"{contest.waiting} further blocks wait for the interim analysis at {plan[reached]} blocks"
        )
    elif contest.waiting:
        yield Note("beyond-plan", f"{contest.waiting} blocks beyond the last planned interim analysis are not used")
    if contest.data.reported:
        title = METRICS[contest.metric].title
        yield Note("as-reported", f"{title} is the tool's own figure; the number of I/Os beyond it is unknown")
    if contest.primary and not paired:
        yield Note(
            "not-interleaved",
            "the lanes were not interleaved: they are compared as two independent samples, and any change between "
            "their times counts as a difference",
        )
    if not stage:
        yield _no_interval(claims, contest)
        return
    yield from _doubts(claims, contest, made, stage)
    if goes_on:
        stop = claims.study.design.stop
        yield Note(
            "goes-on",
            f"the cell continues until its primary intervals are within {stop and stop.width:.2%} of the ratio",
        )
    if made.word == "inconclusive" and not made.withheld:
        yield Note(
            "detectable",
            f"with {stage.effect.n} {'blocks' if paired else 'trials of each lane'} and this spread, "
            f"{_difference(_detectable(stage, claims.rate(contest)))} is detected in four of five such runs",
        )


def _doubts(claims: Claims, contest: Contest, made: Answer, stage: Stage) -> Iterator[str]:
    """What an interval alone does not say: withheld words, other methods, blocks that are alike, orders."""
    rate = claims.rate(contest)
    if made.withheld:
        yield made.withheld
    low, high = stage.printed(claims.alpha, rate)
    if contest.primary and made.word in ("tie", "inconclusive") and not made.withheld and not low <= 0 <= high:
        yield Note(
            "alone",
            f"on its own this would be a difference; corrected for {' and '.join(_shared(claims, stage))} it is not "
            "one yet",
        )
    yield from footnotes.robustness(stage.effect, stage.printed_level(claims.alpha))
    if contest.primary and isinstance(contest.data, Pair):
        # the other metrics of a trial share its blocks, and would repeat this five times
        assert isinstance(stage.effect, Effect)  # noqa: S101 - of a pair
        yield from footnotes.past(stage)
        judged = contest.data.between(stage.past.first, contest.plan[contest.last])
        logs = [row.log_ratio for row in judged.rows]
        names = (contest.lane, contest.baseline)
        yield from footnotes.order(logs, judged.lane_first, names, len(claims.primaries))


def _shared(claims: Claims, stage: Stage) -> Iterator[str]:
    """What the error rate is shared among."""
    if len(stage.plan) > 1:
        yield f"{len(stage.plan)} interim analyses"
    if len(claims.primaries) > 1:
        yield f"{len(claims.primaries)} comparisons"


def _no_interval(claims: Claims, contest: Contest) -> Note:
    """Why there is no interval; the last note of the verdict."""
    if not claims.complete:
        if not contest.plan:
            return Note(
                "judged-later",
                "no interval yet: lanes that are not interleaved are judged after all their trials",
            )
        if not contest.reached:
            return Note(
                "before-first-look", f"no interval yet: the first interim analysis is at {contest.plan[0]} blocks"
            )
        return Note(
            "too-few-blocks",
            f"no interval: {contest.data.n} usable blocks, but {FEW_BLOCKS} are needed, because too few other cells "
            "help to estimate the spread",
        )
    ours, theirs = map(len, contest.data.blocks)
    single = [name for name, n in ((contest.lane, ours), (contest.baseline, theirs)) if n < 2]
    of = "one trial each" if len(single) == 2 else f"one trial of {single[0]}"
    return Note(
        "single-trials",
        f"{of}: the spread is unknown. At least {_REPEATS} interleaved blocks, or {_REPEATS} independent repeats of "
        "each lane, are needed",
    )
