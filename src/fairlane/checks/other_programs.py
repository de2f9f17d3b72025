"""Other programs that used a machine's CPUs during the trials, by name."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from fairlane.checks._trials import grouped, programs
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_LEAST = 0.1
"""Share of a machine's CPUs: twice the margin for throughput."""
_ALIKE = 0.5
"""Least share of a program's CPU time with one lane in that with another for it to run beside both."""


class OtherPrograms(Check):
    """``programs`` of machines that have other work: the median CPU time of each program over the trials of a lane and
    cell. What runs beside every lane disturbs all, and widens intervals; what runs beside one lane alone serves its
    path, or disturbs one side."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        cells = {cell.key: cell.name for cell in evidence.cells()}
        used: dict[str, dict[str, dict[str, float]]] = {}
        """Cell -> program -> lane -> CPUs."""
        cpus: dict[str, float] = {}
        for (lane, cell), trials in grouped(evidence).items():
            known = [by_name for trial in trials if (by_name := programs(trial)) is not None]
            counts = [count for trial in trials if (count := trial.context("machine", "cpus"))]
            if known and counts:
                cpus[cell] = max(*counts, cpus.get(cell, 0.0))
                medians = used.setdefault(cell, {})
                for name in {*medians, *(name for by_name in known for name in by_name)}:
                    medians.setdefault(name, {})[lane] = median(by_name.get(name, 0.0) for by_name in known)
        for name in sorted({name for by_name in used.values() for name in by_name}):
            most = {cell: max(used[cell].get(name, {"": 0.0}).values()) / cpus[cell] for cell in used}
            worst = max(most, key=lambda cell: most[cell])
            if most[worst] >= _LEAST:
                lanes = [lane for lane in evidence.study.lanes if (lane, worst) in grouped(evidence)]
                by_lane = {lane: used[worst][name].get(lane, 0.0) for lane in lanes}
                yield self._finding(name, cells[worst], by_lane, cpus[worst])

    def _finding(self, name: str, cell: str, used: Mapping[str, float], cpus: float) -> Finding:
        most = max(used.values())
        beside = [lane for lane, value in used.items() if value >= _ALIKE * most]
        others = [lane for lane in used if lane not in beside]
        if others:
            why = (
                f"if it serves {_names(beside)}, its CPU time belongs to that path, and cpu_per_io has only a part of "
                f"it; if not, it slowed down {_names(beside)} and not {_names(others)}"
            )
        else:
            why = "it took CPU time from every lane, so intervals are wider. Stop it, or measure while it is idle"
        return self.finding(
            "one-sided" if others else "everywhere",
            "warning",
            f"{name}, which is not part of the run, used {most:.2f} of {cpus:.0f} CPU{'s' * (cpus > 1)} during the "
            f"trials at {cell} ({', '.join(f'{lane}: {value:.2f}' for lane, value in used.items())}): {why}",
            lanes=beside if others else [],
            evidence={"program": name, "cpus": cpus, "used": dict(used)},
        )


def _names(lanes: Sequence[str]) -> str:
    return " and ".join(lanes)


PLUGIN = OtherPrograms()
