"""What is run in the guest, and how its raw output is read."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fairlane.errors import Garbage
from fairlane.records import Cell, FaultKind, Figures
from fairlane.study.base import WorkloadSpec
from fairlane.workloads import _fleet

__all__ = ["Garbage", "Invention", "Stage", "Workload"]


class Stage(ABC):
    """What a live platform offers to a workload during one trial of one lane: its machines, and what can be done to
    them. Every method raises RunFailed when a machine is lost."""

    seconds: float
    """Time under load of the trial, as the study says (``WorkloadSpec.trial_seconds``)."""
    fleet: int
    """Virtual machines of the lane."""
    paths: int
    """Network paths between a machine and the array."""

    @abstractmethod
    async def load(self, script: Callable[[int], str], seconds: float, *, start: bool = True) -> None:
        """Run ``script(machine)`` on every machine of the fleet from one instant, probes before and after, and keep the
        files it leaves (of machine 2 of several: ``vm2/fio.json``). A script waits for the instant at its begin, or
        where it has ``gate``. ``seconds``: how long it is expected to take.
        ``start=False``: without waiting for a common instant."""

    @abstractmethod
    def gate(self, jobs: int = 1) -> str:
        """One line of shell at which each of ``jobs`` waits for the common instant of ``load``, for scripts that come
        to it later than at their begin (a generator that has set everything up). Free of ``;`` and ``#``."""

    @abstractmethod
    async def begun(self) -> float:
        """Waits until the load that ``load`` starts runs on every machine. Returns the time on the host's clock (Unix
        time, s). To be cancelled if ``load`` ends before."""

    @abstractmethod
    async def after(self, script: Callable[[int], str], seconds: float) -> None:
        """Run ``script(machine)`` on every machine of the fleet outside what is measured: no probes, no marks. Keeps
        the files it leaves, as ``load``. ``seconds``: how long it is expected to take at most."""

    @abstractmethod
    async def offsets(self) -> Sequence[tuple[float, float]]:
        """Per machine: its clock minus the host's, and how far that may be off (half the round trip), s."""

    @abstractmethod
    def lost(self, reason: str) -> None:
        """The machines are not to be used any more (a load that hangs): they are built anew before the next trial. This
        trial is a failed one, with this reason."""

    @abstractmethod
    async def fault(self, kind: FaultKind, path: int, *, on: bool) -> float:
        """Make ``path`` (from 0) fail for the lane's volumes on all machines, or bring it back. Returns the time on the
        host's clock (Unix time, s) when it was done."""

    @abstractmethod
    async def clones(self, count: int) -> Sequence[Mapping[str, float]]:
        """Provision ``count`` machines at once from the lane's golden image, wait for the first I/O of each, remove
        them. Per machine seconds since the storm began: ``created``, ``booted``, ``answered``."""

    @abstractmethod
    def keep(self, name: str, data: bytes) -> None:
        """Add a file to the raw outputs of the trial."""


@dataclass(frozen=True)
class Rounds:
    """Rounds of load that go before the first trial, until the rate is steady (``stats.steady``)."""

    cell: Cell
    """What each round runs, as a trial."""
    seconds: float
    """Of a round."""
    most: int
    """Rounds at most."""


@dataclass(frozen=True)
class Invention:
    """What the platform ``fake`` makes up of one trial: a device, and how this lane differs from others."""

    latency: int
    """Of one small I/O on the idle device, ns."""
    speed: float
    """True ratio of IOPS to a lane without effect, noise included; of latencies inverted."""
    tail: float
    """True ratio of the slowest operations' latency to that of other lanes."""


class Workload(ABC):
    """The script that loads a device, and the reading of its raw output.

    ``PLUGIN`` of each file in this package is one instance."""

    Spec: ClassVar[type[WorkloadSpec]]
    packages: ClassVar[tuple[str, ...]] = ()
    """Debian packages that the programs come from."""
    programs: ClassVar[tuple[str, ...]] = ()
    """Programs that the scripts call."""
    virtual: ClassVar[bool] = False
    """Is its ``script`` alone: runs under the virtual clock, where nothing can be done from outside."""

    invents: ClassVar[bool] = False
    """Says how its outputs are ``invented``: runs on the platform ``fake``."""

    @abstractmethod
    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:
        """Shell that loads ``devices`` (block devices, or files in a share): starts in an empty folder, leaves its
        outputs there, exits as the tool did."""

    @abstractmethod
    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:
        """Read the outputs of ``script``: file name -> content. Raises Garbage."""

    def invented(self, cell: Cell, invention: Invention) -> Mapping[str, bytes]:
        """The outputs of ``script``, file name -> content, as the tool would have left them on such a device; the same
        bytes for the same arguments. Only asked for where ``invents``."""
        raise NotImplementedError

    async def drive(self, cell: Cell, devices: Callable[[int], Sequence[str]], seed: int, stage: Stage) -> None:
        """One trial on a live platform: by default ``script`` on every machine at once. ``devices(machine)``: the
        lane's disks there. A workload that does more than load (faults, clones) overrides it."""
        await stage.load(lambda machine: self.script(cell, devices(machine), seed + machine), stage.seconds)

    def merge(self, cell: Cell, machines: Mapping[str, Figures]) -> Figures:  # noqa: ARG002
        """The figures of a fleet from those of its machines, by name, each with what its probes saw."""
        return _fleet.merge(machines)

    def prepare(self, cell: Cell, device: str) -> str:  # noqa: ARG002
        """Shell that makes a medium ready (prefill), run once before the first trial; empty: nothing to do."""
        return ""

    def prepares(self, cell: Cell, capacity: int) -> int:  # noqa: ARG002
        """Bytes that ``prepare`` writes at least to a device of ``capacity`` bytes: it is seen whether they were."""
        return 0

    def rounds(self, cell: Cell) -> Rounds | None:  # noqa: ARG002
        """Load before the first trial of every lane, until it is steady; None: none is asked for."""
        return None

    def writes(self, cell: Cell) -> bool:  # noqa: ARG002
        """Whether a trial writes to its devices: then the guard examines them before each (docs/safety.md)."""
        return True
