"""Programs whose version changed within a run."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_DECISIVE = ("qemu", "kernel", "fio", "fairlane")


class MixedVersions(Check):
    """Fingerprints of the start and of every resume, and fio's version in every trial. Critical for qemu, kernel, fio
    and fairlane; any other change (image, state, packages, the lab's host under the
    wall clock) is a warning. For imported results, ``unmatched`` compares
    the versions."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        begun = [
            event["fingerprint"]
            for event in evidence.events
            if event.get("type") in ("start", "resume", "provision") and isinstance(event.get("fingerprint"), dict)
        ]
        # time on the virtual clock is instructions executed, the same on any host
        keys = sorted({key for fingerprint in begun for key in fingerprint if key != "host" or not evidence.modelled})
        versions = {key: _distinct(f.get(key) for f in begun) for key in keys}
        inside = _distinct(version for trial in evidence.observations if (version := _fio(trial.context)))
        if len(inside) > 1 and evidence.study.platform.measured_here:
            versions["fio"] = inside
        changed = {key: values for key, values in versions.items() if len(values) > 1}
        decisive = {key: values for key, values in changed.items() if key in _DECISIVE}
        if decisive:
            details = "; ".join(
                f"{key} {', then '.join(_short(v) for v in values)}" for key, values in decisive.items()
            )
            yield self.finding(
                "programs",
                "critical",
                f"program versions changed within the run: {details}. Figures before and after may differ",
                evidence=decisive,
            )
        if others := {key: values for key, values in changed.items() if key not in decisive}:
            yield self.finding(
                "environment",
                "warning",
                f"the environment changed within the run: {', '.join(others)}",
                evidence=others,
            )


def _fio(context: Any) -> str:
    fio = context.get("fio")
    return str(fio.get("version", "")) if isinstance(fio, dict) else ""


def _distinct(values: Iterator[Any]) -> list[Any]:
    """Distinct values in order of appearance, compared as JSON because some are lists or objects."""
    return list({json.dumps(value, sort_keys=True, default=str): value for value in values}.values())


def _short(value: Any) -> str:
    return "unknown" if value is None else str(value)[:60]


PLUGIN = MixedVersions()
