"""How a volume reaches a guest: a transport is a list of reversible steps in shell, and a way to find the device.

A step is text, not a call, so that the same transport serves a guest reached over SSH and a guest under the virtual
clock, which must find its whole job inside and never be talked to.

Functions that every step, ``find`` and probe may call, whatever machine they run on:

* ``row KEY VALUE``: prints one line of a description. For ``describe``; a key of ``expect`` must come with its value.
* ``await COUNT COMMAND``: runs COMMAND, shell in one argument, every 50 ms until it prints the number COUNT; fails
  after 10 s and says what it waited for: ``await 1 'ls /sys/class/nvme | wc -l'``.
* ``controller NQN``: prints the sysfs folder of the NVMe controller that is connected to the subsystem NQN; fails if
  there is none.
* ``send NAME FOLDER``: gives the program the files of FOLDER as the result NAME, and ``mark NAME`` tells it that a
  phase begins. Platforms call them around loads; a step has no need to.

``machines/guest/lib.sh`` defines them. A machine that is reached over SSH or is not ours gets the same file, and
behind it a ``send`` of its own (``machines/guest/send.sh``) and the guard of devices (``guard.sh``). Steps
run as root in POSIX shell with ``set -eu``, in the lab busybox's; variables and folders do not outlive a step.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from fairlane.errors import FairlaneError
from fairlane.records import FaultKind
from fairlane.study.base import LaneSpec

Place = Literal["target", "initiator", "hypervisor"]
"""Where a step runs: on the array, in the virtual machine, on the machine that runs the hypervisor."""

Backing = Literal["array", "machine", "ceph", "cephfs", "external"]
"""What a volume lies on. array: a medium of the lab's array, which exports it. machine: a medium of the machine that
uses it. ceph: a pool of a Ceph cluster; cephfs: a file system of one, mounted where the hypervisor is. external: what
others set up; nothing on it is ours, or a platform makes it by a name."""

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
    """Block device on the target machine that is exported: ``/dev/nullb0``. Of a transport that stores files (nfs):
    the device that its file system is made on. Without a target (``local``): what the device is made of."""
    address: str
    """Address on which the target listens: the first of ``addresses``."""
    interface: str
    """Network interface that carries the traffic, for MTU, drops and retransmits; the initiator's, of the first
    path."""
    index: int
    """Number of the volume among all of the run, from 0: keeps ports, portals and serials apart."""
    secret: str
    """For authentication; never described, never in a run directory."""
    addresses: tuple[str, ...] = ()
    """Addresses of the target, one per path (A/B); empty: ``address`` alone."""
    interfaces: tuple[str, ...] = ()
    """The initiator's interfaces, one per path; empty: ``interface`` alone."""
    size: int = 0
    """Bytes of the volume; 0: not known. The medium has ``Transport.medium_size``."""
    host: int = 0
    """Number of the virtual machine that the volume is for, from 0: keeps hostnqn, initiator name and ACLs apart."""
    latency: int = 0
    """Completion time of the medium, ns, where the hypervisor models it."""
    reach: str = ""
    """``host:port`` at which the hypervisor reaches the target's ``Transport.port``, where it is forwarded."""
    cluster: str = ""
    """Folder of the cluster's configuration and keys (``ceph.conf``), for transports that need one."""
    golden: str = ""
    """Golden image of lanes that clone, where their steps read it: a file of the hypervisor, or a device of the
    target."""
    hardware: tuple[str, ...] = ()
    """MAC addresses: the target's and the initiator's of the first path, for transports below IP (FCoE)."""

    @property
    def portals(self) -> tuple[str, ...]:
        """Addresses of the target, one per path."""
        return self.addresses or (self.address,)

    @property
    def links(self) -> str:
        """The initiator's interfaces, one per path, for readers."""
        return " + ".join(self.interfaces or (self.interface,))


@dataclass(frozen=True)
class Ground:
    """What a platform tells a transport before anything is built: the argument of ``Transport.problems``."""

    keeps: bool
    """What is written to a medium can be read again."""
    fleet: int
    """Virtual machines of a lane."""
    mtu: int
    """Of the links between initiators and target, bytes."""
    lanes: Mapping[str, LaneSpec] = field(default_factory=dict)
    """All lanes of the study."""
    cpus: int = 0
    """Of one virtual machine; 0: not known."""
    faults: tuple[FaultKind, ...] = ()
    """What the study's workloads do to paths."""


def digests(spec: Any) -> list[str]:
    """For ``path_settings``: the checksums that a transport with header and data digests adds."""
    return [f"{part} digest" for part in ("header", "data") if getattr(spec, f"{part}_digest")]


@dataclass(frozen=True)
class Transport(ABC, Generic[SpecT]):
    """A class that builds one lane by steps in shell (apply, describe, remove), and finds the device they bring.

    ``PLUGIN`` of each file in this package is such a class; ``PLUGIN(name, spec, site)`` is a lane's transport. A child
    needs ``Spec`` and ``find``; of the rest it states what differs from here, or from the transport it derives from."""

    name: str
    """Of the lane; of the volume, where the lane has several: unique in the run."""
    spec: SpecT
    """The lane's keys in the study."""
    site: Site

    Spec: ClassVar[type[LaneSpec]]

    packages: ClassVar[tuple[str, ...]] = ()
    """Debian packages that the programs come from."""
    programs: ClassVar[tuple[str, ...]] = ()
    """Programs that the steps call."""
    modules: ClassVar[tuple[str, ...]] = ()
    """Kernel modules of target and initiator, loaded before the steps."""

    virtual: ClassVar[bool] = False
    """Can be built inside one VM under the virtual clock; packages, programs and modules are in that image."""
    backing: ClassVar[Backing] = "array"
    """What the volume lies on."""
    exclusive: ClassVar[bool] = False
    """The target takes its medium for itself: no second lane of this transport can end at the same one."""
    stores_files: ClassVar[bool] = False
    """``find`` gives a file in a mounted share, not a block device."""
    first_port: ClassVar[int] = 0
    """TCP port of the target of volume 0; those of further volumes follow. 0: it listens on none."""
    driver: ClassVar[Mapping[str, str]] = {}
    """QEMU's own initiator, where ``backend`` uses one that not every QEMU has: ``driver``, and arguments with which it
    opens nothing, so that it can be tried. Empty: none is needed."""
    host_modules: ClassVar[tuple[str, ...]] = ()
    """Kernel modules of this machine, where ``initiator: hypervisor`` means the initiator of its own kernel: the
    initiator's steps run here then, and QEMU gets the block device. Empty: QEMU connects itself (``backend``)."""

    def steps(self) -> tuple[Step, ...]:
        """The steps that build the lane, in order; they are undone in reverse."""
        return ()

    @abstractmethod
    def find(self) -> str:
        """Shell that prints the initiator's block device, found by a stable identity (serial, NQN), never by order."""

    def path(self) -> tuple[str, ...]:
        """The hops from the workload to the medium, for the path diagram."""
        return ("fio", self.site.medium)

    def problems(self, ground: Ground) -> Iterable[FairlaneError]:  # noqa: ARG002
        """Why the lane cannot be built on ``ground`` (see ``problem``); empty: it can."""
        return ()

    def medium_size(self) -> int:
        """Bytes of medium that the volume takes: more than ``site.size`` where a file system or a volume manager lies
        between them."""
        return self.site.size

    def backend(self) -> Mapping[str, Any]:
        """QEMU's protocol node for the volume (``-blockdev`` without ``node-name``; ``cache`` and ``aio`` are added by
        the platform), where ``initiator: hypervisor``. Raises FairlaneError where QEMU has no driver for it."""
        raise FairlaneError(
            "initiator",
            f"lane {self.name}: QEMU has no initiator for {self.spec.transport}",
            hint=f"initiator: {' or '.join(type(self.spec).initiators)}",
        )

    def fault(self, kind: FaultKind, path: int) -> Step | None:  # noqa: ARG002
        """A step on the target whose ``apply`` takes ``path`` (from 0) away and whose ``remove`` brings it back; None:
        this transport has no such fault. ``link`` is the platform's own and never asked for."""
        return None

    @property
    def port(self) -> int:
        """TCP port on which the target listens; 0: none."""
        return self.first_port + self.site.index if self.first_port else 0

    def portal(self, path: int) -> str:
        """Address of the target on ``path``. Raises FairlaneError if the lane has no such path."""
        if path >= len(self.site.portals):
            raise FairlaneError(
                "path-unknown", f"lane {self.name} has {len(self.site.portals)} path(s), so that none is number {path}"
            )
        return self.site.portals[path]

    def problem(self, kind: str, message: str, hint: str, key: str = "transport") -> FairlaneError:
        """One of ``problems``: what is wrong, and the way out; ``key``: of the lane in the study."""
        return FairlaneError(kind, message, where=f"lanes.{self.name}.{key}", hint=hint)


NO_MEDIUM_KEPT = "set platform.medium.memory_backed: true with a size that fits, or platform.medium.file: true"
"""Hint of ``problem`` where ``Ground.keeps`` is needed."""
