"""When each machine came to each phase, by the API server, which the controllers' own log has to agree with."""

from collections.abc import Iterator, Sequence
from typing import Any

from bench.cluster.audit import CONTROLLERS, Request
from bench.cluster.outcome import Latencies, Phase
from testkit.play.world import Record

STEPS: dict[tuple[str, str], Phase] = {
    ("VirtualMachineInstance", "Scheduled"): "scheduled",
    ("VirtualMachineInstance", "Running"): "running",
    ("VirtualMachine", "Running"): "ready",
}
"""What the controllers' log calls the phases."""
APART = 0.002
"""s by which an instant of the server may lie outside of what the controllers' log allows: its clock is read later."""


def truth(requests: Sequence[Request], log: Sequence[Record]) -> tuple[Latencies, float]:
    """By machine, s from the answer to its creation to the answer to the write of each phase; and the instant of the
    last ``ready``. RuntimeError where the controllers' log says otherwise."""
    made = {r.name: r.answered for r in requests if (r.verb, r.resource) == ("create", "virtualmachines")}
    at: dict[tuple[str, Phase], float] = {}
    for request in requests:
        if request.user == CONTROLLERS and request.status == 200:
            for phase in _phases(request):
                at.setdefault((request.name, phase), request.answered)
    allowed: dict[tuple[str, Phase], tuple[float, float]] = {}
    for step in log:
        if step_phase := STEPS.get((step.kind, step.phase)):
            allowed.setdefault((step.name, step_phase), (step.sent, step.acked))
    for which, (sent, acked) in allowed.items():
        if not sent - APART <= at[which] <= acked + APART:
            raise RuntimeError(f"{which}: {at[which]} by the server, {sent} to {acked} by the controllers")
    if at.keys() != allowed.keys():
        raise RuntimeError(f"only one of the two logs knows {sorted(at.keys() ^ allowed.keys())[:5]}")
    found: Latencies = {name: {} for name in made}
    for (name, phase), instant in at.items():
        found[name][phase] = instant - made[name]
    return found, max(instant for (_, phase), instant in at.items() if phase == "ready")


def _phases(request: Request) -> Iterator[Phase]:
    status: dict[str, Any] = request.body.get("status", {})
    if request.resource == "virtualmachineinstances/status":
        if status.get("phase") == "Scheduled":
            yield "scheduled"
        if status.get("phase") == "Running":
            yield "running"
    elif any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()):
        yield "ready"
