"""Study 003's own tables in three versions: its page's, with its author's later explanation, and as he corrected them.

The findings of the checks in each version show which facts a finding needed.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import get_args

from fairlane.compare.comparison import compare
from fairlane.compare.mapping import parse_mapping
from fairlane.importers._map import load_map
from fairlane.importers._run import import_files
from fairlane.records import Finding, Severity
from fairlane.runs.read import load_run
from fairlane_replication.claims import AsksComparable, AsksFigures, AsksFinding, AsksTable, Claim, Tables
from fairlane_replication.judge import Ran

STUDY = "003"
"""The study whose tables these are."""
VERSIONS: tuple[Tables, ...] = get_args(Tables)

_FILES: dict[Tables, dict[str, tuple[str, str]]] = {
    "first": {"vcf": ("vcf.csv", "vcf.yaml"), "roks": ("roks.csv", "roks.yaml")},
    "explained": {"vcf": ("vcf.csv", "vcf.yaml"), "roks": ("roks.csv", "roks-explained.yaml")},
    "corrected": {"vcf": ("vcf.csv", "vcf-corrected.yaml"), "roks": ("roks-corrected.csv", "roks-corrected.yaml")},
}
"""Version -> side -> its table and import map."""
_MAPPING: dict[Tables, str] = {"corrected": "mapping-corrected.yaml"}


@dataclass(frozen=True)
class Row:
    """What a check finds in each version of the tables."""

    check: str
    kind: str
    severity: Severity
    cells: dict[Tables, int]
    """Figures concerned (cell and lane), by version; 0: none."""


def tables_of(claim: Claim) -> Tables | None:
    """The version of the tables that decides ``claim``; None: something else does."""
    match claim.asks:
        case AsksTable() | AsksComparable():
            return "first"
        case AsksFinding(tables=version) | AsksFigures(tables=version):
            return version
    return None


@cache
def published(version: Tables) -> Ran:
    """One version of the tables, compared as its page does: ``fairlane compare`` on examples/study-003."""
    folder = resources.files("fairlane_replication") / "tables"
    with resources.as_file(folder) as tables, tempfile.TemporaryDirectory(prefix="fairlane-") as scratch:
        runs = {}
        for side, (figures, conditions) in _FILES[version].items():
            import_files([tables / figures], Path(scratch, side), load_map(str(tables / conditions)))
            runs[side] = load_run(Path(scratch, side))
        lanes = {side: tuple(run.study.lanes) for side, run in runs.items()}
        text = (tables / _MAPPING.get(version, "mapping.yaml")).read_text("utf-8")
        comparison = compare(runs, parse_mapping(text, f"study-{STUDY}", lanes), {})
    return Ran(comparison.evidence, comparison.verdicts, comparison.findings)


def overview() -> tuple[Row, ...]:
    """Critical findings and warnings of all versions, the most severe first."""
    rows = list(_rows())
    return tuple(sorted(rows, key=lambda row: (row.severity != "critical", row.check, row.kind)))


def _rows() -> Iterator[Row]:
    by_version = {version: _figures(published(version).findings) for version in VERSIONS}
    for key in dict.fromkeys(key for figures in by_version.values() for key in figures):
        check, kind, severity = key
        yield Row(check, kind, severity, {version: len(by_version[version].get(key, ())) for version in VERSIONS})


def _figures(findings: tuple[Finding, ...]) -> dict[tuple[str, str, Severity], set[tuple[str, str]]]:
    """(check, kind, severity) -> the figures that its findings are about: cell and lane."""
    figures: dict[tuple[str, str, Severity], set[tuple[str, str]]] = {}
    for f in findings:
        if f.severity != "info":
            of = {(cell, lane) for cell in f.cells or ("",) for lane in f.lanes or ("",)}
            figures.setdefault((f.check, f.kind, f.severity), set()).update(of)
    return figures
