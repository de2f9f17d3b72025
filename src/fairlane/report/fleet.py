"""Sentences about a fleet's simultaneous start, and about the CPU cost of the probes. Pure."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from fairlane.metrics import rounded
from fairlane.records import Evidence
from fairlane.report.phrases import count, share

_PLACES = {"guest": "a guest", "array": "the array", "host": "this machine"}


def sentences(evidence: Evidence) -> tuple[str, ...]:
    """The sentences; none where a run has one machine and measures no cost."""
    return tuple(text for text in (_starts(evidence), _cost(evidence)) if text)


def _starts(evidence: Evidence) -> str:
    """``4 VMs started within 12 ms of each other``."""
    starts = [
        (o.context["window"], len(o.context.get("vms", ()))) for o in evidence.observations if "window" in o.context
    ]
    windows = [window for window, _ in starts if _numbers(window, "skew_ms", "within_ms", "share")]
    if not windows:
        return ""
    skews = [window["skew_ms"] for window in windows]
    within = max(window["within_ms"] for window in windows)
    together = min(window["share"] for window in windows)
    over = f" (the median of {len(skews)} trials; at most {_ms(max(skews))})" if len(skews) > 1 else ""
    return (
        f"{count(max(n for _, n in starts), 'VM')} started within {_ms(median(skews))} of each other{over}, by clocks "
        f"known to {_ms(within)}. All were under load together for at least {share(together)} of "
        "the time."
    )


def _cost(evidence: Evidence) -> str:
    probes = (evidence.description.get("platform") or {}).get("probes")
    costs = probes if isinstance(probes, Mapping) else {}
    snapshots = [
        f"{rounded(costs[place]['cpu_ms'])} ms of CPU time on {name} ({rounded(costs[place]['wall_ms'])} ms)"
        for place, name in _PLACES.items()
        if _numbers(costs.get(place), "cpu_ms", "wall_ms")
    ]
    if not snapshots:
        return ""
    return (
        f"Cost of the probes, measured before the trials: one snapshot takes {', '.join(snapshots)}. Each trial has "
        "two, before its load and after it."
    )


def _numbers(tree: Any, *keys: str) -> bool:
    return isinstance(tree, Mapping) and all(isinstance(tree.get(key), int | float) for key in keys)


def _ms(ms: float) -> str:
    return f"{rounded(ms, 2)} ms" if ms < 1000 else f"{rounded(ms / 1e3)} s"
