"""Build lanes on running machines: steps in rounds, each round on all machines at once; then read the lanes back."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Generic, Protocol, TypeVar

from fairlane.errors import RunFailed
from fairlane.lanes.base import Place, Step, Transport
from fairlane.machines import script
from fairlane.machines.base import Guest
from fairlane.machines.concurrency import finish_all
from fairlane.machines.folders import OWN, Folders

TIMEOUT = 300.0
"""Seconds for one round on one machine."""


class Built(Protocol):
    """A volume as a platform builds it."""

    @property
    def name(self) -> str: ...

    @property
    def transport(self) -> Transport[Any]: ...

    def steps(self) -> tuple[Step, ...]: ...

    def sessions(self) -> tuple[Step, ...]: ...


V = TypeVar("V", bound=Built)


def rounds(steps: Sequence[Step]) -> list[tuple[Place, tuple[Step, ...]]]:
    """Groups consecutive steps of the same place, which one machine can run in one script."""
    grouped: list[tuple[Place, tuple[Step, ...]]] = []
    for step in steps:
        if grouped and grouped[-1][0] == step.place:
            grouped[-1] = (step.place, (*grouped[-1][1], step))
        else:
            grouped.append((step.place, (step,)))
    return grouped


def shell(steps: Iterable[Step], *, undo: bool = False, notes: str = "") -> str:
    """Shell that applies ``steps``, or removes them in reverse. ``notes``: folder on the machine that holds the removal
    of every step that was begun and not removed, so that it can be undone after a kill."""
    if undo:
        parts = []
        for step in reversed([*steps]):
            if step.remove:
                parts.append(script.run_step(f"undo: {step.name}", step.remove, "$STEP"))
                parts.append(f"rm -f {notes}/*-{_key(step)}\n" if notes else "")
        return "".join(parts)
    return "".join(
        (_noted(step, notes) if notes and step.remove else "") + script.run_step(step.name, step.apply, "$STEP")
        for step in steps
    )


def _key(step: Step) -> str:
    return hashlib.sha256(f"{step.name}\0{step.remove}".encode()).hexdigest()[:16]


def _noted(step: Step, notes: str) -> str:
    """Shell that writes the removal of ``step``, to be run with the library loaded, into a numbered file."""
    text = f"# {step.name}\n{step.remove.strip()}\n"
    return f"""
set -- {notes}/*-{_key(step)}
if [ ! -e "$1" ]; then
  set -- {notes}/*; [ -e "$1" ] || set --
  n=0; for f; do f=${{f##*/}}; f=${{f%%-*}}; while [ "$f" != "${{f#0}}" ]; do f=${{f#0}}; done
    [ "${{f:-0}}" -lt $n ] || n=$((${{f:-0}} + 1)); done
  n="{notes}/$(printf %06d $n)-{_key(step)}"
  # on disk before the step begins: a power cut, or a full disk, must not lose it
  {{ printf %s {quote(text)} > "$n.new" && {{ sync "$n.new" 2> /dev/null || sync; }} && mv "$n.new" "$n"; }} ||
    {{ echo "the removal of a step cannot be written down in {notes}" >&2; exit 1; }}
fi
"""


def linked(steps: Iterable[str]) -> str:
    """Shell that links devices by ``steps`` and waits until the kernel has looked at them: scans of new disks would be
    load during trials."""
    return "".join(steps) + "udevadm settle --timeout=120 2> /dev/null || :\n"


async def everywhere(texts: Mapping[Guest, str]) -> None:
    """Runs a script on each machine, all at once. Raises the first failure, when all have ended."""
    await finish_all(*(guest.ask(text, TIMEOUT) for guest, text in texts.items()))


@dataclass(frozen=True)
class Builder(Generic[V]):
    """Builds the volumes of a platform."""

    where: Callable[[Place, V], Guest]
    """The machine on which a step of a volume runs."""
    find: Callable[[V], str] = lambda volume: volume.transport.find()
    """Shell that prints the device of a volume."""
    described: Callable[[V], tuple[Step, ...]] = lambda volume: volume.steps()
    """Steps that are read back."""
    has_device: Callable[[V], bool] = lambda _: True
    """Whether the volume has a device on its machine."""
    folders: Folders = OWN
    notes: str = ""
    """See ``shell``."""

    async def apply(self, volumes: Sequence[V]) -> None:
        """Builds every volume. Raises RunFailed with the failed step and its stderr."""
        remaining = [(volume, rounds(volume.steps())) for volume in volumes]
        while any(parts for _, parts in remaining):
            texts: dict[Guest, str] = {}
            for volume, parts in remaining:
                if parts:
                    place, steps = parts.pop(0)
                    guest = self.where(place, volume)
                    texts[guest] = texts.get(guest, "") + shell(steps, notes=self.notes)
            await everywhere(texts)

    async def remove(self, volumes: Sequence[V]) -> None:
        """Takes every volume apart, in reverse. Raises RunFailed."""
        remaining = [(volume, rounds(volume.steps())) for volume in reversed(volumes)]
        while any(parts for _, parts in remaining):
            texts: dict[Guest, str] = {}
            for volume, parts in remaining:
                if parts:
                    place, steps = parts.pop()
                    guest = self.where(place, volume)
                    texts[guest] = texts.get(guest, "") + shell(steps, undo=True, notes=self.notes)
            await everywhere(texts)

    async def log_in_anew(self, volumes: Sequence[V]) -> list[dict[str, str]]:
        """Ends the sessions of ``volumes`` and begins new ones; links the devices, which may have other names, and
        reads back the lanes, as ``describe``. Raises RunFailed."""
        steps = [(self.where("initiator", volume), volume.sessions()) for volume in volumes]
        for undo in (True, False):
            texts: dict[Guest, str] = {}
            for guest, own in steps:
                texts[guest] = texts.get(guest, "") + shell(own, undo=undo, notes=self.notes)
            await everywhere(texts)
        guests = dict.fromkeys(guest for guest, _ in steps)
        links = {g: self.link(v for v, (guest, _) in zip(volumes, steps, strict=True) if guest is g) for g in guests}
        await everywhere(links)
        return await self.describe(volumes)

    def link(self, volumes: Iterable[V]) -> str:
        """Shell for a machine that finds the device of each of its ``volumes`` by identity, and links it."""
        return linked(
            script.link_step(v.name, self.find(v), "$STEP", self.folders, lines=v.transport.stores_files)
            for v in volumes
        )

    async def describe(self, volumes: Sequence[V]) -> list[dict[str, str]]:
        """Description of each volume, read back from the machines: key -> value. Raises RunFailed where one differs
        from the study."""
        described: list[dict[str, str]] = [{} for _ in volumes]
        steps = [self.described(volume) for volume in volumes]
        texts: dict[Guest, str] = {}
        for number, volume in enumerate(volumes):
            own: dict[Guest, str] = {}
            if self.has_device(volume):
                link = self.folders.device(volume.name)
                own[self.where("initiator", volume)] = script.IDENTITY.format(device=link)
            for step in steps[number]:
                if step.describe:
                    guest = self.where(step.place, volume)
                    own[guest] = own.get(guest, "") + f"( {step.describe.strip()}\n)\n"
            for guest, text in own.items():
                texts[guest] = texts.get(guest, "") + f"{{\n{text}}} > rows.{number}\n"
        for guest, text in texts.items():
            for name, rows in (await guest.ask(text, TIMEOUT)).items():
                number = int(name.removeprefix("rows."))
                described[number] = {**script.rows(rows.decode(errors="replace")), **described[number]}
        for volume, expected, facts in zip(volumes, steps, described, strict=True):
            if wrong := script.differences(expected, facts):
                raise RunFailed("lane-state", f"{quote(volume.name)} differs from the study:\n" + "\n".join(wrong))
        return described
