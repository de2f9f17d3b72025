"""Real runs of the fake platform, through the command line, and what is known of them without the export."""

from dataclasses import dataclass
from pathlib import Path

from fairlane import registry
from fairlane.export import _gather
from fairlane.export.base import Content
from fairlane.records import Evidence, Finding, Verdict

# Labels that a spreadsheet, a page, a terminal or a parser would take for something else; failed trials; a refusal.
STUDY = r"""
name: hostile
question: "=cmd|' /C calc'!A0 \u202e</script>"
platform:
  kind: fake
  effects: {fast: {speed: 1.3}, shaky: {speed: 1.05}}
  noise: {sd: 4%}
  failures: 2%
lanes:
  base: {transport: iscsi, label: "=cmd|' /C calc'!A0"}
  fast: {transport: nvme_tcp, label: "</script><b>\e[31mred\u202e \"quoted\" 'a'"}
  shaky: {transport: iscsi, label: " \"@SUM(1)\n=1+1;-2"}
  again: {transport: iscsi, copy_of: base, label: again}
  other: {transport: nvme_tcp, label: "\uFFFE\uFFFF,ok\\ =1", conditions: {copies: 3}}
baseline: base
workloads:
  main: {kind: fio, rw: [randread, randrw], bs: [4k], iodepth: [1, 16], runtime: 1s}
design: {seed: 5, looks: [8]}
"""
LABELS = {
    "base": "=cmd|' /C calc'!A0",
    "fast": "</script><b>\\x1b[31mred\\u202e \"quoted\" 'a'",
    "shaky": ' "@SUM(1)\n=1+1;-2',
    "again": "again",
    "other": "\ufffe\uffff,ok\\ =1",
}
"""As the report has them: what is invisible or turns the text around is written out."""


@dataclass(frozen=True)
class Known:
    """A run, and what the report's own way makes of it."""

    folder: Path
    evidence: Evidence
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]
    content: Content

    def files(self, name: str) -> dict[str, bytes]:
        """What the format ``name`` writes."""
        found: dict[str, bytes] = registry.load("export", name).files(self.content)
        return found


def known(folder: Path) -> Known:
    tables = _gather.read(folder, {})
    evidence, verdicts, findings = tables.judged
    return Known(folder, evidence, findings, verdicts, _gather.gather(tables))
