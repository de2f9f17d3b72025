"""Take probe snapshots on all machines through one session each, and measure the snapshots' cost."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, Literal

from fairlane import registry
from fairlane.errors import RunFailed
from fairlane.fleet import clock
from fairlane.fleet.clock import Offset
from fairlane.machines.folders import OWN, Folders
from fairlane.machines.session import Session, Startable

Observed = Literal["guest", "target", "hypervisor"]

_MARK = "@@PROBE "
_ROUNDS = 5

_FUNCTIONS = """
# capture WHEN [FILE...]: each FILE holds the name of a device under load.
capture() {
  local WHEN=$1; shift
  local i f l DEVICE STATS=
  for i; do read -r DEVICE < "$i"; STATS+=" /sys/class/block/$DEVICE/stat"; done
@CAPTURES@
}
snapshot() { @SNAPSHOT@; }
cost() {
  local i from=${EPOCHREALTIME/./}
  set -- "$1" $(ls @LANES@/*.name 2> /dev/null | head -n 1)
  for ((i = 0; i < $1; i++)); do snapshot after "${@:2}" > /dev/null; done
  echo $((${EPOCHREALTIME/./} - from))
}
"""


# Each line that a shell prints is a write of its own, and a packet of sshd: in one piece it takes an emulated machine a
# third of the time.
_WHOLE = 'capture "$@" > @RUN@/fairlane.snapshot; echo "$(< @RUN@/fairlane.snapshot)"'


@dataclass(frozen=True)
class Watch:
    """Sessions with the guests, in order, and with the array and the hypervisor."""

    guests: Sequence[Session] = ()
    target: Session | None = None
    hypervisor: Session | None = None
    offsets: list[Offset] = field(default_factory=list)
    """Offsets of the guests' clocks, as last measured."""

    @classmethod
    async def open(
        cls,
        guests: Sequence[Startable],
        target: Startable | None = None,
        hypervisor: tuple[Startable, str] | None = None,
        folders: Folders = OWN,
        *,
        living: bool = False,
    ) -> "Watch":
        """Opens sessions with running machines. ``hypervisor``: the machine, and shell that sets the variables of its
        probes (``MACHINES``, ...). ``living``: the guests have other work. Raises RunFailed."""
        observing = clock.functions(folders.run) + functions("guest", folders, living=living)
        opening = [Session.open(guest, observing) for guest in guests]
        if target:
            opening.append(Session.open(target, functions("target", folders)))
        if hypervisor:
            opening.append(Session.open(hypervisor[0], hypervisor[1] + functions("hypervisor")))
        opened = await asyncio.gather(*opening)
        watch = cls(opened[: len(guests)], opened[len(guests)] if target else None, opened[-1] if hypervisor else None)
        await watch.synchronise()
        return watch

    async def synchronise(self) -> Sequence[Offset]:
        """Measures the guests' clocks again. Raises RunFailed."""
        self.offsets[:] = await asyncio.gather(*(clock.measure(session) for session in self.guests))
        return self.offsets

    async def around(
        self, when: str, guests: Mapping[int, Sequence[str]], places: Collection[Observed] = ()
    ) -> dict[str, bytes]:
        """A snapshot of ``guests`` (number -> files with the names of the devices under load), whose files are under
        ``vmN/``, and of ``places``. ``when``: before or after. Raises RunFailed."""
        single = {"target": self.target, "hypervisor": self.hypervisor}
        sources: list[tuple[Session | None, str, Sequence[str]]] = [
            *((self.guests[guest], f"vm{guest}/", names) for guest, names in guests.items()),
            *((session, "", ()) for place, session in single.items() if place in places),
        ]
        snapshots = await asyncio.gather(*(_snapshot(s, prefix, when, names) for s, prefix, names in sources if s))
        return {name: data for files in snapshots for name, data in files.items()}

    async def costs(self) -> dict[str, Any]:
        """Time of one snapshot on each machine, ms: CPU time with child processes, and wall time. Raises RunFailed."""
        sessions = {"guest": self.guests[0] if self.guests else None, "array": self.target, "host": self.hypervisor}
        return {name: await _cost(session) for name, session in sessions.items() if session}

    async def close(self) -> None:
        """Ends all sessions; never raises."""
        for session in (*self.guests, self.target, self.hypervisor):
            if session:
                await session.close()


def functions(place: Observed, folders: Folders = OWN, *, living: bool = False) -> str:
    """Shell functions of a session: ``snapshot WHEN FILE...`` prints a snapshot of every probe of the place, those
    for ``living`` machines only there."""
    captures = []
    for name, probe in registry.every("probes"):
        if probe.place == place and (living or not probe.living):
            text = (probe.live or probe.capture).strip()
            captures.append(f"echo '{_MARK}{name}'\n{{ {text}\n}}")
    whole = 'capture "$@"' if place == "hypervisor" else _WHOLE
    text = _FUNCTIONS.replace("@CAPTURES@", "\n".join(captures)).replace("@SNAPSHOT@", whole)
    return text.replace("@LANES@", folders.lanes).replace("@RUN@", folders.run)


async def _snapshot(session: Session, prefix: str, when: str, names: Sequence[str]) -> dict[str, bytes]:
    output = await session.ask(" ".join(("snapshot", when, *map(quote, names))))
    return {f"{prefix}probe.{name}.{when}": text.encode() for name, text in parts(output).items()}


def parts(output: str) -> dict[str, str]:
    """Splits the output of a snapshot: name of the probe -> text."""
    texts: dict[str, str] = {}
    for part in output.split(f"\n{_MARK}") if output.startswith(_MARK) else ():
        name, _, text = part.removeprefix(_MARK).partition("\n")
        texts[name] = text
    return texts


async def _cost(session: Session) -> dict[str, float]:
    await session.ask("cost 1")  # once before, so that nothing is read from disk any more
    before = cpu_seconds(await session.ask("times"))
    wall = await session.ask(f"cost {_ROUNDS}")
    used = cpu_seconds(await session.ask("times")) - before
    try:
        return {"cpu_ms": round(used * 1e3 / _ROUNDS, 2), "wall_ms": round(int(wall) / 1e3 / _ROUNDS, 2)}
    except ValueError:
        raise RunFailed("clock", f"{session.name} returned no valid cost of a snapshot") from None


def cpu_seconds(times: str) -> float:
    """CPU time, user and system, of a shell and its children, as bash's ``times`` prints it: ``0m0.012s``."""
    total = 0.0
    for word in times.split():
        minutes, _, seconds = word.removesuffix("s").partition("m")
        try:
            total += 60 * int(minutes) + float(seconds)
        except ValueError:
            return 0.0
    return total
