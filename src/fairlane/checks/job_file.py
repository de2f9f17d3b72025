"""Options of a fio job file that Fairlane sets itself, and that were left out."""

from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class JobFile(Check):
    """The options of a workload's ``job_file`` that are not passed on to fio: devices, paths, seeds, times, output."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        for name, load in evidence.study.workloads.items():
            dropped = getattr(load, "left_out", ())
            cells = [cell.key for cell in evidence.cells() if cell.workload == name]
            if dropped:
                yield self.finding(
                    "left-out",
                    "info",
                    f"the job file of {name} sets {', '.join(dropped)}: these options are ignored, because "
                    "Fairlane sets them itself, for all lanes alike",
                    cells=cells,
                    evidence={"options": list(dropped)},
                )


PLUGIN = JobFile()
