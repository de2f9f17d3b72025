"""The machines and storage behind VMIs and volumes of the played cluster."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testkit.play.client import Client


@dataclass(frozen=True)
class Disk:
    """A disk of a VMI on a bound claim."""

    name: str
    volume: str
    """Name of the PersistentVolume."""
    serial: str
    bus: str
    """virtio, scsi, sata."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of its storage class."""
    own_thread: bool = False
    cache: str = "none"


Ended = Callable[[str, str, str], Awaitable[None]]
"""Callback(namespace, name, cause) of an ended VMI."""


async def nobody(namespace: str, name: str, cause: str) -> None:
    """Ignores the end of a machine."""


@dataclass(kw_only=True)
class Machines:
    """Machines and their volumes: the contract, with methods that do nothing. An error of ``start`` becomes the VMI's
    reason to fail."""

    ended: Ended = nobody
    """Callback for a machine that ends without ``stop``."""

    async def provision(self, volume: str, size: int, source: str, way: str) -> None:
        """Creates a volume of ``size`` bytes: with the content of another volume or snapshot, with an image (``way`` is
        import), or empty."""

    async def snapshot(self, handle: str, volume: str) -> None:
        """Takes a snapshot of a volume."""

    async def remove(self, volume: str) -> None:
        """Deletes a volume or snapshot, if it exists."""

    async def start(self, client: Client, vmi: Mapping[str, Any], disks: Sequence[Disk]) -> None:
        """Starts a machine; returns once it runs, before its guest has booted. ``client`` reads the objects that the
        VMI names."""

    async def stop(self, namespace: str, name: str) -> None:
        """Stops a machine, if it exists."""

    def address(self, namespace: str, name: str, port: int) -> tuple[str, int] | None:
        """Local address of a guest's port; None: nothing listens."""
        return None

    async def close(self) -> None:
        """Ends all of them."""


@dataclass
class NoMachines(Machines):
    """VMIs without machines. ``ports``: listeners of tests in place of a guest: its port -> address."""

    ports: Mapping[int, tuple[str, int]] = field(default_factory=dict)

    def address(self, namespace: str, name: str, port: int) -> tuple[str, int] | None:
        return self.ports.get(port)
