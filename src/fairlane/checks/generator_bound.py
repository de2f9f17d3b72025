"""A load generator at its limit: the figures are its own, not those of the path."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from statistics import median

from fairlane.checks._trials import number
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_LIMIT = 95.0
"""Percent of one core per job; interrupts and other work take the rest even on an idle machine."""


class GeneratorBound(Check):
    """fio's own user and system time per job, the median over the trials of a cell and lane; one finding per lane.

    Under the virtual clock all parts of the path share the one core. fio above the limit then means that target and
    transport together had less than a twentieth of it.
    """

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        busy: dict[tuple[str, str], list[float]] = defaultdict(list)
        for trial in evidence.observations:
            user, system = (number(trial.context, "fio", key) for key in ("usr_cpu", "sys_cpu"))
            if not trial.failed and user is not None and system is not None:
                # fio gives percent of the run time; with several jobs our reader adds them up
                jobs = number(trial.context, "fio", "jobs") or number(trial.context, "load", "jobs") or 1.0
                busy[trial.lane, trial.cell].append((user + system) / jobs)
        why = (
            "of the model's only core: the rest of the path hardly affects these figures"
            if evidence.modelled
            else "of a core per job: the load generator was the limit, not the lane. Use more jobs (numjobs)"
        )
        # through the page cache the copy is the generator's own work, and what is asked
        cells = [cell for cell in evidence.cells() if cell.params.get("direct") is not False]
        for lane in evidence.study.lanes:
            shares = {cell.key: median(busy.get((lane, cell.key), [0.0])) for cell in cells}
            bound = {key: round(share, 1) for key, share in shares.items() if share > _LIMIT}
            if bound:
                yield self.finding(
                    "only-core" if evidence.modelled else "generator",
                    "warning",
                    f"fio itself used {_span(bound.values())} {why}",
                    cells=list(bound),
                    lanes=[lane],
                    evidence={"percent_of_a_core": bound, "limit": _LIMIT},
                )


def _span(shares: Collection[float]) -> str:
    low, high = f"{min(shares):.0f}", f"{max(shares):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


PLUGIN = GeneratorBound()
