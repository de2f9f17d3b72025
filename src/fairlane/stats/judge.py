"""The verdicts: words from intervals, for every lane against the baseline, per cell and metric. See docs/verdict.md.

Which blocks count, and at which error rate, is decided in ``contests``.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import ndtr, stdtrit

from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding, Note, Observation, Verdict, Word
from fairlane.stats import anytime, footnotes
from fairlane.stats.contests import FEWEST, Claims, Contest, Stage, stains
from fairlane.stats.effects import Effect
from fairlane.stats.efficiency import efficient
from fairlane.stats.looks import level
from fairlane.stats.lopsided import withheld
from fairlane.stats.moderated import Moderated
from fairlane.stats.neighbours import likeness
from fairlane.stats.pairs import Pair, pair, typical

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_PARKED, _HOPELESS = 8, 0.05
"""Blocks from which a cell is parked that has less than this chance of any word."""
_TIE = 10
"""Blocks before which the runner ends no cell on a tie: so many clean ones leave at most 26 % of trials (at 95 %) that
may be slow without having shown it; six leave 39 %."""
_ALIKE = 0.05
"""Chance, shared among a study's primaries, below which blocks that are alike bear no headline."""
_SMALL: frozenset[Word] = frozenset({"tie", "different-but-small"})
_WIDEST = math.log(1e12)
_NOTHING = 9.0
"""Relative difference from which on the note gives no number."""

DECIDED: frozenset[Word] = frozenset({"faster", "slower", "different-but-small", "tie"})


def judge(evidence: Evidence, findings: Sequence[Finding]) -> tuple[Verdict, ...]:
    """All verdicts of a run: by cell and lane in the order of the study, the primary metric first.

    Pure. A critical finding takes the headline from the cells and lanes it names, or from all if it names none. One
    that refuses takes the verdict.
    """
    claims = Claims(evidence.study, evidence.observations, findings, evidence.complete, modelled=evidence.modelled)
    waiting = frozenset() if evidence.complete else _too_wide(claims)
    return tuple(_verdict(claims, c, findings, goes_on=c.cell.key in waiting) for c in claims.contests)


def open_cells(
    study: "Study", observations: Sequence[Observation], look: int, *, modelled: bool = False
) -> frozenset[str]:
    """Keys of the cells that continue after look number ``look`` (index into ``study.design.looks``).

    A cell continues while the primary metric of any of its lanes has no word yet, or one whose printed interval still
    says little of the size (``_clear``); under a stop on width, while it is too wide. Cells that stopped at an earlier
    look, and lanes in which more blocks cannot help (nothing but failed trials, no such metric, hardly a chance of any
    word: ``chance``), do not. Blocks beyond the look are ignored, so that a resumed run decides as an undisturbed one.
    Empty at the last look; before it all cells, where the lanes are not interleaved and judged once. ``modelled``: by
    the virtual clock. IndexError: no such look.
    """
    plan = study.design.looks
    here = plan[look]
    if look + 1 == len(plan):
        return frozenset()
    if not study.design.paired:
        return frozenset(cell.key for cell in study.cells())
    claims = Claims(
        study,
        efficient(study, (observation for observation in observations if observation.block < here)),
        primary_only=True,
        modelled=modelled,
    )
    if study.design.stop:
        return _too_wide(claims)
    return frozenset(
        c.cell.key for c in claims.primaries if c.reached == look + 1 and not c.refused and _goes_on(claims, c)
    )


def _goes_on(claims: Claims, contest: Contest) -> bool:
    """Whether more blocks are worth their time."""
    stage = claims.stage(contest)
    if not stage:
        return True
    answer = _answer(claims, contest).word
    if answer == "inconclusive":
        return stage.effect.n < _PARKED or chance(claims, contest, stage) >= _HOPELESS
    if claims.modelled:
        return False
    if stage.effect.n < (_TIE if answer in _SMALL else FEWEST) and not (_lent(stage) and answer not in _SMALL):
        return True
    return answer not in _SMALL and not _clear(claims, contest, stage)


def _lent(stage: Stage) -> bool:
    return isinstance(stage.effect, Moderated)


def _trusted(claims: Claims, contest: Contest, stage: Stage) -> bool:
    """Whether blocks are enough, and independent enough, for a headline."""
    effect = stage.effect
    if not isinstance(effect, Effect):
        return True
    alike = likeness(effect.logs) <= _ALIKE / max(1, len(claims.primaries))
    return not alike and (effect.n >= FEWEST or _lent(stage))


def _clear(claims: Claims, contest: Contest, stage: Stage) -> bool:
    """Whether the printed interval lies beyond the margin, or is within half of it about the estimate."""
    edge, level = math.log1p(_margin(claims, contest)), stage.printed_level(claims.alpha)
    half = stage.effect.half_width(level)
    return abs(stage.effect.mean) - half >= edge or half <= edge / 2


def chance(claims: Claims, contest: Contest, stage: Stage) -> float:
    """Chance (0..1) that the contest gets any word at its last planned look, if ratio and spread stay as they are;
    by the normal approximation. It ends no test early, so it costs no error."""
    effect, edge, mean = stage.effect, math.log1p(_margin(claims, contest)), abs(stage.effect.mean)
    last, done = stage.plan[-1], min(effect.n / stage.plan[-1], 1.0)
    error = effect.sd / math.sqrt(last)
    df = effect.df + last - effect.n
    outer, inner = (
        -float(stdtrit(df, level(stage.plan, stage.plan, rate) / 2))
        for rate in (claims.rate(contest), 2 * claims.alpha)
    )
    rest = math.sqrt(1 - done) or 1e-9
    if error <= 0:
        return 1.0
    return max(
        float(ndtr((edge - mean - inner * error) / (error * rest))),
        float(ndtr((mean - outer * error) / (error * rest))),
    )


def _too_wide(claims: Claims) -> frozenset[str]:
    """Keys of the cells whose primary intervals are wider than the study's ``stop``, and may become narrower."""
    stop, plan = claims.study.design.stop, claims.study.design.looks
    if not stop:
        return frozenset()
    limit, share = math.log1p(stop.width), claims.alpha / max(1, len(claims.primaries))
    still: dict[str, bool] = {}
    for contest in claims.primaries:
        stage = claims.stage(contest)
        few = stage is None or stage.effect.n < stop.least
        helps = stage is None or stage.effect.resolution < limit
        wide = few or (stage is not None and stage.effect.half_width(stage.level(share)) > limit)
        if contest.reached < len(plan) and not contest.refused:
            still[contest.cell.key] = still.get(contest.cell.key, False) or (wide and helps)
    return frozenset(key for key, wide in still.items() if wide)


def word(mean: float, outer: tuple[float, float], inner: tuple[float, float], margin: float, better: int) -> Word:
    """The verdict, from intervals of the log-ratio alone: ``outer`` is [L, U], ``inner`` the tie test's [l, u].

    ``margin`` is a relative difference (0.05), ``better`` +1 or -1. A tie is shown by two one-sided tests (Schuirmann,
    J. Pharmacokinet. Biopharm. 15, 1987): the inner interval lies within +- ln(1 + margin).
    """
    edge = math.log1p(margin)
    within = -edge < inner[0] and inner[1] < edge
    if outer[0] <= 0 <= outer[1]:
        return "tie" if within else "inconclusive"
    if within:
        return "different-but-small"
    return "faster" if mean * better > 0 else "slower"


_Ends = tuple[float, float]


@dataclass(frozen=True)
class _Answer:
    """A contest's word, with what decided it."""

    word: Word
    joint: _Ends | None = None
    """[L, U], at the error rate over all primaries and looks; None: no interval."""
    tie: _Ends | None = None
    """[l, u] of the tie test."""
    withheld: Note | None = None
    """Why failures or stalls of one lane took the word away."""


def _answer(claims: Claims, contest: Contest) -> _Answer:
    if contest.refused:
        return _Answer("refused")
    stage = claims.stage(contest)
    if not stage:
        return _Answer("no-spread" if claims.complete else "inconclusive")
    joint, tie = stage.interval(claims.rate(contest)), stage.interval(2 * claims.alpha)
    answer = word(stage.effect.mean, joint, tie, _margin(claims, contest), METRICS[contest.metric].better)
    if not claims.modelled:  # the virtual clock has no failures and stalls by chance
        why = withheld(answer, claims.judged(contest), contest.lane, contest.baseline, contest.metric)
        if why:
            return _Answer("inconclusive", joint, tie, why)
    return _Answer(answer, joint, tie)


def _margin(claims: Claims, contest: Contest) -> float:
    margin: float = claims.study.design.margins.get(contest.metric, METRICS[contest.metric].margin)
    return margin


def _verdict(claims: Claims, contest: Contest, findings: Sequence[Finding], *, goes_on: bool) -> Verdict:
    """``goes_on``: the cell's interval is still too wide for its study, and no verdict is final."""
    margin, rate, stage = _margin(claims, contest), claims.rate(contest), claims.stage(contest)
    made = _answer(claims, contest)
    answer, outer, inner = made.word, made.joint, made.tie
    if goes_on and stage:
        answer = "inconclusive"
    lane_blocks, baseline_blocks = ((), ()) if contest.refusal else contest.data.blocks
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
        verdict=answer,
        ratio=_factor(contest.data.effect.mean) if shown and not contest.barred else None,
        low=_factor(printed[0]) if printed else None,
        high=_factor(printed[1]) if printed else None,
        joint_low=_factor(outer[0]) if outer else None,
        joint_high=_factor(outer[1]) if outer else None,
        tie_low=_factor(inner[0]) if inner else None,
        tie_high=_factor(inner[1]) if inner else None,
        margin=margin,
        level=_level(claims, contest, stage),
        blocks=contest.data.n if shown else 0,
        voided=contest.data.voided,
        lane_value=typical(shelf, contest.lane, contest.metric, lane_blocks) if shown else None,
        baseline_value=typical(shelf, contest.baseline, contest.metric, baseline_blocks) if shown else None,
        headline=contest.primary
        and answer in DECIDED
        and (claims.modelled or not stage or _trusted(claims, contest, stage))
        and not any(stains(f, contest.cell, contest.lane, contest.baseline) for f in findings),
        more_blocks=more_blocks(stage, rate, claims.alpha, margin) if stage and answer == "inconclusive" else None,
        notes=tuple(_notes(claims, contest, made, goes_on=goes_on)),
        detectable=_detectable(stage, rate) if stage else None,
        control=contest.control,
        unseen=None if claims.modelled or answer not in DECIDED else _unseen(contest.data.n),
    )


def _unseen(blocks: int) -> float:
    """Largest share of trials that may be slow without a single one among so many blocks, at 95 %."""
    return 1.0 - math.pow(0.05, 1 / blocks)


def _level(claims: Claims, contest: Contest, stage: Stage | None) -> float:
    """Nominal level of the printed interval; without a stage, of the one there would be."""
    if not stage:
        return claims.rate(contest)
    return stage.printed_level(claims.alpha) if contest.primary else stage.level(claims.rate(contest))


def _factor(log_ratio: float) -> float:
    """A log-ratio as a factor. The first look of two or three blocks can have an interval beyond any float: it is cut
    at 10**12."""
    return math.exp(max(-_WIDEST, min(_WIDEST, log_ratio)))


def _difference(detectable: float) -> str:
    return f"a difference of {detectable:.2%}" if detectable < _NOTHING else "not even a tenfold difference"


def _detectable(stage: Stage, rate: float) -> float:
    return _factor(stage.effect.detectable(stage.level(rate))) - 1


def more_blocks(stage: Stage, rate: float, alpha: float, margin: float) -> int | None:
    """Further blocks after which the interval would be within +- ``margin`` of the ratio, at the observed spread.

    Where it is that narrow already (the ratio lies near the margin): blocks until the verdict would be decided if ratio
    and spread stayed the same. At the level of the last planned look. Of lanes that ran at different times: trials of
    each, if both had as many. None: no number of blocks is enough.
    """
    effect, edge, mean = stage.effect, math.log1p(margin), abs(stage.effect.mean)
    last = level(stage.plan, stage.plan, rate)
    tie = level(stage.plan, stage.plan, 2 * alpha)
    needed = effect.needed(edge, last) if effect.resolution < edge else None
    if needed is not None and needed <= effect.n:
        ways = (effect.needed(mean, last), effect.needed(edge - mean, tie))
        needed = min((n for n in ways if n is not None), default=None)
    return None if needed is None else max(1, needed - effect.n)


_REPEATS = 6
"""Trials of each lane from which an interval is narrow enough to be useful, and a permutation test can check it."""


def _notes(claims: Claims, contest: Contest, answer: _Answer, *, goes_on: bool) -> Iterator[str]:
    if contest.refused:
        yield from (*contest.barred, *([contest.refusal] if contest.refusal else []))
        return
    stage, plan, reached = claims.stage(contest), contest.plan, contest.reached
    paired = isinstance(contest.data, Pair)
    if contest.control:
        yield Note(
            "control",
            f"A/A control: {contest.lane} is {contest.baseline} built once more; the interval is the noise floor",
        )
    if contest.primary and not claims.complete and paired:
        yield from anytime.so_far(
            claims.study, pair(claims.shelf(contest), contest.lane, contest.baseline, contest.metric)
        )
    if contest.waiting and reached < len(plan):
        yield Note("waiting", f"{contest.waiting} further blocks wait for the look at {plan[reached]}")
    elif contest.waiting:
        yield Note("beyond-plan", f"{contest.waiting} blocks beyond the last planned look are left out")
    if contest.data.reported:
        title = METRICS[contest.metric].title
        yield Note("as-reported", f"{title} as the tool reported it; how many I/Os lie beyond it is not known")
    if contest.primary and not paired:
        yield Note(
            "not-interleaved",
            "the lanes did not run interleaved: they are compared as two independent samples, and what changed between "
            "their times counts as a difference",
        )
    if not stage:
        yield _no_interval(claims, contest)
        return
    rate = claims.rate(contest)
    if answer.withheld:
        yield answer.withheld
    low, high = stage.printed(claims.alpha, rate)
    if contest.primary and answer.word in ("tie", "inconclusive") and not low <= 0 <= high:
        yield Note(
            "alone",
            f"alone this would be a difference; among {len(claims.primaries)} comparisons and "
            f"{len(stage.plan)} looks it is not proven",
        )
    yield from footnotes.robustness(stage.effect, stage.printed_level(claims.alpha))
    if contest.primary and isinstance(contest.data, Pair):
        # the other metrics of a trial share its blocks, and would repeat this five times
        assert isinstance(stage.effect, Effect)  # noqa: S101 - of a pair
        lane_first = contest.data.below(contest.plan[contest.last]).lane_first
        yield from footnotes.dependence(stage.effect, contest.lane, contest.baseline, lane_first, len(claims.primaries))
    if goes_on:
        stop = claims.study.design.stop
        yield Note(
            "goes-on", f"the cell goes on until its primary intervals are within {stop and stop.width:.2%} of the ratio"
        )
    if answer.word == "inconclusive" and not answer.withheld:
        yield Note(
            "detectable",
            f"with {stage.effect.n} {'blocks' if paired else 'trials of each lane'} and this spread, "
            f"{_difference(_detectable(stage, rate))} is found in four of five such runs",
        )


def _no_interval(claims: Claims, contest: Contest) -> Note:
    """Why there is no interval; the last note of the verdict."""
    if not claims.complete:
        if not contest.plan:
            return Note(
                "judged-later",
                "lanes that do not run interleaved are judged when all their trials are there: no interval",
            )
        if not contest.reached:
            return Note("before-first-look", f"the first look is at {contest.plan[0]} blocks: no interval")
        return Note("too-few-blocks", "fewer than 2 blocks count: no interval")
    ours, theirs = map(len, contest.data.blocks)
    single = [name for name, n in ((contest.lane, ours), (contest.baseline, theirs)) if n < 2]
    of = "one trial each" if len(single) == 2 else f"one trial of {single[0]}"
    return Note(
        "single-trials",
        f"{of}: nothing is known of their spread; at least {_REPEATS} interleaved blocks, or {_REPEATS} independent "
        "repeats of each lane, would be needed",
    )
