"""What came of one run of a client, in the same words for both."""

from collections import Counter
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from bench.cluster.audit import Request, by_kind

Phase = Literal["scheduled", "running", "ready"]
PHASES: tuple[Phase, ...] = ("scheduled", "running", "ready")
"""Of a VirtualMachine once it is there: its instance has a node, it runs, the VirtualMachine says that it is ready."""
UNITS = {
    "create all": "s",
    "until all are seen ready": "s",
    "seen after the last was ready": "s",
    "delete all": "s",
    "whole process": "s",
    "requests": "",
    "requests beside the creates": "",
    "CPU of the client": "s",
    "peak memory": "MiB",
}
"""Of a run's figures; less is better in each."""
APART = 0.05
"""s between two phases of which a client has to know the order."""
Latencies = dict[str, dict[Phase, float]]
"""By machine: s since the server had its VirtualMachine. What the client does not tell is not there."""


@dataclass(frozen=True)
class Told:
    """What a client says of its own run. Instants in s since 1970."""

    observed: float
    """When it knew that all machines are ready."""
    gone: float
    """When it knew that nothing of them is left."""
    latencies: Latencies


@dataclass(frozen=True)
class Process:
    """What the system says of a client's process."""

    begun: float
    ended: float
    cpu: float
    """s, in user and kernel."""
    peak: int
    """Bytes of memory, resident at most (VmHWM)."""


@dataclass(frozen=True)
class Run:
    """One run of one client: 'create, observe, delete' of so many machines."""

    client: str
    told: Told
    process: Process
    requests: tuple[Request, ...]
    truth: Latencies
    last_ready: float
    """When the last machine became ready, s since 1970."""

    @property
    def creates(self) -> list[Request]:
        return [r for r in self.requests if r.verb == "create" and r.resource == "virtualmachines"]

    @property
    def figures(self) -> dict[str, float]:
        """Every figure of the table, by name. s, numbers, MiB."""
        first = min(r.received for r in self.creates)
        return {
            "create all": max(r.answered for r in self.creates) - first,
            "until all are seen ready": self.told.observed - first,
            "seen after the last was ready": self.told.observed - self.last_ready,
            "delete all": self.told.gone - self.told.observed,
            "whole process": self.process.ended - self.process.begun,
            "requests": len(self.requests),
            "requests beside the creates": len(self.requests) - len(self.creates),
            "CPU of the client": self.process.cpu,
            "peak memory": self.process.peak / 2**20,
        }

    @property
    def kinds(self) -> Counter[str]:
        return by_kind(self.requests)

    def errors(self, phase: Phase) -> list[float]:
        """What is told minus the truth, in s, of every machine of which the client tells this phase."""
        told = self.told.latencies
        return [told[vm][phase] - true[phase] for vm, true in self.truth.items() if phase in told.get(vm, {})]

    @property
    def incomplete(self) -> list[str]:
        """Machines that are not told of, or without one of the phases."""
        return [vm for vm in self.truth if not set(PHASES) <= self.told.latencies.get(vm, {}).keys()]

    @property
    def disordered(self) -> list[str]:
        """Machines of which all is told, but of two phases that lay more than APART apart not which came first."""
        whole = self.truth.keys() - set(self.incomplete)
        return [vm for vm in whole if _confused(self.told.latencies[vm], self.truth[vm])]


def _confused(told: dict[Phase, float], true: dict[Phase, float]) -> bool:
    return any(told[first] >= told[then] for first, then in permutations(PHASES, 2) if true[then] - true[first] > APART)
