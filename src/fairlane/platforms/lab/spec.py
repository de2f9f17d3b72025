"""The lab's part of a study file."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from fairlane.study.base import PlatformSpec, Strict
from fairlane.study.units import Bitrate, Duration, Size, format_duration
from fairlane.study.values import NONE


class Medium(Strict):
    """The modelled medium (null_blk): every I/O completes after ``latency``."""

    latency: Duration = 80_000
    """Completion time of one I/O."""
    size: Size = 16 * 1024**3
    """Capacity."""
    memory_backed: bool = False
    """Keep what is written (needs guest memory of that size); otherwise writes are discarded and reads give zeros."""


class Link(Strict):
    """The modelled link between initiator and target (netem on loopback)."""

    delay: Duration = 10_000
    """One-way delay."""
    rate: Bitrate = 25_000_000_000
    """Rate."""
    mtu: int = Field(default=9000, ge=576, le=65536)
    """MTU in bytes."""


class LabSpec(PlatformSpec):
    """Lab VMs on this machine, with the real Linux storage stacks."""

    kind: Literal["lab"]
    """Small Debian VMs under QEMU, built once and cached."""
    clock: Literal["virtual"] = "virtual"
    """virtual: time is instructions executed (1 ns each), bit-exact on any machine; ratios, not absolutes."""
    memory: Size = 768 * 1024**2
    """Guest memory."""
    medium: Medium = Medium()
    """The medium that every lane exports."""
    link: Link = Link()
    """The link."""
    preempt: Literal["none", "voluntary", "full"] = "none"
    """Guest kernel's preemption model; see docs on the nvme-tcp stall for why the default is none."""
    hugepages: int = Field(default=32, ge=0, le=1024)
    """2 MiB pages reserved in the guest, for workloads that ask for them (fio's mem: mmaphuge)."""
    settle: Duration = 100_000_000
    """Idle time between two trials of a block; costs no wall time under the virtual clock."""

    transports = ("local", "iscsi", "nvme_tcp")

    def known(self) -> Mapping[str, Any]:
        """The initiator runs in the guest, so that there is no guest device; null_blk has no volatile cache."""
        medium = f"null_blk, {format_duration(self.medium.latency)} per I/O"
        return {
            **super().known(),
            "initiator": "guest",
            "backend": medium + ("" if self.medium.memory_backed else ", keeps nothing"),
            "vm_cpus": 1,
            "vm_memory": self.memory,
            "cpu_pinning": NONE,
            "preempt": self.preempt,
            "fleet": 1,
            **dict.fromkeys(("bus", "io_threads", "queues", "cache_mode", "aio", "volume_mode", "provisioning"), NONE),
            "disk_size": self.medium.size,
            "disks": 1,
            "copies": 1,
            "write_ack": "when the medium has completed it",
            "flush": "nothing to flush: no volatile cache",
            "link_speed": self.link.rate,
            "link_delay": self.link.delay,
            "mtu": self.link.mtu,
        }

    def wall_seconds(self, guest_seconds: float) -> float:
        """A share of the resume, fio's start, snapshots; then the load. Measured under TCG on both of a server's two
        cores of 2023: within 16 % of three runs of 24 to 96 trials with 180 and 250 ms under load."""
        return 0.9 + 6.5 * guest_seconds

    def workers(self, jobs: int) -> int:
        return jobs
