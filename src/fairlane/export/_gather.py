"""Collect the content of an export from a run: tables and provenance. Pure, but for ``read``."""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlane import __version__
from fairlane.checks.base import run_all
from fairlane.export import _rows
from fairlane.export._rows import LAT
from fairlane.export._values import harmless, instant
from fairlane.export.base import VERSION, Content
from fairlane.guard.accept import accepting
from fairlane.records import Evidence, Finding, Verdict
from fairlane.report import prose
from fairlane.report.lanes import labels
from fairlane.report.phrases import count
from fairlane.runs import journal, plan
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge


def read(folder: Path, accepts: Mapping[str, str]) -> Content:
    """The content of the run in ``folder``, finished or not. Raises FairlaneError."""
    evidence = accepting(load_run(folder), accepts)
    findings = run_all(evidence)
    return gather(evidence, judge(evidence, findings), findings, journal.read(folder), plan.created(folder))


def gather(
    evidence: Evidence,
    verdicts: Sequence[Verdict],
    findings: Sequence[Finding],
    events: Sequence[journal.Event] = (),
    created: str = "",
) -> Content:
    """The content of an export. ``events``: the whole journal; ``created``: start of the run."""
    merged = _rows.merged(evidence)
    label = labels(evidence.study)
    tables = (
        _rows.verdicts(verdicts, label),
        _rows.findings(findings),
        _rows.trials(evidence, _trial_events(events), label),
        _rows.percentiles(evidence, merged, label),
        _rows.lanes(evidence),
        _rows.parameters(evidence),
    )
    lat = {place: of[LAT] for place, of in merged.items() if LAT in of}
    return Content(harmless(_provenance(evidence, events, created)), tables, lat)


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
