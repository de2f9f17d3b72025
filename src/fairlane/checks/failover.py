"""Faults under load: wrong data, I/O errors in the application, faults without effect."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck, at, number, text, trials
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_STILL = 0.05
"""A dead path carries less than this share of its load before; keep-alives of others may use its network."""


class _Odd(TrialCheck):
    """Single trials."""

    needs = frozenset({"fault"})

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        if at(trial.observation.context, "fault") is None:
            return
        errors = trial.context("data", "io_errors") or 0
        if errors:
            first = text(trial.observation.context, "data", "first_error")
            yield Oddity(
                "errors", "critical", errors,
                f"{errors:,.0f} I/Os failed with an error{f' ({first})' if first else ''}",
                "the application received errors that multipath should hide",
                {"io_errors": errors, "first_error": first},
            )  # fmt: skip
        if at(trial.observation.context, "fault", "recovered") is False:
            yield Oddity(
                "lasting", "critical", 1.0,
                "IOPS did not return to the share of the earlier IOPS that counts as recovered",
                "the lane survives the fault, but is slower after it, or needs longer than the trial to recover",
            )  # fmt: skip
        path = text(trial.observation.context, "fault", "kind"), number(trial.observation.context, "fault", "path")
        carried = (
            at(trial.observation.context, "fault", "carried", f"path{path[1]:.0f}") if path[1] is not None else None
        )
        before, during = number(carried, "before"), number(carried, "during")
        if before and during is not None and during > _STILL * before:
            yield Oddity(
                "uncut", "critical", during / before,
                f"the failed path ({path[0]} {path[1]:.0f}) still carried {during / before:.0%} of its earlier load",
                "the fault did not take effect, so no failover was measured",
                {"path": f"{path[0]} {path[1]:.0f}", "before": before, "during": during},
            )  # fmt: skip
        elif before is not None and before <= _STILL * _load(trial):
            yield Oddity(
                "idle", "critical", 1.0,
                f"the path that failed ({path[0]} {path[1]:.0f}) carried almost none of the load before the fault",
                "the fault had no effect. Let the active path fail, or use a policy that uses all paths",
                {"path": f"{path[0]} {path[1]:.0f}", "before": before},
            )  # fmt: skip


def _load(trial: Trial) -> float:
    """Bandwidth of the application before the fault, bytes per second."""
    return (trial.observation.metrics.get("iops_before") or 0.0) * (number(trial.cell.params, "bs") or 0.0)


class Failover(Check):
    """Critical, and refuses the lane: a wrong block. Critical: I/O errors, IOPS that do not come back, a fault that cut
    nothing by the counters of the path's interface."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        wrong: dict[str, dict[str, float]] = {}
        tried: dict[tuple[str, str], int] = {}
        for trial in trials(evidence):
            lane, cell = trial.observation.lane, trial.cell.key
            tried[lane, cell] = tried.get((lane, cell), 0) + 1
            if blocks := trial.context("data", "wrong_blocks"):
                by_cell = wrong.setdefault(lane, {})
                by_cell[cell] = by_cell.get(cell, 0) + blocks
        for lane, cells in wrong.items():
            faults = sum(tried[lane, cell] for cell in cells)
            total = sum(cells.values())
            yield self.finding(
                "wrong-blocks",
                "critical",
                f"{total:,.0f} wrong block{'s' * (total != 1)} in {faults} fault{'s' * (faults != 1)}: the path lost "
                "or damaged data that it had acknowledged, so its figures do not count",
                cells=list(cells),
                lanes=[lane],
                evidence=cells,
                refuses=True,
            )
        yield from self._odd.check(evidence)

    _odd = _Odd()


PLUGIN = Failover()
