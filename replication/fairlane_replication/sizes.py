"""Whether one verdict confirms a published size, contradicts it, or leaves it open. Pure.

A published size is a range of ratios lane / baseline. Like a tie, it is confirmed by two one-sided tests: the tie
test's interval lies within the range, give or take the margin. It is contradicted where the interval that holds for
all comparisons of the study together lies wholly beyond the range and the margin: one cell is enough to contradict.
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

    [tie_low, tie_high] confirms and [joint_low, joint_high] contradicts.
    """
    if v.joint_low is None or v.joint_high is None or v.tie_low is None or v.tie_high is None:
        return "open"
    least, most = (size.least or 0.0) / (1 + v.margin), (size.most or math.inf) * (1 + v.margin)
    if v.joint_high < least or v.joint_low > most:
        return "against"
    return "for" if least < v.tie_low and v.tie_high < most else "open"


def way(size: Size, v: Verdict) -> Literal["smaller", "larger"]:
    """Whether a verdict's ratio is nearer to 1 than the published ones, or further away."""
    if size.least is not None and size.least > 1:
        return "larger" if size.most is not None and v.joint_low is not None and v.joint_low > size.most else "smaller"
    if size.most is not None and size.most < 1:
        beyond = size.least is not None and v.joint_high is not None and v.joint_high < size.least
        return "larger" if beyond else "smaller"
    return "larger"
