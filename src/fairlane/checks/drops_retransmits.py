"""Packets dropped or retransmitted: the network was measured, not the storage path.

A lost segment waits 200 ms at most before TCP sends it again (Linux's least time-out), so the losses of a lane have
cost at most that share of its time. What both lanes lose cancels; the difference may not.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fairlane.checks._trials import Trial, at, number, trials
from fairlane.checks.base import Check
from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding, Severity
from fairlane.stats.answers import margin_of

_COUNTERS = ("drops", "retransmits")
_TIMER = 0.2
"""Seconds that a lost segment may wait for TCP's timer: Linux's least retransmission time-out."""
_TROUBLE = 0.01
"""Share of lost segments from which on a connection is throttled whatever is behind it: TCP keeps sqrt(1.5/share) = 12
segments in flight then, 17 KiB (Mathis, Semke, Mahdavi and Ott, ACM CCR 27(3), 1997)."""
_INTO_TAIL = 0.1
"""Share of the I/Os beyond a percentile that may have waited for a segment without moving it by what matters."""
_HEADERS = 52
"""Bytes of a packet that are no payload: IPv4, TCP and its time stamps."""
_MTU = 1500


@dataclass
class Losses:
    """What a lane lost in a cell, over all its trials."""

    trials: int = 0
    """Those that lost something."""
    of: int = 0
    """All of them."""
    logs: float = 0.0
    """Sum of the logarithms of their primary figures; nan: one has none."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTERS, 0))
    lost: int = 0
    seconds: float = 0.0
    """Under load, of all trials."""
    segments: float = 0.0
    ios: float = 0.0
    held: float = 0.0
    """I/Os that may have waited for a lost segment: all that were in flight."""

    def add(self, trial: Trial) -> None:
        counts = {name: int(number(trial.observation.context, "net", name) or 0) for name in _COUNTERS}
        lost = max(counts.values())
        self.trials += lost > 0
        self.of += 1
        figure = trial.metric(trial.primary)
        self.logs += math.log(figure) if figure and figure > 0 else math.nan
        self.lost += lost
        for name, count in counts.items():
            self.counts[name] += count
        self.seconds += trial.seconds or 0.0
        payload = (trial.parameter("mtu") or _MTU) - _HEADERS
        self.segments += sum(trial.context("net", name) or 0.0 for name in ("tx_bytes", "rx_bytes")) / payload
        self.ios += sum(trial.all_jobs("ios", way) or 0.0 for way in ("read", "write"))
        self.held += lost * (trial.parameter("iodepth") or 1) * (trial.parameter("numjobs") or 1)

    @property
    def cost(self) -> float:
        """Largest share of the time that the losses may have cost."""
        return min(1.0, self.lost * _TIMER / self.seconds) if self.seconds else float(self.lost > 0)

    def apart(self, other: "Losses") -> float:
        """How far the two lanes' geometric means lie apart, on the log scale."""
        return abs(self.logs / self.of - other.logs / other.of)

    @property
    def steady(self) -> bool:
        """Whether most trials lost something: one burst is no rate."""
        return 2 * self.trials > self.of

    @property
    def share(self) -> float:
        """Share of lost segments; 0 if their number is unknown."""
        return self.lost / self.segments if self.segments else 0.0


class DropsRetransmits(Check):
    """Drops and retransmits per lane and cell. Critical where they may have moved the comparison by its margin (what
    one lane lost more than the other, at 200 ms a segment, as a share of its time) and the lanes do not differ by more
    than that; where they reach into the percentile that is compared; or from 1 % of all segments on, lost in most
    trials; else a warning."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        losses: dict[str, dict[str, Losses]] = {}
        primary: dict[str, str] = {}
        for trial in trials(evidence):
            if trial.spec.network and at(trial.observation.context, "fault") is None:
                # a fault takes a path away: lost packets are expected
                losses.setdefault(trial.cell.key, {}).setdefault(trial.observation.lane, Losses()).add(trial)
                primary[trial.cell.key] = trial.primary
        found: dict[tuple[str, Severity, str], dict[str, Losses]] = {}
        study = evidence.study
        for key, by_lane in losses.items():
            for lane, own in by_lane.items():
                partners = study.rivals if lane == study.baseline else [study.baseline]
                others = [by_lane[name] for name in partners if name in by_lane]
                if own.lost:
                    severity, why = _weigh(own, others, primary[key], margin_of(study, primary[key]))
                    found.setdefault((lane, severity, why), {})[key] = own
        yield from (self._finding(lane, severity, why, cells) for (lane, severity, why), cells in found.items())

    def _finding(self, lane: str, severity: Severity, why: str, cells: Mapping[str, Losses]) -> Finding:
        sums = {name: sum(own.counts[name] for own in cells.values()) for name in _COUNTERS}
        count = sum(own.trials for own in cells.values())
        details = ", ".join(f"{sums[n]} {n[:-1] if sums[n] == 1 else n}" for n in _COUNTERS if sums[n])
        worst = max(own.cost for own in cells.values())
        return self.finding(
            "packets-lost",
            severity,
            f"packets were lost ({details} in {count} {'trial' if count == 1 else 'trials'}, at most "
            f"{worst * 100:.2g} % of the time): {why}",
            cells=list(cells),
            lanes=[lane],
            evidence={key: {**own.counts, "trials": own.trials} for key, own in cells.items()},
        )


def _beyond(own: Losses, other: Losses, margin: float) -> bool:
    """Whether the two lanes differ by more than the margin, whatever the losses have cost."""
    excess = own.cost - other.cost
    return excess < 1 and own.apart(other) + math.log1p(-max(0.0, excess)) > math.log1p(margin)


def _weigh(own: Losses, others: Sequence[Losses], metric: str, margin: float) -> tuple[Severity, str]:
    """Severity and what the losses mean. ``others``: of the lanes with which this one is compared."""
    least = min((other.cost for other in others), default=0.0)
    if own.share >= _TROUBLE and own.steady:
        return "critical", f"{own.share * 100:.2g} % of all segments. Repair the network first"
    if own.cost - least >= margin and not all(_beyond(own, other, margin) for other in others):
        return "critical", "enough time to change the comparison. Repair the network first"
    tail = METRICS[metric].percentile
    if tail is not None and own.held >= _INTO_TAIL * (1 - tail) * own.ios:
        return "critical", f"enough I/Os waited for them to change {METRICS[metric].title}. Repair the network first"
    return "warning", "not enough to change the comparison, but lost packets lengthen the tail of latencies"


PLUGIN = DropsRetransmits()
