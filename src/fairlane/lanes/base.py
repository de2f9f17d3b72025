"""How a volume reaches a guest: a transport is a list of reversible steps in shell, and a way to find the device.

A step is text, not a call, so that the same transport serves a guest reached over SSH and a guest under the virtual
clock, which must find its whole job inside and never be talked to.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from fairlane.study.base import LaneSpec

Place = Literal["target", "initiator"]

SpecT = TypeVar("SpecT", bound=LaneSpec)


@dataclass(frozen=True)
class Step:
    """One change to a machine: ``apply`` makes it, ``describe`` reads it back, ``remove`` undoes it.

    All three are POSIX shell, run with ``set -eu`` as root. ``describe`` prints ``key<TAB>value`` lines; what it prints
    under a key of ``expect`` must be that value, or the lane is not what the study asked for and the run stops.
    """

    name: str
    place: Place
    apply: str
    describe: str = ""
    remove: str = ""
    expect: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """Where a lane is built: what the platform offers to the transport."""

    medium: str
    """Block device on the target machine that is exported: ``/dev/nullb0``."""
    address: str
    """Address on which the target listens."""
    interface: str
    """Network interface that carries the traffic, for MTU, drops and retransmits."""
    index: int
    """Number of the lane, from 0: keeps ports, portals and serials apart."""
    secret: str
    """For authentication; never described, never in a run directory."""


def digests(spec: Any) -> list[str]:
    """For ``path_settings``: the checksums that a transport with header and data digests adds."""
    return [f"{part} digest" for part in ("header", "data") if getattr(spec, f"{part}_digest")]


class Transport(ABC, Generic[SpecT]):
    """A transport. ``PLUGIN`` of each file in this package is one instance."""

    Spec: ClassVar[type[LaneSpec]]
    packages: ClassVar[tuple[str, ...]] = ()
    """Debian packages that the programs come from."""
    programs: ClassVar[tuple[str, ...]] = ()
    """Programs that the steps call."""
    modules: ClassVar[tuple[str, ...]] = ()
    """Kernel modules of target and initiator, loaded before the steps."""

    @abstractmethod
    def steps(self, name: str, spec: SpecT, site: Site) -> tuple[Step, ...]:
        """The steps that build lane ``name``, in order; they are undone in reverse."""

    @abstractmethod
    def find(self, name: str, spec: SpecT, site: Site) -> str:
        """Shell that prints the initiator's block device, found by a stable identity (serial, NQN), never by order."""

    def path(self, name: str, spec: SpecT, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        """The hops from the workload to the medium, for the path diagram."""
        return ("fio", site.medium)
