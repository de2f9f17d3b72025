"""A trial whose rate moved or varied too much."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import sqrt
from statistics import fmean
from typing import Any

from fairlane.checks._trials import DIRECTIONS, Oddity, Trial, TrialCheck, at, number
from fairlane.records import Evidence

_RATES = {"iops": "IOPS", "tps": "transactions/s"}
_ROUNDS = 5
_RANGE, _SLOPE = 0.20, 0.10
"""SNIA's Solid State Storage Performance Test Specification, steady state: over five rounds the range is at most 20 %
of their mean, and the line fitted through them moves by at most 10 %."""
_SAMPLES = 2 * _ROUNDS
"""Fewest samples for rounds."""
_SIGMAS = 4.0
_SCATTER = 0.25
"""Standard deviation of samples / mean. A rate that alternates between two values 40 % apart has 0.2."""


class Unsteady(TrialCheck):
    """``load.series`` as five rounds, judged by SNIA's rule, where they exceed the scatter of single samples. Without a
    series, the tool's own standard deviation (``load.samples``). In at least half of a cell's trials."""

    quorum = 0.5

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        if at(trial.observation.context, "fault") is not None:
            return  # the trial takes a path away: it cannot be steady
        for key, unit in _RATES.items():
            values = _values(at(trial.observation.context, "load", "series", key))
            if len(values) >= _SAMPLES:
                yield from _rounds(values, unit)
                return
        for way in DIRECTIONS:
            count, mean, sd = (trial.context("load", "samples", way, key) for key in ("count", "mean", "stddev"))
            if count and mean and sd and count >= _SAMPLES and sd / mean > _SCATTER:
                yield Oddity(
                    "scatter",
                    "warning",
                    sd / mean,
                    f"the rate of {way}s varied by {sd / mean:.0%} (standard deviation of {count:.0f} samples)",
                    "the mean of such a trial is not representative",
                    {"direction": way, "samples": int(count), "mean": mean, "stddev": sd},
                )
                return


def _values(series: Any) -> list[float]:
    """The samples; empty if one of them is no number."""
    if not isinstance(series, Sequence) or isinstance(series, str | bytes):
        return []
    values = [number({"v": v}, "v") for v in series]
    return [v for v in values if v is not None] if None not in values else []


def _rounds(values: Sequence[float], unit: str) -> Iterable[Oddity]:
    cuts = [len(values) * i // _ROUNDS for i in range(_ROUNDS + 1)]
    parts = [values[a:b] for a, b in pairwise(cuts)]
    rounds = [fmean(part) for part in parts]
    mean = fmean(rounds)
    if not mean:
        return
    spread = (max(rounds) - min(rounds)) / mean
    # least squares over x = -2 .. 2; the line's excursion over the window is its slope times four steps
    slope = sum(x * r for x, r in zip(range(-2, 3), rounds, strict=True)) / 10 * 4 / mean
    inner = sqrt(fmean((v - r) ** 2 for part, r in zip(parts, rounds, strict=True) for v in part))
    noise = _SIGMAS * inner / sqrt(len(values) / _ROUNDS) / mean
    third = len(values) // 3
    first, last = fmean(values[:third]), fmean(values[-third:])
    proof = {"rounds": [round(r, 1) for r in rounds], "range": spread, "slope": slope, "first": first, "last": last}
    if abs(slope) > _SLOPE and abs(slope) > noise:
        change = f"changed by {last / first - 1:+.0%}" if first else "rose from 0"
        yield Oddity(
            "slope",
            "warning",
            abs(slope),
            f"{unit} {change} from the first to the last third of the trial",
            "the rate had not settled. Use a longer ramp-up, or a steady-state gate (steady:)",
            proof,
        )
    elif spread > _RANGE and spread > noise:
        yield Oddity(
            "range",
            "warning",
            spread,
            f"the means of five equal parts of the trial range from {min(rounds):,.0f} to {max(rounds):,.0f} {unit}",
            "the lane was not in one steady state",
            proof,
        )


PLUGIN = Unsteady()
