"""External arrays: routes from the lab's guests, and the disconnect when the lab ends."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from fairlane.errors import FairlaneError, RunFailed
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall import build, layout
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.platforms.lab.wall.vm import Vm

GATEWAY = "10.0.2.2"
"""Gateway of QEMU's user network, which sends a guest's packets through this machine's own sockets; the address itself
is this machine's 127.0.0.1."""
_MANAGEMENT = IPv4Network("10.0.2.0/24")
_PATIENCE = 120.0
"""Seconds for one step of the disconnect; after that it counts as hanging."""


def of(volume: Volume) -> Any:
    """The ``external`` part of a volume's lane; None: the lab makes the volume."""
    return getattr(volume.spec, "external", None)


def outside(volumes: Iterable[Volume], spec: LabSpec) -> tuple[str, ...]:
    """Addresses of arrays outside the lab's networks: guests need a route to them."""
    paths = [IPv4Network(f"{layout.address(path)}/24", strict=False) for path in range(spec.paths)]
    addresses = dict.fromkeys(a for v in volumes if (external := of(v)) for a in external.addresses)
    return tuple(a for a in addresses if not any(IPv4Address(a) in net for net in paths))


def routes(volumes: Iterable[Volume], spec: LabSpec) -> str:
    """Shell for a guest that adds routes to those addresses."""
    ways = [a for a in outside(volumes, spec) if IPv4Address(a) not in _MANAGEMENT]
    return "".join(f"ip route replace {address}/32 via {GATEWAY} dev mgmt\n" for address in ways)


def problems(lanes: Mapping[str, Sequence[Volume]], spec: LabSpec) -> list[FairlaneError]:
    """Why a lane on an external array cannot be built: several guests or disks for one volume, a missing secret."""
    problems = []
    for lane, volumes in lanes.items():
        if not of(volumes[0]):
            continue
        if len(volumes) > 1:
            key = "fleet" if spec.fleet > 1 else "disks"
            problems.append(
                FairlaneError(
                    "external-one-disk",
                    f"an external array's volume is one disk of one guest, and platform.{key} asks for more",
                    where=f"lanes.{lane}.external",
                    hint=f"set platform.{key}: 1",
                )
            )
        try:
            volumes[0].steps()
        except FairlaneError as error:
            problems.append(error)
    return problems


async def disconnect(vms: Sequence[Vm], volumes: Iterable[Volume]) -> None:
    """Disconnects guests from external arrays, each step by itself, so that no session stays. Never raises: an
    unreachable array has lost its sessions anyway."""

    async def undo_steps(vm: Vm, volume: Volume) -> None:
        with suppress(FairlaneError):  # a secret that was removed meanwhile
            for step in reversed([step for step in volume.steps() if step.place == "initiator" and step.remove]):
                with suppress(RunFailed):
                    await vm.guest.ask(build.shell([step], undo=True), _PATIENCE)

    reachable = {i: vm for i, vm in enumerate(vms) if hasattr(vm, "guest") and vm.guest.alive}
    pairs = [(reachable[v.guest], v) for v in volumes if of(v) and not v.emulated and v.guest in reachable]
    await asyncio.gather(*(undo_steps(vm, volume) for vm, volume in pairs))
