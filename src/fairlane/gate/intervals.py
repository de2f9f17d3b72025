"""What intervals prove of a rule. Pure.

A rule is met by an interval whose ends err at alpha each, for this rule and cell alone: all of them must be met. It is
not met by the wider interval that holds for all comparisons of the study together: one failure is enough.
"""

import math
from typing import Literal

from fairlane.gate.rules import Compared, Directed, Relative, Within
from fairlane.metrics import METRICS
from fairlane.records import Verdict
from fairlane.report import phrases

Proof = Literal["met", "not met", "not proven"]
Ends = tuple[float, float]


def by_intervals(rule: Compared, v: Verdict) -> tuple[Proof, str]:
    """The outcome by the verdict's intervals alone, and why the rule is not met."""
    assert v.tie_low is not None  # noqa: S101 - the caller looked
    assert v.tie_high is not None  # noqa: S101
    alone = v.tie_low, v.tie_high
    word, reason = _by_one(rule, v, alone)
    if word != "not met":
        return word, reason
    joint = v.joint_low or 0.0, math.inf if v.joint_high is None else v.joint_high
    wider = min(alone[0], joint[0]), max(alone[1], joint[1])
    if _by_one(rule, v, wider)[0] == "not met":
        return word, reason
    return "not proven", f"{reason}; corrected for all comparisons this is not certain ({phrases.interval(*wider)})"


def _by_one(rule: Compared, v: Verdict, ends: Ends) -> tuple[Proof, str]:
    match rule:
        case Within():
            return _within(v.margin if rule.percent is None else float(rule.percent) / 100, ends)
        case Directed():
            return _directed(rule, v, ends)
        case Relative():
            limit, (low, high) = rule.factor(rule.percent), ends
            named = phrases.change(limit)
            return against(least=rule.least, strict=len(rule.sign) == 1, limit=limit, low=low, high=high, named=named)


def _directed(rule: Directed, v: Verdict, ends: Ends) -> tuple[Proof, str]:
    """A difference is met beyond zero, and fails where none beyond the margin is left; ``not`` of it is met where none
    beyond the margin is left, and fails beyond the margin."""
    up = rule.upwards(METRICS[v.metric].better)
    low, high = ends if up else _turned(ends)
    edge, margin = 1 + v.margin, phrases.share(v.margin)
    if rule.negated:
        if high < edge:
            return "met", ""
        if low > edge:
            return "not met", f"it is {rule.way} by more than {margin}"
        return "not proven", f"it may be {rule.way} by more than {margin}"
    if low > 1:
        return "met", ""
    if high < edge:
        return "not met", f"it is not {rule.way} by {margin} or more"
    return "not proven", f"the interval reaches {'below' if up else 'above'} {phrases.change(1.0)}"


def _turned(ends: Ends) -> Ends:
    """The interval of the reciprocal."""
    low, high = ends
    return 1 / high, math.inf if low <= 0 else 1 / low


def _within(margin: float, ends: Ends) -> tuple[Proof, str]:
    """Two one-sided tests against ``margin``, like the judge's tie."""
    (low, high), edge = ends, 1 + margin
    if 1 / edge < low and high < edge:
        return "met", ""
    if low > edge or high < 1 / edge:
        return "not met", f"they differ by more than {phrases.share(margin)}"
    return "not proven", f"the interval, {phrases.interval(*ends)}, is not within {phrases.share(margin)}"


def against(*, least: bool, strict: bool, limit: float, low: float, high: float, named: str) -> tuple[Proof, str]:
    """Compare [low, high] with ``limit``: met if all of it is on the right side, not met if all is on the wrong
    side."""
    near, far = (low, high) if least else (-high, -low)
    edge = limit if least else -limit
    if near > edge or (near == edge and not strict):
        return "met", ""
    if far < edge or (far == edge and strict):
        return "not met", f"the whole interval lies {'below' if least else 'above'} {named}"
    return "not proven", f"the interval reaches {'below' if least else 'above'} {named}"


def flattered(rule: Compared, v: Verdict, word: Proof) -> tuple[set[int], bool]:
    """The sides (0: the lane, 1: its baseline) whose failures and stalls would flatter the outcome ``word``.

    And whether that outcome states a difference."""
    better = METRICS[v.metric].better
    if isinstance(rule, Within):
        if word == "met":
            return {0, 1}, False
        return {0 if ((v.ratio or 1.0) > 1) == (better > 0) else 1}, True
    if isinstance(rule, Directed):
        good, difference = (rule.way == "faster") != rule.negated, not rule.negated
    else:
        good, beyond = rule.least == (better > 0), rule.factor(rule.percent) - 1
        difference = beyond >= 0 if rule.least else beyond <= 0
    if word == "not met":  # the reverse is stated
        good, difference = not good, not difference
    return {0 if good else 1}, difference
