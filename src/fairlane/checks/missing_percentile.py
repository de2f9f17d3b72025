"""Percentiles that are no percentiles: zero, missing, out of order, or averaged."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from fairlane.checks._trials import Oddity, Trial, TrialCheck, at, text, trials
from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding
from fairlane.stats.histogram import BIN_ERROR, Bins
from fairlane.stats.pairs import reading

_RISING = sorted((m.percentile, name) for name, m in METRICS.items() if m.percentile and name.startswith("lat_"))
"""(quantile, metric): p50 first."""
_AVERAGED = re.compile(r"\b(averag|mean of)", re.IGNORECASE)
_AT_ALL = 1e-6
"""Rounding of printed figures, relative."""


def _zero(values: Mapping[str, float]) -> Iterator[Oddity]:
    if nil := [name for name, value in values.items() if value == 0]:
        yield Oddity(
            "zero",
            "warning",
            len(nil),
            f"{_titles(nil)} {'is' if len(nil) == 1 else 'are'} 0",
            "nothing takes no time, so it was read from where nothing was (fio gives no percentiles of lat without "
            "lat_percentiles=1)",
            {"zero": nil},
        )


def _disorder(values: Mapping[str, float]) -> Iterator[Oddity]:
    for low, high in pairwise(name for name, value in values.items() if value > 0):
        if values[low] > values[high] * (1 + _AT_ALL):
            yield Oddity(
                "order",
                "critical",
                values[low] / values[high],
                f"{_told(low, values[low])} is above {_told(high, values[high])}",
                "they are not of the same I/Os, or of different units",
                dict(values),
            )
            return


def _mean(trial: Trial) -> Iterator[Oddity]:
    bins, mean = Bins.of(reading(trial.seen).latency), trial.metric("lat_mean")
    if not bins or not mean:
        return
    most, least = max(bins) * (1 + 2 * BIN_ERROR) + 1, min(bins) * (1 - 2 * BIN_ERROR) - 1
    if not least <= mean <= most:
        end = max(bins) if mean > most else min(bins)
        yield Oddity(
            "mean",
            "critical",
            max(mean / most, least / mean),
            f"{_told('lat_mean', mean)} lies outside of all latencies, whose {'largest' if mean > most else 'least'} "
            f"is {METRICS['lat_mean'].format(end)},",
            "mean and histogram are not of the same I/Os",
            {"lat_mean": mean, "largest": max(bins), "least": min(bins)},
        )


def _averaged(trial: Trial) -> str:
    """How percentiles were averaged; empty: they were not, as far as is known."""
    told = at(trial.seen.context, "load", "percentiles_of")
    if isinstance(told, Mapping) and told.get("averaged"):
        return f"over {text(told, 'averaged') or 'something'}"
    if isinstance(told, str) and told.lower().startswith("averag"):
        return text({"of": told}, "of")
    definition = text(trial.known, "metric_definition")
    return definition if _AVERAGED.search(definition) else ""


class MissingPercentile(TrialCheck):
    """Zero, missing where other trials of the cell have it, not rising, a mean beyond all latencies, averaged over
    directions or jobs. A histogram with too few I/Os beyond a percentile is no flaw: the verdict says so."""

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        values = {name: value for _, name in _RISING if (value := trial.metric(name)) is not None}
        yield from _zero(values)
        yield from _disorder(values)
        yield from _mean(trial)
        if values and (how := _averaged(trial)):
            yield Oddity(
                "averaged",
                "warning",
                1.0,
                f"percentiles are averaged ({how})",
                "the average of percentiles is no percentile of anything: of a 90/10 mixture whose p99 is 4.88 it "
                "makes 3.63 (STATISTICS)",
                {"percentiles_of": how},
            )

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        yield from super().check(evidence)
        having: dict[str, set[str]] = {}
        lacking: dict[str, dict[str, set[str]]] = {}
        for trial in trials(evidence):
            having.setdefault(trial.cell.key, set()).update(name for _, name in _RISING if trial.metric(name))
        for trial in trials(evidence):
            if reading(trial.seen).latency:
                continue
            if gone := {name for name in having[trial.cell.key] if trial.metric(name) is None}:
                lacking.setdefault(trial.seen.lane, {}).setdefault(trial.cell.key, set()).update(gone)
        for lane, cells in lacking.items():
            names = sorted(set().union(*cells.values()), key=[name for _, name in _RISING].index)
            yield self.finding(
                "warning",
                f"{_titles(names)} {'is' if len(names) == 1 else 'are'} missing where other trials of the same cell "
                "have it: there is nothing to compare it with",
                cells=list(cells),
                lanes=[lane],
                evidence={key: {"missing": sorted(gone)} for key, gone in cells.items()},
            )


def _titles(names: Iterable[str]) -> str:
    return ", ".join(METRICS[name].title for name in names)


def _told(name: str, value: float) -> str:
    return f"{METRICS[name].title} ({METRICS[name].format(value)})"


PLUGIN = MissingPercentile()
