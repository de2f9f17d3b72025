"""The word of a contest: from its intervals alone, unless failures or stalls withhold it."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairlane.metrics import METRICS
from fairlane.records import Note, Word
from fairlane.stats.contests import Claims, Contest, Stage
from fairlane.stats.lopsided import missing, withheld

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


def undone(made: Answer, margin: float, shift: float) -> bool:
    """Whether a word would not stand if the lanes' log-ratio moved on by ``shift``. ValueError: no interval."""
    if not made.joint or not made.tie:
        raise ValueError("no interval")
    if made.word == "tie":
        return not within((made.tie[0] + shift, made.tie[1] + shift), margin)
    end = min(made.joint, key=abs)
    return end * (end + shift) < 0


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
