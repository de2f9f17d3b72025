"""The word of a contest: from its intervals alone, unless failures or stalls withhold it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairlane.metrics import METRICS
from fairlane.records import Held, Note, Word
from fairlane.stats.contests import ALIKE, Claims, Contest, Past, Stage
from fairlane.stats.lopsided import missing, withheld
from fairlane.stats.moving import PROVEN
from fairlane.stats.neighbours import Memory

if TYPE_CHECKING:
    from fairlane.study.spec import Study

DECIDED: frozenset[Word] = frozenset({"faster", "slower", "different-but-small", "tie"})


def word(mean: float, outer: tuple[float, float], inner: tuple[float, float], margin: float, better: int) -> Word:
    """The verdict, from intervals of the log-ratio alone: ``outer`` is [L, U], ``inner`` the tie test's [l, u].

    ``margin`` is a relative difference (0.05), ``better`` +1 or -1. A tie is shown by two one-sided tests (Schuirmann,
    J. Pharmacokinet. Biopharm. 15, 1987): the inner interval lies within +- ln(1 + margin).
    """
    if outer[0] <= 0 <= outer[1]:
        return "tie" if within(inner, margin) else "inconclusive"
    if within(inner, margin):
        return "different-but-small"
    return "faster" if mean * better > 0 else "slower"


def within(ends: tuple[float, float], margin: float) -> bool:
    """Whether an interval of the log-ratio lies within +- ln(1 + ``margin``)."""
    edge = math.log1p(margin)
    return -edge < ends[0] and ends[1] < edge


Ends = tuple[float, float]


@dataclass(frozen=True)
class Answer:
    """A contest's word, with what decided it."""

    word: Word
    joint: Ends | None = None
    """[L, U], at the error rate over all primaries and looks, whatever trials without a figure would have shown;
    None: no interval."""
    tie: Ends | None = None
    """[l, u] of the tie test."""
    withheld: Note | None = None
    """Why failures or stalls took the word away."""


@dataclass(frozen=True)
class Doubt:
    """A reason why the intervals of a word may be wrong, and what they would be."""

    kind: Held
    because: str
    joint: Ends
    tie: Ends


def moved(ends: Ends, shift: float) -> Ends:
    """An interval of the log-ratio that also holds it after it has moved on by ``shift``."""
    return ends[0] + min(0.0, shift), ends[1] + max(0.0, shift)


def still_moving(past: Past, joint: Ends, tie: Ends, lanes: tuple[str, str], unit: str) -> Iterator[Doubt]:
    """That a lane moves, where it is certain; ``unit``: block, round or provisioning."""
    if past.move.chance <= PROVEN:
        because = f"{lanes[past.mover]} is still moving, {past.move.slope:+.2%} a {unit}"
        yield Doubt("moving", because, moved(joint, past.move.ahead), moved(tie, past.move.ahead))


def remembered(memory: Memory, n: int, unit: str, again: Callable[[Memory], tuple[Ends, Ends]]) -> Iterator[Doubt]:
    """That ``n`` units remember the ones before, where it is certain; ``again``: both intervals with all that is seen
    of it."""
    if memory.chance <= ALIKE:
        because = f"{unit}s remember: {n} {unit}s are worth {memory.whole.worth(n):.0f}"
        yield Doubt("alike-blocks", because, *again(memory.whole))


def answer(claims: Claims, contest: Contest, stage: Stage | None = None) -> Answer:
    """``stage``: in place of the one at which the contest stands."""
    if contest.refused:
        return Answer("refused")
    stage = stage or claims.stage(contest)
    if not stage:
        return Answer("no-spread" if claims.complete else "inconclusive")
    joint, tie = stage.interval(claims.rate(contest)), stage.interval(2 * claims.alpha)
    margin, better = margin_of(claims.study, contest.metric), METRICS[contest.metric].better
    answered = word(stage.effect.mean, joint, tie, margin, better)
    why = None
    if stage.filled and answered == "inconclusive":
        known = replace(stage, filled=())
        ends = known.interval(claims.rate(contest)), known.interval(2 * claims.alpha)
        if word(stage.effect.mean, *ends, margin, better) in DECIDED:
            why = missing(claims.judged(contest), contest.lane, contest.baseline, stage.past.missing)
    elif not claims.modelled:  # the virtual clock has no failures and stalls by chance
        why = withheld(answered, claims.judged(contest), contest.lane, contest.baseline, contest.metric)
    return Answer("inconclusive" if why else answered, joint, tie, why)


def margin_of(study: "Study", metric: str) -> float:
    """The relative difference in ``metric`` that matters."""
    return study.design.margins.get(metric, METRICS[metric].margin)
