"""Whether one verdict confirms a published size, contradicts it, or leaves it open. Pure.

A published size is a range of ratios lane / baseline. Like a tie, it is confirmed by two one-sided tests: the tie
test's interval lies within the range, give or take the margin. It is contradicted where the verdict's interval lies
wholly beyond the range and the margin.
"""

import math
from typing import Literal

from fairlane.records import Verdict
from fairlane_replication.claims import Size

Side = Literal["for", "against", "open"]

EVEN = Size(least=1, most=1)
"""No difference."""


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
