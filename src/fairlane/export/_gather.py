"""Collect tables and provenance of a run, for exports and notebooks. Pure, but for ``read``."""

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fairlane import __version__
from fairlane.export import _rows
from fairlane.export._rows import LAT
from fairlane.export._values import harmless, instant
from fairlane.export.base import VERSION, Content, Table
from fairlane.records import Evidence
from fairlane.report import prose
from fairlane.report.lanes import labels
from fairlane.report.phrases import count
from fairlane.runs import journal, plan
from fairlane.runs.judged import read_judged
from fairlane.verdicts.judged import Judged


@dataclass(frozen=True)
class Tables:
    """The tables of a run; one is made when it is asked for."""

    judged: Judged
    events: Sequence[journal.Event] = ()
    """The whole journal."""
    created: str = ""
    """Start of the run."""

    @property
    def evidence(self) -> Evidence:
        return self.judged.evidence

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """By name; the columns are ``PROVENANCE``."""
        facts: dict[str, Any] = harmless(_provenance(self.evidence, self.events, self.created))
        return facts

    @cached_property
    def merged(self) -> _rows.Merged:
        """All histograms, over all successful trials."""
        return _rows.merged(self.evidence)

    @cached_property
    def label(self) -> dict[str, str]:
        return labels(self.evidence.study)

    def table(self, name: str) -> Table:
        """The table ``name``, without provenance. Raises KeyError."""
        return _TABLES[name](self)


_TABLES: Mapping[str, Callable[[Tables], Table]] = {
    "verdicts": lambda run: _rows.verdicts(run.judged.verdicts, run.label),
    "findings": lambda run: _rows.findings(run.judged.findings),
    "trials": lambda run: _rows.trials(run.evidence, _trial_events(run.events), run.label),
    "percentiles": lambda run: _rows.percentiles(run.evidence, run.merged, run.label),
    "lanes": lambda run: _rows.lanes(run.evidence),
    "parameters": lambda run: _rows.parameters(run.evidence),
}
"""All tables, in their order."""


def read(folder: Path, accepts: Mapping[str, str]) -> Tables:
    """Those of the run in ``folder``, finished or not. Raises FairlaneError."""
    return Tables(read_judged(folder, accepts), journal.read(folder), plan.created(folder))


def gather(run: Tables) -> Content:
    """The content of an export."""
    lat = {place: of[LAT] for place, of in run.merged.items() if LAT in of}
    return Content(run.provenance, tuple(run.table(name) for name in _TABLES), lat)


def _trial_events(events: Sequence[journal.Event]) -> dict[tuple[Any, Any, Any], Mapping[str, Any]]:
    """(cell key, block, lane) -> journal line; the later one of a repeated trial, as ``load`` does."""
    return {(e.get("cell"), e.get("block"), e.get("lane")): e for e in events if e["type"] == "trial"}


def _provenance(evidence: Evidence, events: Sequence[journal.Event], created: str) -> dict[str, Any]:
    study = evidence.study
    sha256 = hashlib.sha256(evidence.study_text.encode(errors="surrogatepass")).hexdigest()
    invented = study.platform.invented
    flags = {"invented": invented, "modelled": evidence.modelled, "emulated": evidence.emulated}
    trials, planned = len(evidence.observations), sum(len(block.order) for block in evidence.blocks)
    caveats = [f"{banner.title}. {banner.text}" for banner in prose.banners(evidence)]
    if not evidence.complete:
        caveats.append(f"The run is not complete: {trials:,} of {count(planned, 'planned trial')} are in.")
    of_run = evidence.fingerprint.get("fairlane")
    return {
        "run": evidence.name,
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"fairlane:{sha256}:{evidence.seed}:{created}")),
        "figures": ", ".join(name for name, on in flags.items() if on) or "measured",
        "complete": evidence.complete,
        "study": study.name,
        "question": study.question,
        "baseline": study.baseline,
        "platform": study.platform.kind,
        "seed": evidence.seed,
        "study_sha256": sha256,
        "modelled": evidence.modelled,
        "emulated": evidence.emulated,
        "invented": invented,
        "quick": bool(study.quick),
        "trials": trials,
        "planned": planned,
        "failed_trials": sum(bool(observation.failed) for observation in evidence.observations),
        "alpha": study.design.alpha,
        "paired": study.design.paired,
        "created": instant(created),
        "ended": instant(events[-1].get("at")) if events else None,
        "fairlane": __version__,
        "fairlane_of_run": of_run if isinstance(of_run, str) else None,
        "export_version": VERSION,
        "caveats": tuple(caveats),
        "accepted": dict(study.design.accept),
        "fingerprint": evidence.fingerprint,
    }
