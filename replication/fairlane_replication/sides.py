"""Whether one verdict confirms a published direction or size, contradicts it, or leaves it open. Pure.

A published size is a range of ratios lane / baseline. Like a tie, it is confirmed by two one-sided tests: the tie
test's interval lies within the range, give or take the margin. It is contradicted where the verdict's interval lies
wholly beyond the range and the margin. A claim of no difference is the range from 1 to 1: a difference within the
margin, however certain, contradicts nothing.
"""

import math
from typing import Literal

from fairlane.metrics import METRICS
from fairlane.records import Verdict
from fairlane.report import phrases
from fairlane.stats.answers import DECIDED
from fairlane_replication.claims import Expects, Size

Side = Literal["for", "against", "open"]

_EVEN = Size(least=1, most=1)


def direction(expects: Expects, v: Verdict, size: Size | None) -> tuple[Side, str]:
    """The side of a decided verdict on a claim that the lane ``expects``; if open, the reason.

    A tie contradicts a claimed difference, unless the smallest published size lies within the margin itself.
    """
    better = ((v.ratio or 1.0) > 1) == (METRICS[v.metric].better > 0)
    if expects not in ("faster", "slower"):
        side = within(_range(expects, v), v)
        return side, "" if side != "open" else _straddles(v)
    if v.verdict != "tie":
        return ("for" if better == (expects == "faster") else "against"), ""
    if size is None or nearest(size) > math.log1p(v.margin):
        return "against", ""
    return "open", f"a tie within {phrases.share(v.margin)}, and the published size may be as small"


def within(size: Size, v: Verdict) -> Side:
    """Whether the ratio is shown to lie in the range of ``size``, give or take the margin (for), or beyond (against).

    As with a tie, [tie_low, tie_high] confirms and [low, high] contradicts.
    """
    if v.low is None or v.high is None or v.tie_low is None or v.tie_high is None:
        return "open"
    least, most = (size.least or 0.0) / (1 + v.margin), (size.most or math.inf) * (1 + v.margin)
    if v.high < least or v.low > most:
        return "against"
    return "for" if least < v.tie_low and v.tie_high < most else "open"


def way(size: Size, v: Verdict) -> Literal["smaller", "larger"]:
    """Whether a verdict's ratio is nearer to 1 than the published ones, or further away."""
    if size.least is not None and size.least > 1:
        return "larger" if size.most is not None and v.low is not None and v.low > size.most else "smaller"
    if size.most is not None and size.most < 1:
        return "larger" if size.least is not None and v.high is not None and v.high < size.least else "smaller"
    return "larger"


def undecided(v: Verdict) -> str:
    """Why a verdict proves nothing; empty: it does."""
    if v.verdict in DECIDED:
        return ""
    if v.verdict == "refused":
        return f"refused: {v.notes[0] if v.notes else 'see the findings'}"
    if v.verdict == "no-spread":
        return "single results: nothing is known of their spread"
    more = f"; {phrases.further([v.more_blocks])} may decide" if v.more_blocks else ""
    return f"inconclusive, {phrases.interval(v.low, v.high)} after {phrases.count(v.blocks, 'block')}{more}"


def nearest(size: Size) -> float:
    """The published size nearest to no difference, as a distance on the log scale."""
    ends = [math.log(end) for end in (size.least, size.most) if end is not None]
    if len(ends) == 2 and ends[0] <= 0 <= ends[1]:
        return 0.0
    return min(abs(end) for end in ends)


def _range(expects: Expects, v: Verdict) -> Size:
    """The ratios that a claim of no difference, or of none in one direction, allows."""
    if expects == "same":
        return _EVEN
    up = (expects == "not-slower") == (METRICS[v.metric].better > 0)
    return Size(least=1, most=None) if up else Size(least=None, most=1)


def _straddles(v: Verdict) -> str:
    ends = phrases.interval(v.low, v.high)
    return f"{ends} lies neither within the margin of {phrases.share(v.margin)} nor wholly beyond it"
