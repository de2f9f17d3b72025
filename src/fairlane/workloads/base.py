"""The interface of a workload: the script that runs in the guest, and the reader of its raw output."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fairlane.errors import Garbage
from fairlane.records import Cell, FaultKind, Figures
from fairlane.study.base import WorkloadSpec
from fairlane.workloads import _fleet

__all__ = ["Garbage", "Invention", "Part", "Stage", "Workload"]


class Stage(ABC):
    """A live platform's interface to a workload during one trial of one lane: its machines and the operations on them.
    Every method raises RunFailed when a machine is lost."""

    seconds: float
    """Time under load of the trial, by the study (``WorkloadSpec.trial_seconds``)."""
    fleet: int
    """Virtual machines of the lane."""
    paths: int
    """Network paths between a machine and the array."""
    readonly: bool = False
    """Whether a load that only reads must refuse writes, because the volumes hold other data."""

    @abstractmethod
    async def load(
        self, script: Callable[[int], str], seconds: float, *, start: bool = True, setup: float = 0.0
    ) -> None:
        """Runs ``script(machine)`` on every machine of the fleet from one instant, with probes before and after, and
        keeps its files (of machine 2 of several: ``vm2/fio.json``). A script waits for the instant at its start, or
        where it has ``gate``. ``seconds``: expected duration. ``start=False``: without waiting for a common instant.
        ``setup``: longest time that a script may take before the gate and after the load. A script that goes on after
        its load sends the mark ``load-ends`` itself, at which the snapshots are taken."""

    @abstractmethod
    def gate(self, jobs: int = 1) -> str:
        """One line of shell at which each of ``jobs`` waits for the common instant of ``load``, for scripts that wait
        later than at their start (a generator that has set everything up). Free of ``;`` and ``#``."""

    @abstractmethod
    async def begun(self) -> float:
        """Waits until the load that ``load`` starts runs on every machine. Returns the time on the host's clock (Unix
        time, s). Cancel it if ``load`` ends before."""

    @abstractmethod
    async def after(self, script: Callable[[int], str], seconds: float) -> None:
        """Runs ``script(machine)`` on every machine of the fleet outside the measurement: no probes, no marks. Keeps
        its files as ``load`` does. ``seconds``: longest expected duration."""

    @abstractmethod
    async def offsets(self) -> Sequence[tuple[float, float]]:
        """Per machine: its clock minus the host's, and the largest error of that (half the round trip), s."""

    @abstractmethod
    def lost(self, reason: str) -> None:
        """Gives the machines up (a load hangs): they are rebuilt before the next trial. This trial fails with
        ``reason``."""

    @abstractmethod
    async def fault(self, kind: FaultKind, path: int, *, on: bool) -> float:
        """Makes ``path`` (from 0) fail for the lane's volumes on all machines, or restores it. Returns the time on the
        host's clock (Unix time, s) when it was done."""

    @abstractmethod
    async def clones(self, count: int) -> Sequence[Mapping[str, float]]:
        """Provisions ``count`` machines at once from the lane's golden image, waits for the first I/O of each, removes
        them. Per machine seconds since the storm began: ``created``, ``booted``, ``answered``."""

    @abstractmethod
    def keep(self, name: str, data: bytes) -> None:
        """Adds a file to the raw outputs of the trial."""


@dataclass(frozen=True)
class Rounds:
    """Rounds of load before the first trial, until the rate is steady (``stats.steady``)."""

    cell: Cell
    """The cell that each round runs, as a trial."""
    seconds: float
    """Length of a round."""
    most: int
    """Rounds at most."""


@dataclass(frozen=True)
class Invention:
    """An invented trial of the platform ``fake``: a device, and how this lane differs from others."""

    latency: int
    """Latency of one small I/O on the idle device, ns."""
    speed: float
    """True ratio of IOPS to a lane without effect, noise included; of latencies inverted."""
    tail: float
    """True ratio of the slowest operations' latency to that of other lanes."""
    course: tuple[float, ...] = ()
    """Factors on ``speed`` in each second since the load began, ramp included. Empty: 1 throughout."""


@dataclass(frozen=True)
class Part:
    """What a load needs in the lab's guests beyond the image that all studies share."""

    packages: tuple[str, ...]
    """Debian packages."""
    programs: tuple[str, ...]
    """Programs of theirs that scripts call by name."""
    files: tuple[str, ...]
    """Further files of theirs, by patterns without a leading slash; ``*`` stands for ``/`` too."""
    users: tuple[str, ...] = ()
    """Users beside root."""


class Workload(ABC):
    """The script that loads a device, and the reading of its raw output.

    ``PLUGIN`` of each file in this package is one instance."""

    Spec: ClassVar[type[WorkloadSpec]]
    packages: ClassVar[tuple[str, ...]] = ()
    """Debian packages that the programs come from."""
    programs: ClassVar[tuple[str, ...]] = ()
    """Programs that the scripts call."""
    folders: ClassVar[tuple[str, ...]] = ()
    """Folders that are not in PATH where programs may be, with wildcards: /usr/lib/postgresql/*/bin."""
    virtual: ClassVar[bool] = False
    """Consists of its ``script`` alone, so that it runs under the virtual clock, where nothing acts from outside."""

    part: ClassVar[Part | None] = None
    """Its programs in the lab's guests, if they are too large for the image that all studies share."""

    invents: ClassVar[bool] = False
    """Implements ``invented``, so that it runs on the platform ``fake``."""

    @abstractmethod
    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:
        """Shell that loads ``devices`` (block devices, or files in a share): starts in an empty folder, leaves its
        outputs there, exits as the tool did."""

    def gated(self, cell: Cell, devices: Sequence[str], seed: int, begin: str, end: str) -> str:  # noqa: ARG002
        """``script`` that runs ``begin`` right before its load and ``end`` right after it, one command of shell each,
        for machines on which nothing acts from outside. Empty: all of ``script`` is load."""
        return ""

    @abstractmethod
    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:
        """Reads the outputs of ``script``: file name -> content. Raises Garbage."""

    def invented(self, cell: Cell, invention: Invention) -> Mapping[str, bytes]:
        """The outputs of ``script``, file name -> content, as the tool would write them for such a device; the same
        bytes for the same arguments. Called only if ``invents``."""
        raise NotImplementedError

    async def drive(self, cell: Cell, devices: Callable[[int], Sequence[str]], seed: int, stage: Stage) -> None:
        """One trial on a live platform: by default ``script`` on every machine at once. ``devices(machine)``: the
        lane's disks there. Workloads with further actions (faults, clones) override it."""
        await stage.load(lambda machine: self.script(cell, devices(machine), seed + machine), stage.seconds)

    def merge(self, cell: Cell, machines: Mapping[str, Figures]) -> Figures:  # noqa: ARG002
        """The figures of a fleet from those of its machines, by name, each with its probes' figures."""
        return _fleet.merge(machines)

    def prepare(self, cell: Cell, device: str) -> str:  # noqa: ARG002
        """Shell that prepares a medium (prefill), run once before the first trial; empty: nothing to do."""
        return ""

    def calls(self, cell: Cell) -> tuple[str, ...]:  # noqa: ARG002
        """Programs that the scripts of ``cell`` call, where cells differ in them."""
        return self.programs

    def prepares(self, cell: Cell, capacity: int) -> int:  # noqa: ARG002
        """Bytes that ``prepare`` must write at least to a device of ``capacity`` bytes; verified afterwards."""
        return 0

    def patience(self, cell: Cell) -> float:  # noqa: ARG002
        """Seconds that ``prepare`` may take, beside the time for what ``prepares`` says that it writes."""
        return 0.0

    def unable(self, cell: Cell, platform: str) -> str:  # noqa: ARG002
        """Why a cell that can be planned cannot be run on ``platform`` (its kind) yet; empty: it can."""
        return ""

    def extent(self, cell: Cell, capacity: int) -> int:  # noqa: ARG002
        """Bytes that a device of ``capacity`` bytes must have for a trial: no job goes beyond. Pure."""
        return int((cell.params.get("offset") or 0) + (cell.params.get("size") or 0))

    def rounds(self, cell: Cell) -> Rounds | None:  # noqa: ARG002
        """Rounds of load before the first trial of every lane, until steady state; None: the study sets none."""
        return None

    def writes(self, cell: Cell) -> bool:  # noqa: ARG002
        """Whether a trial writes to its devices: the guard then examines them before each (docs/safety.md)."""
        return True
