"""Where virtual machines come from: two small contracts, Platform and Guest."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
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
"""Tells the user what is going on: one short line."""


@dataclass(frozen=True)
class RawTrial:
    """What one trial left behind: file name -> content. ``status`` holds the exit code of the workload as text."""

    lane: str
    outputs: Mapping[str, bytes]
    load_seconds: float | None = None
    """Wall time during which the workload ran, if the platform saw it."""


@dataclass(frozen=True)
class Opened:
    """What a platform built, read back from the machines."""

    description: Mapping[str, Any]
    """``{"lanes": {NAME: {...}}, "platform": {...}}``."""
    fingerprint: Mapping[str, Any]
    """Versions and hashes that decide whether two runs may be compared."""


class Platform(ABC):
    """A class that opens machines for one study, runs its blocks there, and undoes everything.

    ``PLUGIN`` of each file or folder here is such a class; used as ``async with``."""

    Spec: ClassVar[type[PlatformSpec]]
    modelled: bool = False
    """Figures come from a virtual clock."""
    emulated: bool = False
    """Guests run without hardware virtualization."""
    described: str = ""
    """Why no study of this platform runs yet, though it is checked and planned; empty: it runs."""
    repeats_exactly: bool = False
    """The same block gives the same bytes: a resumed run replays an interrupted block and compares."""

    remote: ClassVar[bool] = False
    """Reaches something beyond this machine, a cluster or a hypervisor: a context and a namespace can say where."""

    run_id: str = "0" * 10
    """Ten hexadecimal digits of the run that is carried out, the same when it is resumed: by them a platform finds what
    a killed one left. Set before ``open``."""

    def __init__(self, study: "Study") -> None:
        self.study = study

    @classmethod
    def of(cls, study: "Study") -> "Platform":
        """The platform for ``study``; a kind that is carried out in different ways overrides it."""
        return cls(study)

    def unfit(self) -> list[FairlaneError]:
        """What the study asks for and this platform cannot do, whatever the machine: known from the study alone."""
        return []

    def problems(self) -> list[FairlaneError]:
        """What keeps the study from running here, found before anything is created: what is ``unfit``, and what is
        missing on this machine. Empty: ready."""
        return self.unfit()

    @classmethod
    async def examine(cls, study: "Study | None", *, context: str, namespace: str) -> Sequence[Line]:  # noqa: ARG003
        """What the doctor tells of ``study``, and what it looks at beyond this machine: a cluster, a hypervisor.
        ``context``, ``namespace``: where, if not where ``study`` says. Whatever ``problems`` refuses is a line."""
        return cls.lines(cls.of(study).problems()) if study else ()

    @staticmethod
    def lines(problems: Sequence[FairlaneError]) -> list[Line]:
        """``problems`` for the doctor."""
        return [Line(error.where or "study", "missing", error.message, error.hint) for error in problems]

    @classmethod
    async def clean(cls, *, context: str, namespace: str, run: str, notify: Notify) -> None:  # noqa: ARG003
        """Removes what killed runs left beyond this machine, in a cluster or at a hypervisor: that of ``run`` (its id),
        or of all that are not going on. Raises FairlaneError for what stays, and where there is nothing such."""
        raise FairlaneError("this platform keeps nothing beyond this machine", hint="fairlane lab clean")

    @abstractmethod
    async def open(self, notify: Notify) -> Opened:
        """Build the lanes and read them back. Raises RunFailed."""

    @abstractmethod
    def run_block(self, block: Block) -> AsyncIterator[RawTrial]:
        """Carry out one block, lane by lane in its order; yield each trial as it completes. Raises RunFailed."""

    async def close(self) -> None:  # noqa: B027 - a platform may have nothing to undo
        """Undo everything ``open`` did. Called also after a failure or Ctrl-C; never raises."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
