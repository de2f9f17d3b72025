"""What stands behind VMIs and volumes of the played cluster."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testkit.play.client import Client


@dataclass(frozen=True)
class Disk:
    """A disk of a VMI that is a bound claim."""

    name: str
    volume: str
    """Name of the PersistentVolume."""
    serial: str
    bus: str
    """virtio, scsi, sata."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of its storage class."""
    own_thread: bool = False
    cache: str = "none"


Ended = Callable[[str, str], Awaitable[None]]
"""Takes namespace and name of a VMI."""


async def nobody(namespace: str, name: str) -> None:
    """Nobody wants to know."""


@dataclass(kw_only=True)
class Machines:
    """Machines and the volumes they use: the contract, and what does nothing. Whatever ``start`` raises becomes the
    VMI's reason to fail."""

    ended: Ended = nobody
    """Who is told of a machine that ends without ``stop``."""

    async def provision(self, volume: str, size: int, source: str, way: str) -> None:
        """Makes a volume of ``size`` bytes: with the content of another volume or snapshot, with an image (``way``
        is import), or empty."""

    async def snapshot(self, handle: str, volume: str) -> None:
        """Keeps what a volume contains now."""

    async def remove(self, volume: str) -> None:
        """A volume or snapshot, if it is there."""

    async def start(self, client: Client, vmi: Mapping[str, Any], disks: Sequence[Disk]) -> None:
        """Returns once the machine runs; its guest has not booted then. ``client`` reads what the VMI names."""

    async def stop(self, namespace: str, name: str) -> None:
        """A machine, if there is one."""

    def address(self, namespace: str, name: str, port: int) -> tuple[str, int] | None:
        """Where a port of the guest is reached from here; None: nothing listens."""
        return None

    async def close(self) -> None:
        """Ends all of them."""


@dataclass
class NoMachines(Machines):
    """Nothing stands behind VMIs. ``ports``: what tests listen on in place of a guest: its port -> address."""

    ports: Mapping[int, tuple[str, int]] = field(default_factory=dict)

    def address(self, namespace: str, name: str, port: int) -> tuple[str, int] | None:
        return self.ports.get(port)
