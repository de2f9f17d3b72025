"""Multiple comparisons in one study: Holm over the primaries, through all looks; Benjamini-Hochberg over the rest.

Both work without p-values. A hypothesis has a method that tests it at an overall error rate, by its interval at that
rate. The result is the rate for each interval, so that a verdict and its interval never contradict each other: the
interval excludes "no difference" exactly where the procedure rejects.
"""

from collections.abc import Sequence
from typing import Protocol


class Hypothesis(Protocol):
    """No difference, for one lane in one cell, by the data up to one look."""

    def rejects(self, alpha: float) -> bool:
        """Whether the hypothesis is rejected at error rate ``alpha`` over all looks. Must be monotone in ``alpha``."""


def holm(looks: Sequence[Sequence[Hypothesis | None]], alpha: float) -> tuple[float, ...]:
    """Overall error rate of each hypothesis' interval; the chance of any false rejection is at most ``alpha``.

    ``looks[k][i]``: hypothesis i as it stands at look k; one that has stopped earlier stays as it was; None: nothing to
    test yet. Holm (Scand. J. Stat. 6, 1979) in group sequential trials: Ye, Li, Liu and Yao, Stat. Med. 32, 2013,
    1112-1124; Maurer and Bretz, Stat. Biopharm. Res. 5, 2013, 311-320. At every look each of the s hypotheses still
    open is tested at the boundary of the overall rate alpha/s; the rejected pass their share on. A rejection is never
    taken back because *other* cells changed, and a stopped cell may still gain.

    Hypotheses rejected in one pass share alpha/s instead of getting alpha/s, alpha/(s - 1), ... by rank: the same
    hypotheses are rejected, but the intervals are the wider ones, and where all are rejected in the first
    pass they hold *simultaneously* (Bonferroni).
    """
    rates = [0.0] * (len(looks[0]) if looks else 0)
    still_open = list(range(len(rates)))
    for look in looks:
        while still_open:
            share = alpha / len(still_open)
            rejected = {i for i in still_open if (tested := look[i]) is not None and tested.rejects(share)}
            if not rejected:
                break
            for i in rejected:
                rates[i] = share
            still_open = [i for i in still_open if i not in rejected]
    for i in still_open:
        rates[i] = alpha / len(still_open)
    return tuple(rates)


def benjamini_hochberg(hypotheses: Sequence[Hypothesis], alpha: float) -> float:
    """Overall error rate for the intervals of all ``hypotheses``: R alpha / m, where R of the m are rejected at it.

    The largest such R: the step-up procedure of Benjamini and Hochberg (J. R. Stat. Soc. B 57, 1995); the expected
    share of false ones among the rejected is at most ``alpha``. Intervals at this rate are those of Benjamini and
    Yekutieli (JASA 100, 2005): the expected share of the *selected* intervals that miss is at most ``alpha`` too. No
    hypotheses: ``alpha``.
    """
    m = len(hypotheses)
    if not m:
        return alpha
    r = m
    while r:
        rejected = sum(h.rejects(alpha * (r / m)) for h in hypotheses)
        if rejected >= r:
            break
        r = rejected  # lower rates reject no more than these, so values in between are no candidates
    return alpha * (max(r, 1) / m)
