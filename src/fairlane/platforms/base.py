"""The interface of a platform, which provides the virtual machines of a study."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from fairlane.errors import FairlaneError
from fairlane.platforms._examined import Line
from fairlane.records import Block
from fairlane.study.base import PlatformSpec

if TYPE_CHECKING:  # the study model is made of the platforms' specs: importing it here would be a circle
    from fairlane.study.spec import Study

Notify = Callable[[str], None]
"""Callback(text): shows the user one short line of progress."""


@dataclass(frozen=True)
class RawTrial:
    """The raw outputs of one trial: file name -> content. ``status`` holds the exit code of the workload as text."""

    lane: str
    outputs: Mapping[str, bytes]
    load_seconds: float | None = None
    """Wall time during which the workload ran, if the platform measured it."""


@dataclass(frozen=True)
class Opened:
    """Description of what a platform built, read back from the machines."""

    description: Mapping[str, Any]
    """``{"lanes": {NAME: {...}}, "platform": {...}}``."""
    fingerprint: Mapping[str, Any]
    """Versions and hashes that decide whether two runs may be compared."""


class Platform(ABC):
    """A class that opens machines for one study, runs its blocks there, and undoes everything.

    ``PLUGIN`` of each file or folder here is such a class; used as ``async with``."""

    Spec: ClassVar[type[PlatformSpec]]
    modelled: bool = False
    """Whether figures come from a virtual clock."""
    emulated: bool = False
    """Whether guests run without hardware virtualization."""
    described: str = ""
    """Reason why studies of this platform can be checked and planned but not run yet; empty: they run."""
    repeats_exactly: bool = False
    """Whether the same block gives the same bytes: a resumed run replays an interrupted block and compares."""

    remote: ClassVar[bool] = False
    """Whether it works outside this machine, on a cluster or hypervisor selected by a context and a namespace."""

    run_id: str = "0" * 10
    """Id of the run (ten hexadecimal digits), unchanged when it is resumed: labels objects, so that leftovers of a
    killed run are found. Set before ``open``."""

    provisioning: int = 0
    """Number of the provisioning (volumes and machines are created anew in each), from 0. Set before ``open``. A
    platform that assigns lanes to slots, machines or nodes rotates the assignment, so that no lane always has the best
    place."""

    concluded: Mapping[str, str] = {}
    """Machine -> output of the study's own commands after the last lane was taken apart; kept in the journal."""

    rebuilds: int = 0
    """How often volumes were made again since ``open``, because a machine was lost."""

    def __init__(self, study: "Study") -> None:
        self.study = study

    @classmethod
    def of(cls, study: "Study") -> "Platform":
        """The platform for ``study``; a kind with several implementations overrides it."""
        return cls(study)

    def anew(self) -> "Platform":
        """A new platform for the same study, not opened yet, for the next provisioning; shares no state with it."""
        return type(self).of(self.study)

    def unfit(self) -> list[FairlaneError]:
        """Problems of the study on this platform on any machine; from the study alone."""
        return []

    def planned_only(self) -> list[FairlaneError]:
        """Parts of the study that can be planned on this platform, but not run yet; from the study alone."""
        return []

    def problems(self) -> list[FairlaneError]:
        """Everything that keeps the study from running here, checked before anything is created: ``unfit``, and what
        this machine lacks. Empty: ready."""
        return self.unfit()

    def announcement(self) -> list[str]:
        """Lines about what the run needs and changes outside this program, and about what will disturb it, for the
        user before anything is touched."""
        return []

    @classmethod
    async def examine(cls, study: "Study | None", *, context: str, namespace: str) -> Sequence[Line]:  # noqa: ARG003
        """The doctor's lines about ``study`` and about the cluster or hypervisor. ``context``, ``namespace``: select it
        in place of the study's. Every error of ``problems`` is a line."""
        return cls.lines(cls.of(study).problems()) if study else ()

    @staticmethod
    def lines(problems: Sequence[FairlaneError]) -> list[Line]:
        """``problems`` as lines of the doctor."""
        return [Line(error.where or "study", "missing", error.message, error.hint, error.kind) for error in problems]

    @classmethod
    async def clean(cls, *, context: str, namespace: str, run: str, notify: Notify) -> None:  # noqa: ARG003
        """Removes the leftovers of killed runs in a cluster or at a hypervisor: of run id ``run``, or of every run that
        has ended. Raises FairlaneError for objects that remain, and on a platform that leaves nothing outside this
        machine."""
        raise FairlaneError(
            "keeps-nothing", "this platform leaves nothing outside this machine", hint="run: fairlane lab clean"
        )

    @abstractmethod
    async def open(self, notify: Notify) -> Opened:
        """Builds the lanes and reads them back. Raises RunFailed."""

    @abstractmethod
    def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        """Runs one block, lane by lane in its order; yields each trial as it completes. Raises RunFailed."""

    async def close(self) -> None:  # noqa: B027 - a platform may have nothing to undo
        """Undoes everything ``open`` did. Called also after a failure or Ctrl-C; never raises."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
