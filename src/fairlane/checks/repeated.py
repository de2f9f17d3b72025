"""Imported trials that are not repetitions: copies of one trial, or parts of one measurement."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from fairlane.checks._trials import Trial, number, trials
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding
from fairlane.stats.histogram import latency

_ENOUGH, _BINS = 1000, 5
"""I/Os and bins from which on two trials cannot have equal histograms by chance."""
_DIGITS = 7
"""Significant digits from which on a second trial cannot repeat a figure: published tables have four, tools more."""
_UNSURE = 2.0
"""Seconds by which starts may be off: fio gives whole seconds."""


class Repeated(Check):
    """Blocks stand for the variation from trial to trial, so each must be a trial of its own.

    * Equal in every bin of latency, or without bins in all figures, one of them with seven digits or more: one trial
      under several names, whatever the names and dates of the files.
    * At the same time for more than half of the shorter one, in one lane and cell: the machines of a fleet, a file
      each. Their differences say how machines differ, not how a repetition would come out.

    Both refuse. Imports only: own runs are scheduled, and the virtual clock may well repeat every bin.
    """

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        for lanes in by_cell(evidence).values():
            for lane, own in lanes.items():
                for same in alike(own):
                    yield self.finding(
                        "same-trial",
                        "critical",
                        f"{named(same)} at {same[0].cell.name} are one and the same trial: {equal_in(same[0])}",
                        cells=[same[0].cell.key],
                        lanes=[lane],
                        evidence={"trials": [trial.observation.trial for trial in same], "equal": compared(same[0])},
                        refuses=True,
                    )
                yield from self._together(lane, own)

    def _together(self, lane: str, own: Sequence[Trial]) -> Iterator[Finding]:
        timed = sorted((times, n) for n, trial in enumerate(own) if (times := span(trial)))
        parts: set[int] = set()
        last: tuple[tuple[float, float], int] | None = None
        for here in timed:
            if last and overlap(last[0], here[0]):
                parts |= {last[1], here[1]}
            if last is None or here[0][1] >= last[0][1]:
                last = here
        if parts:
            group = [own[n] for n in sorted(parts)]
            yield self.finding(
                "same-time",
                "critical",
                f"{named(group)} at {own[0].cell.name} ran at the same time (from {_time(_began(group))}): they are "
                "parts of one measurement, not repetitions, and do not show how a repetition varies",
                cells=[own[0].cell.key],
                lanes=[lane],
                evidence={"trials": [trial.observation.trial for trial in group]},
                refuses=True,
            )


def by_cell(evidence: Evidence) -> dict[str, dict[str, list[Trial]]]:
    """Imported trials: key of the cell -> lane -> trials."""
    cells: dict[str, dict[str, list[Trial]]] = {}
    for trial in trials(evidence):
        if trial.cell.kind == "imported":
            cells.setdefault(trial.cell.key, {}).setdefault(trial.observation.lane, []).append(trial)
    return cells


def alike(candidates: Iterable[Trial]) -> list[list[Trial]]:
    """Groups, of two or more, of ``candidates`` that are one and the same trial."""
    groups: dict[str, list[Trial]] = {}
    for trial in candidates:
        if signature := _signature(trial):
            groups.setdefault(signature, []).append(trial)
    return [same for same in groups.values() if len(same) > 1]


def compared(trial: Trial) -> str:
    """What ``alike`` compares of the trial: ``bins`` or ``figures``."""
    return "bins" if latency(trial.observation.histograms) else "figures"


def equal_in(trial: Trial) -> str:
    """The reason why ``alike`` groups the trial, in words."""
    what = "latency bin" if compared(trial) == "bins" else "figure, to the last digit"
    return f"they are equal in every {what}"


def _signature(trial: Trial) -> str:
    """Equal for two trials only if they are one; empty: too little is known."""
    bins = latency(trial.observation.histograms)
    if bins:
        if bins.total < _ENOUGH or len(bins) < _BINS:
            return ""
        return bins.fingerprint()
    figures = sorted((name, value) for name in trial.observation.metrics if (value := trial.metric(name)) is not None)
    if any(len(f"{value:.15g}".replace(".", "").strip("0")) >= _DIGITS for _, value in figures):
        return repr(figures)
    return ""


def span(trial: Trial) -> tuple[float, float] | None:
    """Start and end, Unix time in seconds; None: not known, or shorter than the resolution of starts."""
    start, seconds = number(trial.observation.context, "started"), trial.seconds
    return (start, start + seconds) if start and seconds and seconds > _UNSURE else None


def overlap(first: tuple[float, float], second: tuple[float, float]) -> bool:
    common = min(first[1], second[1]) - max(first[0], second[0])
    return common > max(_UNSURE, min(first[1] - first[0], second[1] - second[0]) / 2)


def _began(group: Sequence[Trial]) -> float:
    return min(number(trial.observation.context, "started") or 0.0 for trial in group)


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
    except (OverflowError, ValueError, OSError):
        return f"second {seconds:.0f}"


def named(group: Sequence[Trial]) -> str:
    """``blocks 0, 1 and 2 of fast``, ``block 3 of fast and block 3 of base``."""
    lanes: dict[str, list[int]] = defaultdict(list)
    for trial in group:
        lanes[trial.observation.lane].append(trial.observation.block)
    return " and ".join(
        f"block{'s' if len(blocks) > 1 else ''} {_listed([str(b) for b in sorted(blocks)])} of {lane}"
        for lane, blocks in lanes.items()
    )


def _listed(words: Sequence[str]) -> str:
    if len(words) > 8:
        return f"{', '.join(words[:6])} and {len(words) - 6} more"
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


PLUGIN = Repeated()
