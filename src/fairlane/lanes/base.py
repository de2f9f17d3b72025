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
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from fairlane.errors import FairlaneError
from fairlane.records import FaultKind
from fairlane.study.base import LaneSpec

Place = Literal["target", "initiator", "hypervisor"]
"""Where a step runs: on the array, in the virtual machine, on the machine that runs the hypervisor."""

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
    ports: int = 0
    """Added to the transport's own port number, where several targets share an address (port forwarding)."""
    size: int = 0
    """Bytes of the volume; 0: not known. The medium has ``Transport.medium_size`` of it."""
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


class Transport(ABC, Generic[SpecT]):
    """Steps in shell (apply, describe, remove), and how to find the device they bring.

    ``PLUGIN`` of each file in this package is one instance."""

    Spec: ClassVar[type[LaneSpec]]
    packages: ClassVar[tuple[str, ...]] = ()
    """Debian packages that the programs come from."""
    programs: ClassVar[tuple[str, ...]] = ()
    """Programs that the steps call."""
    modules: ClassVar[tuple[str, ...]] = ()
    """Kernel modules of target and initiator, loaded before the steps."""
    virtual: ClassVar[bool] = False
    """Can be built inside one VM under the virtual clock; its packages, programs and modules are in that image."""
    exclusive: ClassVar[bool] = False
    """The target takes its medium for itself: no second lane of this transport can end at the same one."""
    driver: ClassVar[Mapping[str, str]] = {}
    """QEMU's own initiator, where ``backend`` uses one that not every QEMU has: ``driver``, and arguments with which it
    opens nothing, so that it can be tried. Empty: none is needed."""
    target: ClassVar[bool] = True
    """Needs the array's machine."""
    cluster: ClassVar[str] = ""
    """Needs a cluster of this kind: ``ceph``; ``cephfs``: one with a file system, mounted where the hypervisor is."""
    clones: ClassVar[bool] = False
    """Makes machines' disks of a golden image while it is measured (workload ``clone``, see ``_clones``)."""
    existing: ClassVar[bool] = False
    """The volume was there before Fairlane came: nothing on it is ours."""
    stores_files: ClassVar[bool] = False
    """``find`` gives a file in a mounted share, not a block device."""

    @abstractmethod
    def steps(self, name: str, spec: SpecT, site: Site) -> tuple[Step, ...]:
        """The steps that build lane ``name``, in order; they are undone in reverse."""

    @abstractmethod
    def find(self, name: str, spec: SpecT, site: Site) -> str:
        """Shell that prints the initiator's block device, found by a stable identity (serial, NQN), never by order."""

    def problems(self, name: str, spec: SpecT, ground: Ground) -> list[FairlaneError]:  # noqa: ARG002
        """Why lane ``name`` cannot be built on ``ground``, with place and way out; empty: it can."""
        return []

    def medium_size(self, spec: SpecT, size: int) -> int:  # noqa: ARG002
        """Bytes of medium that a volume of ``size`` bytes takes: more where a file system or a volume manager lies
        between them."""
        return size

    def backend(self, name: str, spec: SpecT, site: Site) -> Mapping[str, Any]:  # noqa: ARG002
        """QEMU's protocol node for the volume (``-blockdev`` without ``node-name``; ``cache`` and ``aio`` are added by
        the platform), where ``initiator: hypervisor``. Raises FairlaneError where QEMU has no driver for it."""
        raise FairlaneError(
            f"lane {name}: QEMU has no initiator for {spec.transport}",
            hint=f"initiator: {' or '.join(type(spec).initiators)}",
        )

    def hosted(self, spec: SpecT) -> tuple[str, ...]:  # noqa: ARG002
        """Kernel modules of this machine, where ``initiator: hypervisor`` means the initiator of its own kernel: the
        initiator's steps run here then, and QEMU gets the block device. Empty: QEMU connects itself (``backend``)."""
        return ()

    def port(self, spec: SpecT, site: Site) -> int:  # noqa: ARG002
        """TCP port on which the target listens, for forwarding; 0: none."""
        return 0

    def fault(self, kind: FaultKind, path: int, name: str, spec: SpecT, site: Site) -> Step | None:  # noqa: ARG002
        """A step on the target whose ``apply`` takes ``path`` (from 0) away and whose ``remove`` brings it back; None:
        this transport has no such fault. ``link`` is the platform's own and never asked for."""
        return None

    def path(self, name: str, spec: SpecT, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        """The hops from the workload to the medium, for the path diagram."""
        return ("fio", site.medium)
