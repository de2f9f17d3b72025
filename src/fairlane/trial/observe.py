"""From the raw outputs of a trial to its observation: pure, so that a run can be read again at any time."""

from collections.abc import Mapping
from typing import Any

from fairlane import registry
from fairlane.records import Block, Figures, Histogram, Observation
from fairlane.workloads.base import Garbage

_TAIL = 300
"""Characters of a tool's complaints that go into the reason of a failure."""


def observe(block: Block, lane: str, outputs: Mapping[str, bytes]) -> Observation:
    """Reads one trial with the plugin of its workload and with every probe that was running.

    ``outputs`` holds the files of the workload, ``status`` (its exit code) and for each probe ``probe.NAME.before``
    and ``probe.NAME.after``. What cannot be read makes a failed trial, with the reason; nothing is imputed.
    """
    try:
        figures = _workload(block, outputs)
    except Garbage as reason:
        return Observation(block.cell.key, block.index, lane, block.order.index(lane), failed=str(reason))
    metrics: dict[str, float] = dict(figures.metrics)
    histograms: Mapping[str, Histogram] = figures.histograms  # as they are: they may be read only when asked for
    context: dict[str, Any] = dict(figures.context)
    steps: dict[str, float] = dict(figures.steps)
    for name, probe in registry.every("probes"):
        before, after = outputs.get(f"probe.{name}.before"), outputs.get(f"probe.{name}.after")
        if before is None or after is None:
            continue
        seen = probe.observe(before.decode(errors="replace"), after.decode(errors="replace"), figures)
        metrics |= seen.metrics
        if seen.histograms:
            histograms = {**histograms, **seen.histograms}
        context |= seen.context
        steps |= seen.steps
    place = block.order.index(lane)
    return Observation(block.cell.key, block.index, lane, place, "", metrics, histograms, context, steps)


def _workload(block: Block, outputs: Mapping[str, bytes]) -> Figures:
    status = outputs.get("status", b"").decode(errors="replace").strip()
    if status != "0":
        complaints = outputs.get(f"{block.cell.kind}.err", b"").decode(errors="replace").strip()
        told = f": {complaints[-_TAIL:]}" if complaints else ""
        raise Garbage(f"{block.cell.kind} left no exit code" if not status else f"exit code {status[:20]}{told}")
    figures: Figures = registry.load("workloads", block.cell.kind).observe(block.cell, outputs)
    return figures
