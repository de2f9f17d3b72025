"""A study's settings for machines on many hosts: size, number, disks. Not a platform."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from fairlane import registry
from fairlane.study.base import PlatformSpec
from fairlane.units import Duration, Size

_GIB = 1024**3
_INITIATORS = ("iscsi", "nvme_tcp")


class MachinesSpec(PlatformSpec):
    """Machines spread over hosts. Derived classes add ``kind``, and how many hosts there are."""

    cpus: int = Field(default=2, ge=1, le=768)
    """Virtual CPUs of a machine: cores of one socket, one thread each."""
    memory: Size = 4 * _GIB
    """Memory of a machine."""
    disk_size: Size = 50 * _GIB
    """Size of each volume under test."""
    disks: int = Field(default=1, ge=1, le=32)
    """Volumes under test of a machine, under load together."""
    fleet: int | None = Field(default=None, ge=1, le=1000)
    """Machines of a lane, under load together; default: one. A workload that sets its own number of machines
    overrides it."""
    spread: Literal["even", "packed"] = "even"
    """even: machines go to the hosts in turn. packed: each host is filled before the next one is used.
    Machine 3 of every lane runs on the same host, so that lanes take turns on the same hardware."""
    settle: Duration = 1_000_000_000
    """Idle time between two trials of a block."""

    @property
    def able(self) -> tuple[str, ...]:
        """Transports for this platform only, and those whose initiator in the guest connects to an external array over
        TCP. Shares, clusters and RDMA devices need existing machines (platform hosts)."""
        lanes = [(name, transport.Spec) for name, transport in registry.every("lanes")]
        own = [name for name, spec in lanes if self.kind in spec.platforms]
        return (*own, *_INITIATORS)

    def counted(self, hosts: int, each: int | None, names: tuple[str, str]) -> None:
        """Raise ValueError for contradicting numbers of machines. ``names``: keys for the number of hosts and of
        machines on each."""
        if each is not None and self.fleet is not None:
            raise ValueError(f"{names[1]}: give fleet or {names[1]}, not both")
        if self.fleet is not None and hosts > self.fleet:
            raise ValueError(f"{names[0]}: {hosts} for only {self.fleet} machines; the rest would stay empty")

    @property
    def machines(self) -> int:
        """Machines of a lane, unless the workload sets them."""
        return self.fleet or 1

    def known(self) -> Mapping[str, Any]:
        return {
            **super().known(),
            "initiator": "guest",  # lanes by name: the hypervisor's
            "vm_cpus": self.cpus,
            "vm_memory": self.memory,
            "fleet": self.machines,
            "disk_size": self.disk_size,
            "disks": self.disks,
        }
