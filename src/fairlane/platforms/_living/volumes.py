"""The volumes of a study: which lane uses which machine, with a site for each. Pure."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.fleet.devices import FileKind
from fairlane.fleet.volumes import Bound
from fairlane.lanes import _medium
from fairlane.lanes.base import Place, Site, Step
from fairlane.platforms._living.spec import ARRAY, LivingSpec
from fairlane.study.base import LaneSpec
from fairlane.study.provisionings import rotated
from fairlane.study.spec import Study


@dataclass(frozen=True)
class Volume(Bound):
    """One volume of a lane, on one machine."""

    lane: str
    guest: int
    """Number of the machine among the lane's, from 0."""
    machine: str
    platform: LivingSpec
    medium: Step | None = None
    """Makes the medium on the array."""

    @property
    def initiator(self) -> str:
        """The machine whose network and disks lead to the volume."""
        return self.machine

    def where(self, place: Place) -> str:
        """The machine on which steps at ``place`` run."""
        return ARRAY if place == "target" else self.machine

    def programs(self) -> Mapping[str, tuple[str, ...]]:
        """Machine -> programs that steps call there."""
        every = self.transport.programs
        own = {self.initiator: tuple(p for p in every if p not in _OF_TARGETS)}
        targets = tuple(p for p in every if p in _OF_TARGETS)
        return {**own, **({ARRAY: ("losetup", *targets)} if self.needs_array else {})}

    def roots(self) -> tuple[str, ...]:
        """Machines that must run scripts as root: steps need it, or a block device is opened."""
        own = not self.transport.stores_files or any(s.root for s in self.steps() if s.place == "initiator")
        return (*((self.machine,) if own else ()), *((ARRAY,) if self.needs_array else ()))

    def problems(self) -> Iterable[FairlaneError]:
        """Why the platform cannot build it, whatever the transport can."""
        if self.spec.initiator == "hypervisor" and self.spec.transport not in ("directory", "file"):
            yield FairlaneError(
                "initiator", f"platform {self.platform.kind} has no hypervisor for initiator: hypervisor",
                where=f"lanes.{self.lane}", hint="remove initiator",
            )  # fmt: skip

    def examination(self) -> Mapping[str, str]:
        """Machine -> shell that changes nothing and prints ``missing<TAB>TEXT``, and perhaps ``hint<TAB>TEXT``, for
        what keeps the volume from being built there."""
        external: Any = getattr(self.spec, "external", None)
        port = getattr(external, "port", 0)
        if not port or self.spec.transport == "nvme_rdma":
            return {}
        return {self.initiator: _PORTALS.format(addresses=" ".join(external.addresses), port=port)}

    @property
    def buildable(self) -> bool:
        """Whether its steps leave everything else on the machines alone."""
        return self.transport.living

    def path(self) -> tuple[str, ...]:
        """The hops from the workload to the medium."""
        return self.transport.path()

    def find(self) -> str:
        """Shell that prints its device on its machine."""
        return self.transport.find()

    @property
    def external(self) -> bool:
        """Whether the volume was there before the run."""
        return self.transport.backing == "external" or bool(self.spec.existing)

    @property
    def owned(self) -> bool:
        """Whether the run makes it, so that nobody else has data on it."""
        return not self.external

    @property
    def kept(self) -> bool:
        return self.external and not self.spec.destroy

    @property
    def needs_array(self) -> bool:
        """Whether it is exported by the platform's ``array``."""
        return self.transport.backing == "array" and not getattr(self.spec, "external", None)

    @property
    def place(self) -> str:
        """Where its file is made, in words: a path, somebody's share, or the study's array."""
        share = f"the share of {self.lane}" if getattr(self.spec, "external", None) else "the array"
        return str(getattr(self.spec, "path", share))

    @property
    def file_kind(self) -> FileKind:
        if self.transport.remade:
            return "made"
        return "kept" if self.transport.backing == "external" else "share"

    def file(self, media: Path) -> Path:
        """A path without a file: no medium is a file of the program's own machine."""
        return media / self.name

    def steps(self) -> tuple[Step, ...]:
        """The transport's, after that of its medium on the array."""
        medium = (self.medium,) if self.medium else ()
        return (*medium, *self.transport.steps())

    def described(self, link: str) -> tuple[Step, ...]:  # noqa: ARG002
        """Its steps, and what else is read back once its device is at ``link``."""
        return self.steps()

    def sessions(self) -> tuple[Step, ...]:
        return self.transport.sessions()


_PORTALS = """
for a in {addresses}; do
  timeout 5 bash -c ': < /dev/tcp/$0/$1' "$a" {port} 2> /dev/null || {{
    row missing "nothing answers at $a:{port} (TCP, within 5 s)"
    row hint "check the address, the route and the array's service: nc -vz $a {port}"
  }}
done
"""
"""Shell: connects to every portal, and to nothing behind it. A login that gets no answer takes minutes."""
_OF_TARGETS = frozenset({"rpcbind", "rpc.nfsd", "rpc.mountd", "exportfs", "mkfs.ext4", "mkfs.xfs"})
"""Programs of transports that run on their targets."""


def machines_of(study: Study, provisioning: int = 0) -> dict[str, tuple[str, ...]]:
    """Lane -> its machines, in order. Lanes that may exchange machines have each other's in later provisionings."""
    spec = study.platform
    assert isinstance(spec, LivingSpec)  # noqa: S101 - the study's kind chose this platform
    every = {lane: study.lanes[lane].machines or tuple(spec.machines) for lane in study.lanes}
    if exchange := exchanging(study):
        dealt = rotated([every[lane] for lane in exchange], provisioning)
        every |= dict(zip(exchange, dealt, strict=True))
    return every


def exchanging(study: Study) -> list[str]:
    """Lanes that exchange their machines between provisionings: they have as many, which are not the same, and their
    volumes can be reached from any machine. Empty: none do."""
    spec = study.platform
    assert isinstance(spec, LivingSpec)  # noqa: S101 - as above
    every = {lane: study.lanes[lane].machines or tuple(spec.machines) for lane in study.lanes}
    movable = [lane for lane in every if _movable(study.lanes[lane])]
    alike = len({len(every[lane]) for lane in movable}) == 1
    apart = len({every[lane] for lane in movable}) > 1
    return movable if spec.swap and alike and apart and len(movable) == len(every) else []


def _movable(spec: LaneSpec) -> bool:
    """Whether a lane can be built on any machine."""
    return spec.transport not in ("directory", "file", "device")


def volumes(study: Study, run: str, provisioning: int = 0) -> tuple[Volume, ...]:
    """Every volume of the study, lane by lane, machine by machine. A volume's number gives it its port on the array:
    each provisioning begins to count at another lane."""
    spec = study.platform
    assert isinstance(spec, LivingSpec)  # noqa: S101 - as above
    machines = machines_of(study, provisioning)
    kind: type[Volume] = registry.load("platforms", spec.kind).volume_class
    result: list[Volume] = []
    for lane in rotated([*study.lanes], provisioning):
        lane_spec = study.lanes[lane]
        bind = registry.load("lanes", lane_spec.transport)
        own = machines[lane]
        for guest, machine in enumerate(own):
            name = lane if len(own) == 1 else f"{lane}-{guest}"
            site = _site(spec, lane_spec, len(result), [*spec.machines].index(machine), run)
            volume = kind(bind(name, lane_spec, site), lane, guest, machine, spec)
            result.append(_exported(volume, spec) if volume.needs_array and spec.array else volume)
    return tuple(result)


def _exported(volume: Volume, spec: LivingSpec) -> Volume:
    """``volume`` with a file of the array as its medium."""
    assert spec.array  # noqa: S101 - the caller looked
    title = volume.name
    size = -(-volume.transport.medium_size() // 2**20) * 2**20
    step = _medium.file_medium(spec.array.folder, title, size, volume.site.run)
    return replace(volume.at(medium=_medium.path(volume.site.run, title)), medium=step)


def _site(spec: LivingSpec, lane: LaneSpec, index: int, host: int, run: str) -> Site:
    array = spec.array
    paths = len(array.addresses) if array and getattr(lane, "multipath", None) else 1
    addresses = array.addresses[:paths] if array else ()
    port = array.first_port + index if array and array.first_port else 0
    return Site(
        medium="", address=addresses[0] if addresses else "", interface="", index=index, secret=secrets.token_hex(8),
        addresses=addresses, size=spec.size, host=host, living=True, run=run, port=port, uri=getattr(spec, "uri", ""),
    )  # fmt: skip
