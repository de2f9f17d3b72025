"""What is watched while a trial runs: a snapshot before and one after, and a pure reading of the two."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from fairlane.records import Figures


class Probe(ABC):
    """The shell for a snapshot before and after, and the reading of the two.

    ``PLUGIN`` of each file in this package is one instance."""

    capture: ClassVar[str]
    """Shell that prints one snapshot to stdout; ``$DEVICE`` is the kernel name of the lane's device. A missing source
    is left out, never an error."""

    live: ClassVar[str] = ""
    """The same for machines that run meanwhile, in a bash that stays; empty: ``capture``. Best in its own words alone:
    on an emulated processor a program takes 15 ms to start, and one with libraries 100. ``$STATS`` holds the files
    ``/sys/class/block/*/stat`` of the lane's devices, of which there may be several; ``$WHEN`` is ``before`` or
    ``after``."""

    virtual: ClassVar[bool] = True
    """Also under the virtual clock, where every word of a script shows in the figures."""

    place: ClassVar[Literal["guest", "target", "hypervisor", "node"]] = "guest"
    """The machine that is watched. ``target``: the array, where we set it up. ``hypervisor``: the machine that runs the
    guests; ``$MACHINES`` holds the process ids of the virtual machines, ``$VCPUS`` and ``$IO_THREADS`` the ids of
    those of their threads that are virtual CPUs and IO threads. ``node``: the nodes of a cluster, where no shell of
    ours runs: the platform takes the snapshots, and ``capture`` is empty. Of all but guests ``load`` is the whole
    fleet's, guest probes included."""

    @abstractmethod
    def observe(self, before: str, after: str, load: Figures) -> Figures:
        """Read two snapshots; ``load`` is what the workload reported of itself between them. Pure, and raises nothing:
        what a snapshot lacks, or what is no number in it, is not told."""


def counter(text: str) -> int | None:
    """A counter of the kernel (at most 20 digits); None if ``text`` is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None
