"""Long trials that contradict the short trials of the same cell: something changes within minutes."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from fairlane.checks.base import Check
from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence, Finding
from fairlane.stats.effects import Effect
from fairlane.stats.pairs import Shelf, pair, shelve


@dataclass(frozen=True)
class _Held:
    """One lane against the baseline in a cell, in short trials and in long ones."""

    cell: Cell
    """That of the short trials."""
    metric: str
    short: float
    """Mean log-ratio of all short trials."""
    change: Effect
    """Long minus short, by block."""


class Slots(Check):
    """Workloads with ``check_of``: the primary's log-ratio in each long block minus the mean of the short blocks of the
    same provisioning, as a t interval at 95 %, shared among all of them. Critical beyond the margin."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        study = evidence.study
        if not any(workload.check_of for workload in study.workloads.values()):
            return
        shelves = shelve(evidence.observations, {workload.primary for workload in study.workloads.values()})
        held = {lane: list(_held(evidence, shelves, lane)) for lane in study.rivals}
        level = study.design.alpha / max(1, sum(map(len, held.values())))
        for lane, cases in held.items():
            other, unclear = [], []
            for case in cases:
                edge = math.log1p(study.design.margins.get(case.metric, METRICS[case.metric].margin))
                half = case.change.half_width(level)
                if abs(case.change.mean) - half > edge:
                    other.append(case)
                elif abs(case.change.mean) + half > edge:
                    unclear.append(case)
            yield from self._finding("contradicted", lane, other, level, study.baseline)
            yield from self._finding("unclear", lane, unclear, level, study.baseline)

    def _finding(self, kind: str, lane: str, cases: list[_Held], level: float, baseline: str) -> Iterator[Finding]:
        if not cases:
            return
        worst = max(cases, key=lambda case: abs(case.change.mean))
        half = worst.change.half_width(level)
        short, long, low, high = (
            f"{math.expm1(log):+.1%}"
            for log in (
                worst.short,
                worst.short + worst.change.mean,
                worst.change.mean - half,
                worst.change.mean + half,
            )
        )
        what = (
            f"{METRICS[worst.metric].title} of {lane} against {baseline} at {worst.cell.name} is {long} in long trials "
            f"and {short} in short ones"
        )
        if kind == "contradicted":
            message = (
                f"{what} (long against short {low} to {high}): something changes within minutes, so short trials are "
                "not representative"
            )
        else:
            message = f"{what}: {worst.change.n} long blocks do not show that both agree within the margin"
        yield self.finding(
            kind,
            "critical" if kind == "contradicted" else "info",
            message,
            cells=[case.cell.key for case in cases],
            lanes=[lane],
            evidence={
                case.cell.key: {
                    "short": math.expm1(case.short),
                    "long": math.expm1(case.short + case.change.mean),
                    "change": math.expm1(case.change.mean),
                    "low": math.expm1(case.change.mean - case.change.half_width(level)),
                    "high": math.expm1(case.change.mean + case.change.half_width(level)),
                    "blocks": case.change.n,
                }
                for case in cases
            },
        )


def _held(evidence: Evidence, shelves: Mapping[str, Shelf], lane: str) -> Iterator[_Held]:
    study = evidence.study
    short = {(cell.workload, cell.name): cell for cell in study.judged}
    for cell in evidence.cells():
        checked = short.get((study.workloads[cell.workload].check_of, cell.name))
        if checked is None or lane not in study.lanes_of(cell):
            continue
        metric = study.workloads[cell.workload].primary
        long, brief = (_logs(shelves.get(c.key, {}), lane, study.baseline, metric) for c in (cell, checked))
        by_place: dict[int, list[float]] = {}
        for block, log in brief.items():
            by_place.setdefault(study.design.provisioning_of(block), []).append(log)
        means = {place: fmean(logs) for place, logs in by_place.items()}
        places = {block: study.design.provisioning_of(block) for block in long}
        changes = tuple(log - means[places[block]] for block, log in long.items() if places[block] in means)
        if len(changes) >= 2:
            yield _Held(checked, metric, fmean(brief.values()), Effect(changes))


def _logs(shelf: Shelf, lane: str, baseline: str, metric: str) -> dict[int, float]:
    """Block -> log-ratio."""
    data = pair(shelf, lane, baseline, metric)
    return {row.block: log for row, log in zip(data.rows, data.effect.logs, strict=True)} if data.rows else {}


PLUGIN = Slots()
