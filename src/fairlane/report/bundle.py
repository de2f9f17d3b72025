"""Write report.html and report.md of a run, atomically; the same run gives the same bytes."""

from collections.abc import Sequence
from pathlib import Path

from fairlane.records import Evidence, Finding, Verdict
from fairlane.report import html, markdown, model
from fairlane.report.parts import Around
from fairlane.report.pictures import pictures
from fairlane.report.redact import Redaction
from fairlane.runs.files import write_atomic


def write_reports(
    evidence: Evidence,
    verdicts: Sequence[Verdict],
    findings: Sequence[Finding],
    folder: Path,
    around: Around | None = None,
    *,
    redaction: Redaction | None = None,
) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.md`` into ``folder``, made if missing; returns their paths. Raises OSError.

    ``redaction``: replaces the names in them.
    """
    report = model.build(evidence, verdicts, findings, around, redaction)
    drawn = pictures(report)
    pages = (
        (folder / "report.html", html.render(report, drawn)),
        (folder / "report.md", markdown.render(report, drawn)),
    )
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in pages:
        write_atomic(path, content.encode())
    return pages[0][0], pages[1][0]
