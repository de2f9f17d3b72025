"""Trials of an import that are no repetitions: one trial given several times, or parts of one measurement."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from fairlane.checks._trials import Trial, number, trials
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding
from fairlane.stats.histogram import Bins
from fairlane.stats.pairs import reading

_ENOUGH, _BINS = 1000, 5
"""I/Os, and bins that they lie in, of a histogram that no second trial repeats bin by bin."""
_DIGITS = 7
"""Significant digits of a figure that no second trial repeats: published tables have four, tools print more."""
_UNSURE = 2.0
"""Seconds by which starts may be off: fio tells whole ones."""


class Repeated(Check):
    """Blocks stand for what varies from one trial to the next, so each must be a trial of its own.

    * Equal in every bin of latency, or without bins in all figures, one of them with seven digits or more: one trial
      under several names, whatever the files are called and whenever they say that they were made.
    * At the same time for more than half of the shorter one, in one lane and cell: the machines of a fleet, a file
      each. Their differences say how machines differ, not how a repetition would come out.

    Both refuse. Lanes that were under load at the same time are a warning: each was measured with the other beside it.
    Imports only: own runs are scheduled, and the virtual clock may well repeat every bin.
    """

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        cells: dict[str, list[Trial]] = defaultdict(list)
        for trial in trials(evidence):
            if trial.cell.kind == "imported":
                cells[trial.cell.key].append(trial)
        for found in cells.values():
            lanes: dict[str, list[Trial]] = defaultdict(list)
            for trial in found:
                lanes[trial.seen.lane].append(trial)
            yield from self._same(found)
            for lane, own in lanes.items():
                yield from self._together(lane, own)
        yield from self._beside(evidence, cells)

    def _same(self, found: Sequence[Trial]) -> Iterator[Finding]:
        alike: dict[str, list[Trial]] = defaultdict(list)
        for trial in found:
            if signature := _signature(trial):
                alike[signature].append(trial)
        for same in alike.values():
            if len(same) > 1:
                lanes = list(dict.fromkeys(trial.seen.lane for trial in same))
                what = "latency bin" if reading(same[0].seen).latency else "figure, to the last digit"
                yield self.finding(
                    "critical",
                    f"{_named(same)} at {same[0].cell.name} are one and the same trial: they are equal in every {what}",
                    cells=[same[0].cell.key],
                    lanes=lanes,
                    evidence={"trials": [trial.seen.trial for trial in same]},
                    refuses=True,
                )

    def _together(self, lane: str, own: Sequence[Trial]) -> Iterator[Finding]:
        timed = sorted((span, n) for n, trial in enumerate(own) if (span := _span(trial)))
        parts: set[int] = set()
        last: tuple[tuple[float, float], int] | None = None
        for here in timed:
            if last and _overlap(last[0], here[0]):
                parts |= {last[1], here[1]}
            if last is None or here[0][1] >= last[0][1]:
                last = here
        if parts:
            some = [own[n] for n in sorted(parts)]
            yield self.finding(
                "critical",
                f"{_named(some)} at {own[0].cell.name} ran at the same time (from {_time(_began(some))}): they are "
                "parts of one measurement, and how they differ does not say how a repetition would",
                cells=[own[0].cell.key],
                lanes=[lane],
                evidence={"trials": [trial.seen.trial for trial in some]},
                refuses=True,
            )

    def _beside(self, evidence: Evidence, cells: dict[str, list[Trial]]) -> Iterator[Finding]:
        spans = sorted(
            (span, trial.seen.lane, trial.cell.key) for own in cells.values() for trial in own if (span := _span(trial))
        )
        pairs: dict[tuple[str, str], set[str]] = defaultdict(set)
        last: dict[str, tuple[tuple[float, float], str]] = {}
        for span, lane, cell in spans:
            for other, (earlier, its_cell) in last.items():
                if other != lane and _overlap(earlier, span):
                    pairs[min(lane, other), max(lane, other)] |= {cell, its_cell}
            if lane not in last or span[1] >= last[lane][0][1]:
                last[lane] = (span, cell)
        for (one, two), keys in pairs.items():
            yield self.finding(
                "warning",
                f"{one} and {two} were under load at the same time: each was measured with the other beside it, and "
                "whatever they share was shared",
                cells=[cell.key for cell in evidence.cells() if cell.key in keys],
                lanes=[one, two],
            )


def _signature(trial: Trial) -> str:
    """Equal for two trials only if they are one; empty: too little is known to say so."""
    bins = Bins.of(reading(trial.seen).latency)
    if bins:
        if bins.total < _ENOUGH or len(bins) < _BINS:
            return ""
        return hashlib.sha256(bins.ns.tobytes() + bins.counts.tobytes()).hexdigest()
    figures = sorted((name, value) for name in trial.seen.metrics if (value := trial.metric(name)) is not None)
    if any(len(f"{value:.15g}".replace(".", "").strip("0")) >= _DIGITS for _, value in figures):
        return repr(figures)
    return ""


def _span(trial: Trial) -> tuple[float, float] | None:
    """Start and end, Unix time in seconds; None: not known, or too short to be told from the one before."""
    start, seconds = number(trial.seen.context, "started"), trial.seconds
    return (start, start + seconds) if start and seconds and seconds > _UNSURE else None


def _overlap(one: tuple[float, float], two: tuple[float, float]) -> bool:
    common = min(one[1], two[1]) - max(one[0], two[0])
    return common > max(_UNSURE, min(one[1] - one[0], two[1] - two[0]) / 2)


def _began(some: Sequence[Trial]) -> float:
    return min(number(trial.seen.context, "started") or 0.0 for trial in some)


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
    except (OverflowError, ValueError, OSError):
        return f"second {seconds:.0f}"


def _named(some: Sequence[Trial]) -> str:
    """``blocks 0, 1 and 2 of fast``, ``block 3 of fast and block 3 of base``."""
    lanes: dict[str, list[int]] = defaultdict(list)
    for trial in some:
        lanes[trial.seen.lane].append(trial.seen.block)
    return " and ".join(
        f"block{'s' if len(blocks) > 1 else ''} {_listed([str(b) for b in sorted(blocks)])} of {lane}"
        for lane, blocks in lanes.items()
    )


def _listed(words: Sequence[str]) -> str:
    if len(words) > 8:
        return f"{', '.join(words[:6])} and {len(words) - 6} more"
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


PLUGIN = Repeated()
