"""The conditions of every trial's lane and cell, gathered from all that a run knows. Pure."""

from collections.abc import Mapping
from typing import Any

from fairlane.records import Evidence

MIXED = "differs between trials: "
"""Begins the value of a parameter that was not the same in all trials of a lane and cell."""

Known = Mapping[str, Any]
"""Parameter -> value in the registry's unit; what is not in it is not known."""


def conditions(evidence: Evidence) -> Mapping[tuple[str, str], Known]:
    """``(lane, cell key)`` -> what is known of it. Later sources win over earlier ones:

    the platform's and the study's conditions; the workload's of the cell; the lane's; what the platform read back
    (``description["lanes"][lane]["conditions"]``); what the trials say themselves (``context["conditions"]``).
    """
    study = evidence.study
    built = evidence.description.get("lanes") or {}
    seen: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for trial in evidence.observations:
        told = trial.context.get("conditions")
        if not trial.failed and isinstance(told, Mapping):
            for name, value in told.items():
                values = seen.setdefault((trial.lane, trial.cell), {}).setdefault(name, [])
                if value not in values:
                    values.append(value)
    result = {}
    for cell in evidence.cells():
        for name, lane in study.lanes.items():
            back = built.get(name, {}).get("conditions")
            told = seen.get((name, cell.key), {})
            merged = {
                **study.platform.known(),
                **study.conditions,
                **study.workloads[cell.workload].known(cell),
                **lane.known(),
                **lane.conditions,
                **(back if isinstance(back, Mapping) else {}),
                **{key: v[0] if len(v) == 1 else MIXED + ", ".join(map(str, v)) for key, v in told.items()},
            }
            result[name, cell.key] = {key: value for key, value in merged.items() if value is not None}
    return result
