"""Comparisons that are refused, by cause: one card in place of one sentence for each lane and cell. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlane.guard.parameters import parameter
from fairlane.records import Evidence, Finding, Verdict
from fairlane.report.phrases import count
from fairlane.report.text import flatten


@dataclass(frozen=True)
class Cause:
    """Why comparisons are refused."""

    title: str
    """The parameter, or the sentence of a check."""
    comparisons: int
    """Primary comparisons (lane and cell) that it refuses."""
    details: tuple[str, ...]
    """What is known of it, each text once."""


@dataclass(frozen=True)
class Refusals:
    refused: int
    """Primary comparisons refused, of ``of``."""
    of: int
    causes: tuple[Cause, ...]
    """The one that refuses most comes first."""
    accept: str
    """Command that compares all the same; empty: nothing that a reason could accept."""

    @property
    def briefly(self) -> str:
        """``ramp (28), volume mode (16), copies (8) and 2 more``: the causes with their comparisons."""
        named = [f"{c.title} ({c.comparisons})" for c in self.causes[:3]]
        more = len(self.causes) - len(named)
        return ", ".join(named) + (f" and {more} more" if more else "")

    @property
    def sentence(self) -> str:
        """``12 of 16 comparisons are refused``."""
        return f"{self.refused} of {count(self.of, 'comparison')} {'is' if self.refused == 1 else 'are'} refused"


def refusals(
    evidence: Evidence, verdicts: Sequence[Verdict], findings: Sequence[Finding], again: Sequence[str]
) -> Refusals:
    """``again``: the command that judges once more; empty: ``fairlane report`` of the run."""
    primary = [v for v in verdicts if v.primary and not v.control]
    refused = [v for v in primary if v.verdict == "refused"]
    places: dict[str, set[tuple[str, str]]] = {}
    details: dict[str, dict[str, None]] = {}
    accepted: list[str] = []
    for finding in findings:
        if not finding.refuses:
            continue
        touched = {
            (v.lane, v.key)
            for v in refused
            if (not finding.cells or v.key in finding.cells)
            and (not finding.lanes or {v.lane, v.baseline} & set(finding.lanes))
        }
        for title, texts in _causes(finding):
            places.setdefault(title, set()).update(touched)
            details.setdefault(title, {}).update(dict.fromkeys(texts))
        if finding.check == "unmatched":
            accepted += [name for name in finding.evidence if name not in accepted]
    causes = [Cause(title, len(where), tuple(details[title])) for title, where in places.items() if where]
    command = " ".join(again) or f"fairlane report {shlex.quote(evidence.name)}"
    options = " ".join(f'--accept {name}="WHY IT DOES NOT MATTER"' for name in accepted)
    return Refusals(
        refused=len(refused),
        of=len(primary),
        causes=tuple(sorted(causes, key=lambda c: -c.comparisons)),
        accept=f"{command} {options}" if accepted and causes else "",
    )


def _causes(finding: Finding) -> list[tuple[str, list[str]]]:
    """(title, details): the guard's parameters one by one, of another check its sentence."""
    if finding.check != "unmatched":
        return [(finding.message, [])]
    found = []
    for name, texts in finding.evidence.items():
        values = texts.values() if isinstance(texts, Mapping) else flatten({name: texts}).values()
        found.append((parameter(name).title, list(dict.fromkeys(map(str, values)))))
    return found
