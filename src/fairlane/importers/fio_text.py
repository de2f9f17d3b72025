"""fio's normal output, as a terminal shows it: every job of a file, those of one load merged as in fio's json.

Layout: ``show_thread_status_normal`` of ``stat.c``, fio 2.0 to 3.x. ``formats.fio_text`` reads it as the records that
json has, and the rules of ``fio_json`` hold: what ran together, and which percentiles are those of ``lat``.

* Known of the options is what the line of the job shows: pattern, block size, engine and depth. Whether the page cache
  was bypassed (``direct``), sizes and times asked for are not known, and no default is taken for them.
* Percentiles are fio's printed ones, in whole units of the printed kind, and of a single job and direction only:
  without bins those of several jobs do not merge.
* The text has no count of bytes: it is I/Os times the block size, or where there is no one size the printed, rounded
  one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fairlane.formats.fio_documents import normal, report_in
from fairlane.formats.fio_jobs import Job
from fairlane.formats.fio_json import Report
from fairlane.formats.fio_options import named
from fairlane.formats.fio_text import TextReport, reports
from fairlane.importers.fio_json import PARAMETERS_OF, FioJson, FioJsonOptions
from fairlane.records import Figures

_ROUNDED = 0.005
"""Half of the last of three digits: the least that fio prints of a size."""


class FioText(FioJson):
    title = "fio's normal (text) output, 2.0 to 3.x"
    source = "fio's HOWTO (Interpreting the output), and stat.c"

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        return normal(head)

    def parsed(self, data: bytes) -> Sequence[Report]:
        # --output-format=normal,json: a json so far down that the first bytes do not show it
        return super().parsed(data) if report_in(data) else reports(data, "fio's output")

    def params(self, job: Job, every: Sequence[Job]) -> dict[str, Any]:
        printed = {PARAMETERS_OF.get(name, name) for name in named(job.options or {})}
        return {name: value for name, value in super().params(job, every).items() if name in printed}

    def counts(self, report: Report, jobs: Sequence[Job]) -> dict[str, Any]:
        counts = super().counts(report, jobs)
        machines = report.machines if isinstance(report, TextReport) else 1
        if machines > 1:
            total = counts.pop("numjobs")
            counts |= {"fleet": machines} | ({} if total % machines else {"numjobs": total // machines})
        return counts

    def noted(self, figures: Figures, report: Report, jobs: Sequence[Job]) -> Figures:
        """``figures`` with the resolution of what was printed."""
        noted = super().noted(figures, report, jobs)
        sides = [side for job in jobs for side in job.sides.values()]
        context = dict(noted.context)
        known = {key: value for key, value in context["conditions"].items() if value}
        if isinstance(report, TextReport) and report.day is not None:
            known["date"] = report.day
        context["conditions"] = known
        context["fio"] = {**context["fio"], "printed": "figures as fio printed them: percentiles in whole units"}
        steps = dict(noted.steps)
        if any(side.size % side.ios for side in sides):
            steps |= {name: max(steps[name], _ROUNDED) for name in ("bw", "bw_read", "bw_write") if name in steps}
        return replace(noted, context=context, steps=steps)


PLUGIN = FioText(FioJsonOptions())
