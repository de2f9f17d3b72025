"""Inspect paths before a study is made of them: their kind, the devices behind them, how fast they can be filled."""

import asyncio
import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from fairlane.errors import FairlaneError, RunFailed
from fairlane.fleet import build
from fairlane.lanes.base import Step
from fairlane.living import leftovers
from fairlane.living.machine import Machine
from fairlane.machines.behind import Behind, Probed, probe
from fairlane.machines.concurrency import together
from fairlane.machines.scratch import scratch
from fairlane.platforms._living.beneath import looked, without
from fairlane.platforms._living.preflight import programs
from fairlane.versus.given import Given

MOST = 256 * 1024**2
"""Bytes of the file that a directory is tried with, at most: it is removed again."""
_FILL = 1.5
"""Seconds of filling that file, at most."""
_PROBE = 1.0
"""Seconds of load for each direction: two for a directory, which is read and written."""
_SHARE = 0.02
"""Part of the free space that the file takes at most."""
_TIMEOUT = 120.0


@dataclass
class Found:
    """Facts about the paths."""

    behind: dict[str, Behind] = field(default_factory=dict)
    """Lane -> what is behind its path."""
    probed: dict[str, Probed] = field(default_factory=dict)
    """Lane -> what a short load moved; lanes that could not be loaded are missing, or say why in ``failed``."""
    fill: dict[str, float] = field(default_factory=dict)
    """Directory lane -> bytes per second of writing a new file, sync included."""
    identity: dict[str, str] = field(default_factory=dict)
    """Device lane -> its identity."""
    facts: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Machine -> what it is."""
    written: int = 0
    """Bytes written, and removed again."""

    def as_json(self) -> dict[str, dict[str, Any]]:
        """Lane -> ``behind`` and ``probed``."""
        return {
            lane: {"behind": behind.as_json()}
            | ({"probed": self.probed[lane].as_json()} if lane in self.probed else {})
            for lane, behind in self.behind.items()
        }

    def kind(self, lane: str) -> str:
        """``directory``, ``file`` or ``device``; others are refused."""
        return self.behind[lane].kind


@dataclass(frozen=True)
class Limits:
    """Limits of what a directory is tried with."""

    keep_free: float
    """Share of a file system that stays free."""
    most: int = MOST
    """Bytes of the file."""


async def scout(paths: Sequence[Given], check: Callable[[Found], object], limits: Limits, *, alone: bool) -> Found:
    """Looks at ``paths``; of directories a file is written, loaded and removed.

    ``check``: raises FairlaneError, from what was looked up, before anything is written. ``alone``: refuse a machine
    that another run uses. Raises FairlaneError: a machine cannot be reached or lacks programs."""
    found, run = Found(), secrets.token_hex(5)
    with scratch(short=True) as folder:
        machines = {g.machine: Machine(g.machine, g.destination, run, folder) for g in paths}
        try:
            await together(*(m.connect() for m in machines.values()))
            for machine in machines.values():
                await _programs(machine)
            await together(*(m.install() for m in machines.values()))
            await together(*(m.keep(alone=alone, title="fairlane versus") for m in machines.values()))
            for name, machine in machines.items():
                await _look(machine, [g for g in paths if g.machine == name], found)
            found.behind = {g.lane: found.behind[g.lane] for g in paths}
            check(found)
            for name, machine in machines.items():
                await _try(machine, [g for g in paths if g.machine == name], found, limits)
        finally:
            await asyncio.shield(_leave(machines.values()))
    return found


async def _leave(machines: Iterable[Machine]) -> None:
    every = [*machines]
    for machine in every:
        await machine.release()
    await leftovers.undo_all(every)
    await asyncio.gather(*(machine.close(remove=True) for machine in every))


async def _programs(machine: Machine) -> None:
    """Raises FairlaneError where fio, or a program that scripts call, is missing or too old."""
    _, system, _ = await machine.plain('. /etc/os-release && echo "$PRETTY_NAME"')
    machine.facts = {"system": system.strip()}
    line = await programs(machine, ["fio"])
    if line.state == "missing":
        raise FairlaneError("machine-lacks", f"machine {machine.name}: {line.found}", hint=line.fix)


async def _look(machine: Machine, own: Sequence[Given], found: Found) -> None:
    """What lies behind the paths; root is taken where one is a disk."""
    tests = "".join(f"[ ! -b {quote(g.path)} ] || echo {g.lane}\n" for g in own)
    _, disks, _ = await machine.plain(tests)
    if disks.split():
        await machine.become_root()
    found.facts[machine.name] = await machine.look()
    found.behind |= await looked(machine, {g.lane: g.path for g in own})
    for given in own:
        if found.behind[given.lane].kind == "device":
            text = f"DISKS=$(disks)\nidentity {quote(given.path)} > identity\n"
            found.identity[given.lane] = (await machine.ask(text, _TIMEOUT))["identity"].decode().strip()


async def _try(machine: Machine, own: Sequence[Given], found: Found, limits: Limits) -> None:
    """Fills a file in each directory, and loads every path for a moment. What fails here has its reason elsewhere:
    ``behind.problems``, or the run itself."""
    files: dict[str, str] = {}
    made: list[Step] = []
    # where direct I/O works it names the disks, whatever the load will do
    buffered = any(found.behind[g.lane].direct.works is False for g in own)
    for given in own:
        behind = found.behind[given.lane]
        if behind.kind in ("file", "device"):
            files[given.lane] = behind.real or given.path
        elif behind.kind == "directory" and (size := _size(behind, limits)):
            step = _file(given, machine.run_id)
            made.append(step)
            with suppress(RunFailed):
                text = build.shell([step], notes=machine.notes)
                path = _path(given, machine.run_id)
                outputs = await machine.ask(text + _fill(path, size, buffered=buffered), _TIMEOUT)
                if speed := _speed(outputs):
                    found.fill[given.lane] = speed
                    found.written += size
                    files[given.lane] = path
    if files:
        writes = [lane for lane in files if found.kind(lane) == "directory"]
        with suppress(RunFailed):
            found.probed |= await probe(machine, files, _PROBE, writes=writes, buffered=buffered)
    if made:
        await machine.ask(build.shell(made, undo=True, notes=machine.notes), _TIMEOUT)


def _size(behind: Behind, limits: Limits) -> int:
    """Bytes of the file to try a directory with; 0: it has no room, or may not be written."""
    if behind.read_only or not behind.writable or behind.free_bytes is None:
        return 0
    room = behind.free_bytes - int(limits.keep_free * (behind.total_bytes or 0))
    size = min(limits.most, int(_SHARE * behind.free_bytes)) // 2**20 * 2**20
    return size if 0 < size < room else 0


def _path(given: Given, run: str) -> str:
    return str(Path(given.path) / f".fairlane-{run}-{given.lane}")


def _file(given: Given, run: str) -> Step:
    """Its name is that of ``lanes/directory.py``, so that the keeper removes the file after a kill."""
    name = _path(given, run)
    path = quote(name)
    # a rename replaces a link that somebody put there; noclobber would follow one to a disk (dash)
    apply = f'new=$(mktemp {path}.XXXXXX)\nmv -fT "$new" {path}\n'
    remove = f"rm -f {path}\n{without(name)}"
    return Step(f"make a file for {given.lane} in {given.path}", "initiator", apply=apply, remove=remove)


def _fill(path: str, size: int, *, buffered: bool) -> str:
    """Shell that fills a file for at most ``_FILL`` seconds, as the prefill does; fio's report is ``fill``."""
    options = {
        "name": "fill", "filename": path.replace(":", r"\:"), "rw": "write", "bs": "1m", "iodepth": 4,
        "ioengine": "libaio", "direct": int(not buffered), "size": size, "runtime": f"{round(_FILL * 1000)}ms",
        "end_fsync": 1, "refill_buffers": 1, "allow_file_create": 0, "output-format": "json", "output": "fill",
    }  # fmt: skip
    words = " ".join(quote(f"--{key}={value}") for key, value in options.items())
    own = f"[ -f {quote(path)} ] && [ ! -L {quote(path)} ] || exit 1"
    own += f"\ntruncate -s {size} {quote(path)}"  # to make a file longer is to create one, to fio
    return f"{own}\nt=$(date +%s%N)\nfio {words} 2> fill.err || :\necho $(($(date +%s%N) - t)) > took\n"


def _speed(outputs: Mapping[str, bytes]) -> float:
    """Bytes per second of the fill; 0: it failed."""
    text = outputs.get("fill", b"").decode(errors="replace")
    try:
        job = json.loads(text[text.index("{") :])["jobs"][0]
        took = int(outputs["took"]) / 1e9 - _START
        seconds = max(took, job["write"]["runtime"] / 1e3, 1e-3)
        return 0.0 if job["error"] else float(job["write"]["io_bytes"] / seconds)
    except (ValueError, KeyError, IndexError, TypeError):
        return 0.0


_START = 0.3
"""Seconds that fio takes to start and to end, about."""
