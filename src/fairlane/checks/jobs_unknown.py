"""Equal jobs in fio's logs, which do not state whether they ran together."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck, text
from fairlane.records import Evidence


class JobsUnknown(TrialCheck):
    """``load.equal_jobs``: clones and jobs that ``stonewall`` kept apart look the same in fio's logs. Each job is a
    cell by itself, none of them the load that the disk had."""

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        jobs, file = (
            trial.context("load", "equal_jobs", "of"),
            text(trial.observation.context, "load", "equal_jobs", "file"),
        )
        if not jobs or jobs < 2:
            return
        yield Oddity(
            "unknown",
            "critical",
            jobs,
            f"fio's logs do not state whether the {jobs:.0f} equal jobs of {file or 'a log'} ran together, so each is "
            "shown by itself",
            "import fio's JSON output, or state it in an import map: fio_log: {jobs: together} or {jobs: apart}",
            {"jobs": int(jobs), "file": file},
        )


PLUGIN = JobsUnknown()
