"""Build lanes on running machines: steps in rounds, each round on all machines at once; then read the lanes back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from shlex import quote

from fairlane.errors import RunFailed
from fairlane.lanes._clones import Cloning
from fairlane.lanes.base import Place, Step
from fairlane.machines import script
from fairlane.machines.base import Guest
from fairlane.platforms.lab.wall import disks
from fairlane.platforms.lab.wall.layout import Volume

TIMEOUT = 300.0
"""Seconds for one round on one machine."""

Where = Callable[[Place, Volume], Guest]
"""The machine on which a step of a volume runs."""


def rounds(steps: Sequence[Step]) -> list[tuple[Place, tuple[Step, ...]]]:
    """Groups consecutive steps of the same place, which one machine can run in one script."""
    grouped: list[tuple[Place, tuple[Step, ...]]] = []
    for step in steps:
        if grouped and grouped[-1][0] == step.place:
            grouped[-1] = (step.place, (*grouped[-1][1], step))
        else:
            grouped.append((step.place, (step,)))
    return grouped


def shell(steps: Iterable[Step], *, undo: bool = False) -> str:
    """Shell that applies ``steps``, or removes them in reverse."""
    if undo:
        return "".join(script.run_step(f"undo: {s.name}", s.remove, "$STEP") for s in reversed([*steps]) if s.remove)
    return "".join(script.run_step(s.name, s.apply, "$STEP") for s in steps)


async def apply(volumes: Sequence[Volume], where: Where) -> None:
    """Builds every volume. Raises RunFailed with the failed step and its stderr."""
    remaining = [(volume, rounds(volume.steps())) for volume in volumes]
    while any(parts for _, parts in remaining):
        texts: dict[Guest, str] = {}
        for volume, parts in remaining:
            if parts:
                place, steps = parts.pop(0)
                guest = where(place, volume)
                texts[guest] = texts.get(guest, "") + shell(steps)
        await everywhere(texts)


async def log_in_anew(volumes: Sequence[Volume], where: Where) -> None:
    """Ends the sessions of ``volumes`` in their guests and begins new ones; links the devices, which may have other
    names, and reads back the lanes. Raises RunFailed."""
    steps = [(where("initiator", volume), volume.sessions()) for volume in volumes]
    for undo in (True, False):
        texts: dict[Guest, str] = {}
        for guest, own in steps:
            texts[guest] = texts.get(guest, "") + shell(own, undo=undo)
        await everywhere(texts)
    guests = dict.fromkeys(guest for guest, _ in steps)
    linked = {g: link(v for v, (guest, _) in zip(volumes, steps, strict=True) if guest is g) for g in guests}
    await everywhere(linked)
    await describe(volumes, where)


async def everywhere(texts: Mapping[Guest, str]) -> None:
    """Runs a script on each machine, all at once. Raises the first failure, when all have ended."""
    await together(*(guest.ask(text, TIMEOUT) for guest, text in texts.items()))


async def together(*work: Awaitable[object]) -> None:
    """Awaits all of ``work`` at once. Raises the first failure, when all have ended."""
    for error in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


def link(volumes: Iterable[Volume]) -> str:
    """Shell for a guest that finds the device of each of its ``volumes`` by identity, and links it."""
    parts = []
    for volume in volumes:
        find = disks.find(volume) if volume.emulated else volume.transport.find()
        parts.append(script.link_step(volume.name, find, "$STEP"))
    parts.append("udevadm settle --timeout=120 || :\n")  # scans of new disks would be load during trials
    return "".join(parts)


async def describe(volumes: Sequence[Volume], where: Where) -> list[dict[str, str]]:
    """Description of each volume, read back from the machines: key -> value. Raises RunFailed where one differs from
    the study."""
    described: list[dict[str, str]] = [{} for _ in volumes]
    steps = [_described(volume) for volume in volumes]
    texts: dict[Guest, str] = {}
    for number, volume in enumerate(volumes):
        own: dict[Guest, str] = {}
        if not isinstance(volume.transport, Cloning):  # nothing of them is in a guest yet
            own[where("initiator", volume)] = script.IDENTITY.format(device=script.device(volume.name))
        for step in steps[number]:
            if step.describe:
                guest = where(step.place, volume)
                own[guest] = own.get(guest, "") + f"( {step.describe.strip()}\n)\n"
        for guest, text in own.items():
            texts[guest] = texts.get(guest, "") + f"{{\n{text}}} > rows.{number}\n"
    for guest, text in texts.items():
        for name, rows in (await guest.ask(text, TIMEOUT)).items():
            number = int(name.removeprefix("rows."))
            described[number] = {**script.rows(rows.decode(errors="replace")), **described[number]}
    for volume, expected, facts in zip(volumes, steps, described, strict=True):
        if wrong := script.differences(expected, facts):
            raise RunFailed("lane-state", f"{quote(volume.name)} is not what the study asks for:\n" + "\n".join(wrong))
    return described


def _described(volume: Volume) -> tuple[Step, ...]:
    steps = volume.steps()
    if isinstance(volume.transport, Cloning) or not volume.emulated:
        return steps
    return (*steps, disks.read_back(volume, script.device(volume.name)))
