"""Writes the reports beside a run: whole or not at all, the same bytes for the same run."""

import os
from collections.abc import Sequence
from pathlib import Path

from fairlane.records import Evidence, Finding, Verdict
from fairlane.report import html, markdown, model
from fairlane.report.parts import Around
from fairlane.report.pictures import pictures


def write_reports(
    evidence: Evidence,
    verdicts: Sequence[Verdict],
    findings: Sequence[Finding],
    folder: Path,
    around: Around | None = None,
) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.md`` into ``folder``, made if missing; returns their paths. Raises OSError."""
    report = model.build(evidence, verdicts, findings, around)
    drawn = pictures(report)
    pages = (
        (folder / "report.html", html.render(report, drawn)),
        (folder / "report.md", markdown.render(report, drawn)),
    )
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in pages:
        _write(path, content)
    return pages[0][0], pages[1][0]


def _write(path: Path, content: str) -> None:
    """Replace ``path`` at once: a reader sees the old file or the new one, never half of one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(content, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
