"""The volumes of a study, as platforms number and place them: pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

from fairlane.lanes.base import Site, Transport
from fairlane.study.base import LaneSpec


class OfLane(Protocol):
    """What belongs to a lane."""

    @property
    def lane(self) -> str: ...


V = TypeVar("V", bound=OfLane)


def by_lane(volumes: Iterable[V]) -> dict[str, tuple[V, ...]]:
    """Volumes by lane, in order."""
    lanes: dict[str, tuple[V, ...]] = {}
    for volume in volumes:
        lanes[volume.lane] = (*lanes.get(volume.lane, ()), volume)
    return lanes


@dataclass(frozen=True)
class Bound:
    """A volume with its transport, which knows name, keys and site. Platforms derive theirs."""

    transport: Transport[Any]
    """Bound to the volume's name, the lane's keys and the volume's site."""

    @property
    def name(self) -> str:
        """Unique in the run: the lane's name, with a number where the lane has several volumes."""
        return self.transport.name

    @property
    def spec(self) -> LaneSpec:
        """The lane's keys in the study."""
        spec: LaneSpec = self.transport.spec
        return spec

    @property
    def site(self) -> Site:
        return self.transport.site

    def at(self, **changes: Any) -> Self:
        """The volume with ``changes`` to its site."""
        return replace(self, transport=replace(self.transport, site=replace(self.site, **changes)))
