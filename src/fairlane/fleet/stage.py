"""Run one trial of one lane on running machines: the load on all guests at once, probe snapshots before and after."""

import asyncio
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fairlane import registry
from fairlane.errors import RunFailed
from fairlane.fleet import clock
from fairlane.fleet.devices import Devices, Volume
from fairlane.fleet.watch import Observed, Watch
from fairlane.machines import script
from fairlane.machines.base import Guest
from fairlane.machines.folders import Folders
from fairlane.records import Block
from fairlane.workloads.base import Stage

_PATIENCE = 20.0
"""Seconds a script may take beyond three times its load: probes, the generator's start and end on a busy machine."""


@dataclass(frozen=True)
class Crew:
    """The running machines that carry a lane's load."""

    guests: Sequence[Guest]
    watch: Watch
    """Sessions with the same guests, in the same order."""
    devices: Devices
    volumes: Sequence[Volume]
    """The lane's volumes."""
    settle: float
    """Idle seconds before a load."""
    broken: Callable[[str], None]
    """Callback(reason): requests a rebuild of the machines before the next trial."""


class FleetStage(Stage):
    """The stage of platforms whose machines are reached over SSH. Derived classes add faults and clones."""

    paths = 0

    def __init__(self, crew: Crew, block: Block, lane: str, seconds: float) -> None:
        self.crew = crew
        self.block = block
        self.lane = lane
        self.seconds = seconds
        self.fleet = len(crew.guests)
        self.outputs: dict[str, bytes] = {}
        self.load_seconds: float | None = None
        self._began: list[float] = []
        self._ended: dict[int, float] = {}
        """Machine -> when its load ended."""
        self._running = asyncio.Event()
        self._gated = False

    @property
    def _folders(self) -> Folders:
        return self.crew.devices.folders

    def devices(self, guest: int) -> tuple[str, ...]:
        """The lane's devices in a guest."""
        return tuple(self._folders.device(v.name) for v in self._volumes(guest))

    def _volumes(self, guest: int) -> list[Volume]:
        return [v for v in self.crew.volumes if v.guest == guest]

    def keep(self, name: str, data: bytes) -> None:
        self.outputs[name] = data

    def gate(self, jobs: int = 1) -> str:
        return clock.waiting(jobs, self._folders.run)

    async def load(
        self, script: Callable[[int], str], seconds: float, *, start: bool = True, setup: float = 0.0
    ) -> None:
        timeout = 3 * seconds + 60 + _PATIENCE + setup
        self._gated = start
        texts = [self._text(guest, script(guest), gate=start) for guest in range(self.fleet)]
        await self._ask_all(["gate"] * self.fleet if start else [])
        if not start:
            await self._watch("before", range(self.fleet), ["target", "hypervisor"])
        runs = [asyncio.ensure_future(self._run(guest, text, timeout)) for guest, text in enumerate(texts)]
        try:
            if start:
                await self._together(runs, timeout)
            await asyncio.gather(*runs)
            if start and self.fleet > 1:
                self._judge(seconds)
        finally:
            await _ended(*runs)
        if self._began and self._ended:
            self.load_seconds = max(self._ended.values()) - min(self._began)

    async def _together(self, runs: Sequence["asyncio.Future[None]"], timeout: float) -> None:
        """Starts all loads at one instant, once every machine's load is ready and the snapshots are taken."""
        watch = self.crew.watch
        array = asyncio.ensure_future(self._watch("before", (), ["target"]))  # while the generators set up
        ready = asyncio.ensure_future(self._ask_all(["ready"] * self.fleet, timeout))
        waited: set[asyncio.Future[Any]] = {ready, *runs}
        try:
            while not ready.done():  # a load that ends before it was ready reports to the gate, too
                done, waited = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                for run in done - {ready}:
                    run.result()
        except BaseException:
            await _ended(ready, array)
            raise
        jobs = await ready
        idle = self.crew.settle + script.jitter(self.block.seed, self.lane)
        at = time.time() + idle
        await asyncio.gather(array, self._watch("before", range(self.fleet), ["hypervisor"]))
        at = max(at, time.time() + clock.lead(watch.offsets))
        answers = await self._ask_all(
            [
                f"open {round((at + offset.ahead) * 1e6)} {n or 0}"
                for offset, n in zip(watch.offsets, jobs, strict=True)
            ],
            timeout,
        )
        self._began += [time.monotonic() - max(0.0, time.time() - at)]
        self._running.set()
        for guest, (offset, opened_at) in enumerate(zip(watch.offsets, answers, strict=True)):
            start = {"planned": at, "opened": float(opened_at), "ahead": offset.ahead, "within": offset.within}
            self.outputs[f"{self._prefix(guest)}start.json"] = json.dumps(start).encode()

    def _judge(self, seconds: float) -> None:
        """Keeps whether all machines were under load together (``runs.observe`` reads it)."""

    async def _ask_all(self, commands: Sequence[str], timeout: float = 60) -> list[str]:
        """Runs one command on each guest, all at once; the stripped outputs."""
        pairs = zip(self.crew.watch.guests, commands, strict=False)
        return [answer.strip() for answer in await asyncio.gather(*(s.ask(c, timeout) for s, c in pairs))]

    def _prefix(self, guest: int) -> str:
        """Prefix of a machine's files among the trial's outputs."""
        return f"vm{guest}/" if self.fleet > 1 else ""

    def _text(self, guest: int, load: str, *, gate: bool) -> str:
        """The guest's script for one lane, in the form of a block of the virtual clock."""
        run = self._folders.run
        wait = f"{clock.waiting(1, run)}\n" if gate and clock.folder(run) not in load else ""
        return f"""set -u
cd $(mktemp -d)
{self.crew.devices.before}{self._guards(guest)}mark {script.LOAD_BEGINS}
{wait}( {load.strip()}
)
status=$?
mark {script.LOAD_ENDS}
{clock.give_up(run) if gate else ":"}
echo $status > status
d=$PWD
cd /
send trial $d
rm -r $d
"""

    def _guards(self, guest: int) -> str:
        writes = registry.load("workloads", self.block.cell.kind).writes(self.block.cell)
        return self.crew.devices.guards(self._volumes(guest), writes=writes)

    async def _run(self, guest: int, text: str, timeout: float) -> None:
        outputs: Mapping[str, bytes] = {}
        async with aclosing(self.crew.guests[guest].run(text, timeout)) as results:
            async for name, files in results:
                if name == script.LOAD_BEGINS and not self._gated:
                    self._began.append(time.monotonic())
                    if len(self._began) == self.fleet:
                        self._running.set()
                elif name == script.LOAD_ENDS and guest not in self._ended:  # a load may have said so itself
                    self._ended[guest] = time.monotonic()
                    last = len(self._ended) == self.fleet
                    await self._watch("after", [guest], ["target", "hypervisor"] if last else [])
                elif name == "trial":
                    outputs = files
        if not outputs:
            raise RunFailed(
                "result-missing",
                f"{self.crew.guests[guest].name} returned no result of {self.block.trial_id(self.lane)}",
            )
        self.outputs |= {self._prefix(guest) + name: data for name, data in outputs.items()}

    async def _watch(self, when: str, guests: Iterable[int], places: Collection[Observed]) -> None:
        """Takes snapshots of the probes on all these machines at once."""
        names = {guest: [f"{device}.name" for device in self.devices(guest)] for guest in guests}
        snapshots = await self.crew.watch.around(when, names, places)
        self.outputs |= snapshots if self.fleet > 1 else {n.removeprefix("vm0/"): data for n, data in snapshots.items()}

    async def begun(self) -> float:
        await self._running.wait()
        return time.time()

    async def after(self, script: Callable[[int], str], seconds: float) -> None:
        guests = self.crew.guests
        # guarded again: a fault may have changed the devices
        requests = (g.ask(self._guards(i) + script(i), seconds + _PATIENCE) for i, g in enumerate(guests))
        answers = await asyncio.gather(*requests)
        for guest, files in enumerate(answers):
            self.outputs |= {self._prefix(guest) + n: data for n, data in files.items()}

    async def offsets(self) -> Sequence[tuple[float, float]]:
        return [(offset.ahead, offset.within) for offset in await self.crew.watch.synchronise()]

    def lost(self, reason: str) -> None:
        self.crew.broken(f"{self.block.trial_id(self.lane)}: {reason}")
        for prefix in map(self._prefix, range(self.fleet)):
            name = f"{prefix}{self.block.cell.kind}.err"
            stderr = self.outputs.get(name, b"")  # it lists wrong blocks
            self.outputs |= {f"{prefix}status": b"124\n", name: reason.encode() + b"\n" + stderr}


async def _ended(*tasks: "asyncio.Future[Any]") -> None:
    """Cancels unfinished tasks and waits until all have ended. Drops their errors: the caller raises the first."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
