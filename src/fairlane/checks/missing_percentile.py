"""Invalid percentiles: zero, missing, out of order, averaged, or from bins that were changed."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from fairlane.checks._trials import DIRECTIONS, Oddity, Trial, TrialCheck, at, text, trials
from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding
from fairlane.stats.histogram import BIN_ERROR, PERCENTILES, latency
from fairlane.stats.histogram import mean as average

_RISING = tuple(name for of_way in PERCENTILES.values() for name in sorted(of_way, key=of_way.__getitem__))
"""All percentiles of latency; of each direction p50 first."""
_AVERAGED = re.compile(r"\b(averag|mean of)", re.IGNORECASE)
_AT_ALL = 1e-6
"""Relative rounding of printed figures."""
_MEANS = 0.02
"""Largest distance of the bins' mean from the tool's own mean, beyond a bin's width on either side."""
_COUNTS = 0.001
"""Largest distance of the bins' I/O count from the tool's count, beyond the error of the rate."""


def _zero(values: Mapping[str, float]) -> Iterator[Oddity]:
    if nil := [name for name, value in values.items() if value == 0]:
        yield Oddity(
            "zero",
            "warning",
            len(nil),
            f"{_titles(nil)} {'is' if len(nil) == 1 else 'are'} 0",
            "a latency of 0 is impossible, so the tool reported no percentiles (fio reports those of lat only with "
            "lat_percentiles=1)",
            {"zero": nil},
        )


def _disorder(values: Mapping[str, float]) -> Iterator[Oddity]:
    for low, high in pairwise(name for name in _RISING if values.get(name)):
        if values[low] > values[high] * (1 + _AT_ALL) and METRICS[low].way == METRICS[high].way:
            yield Oddity(
                "order",
                "critical",
                values[low] / values[high],
                f"{_titled(low, values[low])} is above {_titled(high, values[high])}",
                "the two come from different I/Os, or have different units",
                dict(values),
            )
            return


def _wide(trial: Trial) -> float:
    """Largest distance of the bins' mean, as a share, with a bin's width on either side."""
    return _MEANS + 2 * max(BIN_ERROR, *(trial.observation.steps.get(name, 0.0) for name in _RISING))


def _bins(trial: Trial) -> Iterator[Oddity]:
    """Bins whose mean or number of I/Os is not the tool's own. A tool fills both from the same I/Os, so bins were lost,
    added or changed."""
    bins, mean = latency(trial.observation.histograms), trial.metric("lat_mean")
    if not bins or not mean:
        return
    own = average(bins)
    if abs(own - mean) > _MEANS * mean and abs(own - mean) > _wide(trial) * mean:
        yield Oddity(
            "bins",
            "critical",
            abs(math.log(own / mean)),
            f"mean latency is {METRICS['lat_mean'].format(own)} by the histogram, but "
            f"{METRICS['lat_mean'].format(mean)} by the tool",
            "the mean comes from other I/Os than the histogram and its percentiles",
            {"lat_mean": mean, "of_bins": own},
        )
    held, counted = bins.total, sum(trial.context("load", "ios", way) or 0.0 for way in (*DIRECTIONS, "trim"))
    if at(trial.observation.context, "fio") and counted:
        unsure = (trial.step("iops") + _COUNTS) * counted + 1
        if abs(held - counted) > unsure:
            yield Oddity(
                "counts",
                "critical",
                abs(held - counted) / counted,
                f"the latency histogram holds {held:,} I/Os, but fio counted {counted:,.0f}",
                "percentiles and rate come from different I/Os",
                {"in_bins": held, "counted": counted},
            )


def _averaged(trial: Trial) -> str:
    """Way of averaging percentiles; empty: not averaged, as far as is known."""
    value = at(trial.observation.context, "load", "percentiles_of")
    if isinstance(value, Mapping) and value.get("averaged"):
        return f"over {text(value, 'averaged') or 'something'}"
    if isinstance(value, str) and value.lower().startswith("averag"):
        return text({"of": value}, "of")
    definition = text(trial.known, "metric_definition")
    return definition if _AVERAGED.search(definition) else ""


class MissingPercentile(TrialCheck):
    """Zero, missing where other trials of the cell have it, not rising, averaged over directions or jobs; a histogram
    that contradicts the mean or the I/O count. A histogram with too few I/Os beyond a percentile is no flaw: the
    verdict states it."""

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        metrics = trial.observation.metrics
        values = {name: value for name in _RISING if name in metrics and (value := trial.metric(name)) is not None}
        yield from _zero(values)
        yield from _disorder(values)
        yield from _bins(trial)
        if values and (how := _averaged(trial)):
            yield Oddity(
                "averaged",
                "warning",
                1.0,
                f"percentiles are averaged ({how})",
                "an average of percentiles is not a percentile. For example, it gives 3.63 for a 90/10 mixture whose "
                "p99 is 4.88",
                {"percentiles_of": how},
            )

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        yield from super().check(evidence)
        having: dict[str, set[str]] = {}
        lacking: dict[str, dict[str, set[str]]] = {}
        without = [trial for trial in trials(evidence) if not latency(trial.observation.histograms)]
        cells = {trial.cell.key for trial in without}
        for trial in trials(evidence):
            if trial.cell.key in cells:
                having.setdefault(trial.cell.key, set()).update(name for name in _RISING if trial.metric(name))
        for trial in without:
            if gone := {name for name in having[trial.cell.key] if trial.metric(name) is None}:
                lacking.setdefault(trial.observation.lane, {}).setdefault(trial.cell.key, set()).update(gone)
        for lane, gone_in in lacking.items():
            names = sorted(set().union(*gone_in.values()), key=_RISING.index)
            yield self.finding(
                "missing",
                "warning",
                f"some trials lack {_titles(names)}, which others of the same cell have: these are not compared",
                cells=list(gone_in),
                lanes=[lane],
                evidence={key: {"missing": sorted(gone)} for key, gone in gone_in.items()},
            )


def _titles(names: Iterable[str]) -> str:
    return ", ".join(METRICS[name].title for name in names)


def _titled(name: str, value: float) -> str:
    return f"{METRICS[name].title} ({METRICS[name].format(value)})"


PLUGIN = MissingPercentile()
