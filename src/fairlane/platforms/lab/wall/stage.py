"""One trial of one lane on running machines: the load on all guests at once, probes around it, faults in it."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING

from fairlane import registry
from fairlane.errors import RunFailed
from fairlane.platforms import _script as script
from fairlane.platforms._clock_offset import clock_offset
from fairlane.platforms.base import Guest
from fairlane.platforms.lab.wall import layout
from fairlane.records import Block, FaultKind
from fairlane.workloads.base import Stage

if TYPE_CHECKING:
    from fairlane.platforms.lab.wall.lab import WallLab

_PATIENCE = 20.0
"""Seconds a script may take beyond thrice its load: probes and the generator's start and end on a busy machine."""


class LabStage(Stage):
    """The stage of the lab's wall clock."""

    def __init__(self, lab: "WallLab", block: Block, lane: str) -> None:
        self.lab = lab
        self.block = block
        self.lane = lane
        self.seconds = lab.study.workloads[block.cell.workload].trial_seconds(block.cell)
        self.fleet, self.paths = lab.spec.fleet, lab.spec.paths
        self.outputs: dict[str, bytes] = {}
        self.load_seconds: float | None = None
        self._began: list[float] = []
        self._ended: list[float] = []
        self._running = asyncio.Event()

    def devices(self, guest: int) -> tuple[str, ...]:
        """The lane's devices in a guest."""
        return tuple(script.device(v.name) for v in self.lab.lanes[self.lane] if v.guest == guest)

    def keep(self, name: str, data: bytes) -> None:
        self.outputs[name] = data

    async def load(self, script: Callable[[int], str], seconds: float, *, start: bool = True) -> None:  # noqa: ARG002
        timeout = 3 * seconds + 60 + _PATIENCE
        await self._watch("before")
        texts = [self._text(guest, script(guest)) for guest in range(self.fleet)]
        await asyncio.gather(*(self._run(guest, text, timeout) for guest, text in enumerate(texts)))
        await self._watch("after")
        for volume in self.lab.lanes[self.lane] if self._began else ():
            self.lab.devices.wrote(volume)
        if self._began and self._ended:
            self.load_seconds = max(self._ended) - min(self._began)

    def _text(self, guest: int, load: str) -> str:
        """What a guest carries out: as a block of the virtual clock, for one lane."""
        first = quote(f"{script.device(next(v.name for v in self.lab.lanes[self.lane] if v.guest == guest))}.name")
        probes = {name: probe.capture.strip() for name, probe in registry.every("probes") if probe.place == "guest"}

        def capture(when: str) -> str:
            return "".join(f"( {text}\n) > probe.{name}.{when} 2>> probe.err\n" for name, text in probes.items())

        idle = self.lab.spec.settle / 1e9 + script.jitter(self.block.seed, self.lane)
        writes = registry.load("workloads", self.block.cell.kind).writes(self.block.cell)
        mine = [v for v in self.lab.lanes[self.lane] if v.guest == guest]
        guards = "".join(self.lab.devices.guard(v, writes=writes) for v in mine)
        return f"""set -u
cd $(mktemp -d)
{guards}read -r DEVICE < {first}
{capture("before")}sleep {idle:.6f}
mark {script.LOAD_BEGINS}
( {load.strip()}
)
status=$?
mark {script.LOAD_ENDS}
{capture("after")}echo $status > status
d=$PWD
cd /
send trial $d
rm -r $d
"""

    async def _run(self, guest: int, text: str, timeout: float) -> None:
        found: Mapping[str, bytes] = {}
        async for name, files in self.lab.guests[guest].run(text, timeout):
            if name == script.LOAD_BEGINS:
                self._began.append(time.monotonic())
                if len(self._began) == self.fleet:
                    self._running.set()
            elif name == script.LOAD_ENDS:
                self._ended.append(time.monotonic())
            elif name == "trial":
                found = files
        if not found:
            raise RunFailed(f"{self.lab.guests[guest].name} sent no result of {self.block.trial_id(self.lane)}")
        prefix = f"vm{guest}/" if self.fleet > 1 else ""
        self.outputs |= {prefix + name: data for name, data in found.items()}

    async def _watch(self, when: str) -> None:
        """The probes of array and hypervisor."""
        machines = " ".join(str(vm.process.pid) for vm in self.lab.vms)
        array = str(self.lab.array_vm.process.pid) if self.lab.array_vm else ""
        texts: dict[Guest, list[str]] = {}
        for name, probe in registry.every("probes"):
            guest = {"target": self.lab.array, "hypervisor": self.lab.here}.get(probe.place)
            if guest:
                text = f"( MACHINES={quote(machines)} ARRAY={quote(array)}\n{probe.capture.strip()}\n)"
                texts.setdefault(guest, []).append(f"{text} > probe.{name}.{when}")
        found = await asyncio.gather(*(guest.ask("\n".join(parts)) for guest, parts in texts.items()))
        for files in found:
            self.outputs |= files

    async def begun(self) -> float:
        await self._running.wait()
        return time.time()

    async def after(self, script: Callable[[int], str], seconds: float) -> None:
        guests = self.lab.guests[: self.fleet]
        found = await asyncio.gather(*(g.ask(script(i), seconds + _PATIENCE) for i, g in enumerate(guests)))
        for guest, files in enumerate(found):
            self.outputs |= {f"vm{guest}/{n}" if self.fleet > 1 else n: data for n, data in files.items()}

    async def offsets(self) -> Sequence[tuple[float, float]]:
        return [await clock_offset(vm.guest) for vm in self.lab.vms]

    def lost(self, reason: str) -> None:
        self.lab.broken(f"{self.block.trial_id(self.lane)}: {reason}")
        prefixes = [f"vm{guest}/" for guest in range(self.fleet)] if self.fleet > 1 else [""]
        for prefix in prefixes:
            self.outputs |= {f"{prefix}status": b"124\n", f"{prefix}{self.block.cell.kind}.err": reason.encode()}

    async def fault(self, kind: FaultKind, path: int, *, on: bool) -> float:
        lab = self.lab
        if kind == "link":
            if path >= self.paths or not lab.array_vm:
                raise RunFailed(f"lane {self.lane}: the lab has no link of path {path}")
            # a cable has two ends: guests and array both lose the carrier
            ends = [(vm, layout.interface(path)) for vm in lab.vms]
            ends += [(lab.array_vm, nic.name) for nic in lab.array_vm.machine.nics if layout.on_path(nic, path)]
            await asyncio.gather(*(vm.link(nic, up=not on) for vm, nic in ends))
            return time.time()
        texts = []
        for volume in lab.lanes[self.lane]:
            step = volume.transport.fault(kind, path, volume.name, volume.spec, volume.site)
            if step is None:
                raise RunFailed(f"lane {self.lane}: {volume.spec.transport} has no fault {kind!r}")
            texts.append(script.run_step(step.name, step.apply if on else step.remove, "$STEP"))
        if not lab.array:
            raise RunFailed(f"lane {self.lane} has no array of the lab's, so that no {kind} of it can fail")
        await lab.array.ask("".join(texts))
        return time.time()

    async def clones(self, count: int) -> Sequence[Mapping[str, float]]:
        times = await self.lab.storm(self.lane).run(count)
        self.load_seconds = max(vm["answered"] for vm in times)
        return times
