"""Which node each machine goes to. Machine n of every lane goes to the same one, so that lanes take turns on the same
hardware. Pure: the choice is ours and not the scheduler's, which would make it anew in every run."""

from collections.abc import Mapping, Sequence
from typing import Any

from fairlane.errors import RunFailed
from fairlane.platforms.kubevirt.capacity import Footprint, Room
from fairlane.platforms.kubevirt.manifests import HOSTNAME


def dealt(count: int, nodes: Sequence[str], fits: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """Nodes of machines 0 to ``count`` - 1: in turn; or with ``fits``, machines that each node has room for, one node
    after the other (``spread: packed``). Raises RunFailed if they have not room for all."""
    if fits is None:
        return tuple(nodes[number % len(nodes)] for number in range(count))
    placed = [node for node in nodes for _ in range(fits.get(node, 0))]
    if len(placed) < count:
        raise RunFailed(
            f"{len(nodes)} node{'s have' if len(nodes) > 1 else ' has'} room for {len(placed)} of {count} machines",
            hint="more nodes, fewer or smaller machines; spread: even leaves the rest to overcommitment",
        )
    return tuple(placed[:count])


def hosts(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Name of each node -> its hostname as a nodeSelector has it."""
    names = ((str(node["metadata"]["name"]), node["metadata"].get("labels") or {}) for node in nodes)
    return {name: str(labels.get(HOSTNAME, name)) for name, labels in names}


def fits(room: Room, row: Sequence[Footprint]) -> int:
    """So many times ``row`` fits into what a node has left: one machine of each lane that stands at the same time."""
    needs = (
        (sum(one.cpu_request for one in row), room.cpu),
        (sum(one.memory for one in row), room.memory),
        (len(row), room.pods),
    )
    return max(0, min((int(left // need) for need, left in needs if need), default=0))
