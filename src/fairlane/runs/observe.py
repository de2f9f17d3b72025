"""Compute a trial's observation from its raw outputs: pure, so that a run can be read again at any time."""

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from fairlane import registry
from fairlane.formats import fleet_times
from fairlane.records import Block, Figures, Histogram, Observation
from fairlane.workloads.base import Garbage, Workload

_TAIL = 300
"""Characters of a tool's stderr that go into the reason of a failure."""
_WORD = 40
"""Most characters of a cut word that are left out at their beginning."""


_MACHINE = re.compile(r"(vm\d+)/(.+)", re.DOTALL)


def observe(block: Block, lane: str, outputs: Mapping[str, bytes]) -> Observation:
    """Reads one trial with the plugin of its workload and with every probe that was running.

    ``outputs`` holds the files of the workload, ``status`` (its exit code) and for each probe ``probe.NAME.before``
    and ``probe.NAME.after``; of several machines under ``vmN/``, read one by one and merged by the workload. Outputs
    that cannot be read make a failed trial, with the reason; nothing is imputed.
    """
    place = block.order.index(lane)
    try:
        figures = _load(block, outputs)
    except Garbage as reason:
        return Observation(block.cell.key, block.index, lane, place, failed=str(reason))
    observed = _probed(figures, outputs, ("target", "hypervisor", "node"))
    return Observation(
        block.cell.key,
        block.index,
        lane,
        place,
        "",
        observed.metrics,
        observed.histograms,
        observed.context,
        observed.steps,
    )


def _load(block: Block, outputs: Mapping[str, bytes]) -> Figures:
    """The workload's figures, of all machines, with those of the probes on its machines."""
    machines: dict[str, dict[str, bytes]] = {}
    for name, data in outputs.items():
        if match := _MACHINE.fullmatch(name):
            machines.setdefault(match[1], {})[match[2]] = data
    if not machines:
        return _machine(block, outputs)
    common = {name: data for name, data in outputs.items() if "/" not in name}
    if late := _late(common.get("fleet.json", b"")):
        raise Garbage("late", late)
    figures = {}
    for name in sorted(machines, key=lambda vm: int(vm.removeprefix("vm"))):
        try:
            figures[name] = _machine(block, {**common, **machines[name]})
        except Garbage as reason:
            raise Garbage(reason.kind, f"{name}: {reason}") from None
    workload: Workload = registry.load("workloads", block.cell.kind)
    return workload.merge(block.cell, figures)


def _machine(block: Block, outputs: Mapping[str, bytes]) -> Figures:
    """Figures of one machine."""
    figures = _probed(_workload(block, outputs), outputs, ("guest",))
    start = _start(outputs.get("start.json", b""))
    return replace(figures, context={**figures.context, "start": start}) if start else figures


def _start(data: bytes) -> dict[str, float]:
    """The load's start in ms on the host's clock: the machine's own time, corrected by its offset."""
    try:
        fields = json.loads(data)
        opened, ahead, within, planned = (float(fields[key]) for key in ("opened", "ahead", "within", "planned"))
    except (ValueError, TypeError, KeyError):
        return {}
    start = {"start_ms": (opened - ahead) * 1e3, "within_ms": within * 1e3, "late_ms": (opened - ahead - planned) * 1e3}
    return start if all(map(math.isfinite, start.values())) else {}


def _late(data: bytes) -> str:
    """Why a trial of several machines is void; empty: it is not."""
    try:
        fleet = json.loads(data)
    except ValueError:
        return ""
    return fleet_times.reason(fleet) if isinstance(fleet, dict) else ""


def _probed(figures: Figures, outputs: Mapping[str, bytes], places: Collection[str]) -> Figures:
    """``figures`` with those of the probes of ``places``."""
    metrics: dict[str, float] = dict(figures.metrics)
    histograms: Mapping[str, Histogram] = figures.histograms  # unchanged: they may be read lazily
    context: dict[str, Any] = dict(figures.context)
    steps: dict[str, float] = dict(figures.steps)
    for name, probe in registry.every("probes"):
        before, after = outputs.get(f"probe.{name}.before"), outputs.get(f"probe.{name}.after")
        if before is None or after is None or probe.place not in places:
            continue
        observed = probe.observe(before.decode(errors="replace"), after.decode(errors="replace"), figures)
        metrics |= observed.metrics
        if observed.histograms:
            histograms = {**histograms, **observed.histograms}
        context |= observed.context
        steps |= observed.steps
    return Figures(metrics, histograms, context, steps)


def _workload(block: Block, outputs: Mapping[str, bytes]) -> Figures:
    status = outputs.get("status", b"").decode(errors="replace").strip()
    if status != "0":
        complaints = outputs.get(f"{block.cell.kind}.err", b"").decode(errors="replace").strip()
        if len(complaints) > _TAIL:
            first, _, rest = complaints[-_TAIL:].partition(" ")
            complaints = f"... {rest if len(first) < _WORD else complaints[-_TAIL:]}"
        detail = f": {complaints}" if complaints else ""
        raise Garbage(
            "exit-code", f"{block.cell.kind} left no exit code" if not status else f"exit code {status[:20]}{detail}"
        )
    figures: Figures = registry.load("workloads", block.cell.kind).observe(block.cell, outputs)
    return figures
