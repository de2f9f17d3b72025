"""The interface of a transport: reversible steps in shell that bring a volume to a guest, and a way to find the device.

A step is text, so that one transport serves a guest reached over SSH and a guest under the virtual clock, which gets
its whole job beforehand and has no connection.

Functions that every step, ``find`` and probe may call, whatever machine they run on:

* ``row KEY VALUE``: prints one line of a description. For ``describe``; a key of ``expect`` must come with its value.
* ``await COUNT COMMAND``: runs COMMAND, shell in one argument, every 50 ms until it prints the number COUNT; fails
  after 10 s and reports the condition: ``await 1 'ls /sys/class/nvme | wc -l'``.
* ``controller NQN``: prints the sysfs folder of the NVMe controller that is connected to the subsystem NQN; fails if
  there is none.
* ``send NAME FOLDER``: sends FOLDER's files to the program as the result NAME; ``mark NAME`` reports that a phase
  begins. Platforms call them around loads; steps do not.

``machines/guest/lib.sh`` defines them. Machines over SSH, or not ours, get the same file, a ``send`` of their own
(``machines/guest/send.sh``) and the device guard (``guard.sh``). Steps run as root in POSIX shell with ``set -eu``, in
the lab busybox's; variables and folders do not outlive a step.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from fairlane.errors import FairlaneError
from fairlane.records import FaultKind
from fairlane.study.base import LaneSpec

Place = Literal["target", "initiator", "hypervisor"]
"""Machine that runs a step: the array, the virtual machine, the hypervisor's host."""

Backing = Literal["array", "machine", "ceph", "cephfs", "external"]
"""Storage of a volume. array: a medium of the lab's array, which exports it. machine: a medium of the machine that uses
it. ceph: a pool of a Ceph cluster; cephfs: a file system of one, mounted on the hypervisor. external: storage set up by
others, or created by a platform under a name."""

SpecT = TypeVar("SpecT", bound=LaneSpec)


@dataclass(frozen=True)
class Step:
    """One change to a machine: ``apply`` makes it, ``describe`` reads it back, ``remove`` undoes it.

    All three are POSIX shell, run with ``set -eu`` as root. ``describe`` prints ``key<TAB>value`` lines; a value that
    differs from ``expect`` stops the run, because the lane is not the one in the study.
    """

    name: str
    place: Place
    apply: str
    describe: str = ""
    remove: str = ""
    expect: Mapping[str, str] = field(default_factory=dict)
    root: bool = True
    """Whether it needs root."""
    session: bool = False
    """Whether it connects the initiator to its volume and nothing else: removed and applied again it makes a new
    connection to the same data."""


@dataclass(frozen=True)
class Site:
    """A platform's offer for building one lane."""

    medium: str
    """Block device on the target machine that is exported: ``/dev/nullb0``. For file transports (nfs): the device under
    the file system. Without a target (``local``): the device's medium."""
    address: str
    """Address on which the target listens: the first of ``addresses``."""
    interface: str
    """Network interface of the traffic, for MTU, drops and retransmits: the initiator's, on the first path."""
    index: int
    """Number of the volume in the run, from 0: makes ports, portals and serials unique."""
    secret: str
    """For authentication; never described, never in a run directory."""
    addresses: tuple[str, ...] = ()
    """Addresses of the target, one per path (A/B); empty: ``address`` alone."""
    interfaces: tuple[str, ...] = ()
    """The initiator's interfaces, one per path; empty: ``interface`` alone."""
    size: int = 0
    """Bytes of the volume; 0: not known. The medium's size is ``Transport.medium_size``."""
    host: int = 0
    """Number of the virtual machine that uses the volume, from 0: makes hostnqn, initiator name and ACLs unique."""
    latency: int = 0
    """Completion time of the medium, ns, if the hypervisor models it."""
    reach: str = ""
    """``host:port`` that forwards from the hypervisor to ``Transport.port`` of the target."""
    cluster: str = ""
    """Folder of the cluster's configuration and keys (``ceph.conf``), for transports that need one."""
    golden: str = ""
    """Golden image of clone lanes for their steps: a file of the hypervisor, or a device of the target."""
    living: bool = False
    """Whether the machines belong to somebody: what is there stays."""
    run: str = ""
    """Id of the run, which makes names unique on machines where several runs may have left something."""
    hardware: tuple[str, ...] = ()
    """MAC addresses: the target's and the initiator's of the first path, for transports below IP (FCoE)."""

    port: int = 0
    """TCP port on which the target listens; 0: ``Transport.first_port`` plus the volume's number."""
    uri: str = ""
    """How virsh reaches libvirt on the hypervisor."""

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
    """A platform's properties for ``Transport.problems``, known before anything is built."""

    keeps: bool
    """Whether a medium keeps written data."""
    fleet: int
    """Virtual machines per lane."""
    mtu: int
    """MTU of the links between initiators and target, bytes."""
    lanes: Mapping[str, LaneSpec] = field(default_factory=dict)
    """All lanes of the study."""
    cpus: int = 0
    """CPUs of one virtual machine; 0: not known."""
    faults: tuple[FaultKind, ...] = ()
    """Path faults in the study's workloads."""


def digests(spec: Any) -> list[str]:
    """Checksums that a transport with header and data digests adds, for ``path_settings``."""
    return [f"{part} digest" for part in ("header", "data") if getattr(spec, f"{part}_digest")]


@dataclass(frozen=True)
class Transport(ABC, Generic[SpecT]):
    """A class that builds one lane by steps in shell (apply, describe, remove), and finds the device they bring.

    ``PLUGIN`` of each file in this package is such a class; ``PLUGIN(name, spec, site)`` is a lane's transport. A child
    needs ``Spec`` and ``find``; of the rest it states what differs from here, or from the transport it derives from."""

    name: str
    """Name of the lane; of the volume, if the lane has several: unique in the run."""
    spec: SpecT
    """The lane's keys in the study."""
    site: Site

    Spec: ClassVar[type[LaneSpec]]

    packages: ClassVar[tuple[str, ...]] = ()
    """Debian packages of the programs."""
    programs: ClassVar[tuple[str, ...]] = ()
    """Programs that the steps call."""
    modules: ClassVar[tuple[str, ...]] = ()
    """Kernel modules of target and initiator, loaded before the steps."""

    living: ClassVar[bool] = False
    """Its steps are safe on machines that belong to somebody (``Site.living``), and can be undone there at any time:
    half applied, twice, after a reboot."""
    virtual: ClassVar[bool] = False
    """Can be built inside one VM under the virtual clock, whose image has its packages, programs and modules."""
    backing: ClassVar[Backing] = "array"
    """Storage of the volume."""
    exclusive: ClassVar[bool] = False
    """The target claims its medium: no second lane of this transport can use it."""
    stores_files: ClassVar[bool] = False
    """``find`` gives a file in a mounted share, not a block device."""
    remade: ClassVar[bool] = False
    """The session steps make the volume itself: a new one, to be filled, where others log in anew."""
    first_port: ClassVar[int] = 0
    """TCP port of the target of volume 0; those of further volumes follow. 0: it listens on none."""
    driver: ClassVar[Mapping[str, str]] = {}
    """QEMU's own initiator, if ``backend`` uses an optional one: ``driver``, and arguments that open nothing, to test
    for it. Empty: none is needed."""
    host_modules: ClassVar[tuple[str, ...]] = ()
    """Kernel modules of this machine, if ``initiator: hypervisor`` means its kernel's initiator: the initiator's steps
    run here then, and QEMU gets the block device. Empty: QEMU connects itself (``backend``)."""

    def steps(self) -> tuple[Step, ...]:
        """The steps that build the lane, in order; they are undone in reverse."""
        return ()

    def sessions(self) -> tuple[Step, ...]:
        """The last steps, if they connect the initiator and nothing is built on them, so that it can log in anew
        between two blocks; empty: there are none."""
        steps = self.steps()
        first = next((number for number, step in enumerate(steps) if step.session), len(steps))
        return steps[first:] if all(step.session for step in steps[first:]) else ()

    @abstractmethod
    def find(self) -> str:
        """Shell that prints the initiator's block device, found by a stable identity (serial, NQN), never by order."""

    def path(self) -> tuple[str, ...]:
        """The hops from the workload to the medium, for the path diagram."""
        return ("fio", self.site.medium)

    def problems(self, ground: Ground) -> Iterable[FairlaneError]:  # noqa: ARG002
        """Problems (see ``problem``) of building the lane on ``ground``; empty: none."""
        return ()

    def medium_size(self) -> int:
        """Bytes of the medium: more than ``site.size`` if a file system or volume manager lies between them."""
        return self.site.size

    def backend(self) -> Mapping[str, Any]:
        """QEMU's protocol node for the volume (``-blockdev`` without ``node-name``; the platform adds ``cache`` and
        ``aio``), for ``initiator: hypervisor``. Raises FairlaneError if QEMU has no driver for it."""
        raise FairlaneError(
            "initiator",
            f"lane {self.name}: QEMU has no initiator for {self.spec.transport}",
            hint=f"set initiator: {' or '.join(type(self.spec).initiators)}",
        )

    def fault(self, kind: FaultKind, path: int) -> Step | None:  # noqa: ARG002
        """A step on the target whose ``apply`` cuts ``path`` (from 0) and whose ``remove`` restores it; None: no such
        fault. The platform handles ``link`` itself."""
        return None

    @property
    def port(self) -> int:
        """TCP port on which the target listens; 0: none."""
        return (self.site.port or self.first_port + self.site.index) if self.first_port else 0

    @property
    def title(self) -> str:
        """Name of what the lane makes: the volume's, on machines that belong to somebody after the run's id."""
        return f"{self.site.run}-{self.name}" if self.site.living else self.name

    def portal(self, path: int) -> str:
        """Address of the target on ``path``. Raises FairlaneError if the lane has no such path."""
        if path >= len(self.site.portals):
            raise FairlaneError(
                "path-unknown",
                f"lane {self.name} has {len(self.site.portals)} path(s), counted from 0; there is no path {path}",
            )
        return self.site.portals[path]

    def problem(self, kind: str, message: str, hint: str, key: str = "transport") -> FairlaneError:
        """One of ``problems``: message and hint; ``key``: of the lane in the study."""
        return FairlaneError(kind, message, where=f"lanes.{self.name}.{key}", hint=hint)


NO_MEDIUM_KEPT = "set platform.medium.memory_backed: true with a size that fits, or platform.medium.file: true"
"""Hint of ``problem`` where ``Ground.keeps`` is needed."""
