"""The part of ``fairlane pilot`` about the length of a slot: plain data, and lines for a reader."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlane.stats.slots import Agreement, Slots

NO_SERIES = (
    "The shortest usable trial is unknown: the trials of this run have no series. To get one, run a few blocks with "
    "runtime: 60s, series: 1s and no ramp."
)


def as_data(slots: "Slots | None") -> dict[str, Any] | None:
    """Plain data: times in seconds, differences and spreads relative (0.02: 2 %). None: the run has no series."""
    if slots is None:
        return None
    best = slots.answer
    return {
        "answer": None
        if best is None
        else {"ramp": best.slot.ramp, "runtime": best.slot.length, "load_seconds": best.load},
        "now": {"seconds": slots.seconds, "load_seconds": slots.load},
        "autocorrelation": slots.autocorrelation,
        "tried": [
            {
                "ramp": tried.slot.ramp,
                "runtime": tried.slot.length,
                "agrees": tried.agrees,
                "load_seconds": tried.load,
                "cells": [_agreement(a) for a in tried.agreements],
            }
            for tried in slots.tried
        ],
        "left_out": [cell.key for cell in slots.left_out],
    }


def _agreement(a: "Agreement") -> dict[str, Any]:
    return {
        "workload": a.cell.workload,
        "cell": a.cell.name,
        "lane": a.lane,
        "verdict": a.word,
        "bias": _relative(a.bias),
        "low": _relative(a.low),
        "high": _relative(a.high),
        "limit": _relative(a.limit),
        "blocks": a.blocks,
        "more_blocks": a.more,
        "spread": a.sd,
        "needed": a.needed,
    }


def _relative(log: float | None) -> float | None:
    return None if log is None else math.expm1(log)


def rows(slots: "Slots") -> list[dict[str, str]]:
    """A row per candidate, with the comparison that is farthest from agreeing."""
    from fairlane.report.text import DASH, clean
    from fairlane.study.forecast import about

    return [
        {
            "slot": _name(tried.slot.ramp, tried.slot.length),
            "agrees": f"{sum(a.word == 'agrees' for a in tried.agreements)} of {len(tried.agreements)}",
            "farthest": clean(f"{tried.worst.lane}, {tried.worst.cell.name}"),
            "bias": _bias(tried.worst),
            "load": DASH if tried.load is None else about(tried.load),
        }
        for tried in slots.tried
    ]


def _name(ramp: int, length: int) -> str:
    return f"{ramp} s + {length} s"


def _bias(a: "Agreement") -> str:
    from fairlane.report.text import DASH

    if a.bias is None or a.low is None or a.high is None:
        return DASH
    return f"{_percent(a.bias)} ({_percent(a.low)} to {_percent(a.high)})"


def _percent(log: float) -> str:
    return f"{100 * math.expm1(log):+.1f} %"


def advice(slots: "Slots") -> Iterator[str]:
    """What follows from the rows."""
    from fairlane.report.text import clean
    from fairlane.study.forecast import about

    best = slots.answer
    if best:
        limit = max(a.limit for a in best.agreements)
        yield (
            f"Slots of {_name(best.slot.ramp, best.slot.length)} (ramp + trial) agree with the second half of the same "
            f"trials within {_percent(limit)[1:]} in all {len(best.agreements)} comparisons; longer slots agree too."
        )
        if best.load is not None and slots.load is not None:
            yield (
                f"A decision takes about {about(best.load)} of load, with trials of {slots.seconds:g} s about "
                f"{about(slots.load)}. Effects that take minutes need long trials as well."
            )
        yield f"ramp: {best.slot.ramp}s\nruntime: {best.slot.length}s"
    elif not slots.tried:
        yield f"Trials of {slots.seconds:g} s are too short to compare a slot with their remainder."
    else:
        longest = slots.tried[-1]
        a = longest.worst
        more = f"; about {a.more:,} more blocks may show it" if a.more else ""
        yield clean(
            f"No slot agrees: in {_name(longest.slot.ramp, longest.slot.length)} {a.lane} at {a.cell.name} "
            f"{_why(a)}{more}."
        )
    if slots.autocorrelation is not None:
        yield (
            "Correlation of the ratio from one interval to the next: "
            f"{slots.autocorrelation:.2f}. The higher, the less a longer trial narrows an interval."
        )
    if slots.left_out:
        yield clean(
            f"Not judged, without a series or at a requested rate: {', '.join(c.name for c in slots.left_out)}."
        )


def _why(a: "Agreement") -> str:
    limit = _percent(a.limit)[1:]
    if a.word == "few-ios":
        return "has too few I/Os for its percentile"
    if a.bias is None:
        return "has fewer than two blocks with a series and I/O throughout"
    verb = "differs from the rest of its trials by" if a.word == "differs" else "does not provably agree:"
    return f"{verb} {_bias(a)}, and {limit} is allowed"
