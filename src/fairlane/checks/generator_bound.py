"""The load generator at its limit: then it is what was measured."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_LIMIT = 95.0
"""Percent of one core per job; what is left is lost to interrupts and other work even on an idle machine."""


class GeneratorBound(Check):
    """fio's own user and system time per job, the median over the trials of a cell and lane.

    Under the virtual clock all parts of the path share the one core. fio above the limit then means that target and
    transport together had less than a twentieth of it.
    """

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        busy: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for trial in evidence.observations:
            fio = trial.context.get("fio", {})
            if not trial.failed and "usr_cpu" in fio and "sys_cpu" in fio:
                # fio gives percent of the run time; with several jobs our reader adds them up
                busy[trial.cell][trial.lane].append((fio["usr_cpu"] + fio["sys_cpu"]) / max(1, fio.get("jobs", 1)))
        names = {cell.key: cell.name for cell in evidence.cells()}
        why = (
            "of the model's only core: the rest of the path hardly counts in these figures"
            if evidence.modelled
            else "of a core per job: more jobs would give more, so this is a limit of the generator, not of the lane"
        )
        for key, lanes in busy.items():
            bound = {lane: round(median(values), 1) for lane, values in lanes.items() if median(values) > _LIMIT}
            if bound:
                told = ", ".join(f"{share:.0f} % on {lane}" for lane, share in bound.items())
                yield self.finding(
                    "warning",
                    f"{names.get(key, key)}: fio itself used {told} {why}",
                    cells=[key],
                    lanes=list(bound),
                    evidence={"percent_of_a_core": bound, "limit": _LIMIT},
                )


PLUGIN = GeneratorBound()
