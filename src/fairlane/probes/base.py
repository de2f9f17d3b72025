"""The interface of a probe: a snapshot before and one after a trial's load, and a pure reading of the two."""

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
    """The same for running machines, in a long-lived bash; empty: ``capture``. Best with bash builtins alone: on an
    emulated processor a program takes 15 ms to start, and one with libraries 100. ``$STATS`` holds the files
    ``/sys/class/block/*/stat`` of the lane's devices, of which there may be several; ``$WHEN`` is ``before`` or
    ``after``."""

    virtual: ClassVar[bool] = True
    """Runs also under the virtual clock, where every word of a script changes the figures."""

    living: ClassVar[bool] = False
    """Runs only on machines that have other work (``Platform.living``)."""

    place: ClassVar[Literal["guest", "target", "hypervisor", "node"]] = "guest"
    """The observed machine. ``target``: the array, if Fairlane set it up. ``hypervisor``: the machine that runs the
    guests; ``$MACHINES`` holds the process ids of the virtual machines, ``$VCPUS`` and ``$IO_THREADS`` the ids of
    those of their threads that are virtual CPUs and IO threads. ``node``: the nodes of a cluster, where Fairlane
    runs no shell: the platform takes the snapshots, and ``capture`` is empty. Except for guests, ``load`` is the whole
    fleet's, guest probes included."""

    @abstractmethod
    def observe(self, before: str, after: str, load: Figures) -> Figures:
        """Reads two snapshots; ``load``: the workload's own figures between them. Pure, raises nothing: values that are
        missing from a snapshot, or are no numbers, are left out."""


def counter(text: str) -> int | None:
    """A counter of the kernel (at most 20 digits); None if ``text`` is no such number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None
