"""The word of a contest: from its intervals alone, unless failures or stalls of one lane withhold it."""

import math
from dataclasses import dataclass

from fairlane.metrics import METRICS
from fairlane.records import Note, Word
from fairlane.stats.contests import Claims, Contest
from fairlane.stats.lopsided import withheld

DECIDED: frozenset[Word] = frozenset({"faster", "slower", "different-but-small", "tie"})


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


Ends = tuple[float, float]


@dataclass(frozen=True)
class Answer:
    """A contest's word, with what decided it."""

    word: Word
    joint: Ends | None = None
    """[L, U], at the error rate over all primaries and looks; None: no interval."""
    tie: Ends | None = None
    """[l, u] of the tie test."""
    withheld: Note | None = None
    """Why failures or stalls of one lane took the word away."""


def answer(claims: Claims, contest: Contest) -> Answer:
    if contest.refused:
        return Answer("refused")
    stage = claims.stage(contest)
    if not stage:
        return Answer("no-spread" if claims.complete else "inconclusive")
    joint, tie = stage.interval(claims.rate(contest)), stage.interval(2 * claims.alpha)
    answered = word(stage.effect.mean, joint, tie, margin_of(claims, contest), METRICS[contest.metric].better)
    if not claims.modelled:  # the virtual clock has no failures and stalls by chance
        why = withheld(answered, claims.judged(contest), contest.lane, contest.baseline, contest.metric)
        if why:
            return Answer("inconclusive", joint, tie, why)
    return Answer(answered, joint, tie)


def margin_of(claims: Claims, contest: Contest) -> float:
    margin: float = claims.study.design.margins.get(contest.metric, METRICS[contest.metric].margin)
    return margin
