"""The lab's part of a study file."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane import registry
from fairlane.guard.values import NONE
from fairlane.study.base import PlatformSpec
from fairlane.study.strict import Strict
from fairlane.units import Bitrate, Duration, Size, format_duration

_WALL = ("cpus", "fleet", "disks", "paths", "array", "pinning", "accel", "overcommit", "ceph", "capabilities")
"""Keys for the wall clock only."""


class Medium(Strict):
    """The modelled medium (null_blk): every I/O completes after ``latency``. One for every volume."""

    latency: Duration = 80_000
    """Completion time of one I/O. Ignored with ``file``, where the disk decides."""
    size: Size = 16 * 1024**3
    """Capacity of a volume."""
    memory_backed: bool = False
    """Keep what is written (needs memory of that size); otherwise writes are discarded and reads give zeros."""
    file: bool = False
    """Wall clock: a sparse file on this machine's disk in place of null_blk; keeps what is written."""

    @property
    def keeps(self) -> bool:
        """Whether written data can be read again."""
        return self.memory_backed or self.file


class Link(Strict):
    """The modelled link between initiator and target (netem): delay and rate both ways, on every path."""

    delay: Duration = 10_000
    """One-way delay."""
    rate: Bitrate = 25_000_000_000
    """Rate."""
    mtu: int = Field(default=9000, ge=576, le=65536)
    """MTU in bytes."""


class Array(Strict):
    """The virtual machine that is the array (wall clock)."""

    cpus: int = Field(default=1, ge=1, le=64)
    """Virtual CPUs of the array."""
    memory: Size = 1024**3
    """Memory of the array; it holds memory-backed media."""


class Ceph(Strict):
    """The Ceph cluster on this machine, for lanes that need one: a monitor, a manager, OSDs, for CephFS an MDS (wall
    clock)."""

    osds: int = Field(default=3, ge=1, le=16)
    """OSDs, all on this machine. Copies go to different ones."""
    osd_size: Size = 2 * 1024**3
    """Size of each: a sparse file, or memory. Volumes must fit with their copies."""
    osd_cache: Size = 64 * 1024**2
    """BlueStore's cache of each OSD. Small, so that reads of a small working set are not all served from it."""
    memstore: bool = False
    """Keep objects in memory in place of BlueStore: the software's cost without any medium; nothing is durable."""

    @property
    def memory(self) -> int:
        """Bytes that the cluster takes: measured 150 MB per OSD with 64 MiB of cache, and 450 MB for the rest."""
        own = self.osd_size if self.memstore else self.osd_cache
        return self.osds * (own + 192 * 2**20) + 512 * 2**20


class LabSpec(PlatformSpec):
    """Lab VMs on this machine, with the real Linux storage stacks."""

    kind: Literal["lab"]
    """Small Debian VMs under QEMU, built once and cached."""
    clock: Literal["virtual", "wall"] = "virtual"
    """virtual: time is instructions executed (1 ns each), bit-exact on any machine; ratios, not absolutes; target and
    initiator in one guest. wall: ordinary virtual machines and an array on a virtual network, under KVM where it boots,
    otherwise emulated and marked so."""
    memory: Size = 768 * 1024**2
    """Memory of a guest."""
    cpus: int = Field(default=1, ge=1, le=64)
    """Virtual CPUs of a guest. More than one: wall clock only."""
    fleet: int = Field(default=1, ge=1, le=64)
    """Guests under load together, each with its own volumes of every lane. More than one: wall clock only."""
    disks: int = Field(default=1, ge=1, le=32)
    """Volumes of a lane in each guest, under load together. More than one: wall clock only."""
    paths: int = Field(default=1, ge=1, le=4)
    """Networks between guests and array: 2 is an A/B split. Lanes with ``multipath`` use all, others the first. More
    than one: wall clock only."""
    array: Array = Array()
    """The array's machine. Wall clock only."""
    ceph: Ceph = Ceph()
    """The Ceph cluster. Wall clock only."""
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
    pinning: bool = False
    """Pin each virtual CPU and each IO thread to a core of its own. Wall clock only."""
    accel: Literal["auto", "kvm", "tcg"] = "auto"
    """auto: KVM if a guest boots under it. Wall clock only."""
    overcommit: float = Field(default=4.0, gt=0, le=64)
    """Most virtual CPUs per core of this machine. Wall clock only."""
    capabilities: bool = True
    """Probe the features of each lane's volume (discard, reservations, resizing, ...) before the first trial; some
    seconds per lane. Wall clock only."""

    @model_validator(mode="after")
    def _of_the_clock(self) -> Self:
        if self.clock == "wall":
            return self
        changed = [key for key in _WALL if getattr(self, key) != type(self).model_fields[key].default]
        if changed:
            raise ValueError(f"{changed[0]}: needs the wall clock; set clock: wall")
        if self.medium.file:
            raise ValueError("medium.file: needs the wall clock; set clock: wall")
        return self

    @property
    def title(self) -> str:
        return super().title if self.clock == "wall" else f"{super().title} with clock: virtual"

    @property
    def able(self) -> tuple[str, ...]:
        return self._of_this_clock("lanes")

    @property
    def loads(self) -> tuple[str, ...]:
        return self._of_this_clock("workloads")

    def _of_this_clock(self, package: str) -> tuple[str, ...]:
        """The plugins that can be under the virtual clock; empty, meaning any, under the wall clock."""
        if self.clock == "wall":
            return ()
        return tuple(name for name, plugin in registry.every(package) if plugin.virtual)

    def known(self) -> Mapping[str, Any]:
        """Under the virtual clock the initiator runs in the guest, so that there is no guest device; null_blk has no
        volatile cache. Under the wall clock lanes with a device tell of it themselves."""
        where = "a file of this machine" if self.medium.file else "null_blk"
        took = "" if self.medium.file else f", {format_duration(self.medium.latency)} per I/O"
        none = ("bus", "io_threads", "queues", "cache_mode", "aio", "volume_mode", "provisioning", "controllers",
                "image_format", "device_options")  # fmt: skip
        return {
            **super().known(),
            "initiator": "guest",
            "backend": where + took + ("" if self.medium.keeps else ", keeps nothing"),
            "vm_cpus": self.cpus,
            "vm_memory": self.memory,
            "cpu_pinning": self.pinning or NONE,
            "preempt": self.preempt,
            "fleet": self.fleet,
            **dict.fromkeys(none, NONE),
            "disk_size": self.medium.size,
            "disks": self.disks,
            "copies": 1,
            "write_ack": "when the medium has completed it",
            "flush": "nothing to flush: no volatile cache",
            "link_speed": self.link.rate,
            "link_delay": self.link.delay,
            "mtu": self.link.mtu,
        }

    @property
    def same_anew(self) -> str:
        return "" if self.clock == "wall" else "under the virtual clock every block starts from the same saved state"

    @property
    def lasting_sessions(self) -> str:
        return self.same_anew

    def wall_seconds(self, guest_seconds: float) -> float:
        """Virtual clock: a share of the resume, fio's start, snapshots; then the load. Measured under TCG on both of a
        server's two cores of 2023: within 16 % of three runs of 24 to 96 trials with 180 and 250 ms under load. Wall
        clock: snapshots, fio's start and end beside the load."""
        return 0.9 + 6.5 * guest_seconds if self.clock == "virtual" else 1.8 + guest_seconds

    def workers(self, jobs: int) -> int:
        return jobs if self.clock == "virtual" else 1
