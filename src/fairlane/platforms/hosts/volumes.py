"""The volumes of a study: which lane uses which machine, with a site for each. Pure."""

import secrets
from dataclasses import dataclass, replace
from pathlib import Path

from fairlane import registry
from fairlane.fleet.devices import FileKind
from fairlane.fleet.volumes import Bound
from fairlane.lanes import _medium
from fairlane.lanes.base import Site, Step
from fairlane.platforms.hosts.spec import HostsSpec
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
    medium: Step | None = None
    """Makes the medium on the array."""

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
    def root(self) -> bool:
        """Whether its machine must run scripts as root: steps need it, or a block device is opened."""
        return not self.transport.stores_files or any(step.root for step in self.steps() if step.place == "initiator")

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

    def sessions(self) -> tuple[Step, ...]:
        return self.transport.sessions()


def machines_of(study: Study, provisioning: int = 0) -> dict[str, tuple[str, ...]]:
    """Lane -> its machines, in order. Lanes that may exchange machines have each other's in later provisionings."""
    spec = study.platform
    assert isinstance(spec, HostsSpec)  # noqa: S101 - the study's kind chose this platform
    every = {lane: study.lanes[lane].machines or tuple(spec.machines) for lane in study.lanes}
    if exchange := exchanging(study):
        dealt = rotated([every[lane] for lane in exchange], provisioning)
        every |= dict(zip(exchange, dealt, strict=True))
    return every


def exchanging(study: Study) -> list[str]:
    """Lanes that exchange their machines between provisionings: they have as many, which are not the same, and their
    volumes can be reached from any machine. Empty: none do."""
    spec = study.platform
    assert isinstance(spec, HostsSpec)  # noqa: S101 - as above
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
    assert isinstance(spec, HostsSpec)  # noqa: S101 - as above
    machines = machines_of(study, provisioning)
    result: list[Volume] = []
    for lane in rotated([*study.lanes], provisioning):
        lane_spec = study.lanes[lane]
        bind = registry.load("lanes", lane_spec.transport)
        own = machines[lane]
        for guest, machine in enumerate(own):
            name = lane if len(own) == 1 else f"{lane}-{guest}"
            site = _site(spec, lane_spec, len(result), [*spec.machines].index(machine), run)
            volume = Volume(bind(name, lane_spec, site), lane, guest, machine)
            result.append(_exported(volume, spec) if volume.needs_array and spec.array else volume)
    return tuple(result)


def _exported(volume: Volume, spec: HostsSpec) -> Volume:
    """``volume`` with a file of the array as its medium."""
    assert spec.array  # noqa: S101 - the caller looked
    title = volume.name
    size = -(-volume.transport.medium_size() // 2**20) * 2**20
    step = _medium.file_medium(spec.array.folder, title, size, volume.site.run)
    return replace(volume.at(medium=_medium.path(volume.site.run, title)), medium=step)


def _site(spec: HostsSpec, lane: LaneSpec, index: int, host: int, run: str) -> Site:
    array = spec.array
    paths = len(array.addresses) if array and getattr(lane, "multipath", None) else 1
    addresses = array.addresses[:paths] if array else ()
    port = array.first_port + index if array and array.first_port else 0
    return Site(
        medium="", address=addresses[0] if addresses else "", interface="", index=index, secret=secrets.token_hex(8),
        addresses=addresses, size=spec.size, host=host, living=True, run=run, port=port,
    )  # fmt: skip
