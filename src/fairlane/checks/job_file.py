"""What of a fio job file is another load here: options that Fairlane sets itself, and files of single processes."""

from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class JobFile(Check):
    """The options of a workload's ``job_file`` that are not passed on to fio: devices, paths, seeds, times, output; and
    processes that share a file which fio would give them one by one."""

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
            if getattr(load, "one_file", False):
                yield self.finding(
                    "one-file",
                    "info",
                    f"the processes of the job file of {name} load one file or device; fio would give each a file of "
                    "its own, which is slower or faster where a file system locks files",
                    cells=cells,
                )


PLUGIN = JobFile()
