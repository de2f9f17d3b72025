"""The part of a study file about machines that belong to somebody."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from fairlane import registry
from fairlane.errors import Invalid
from fairlane.living.destination import Destination
from fairlane.study.base import PlatformSpec
from fairlane.study.paths import AbsolutePath
from fairlane.study.strict import Strict
from fairlane.units import Duration, Share, Size

MachineName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]
"""Lower-case letters, digits and dashes, at most 31."""
ARRAY = "array"
"""Name of the platform's array among the machines."""


class Array(Strict):
    """A Linux machine on which Fairlane sets targets up (LIO, nvmet), and takes them down."""

    machine: Destination
    """How ssh reaches it, or ``local``. Root, or ``sudo -n``, is needed there."""
    addresses: Annotated[tuple[str, ...], Field(min_length=1, max_length=8)]
    """IPv4 addresses on which it exports, one per path; lanes with ``multipath`` use all, others the first."""
    first_port: int | None = Field(default=None, ge=1, le=65000)
    """TCP port of the first volume's target; others count up from it. Default: the protocol's port (3260, 4420),
    which is taken if the machine already runs a target."""
    folder: AbsolutePath = "/var/tmp"  # noqa: S108 - the study's own file, with a name of its own
    """Folder for the backing files of the exported volumes, each of ``platform.size``."""


class LivingSpec(PlatformSpec):
    """Machines that were there before the study, and stay."""

    living = True
    fresh_sessions = True
    machines: dict[MachineName, Any] = Field(min_length=1, max_length=200)
    """Machines on which lanes are built and loads run."""
    size: Size = 1024**3
    """Size of a volume that Fairlane makes: a file in a directory, a medium of ``array``."""
    keep_free: Share = 0.1
    """Share of a file system that must stay free beside the files that Fairlane makes."""
    array: Array | None = None
    """A Linux machine that serves iscsi and nvme_tcp lanes which name no ``external`` array."""
    settle: Duration = 500_000_000
    """Idle time between two trials of a block."""
    max_busy: Share = 0.1
    """Largest share of the time that a lane's disk may be busy with other I/O before the first trial."""
    alone: bool = True
    """Refuse a machine that another run of Fairlane is using."""
    prepare: str = ""
    """Shell that runs on every machine before its lanes are built: stop a service, set a governor. Its output is
    kept in the run directory."""
    conclude: str = ""
    """Shell that runs on every machine after the last lane is taken apart, also after a failure."""
    swap: bool = True
    """Rotate the lanes over their machines between provisionings, if every lane can be built on every machine."""
    connect_timeout: Duration = 30 * 10**9
    """How long a machine may take to answer ssh."""
    return_timeout: Duration = 300 * 10**9
    """How long to wait for a machine that was lost during the run to come back."""

    @model_validator(mode="after")
    def _once(self) -> Self:
        seen: dict[str, str] = {}
        for name, destination in self.destinations.items():
            if destination in seen:
                raise Invalid(
                    "machine-twice", f"machines.{name}: {destination} is already machine {seen[destination]}",
                    hint="list each machine only once",
                )  # fmt: skip
            seen[destination] = name
        return self

    @property
    @abstractmethod
    def destinations(self) -> Mapping[str, str]:
        """Machine -> how ssh reaches it, or ``local``."""

    @property
    def reached(self) -> Mapping[str, str]:
        """The same of everything that the study reaches: machines, then those that serve them."""
        return {**self.destinations, **({ARRAY: self.array.machine} if self.array else {})}

    @property
    def able(self) -> tuple[str, ...]:
        """Transports for this platform only, and those that end on a machine or an external array."""
        lanes = [(name, transport.Spec) for name, transport in registry.every("lanes")]
        own = [name for name, spec in lanes if self.kind in spec.platforms]
        return tuple(dict.fromkeys((*own, "device", *(n for n, s in lanes if "external" in s.model_fields))))

    @property
    def loads(self) -> tuple[str, ...]:
        return ("fio", "oltp")

    @property
    def lasting_sessions(self) -> str:
        return ""

    def wall_seconds(self, guest_seconds: float) -> float:
        """Measured on two cores of 2023: 0.6 s for snapshots, fio's start and its results beside load and settling."""
        return 0.6 + self.settle / 1e9 + guest_seconds
