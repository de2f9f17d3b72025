"""Platforms on machines that belong to somebody. Not a platform.

Lanes share the machines, or have machines of their own. Every step that changes a machine is written down there before
it is made, so that a killed run can be undone (``fairlane hosts clean``).
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from fairlane import __version__, registry
from fairlane.errors import FairlaneError, MachineLost, RunFailed
from fairlane.fleet import build
from fairlane.fleet.build import Builder
from fairlane.fleet.devices import Devices, fills
from fairlane.fleet.volumes import by_lane
from fairlane.fleet.watch import Watch
from fairlane.lanes.base import Place, Step
from fairlane.living import leftovers
from fairlane.living.machine import Machine
from fairlane.machines.base import Guest
from fairlane.machines.concurrency import together
from fairlane.machines.scratch import scratch
from fairlane.platforms._examined import Line
from fairlane.platforms._fleet import FleetPlatform
from fairlane.platforms._living import busy, network, preflight
from fairlane.platforms._living.beneath import beneath, judged
from fairlane.platforms._living.description import described_lane, described_machines, fingerprint
from fairlane.platforms._living.needs import needs
from fairlane.platforms._living.spec import ARRAY, LivingSpec
from fairlane.platforms._living.stage import LivingStage
from fairlane.platforms._living.unfit import unfit
from fairlane.platforms._living.volumes import Volume, exchanging, machines_of, volumes
from fairlane.platforms.base import Notify, Opened
from fairlane.records import Block
from fairlane.study.schedule import Stream
from fairlane.units import format_size

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_PREPARE = 600.0
"""Seconds for the study's own commands."""


@dataclass
class Team:
    """Machines that carry the same lanes, with their sessions."""

    machines: Sequence[Machine]
    devices: Devices
    watch: Watch = field(default_factory=Watch)


class LivingPlatform(FleetPlatform):
    """Lanes take turns on machines that belong to somebody, and leave them as they were."""

    volume_class: ClassVar[type[Volume]] = Volume
    """What its volumes are: derived platforms have their own."""

    def __init__(self, study: "Study") -> None:
        super().__init__(study)
        self.machines: dict[str, Machine] = {}
        self.servers: dict[str, Machine] = {}
        """Machines that serve the others: hypervisors, the array."""
        self.lanes: Mapping[str, tuple[Volume, ...]] = {}
        self.teams: dict[str, Team] = {}
        """Lane -> its team."""
        self.concluded: dict[str, str] = {}
        self.known: Mapping[str, Mapping[str, Any]] = {}
        """Lane -> ``behind`` and ``probed`` as plain JSON, where somebody looked before; empty: ``open`` looks."""
        self._idle: dict[str, busy.Idle] = {}
        """Machine -> what others did there before anything was built."""
        self._prepared: dict[str, str] = {}
        self._round: int | None = None
        """Index of the blocks for which files in directories were made; None: just made, for any."""
        self._held = ExitStack()

    @property
    def spec(self) -> LivingSpec:
        spec = self.study.platform
        assert isinstance(spec, LivingSpec)  # noqa: S101 - the study's kind chose this class
        return spec

    # --- before anything is made

    def unfit(self) -> list[FairlaneError]:
        return unfit(self.study)

    def announcement(self) -> list[str]:
        if self.unfit():
            return []
        made = [v for v in volumes(self.study, "0" * 10) if not v.external]
        lines = [str(need) for need in needs(self.study).values()]
        for machine in dict.fromkeys(v.machine for v in made):
            own = [v for v in made if v.machine == machine]
            where = ", ".join(dict.fromkeys(v.place for v in own))
            kind = "file" if all(v.transport.stores_files for v in own) else "volume"
            lines.append(f"{machine}: writes {len(own)} {kind}{'s' * (len(own) > 1)} of "
                         f"{format_size(self.spec.size)} ({where}), removed afterwards")  # fmt: skip
        return lines

    def problems(self) -> list[FairlaneError]:
        if wrong := self.unfit():
            return wrong
        lines = asyncio.run(preflight.examine(self.study, tried=False))
        return [FairlaneError(line.kind, line.found, where=line.name, hint=line.fix)
                for line in lines if line.state == "missing"]  # fmt: skip

    @classmethod
    async def examine(cls, study: "Study | None", *, context: str, namespace: str) -> Sequence[Line]:  # noqa: ARG003
        if study is None:
            return [Line("machines", "ok", "not examined; pass a study: fairlane doctor STUDY")]
        if wrong := cls.lines(unfit(study)):
            return wrong
        return await preflight.examine(study, tried=True)

    # --- the run

    async def open(self, notify: Notify) -> Opened:
        self.notify = notify
        folder = self._held.enter_context(scratch(short=True))
        wanted = needs(self.study)
        for need in wanted.values():
            destination = self.spec.reached[need.machine]
            answer = self.spec.connect_timeout / 1e9
            machine = Machine(need.machine, destination, self.run_id, folder, answer)
            (self.machines if need.machine in self.spec.destinations else self.servers)[need.machine] = machine
        described = await self._build(0.0)
        for lane, below in (self.known or await self._beneath()).items():
            described[lane] |= below
        await self._look_at_ways(described)
        every = self.every
        self.emulated = any(machine.facts.get("emulated") for machine in every)
        watches = {id(team): team for team in self.teams.values()}.values()
        costs: dict[str, Any] = {}
        for team in watches:
            with suppress(RunFailed):
                costs |= {team.machines[0].name: (await team.watch.costs()).get("guest")}
        exchange = exchanging(self.study) if self.study.design.provisionings > 1 else []
        return Opened(
            description={
                "lanes": described,
                "platform": {
                    "clock": "wall",
                    "machines": described_machines(every),
                    "probes": costs,
                    **({"exchange": exchange} if exchange else {}),
                    **({"prepared": self._prepared} if self._prepared else {}),
                    **({"sessions": "anew in every block"} if self._logs_in else {}),
                },
            },
            fingerprint={**fingerprint(every), **self.versions(described), "fairlane": __version__},
        )

    async def _build(self, patience: float) -> dict[str, dict[str, Any]]:
        """Connects to all machines, undoes what this run may have left there, and builds every lane. Returns their
        descriptions. Raises FairlaneError."""
        wanted = needs(self.study)
        every = self.every
        title = self.study.name
        await together(*(m.connect(patience) for m in every))
        await together(*(m.earlier_keeper() for m in every))
        await together(*(m.become_root() for m in every if wanted[m.name].root))
        await together(*(m.install() for m in every))
        await together(*(m.keep(alone=self.spec.alone, title=title) for m in every))
        self._report(await leftovers.undo_all(self.every))
        await together(*(m.look() for m in every))
        await self._prepare()
        idle = await together(*(busy.watch(machine) for machine in every))
        self._idle = {machine.name: seen for machine, seen in zip(every, idle, strict=True)}
        self.lanes = by_lane(volumes(self.study, self.run_id, self.provisioning))
        self._team_up()
        if not self.known:
            await self._judge()
        self.notify(f"building {len(self.lanes)} lanes on {len(self.machines)} machine{'s' * (len(self.machines) > 1)}")
        volumes_ = [v for own in self.lanes.values() for v in own]
        await self.builder.apply(volumes_)
        await self._link(volumes_)
        await self._open_watches()
        await self._guard()
        order = Stream(self.study.design.seed, "fill", self.provisioning).shuffled([*self.lanes])
        await self._fill({lane: self.lanes[lane] for lane in order})
        cells = self._cells
        for lane, own in self.lanes.items():
            await self.teams[lane].devices.settle(lane, own, cells, self.notify)
        self._round = None
        described: dict[str, dict[str, Any]] = {}
        for lane, own in self.lanes.items():
            rows = (await self.builder.describe(own))[0]
            team = self.teams[lane]
            described[lane] = described_lane(own, rows, team.devices, team.machines)
            states = await together(*(self.read_back(volume) for volume in own))
            described[lane] |= states[0][0]
            described[lane]["conditions"] |= states[0][1]
        return described

    def versions(self, described: Mapping[str, Mapping[str, Any]]) -> Mapping[str, str]:  # noqa: ARG002
        """What the lanes' descriptions say of versions that decide whether two runs may be compared."""
        return {}

    async def read_back(self, volume: Volume) -> tuple[Mapping[str, str], Mapping[str, Any]]:  # noqa: ARG002
        """What a hypervisor says of ``volume``: rows of the lane's description, and parameters. Raises RunFailed where
        it is not as the study has it."""
        return {}, {}

    async def _judge(self) -> None:
        """Raises FairlaneError where a directory or file must not be used, or others load its disk."""
        cells = self._cells
        buffered = any(cell.params.get("direct") is False for _, cell in cells)
        writes = fills(cells) or any(workload.writes(cell) for workload, cell in cells)
        for name, machine in self.machines.items():
            own = [v for volumes_ in self.lanes.values() for v in volumes_ if v.machine == name]
            behinds = await judged(machine, own, self.spec, buffered=buffered, writes=writes)
            for lane, behind in behinds.items():
                disks = [disk.name for disk in behind.disks]
                busy.refuse_busy(self._idle[name], disks, {}, lane=lane, machine=name, limit=self.spec.max_busy)

    async def _look_at_ways(self, described: Mapping[str, dict[str, Any]]) -> None:
        """Adds the ways to the arrays to the lanes' descriptions. Raises RunFailed where others load a lane's disk or
        link."""
        for lane, own in self.lanes.items():
            below = described[lane].get("behind", {})
            ways: dict[str, dict[str, Any]] = {}
            for volume in own:
                machine = self.named(volume.initiator)
                ways[machine.name] = await network.look(machine, network.addresses(volume))
                behind = below.get(volume.machine, below) if len(own) > 1 else below
                disks = [disk["name"] for disk in behind.get("disks", ())]
                links = {way["interface"]: way["speed_mbit"] for way in ways[machine.name].values()
                         if "speed_mbit" in way}  # fmt: skip
                idle, limit = self._idle[machine.name], self.spec.max_busy
                busy.refuse_busy(idle, disks, links, lane=lane, machine=machine.name, limit=limit)
            if every := [way for each in ways.values() for way in each.values()]:
                described[lane]["network"] = ways
                described[lane]["conditions"] |= network.conditions(every)

    async def _beneath(self) -> Mapping[str, Mapping[str, Any]]:
        """What lies behind the lanes' paths."""
        self.notify("examining the disks behind the lanes")
        return await beneath(self.machines, self.lanes, self.notify)

    @property
    def every(self) -> list[Machine]:
        """All machines, those that serve others last."""
        return [*self.machines.values(), *self.servers.values()]

    @property
    def builder(self) -> Builder[Volume]:
        first = next(iter(self.machines.values()))
        folders = first.folders

        def described(volume: Volume) -> tuple[Step, ...]:
            return volume.described(folders.device(volume.name))

        return Builder(self._where, lambda volume: volume.find(), described, folders=folders, notes=first.notes)

    def _where(self, place: Place, volume: Volume) -> Machine:
        return self.named(volume.where(place))

    def named(self, name: str) -> Machine:
        """A machine of the study."""
        return self.machines[name] if name in self.machines else self.servers[name]

    @property
    def _cells(self) -> list[tuple[Any, Any]]:
        return [(registry.load("workloads", cell.kind), cell) for cell in self.study.cells()]

    def _team_up(self) -> None:
        """Teams of the provisioning: lanes with the same machines share one."""
        teams: dict[tuple[str, ...], Team] = {}
        for lane, names in machines_of(self.study, self.provisioning).items():
            if names not in teams:
                machines = [self.machines[name] for name in names]
                before = f"export FAIRLANE_LOAD={self.run_id}\n"
                teams[names] = Team(machines, Devices(machines, folders=machines[0].folders, before=before))
            self.teams[lane] = teams[names]

    async def _prepare(self) -> None:
        """Runs the study's own commands. What undoes them is written down first. Raises RunFailed."""
        spec = self.spec
        if not spec.prepare and not spec.conclude:
            return
        step = Step(
            "the study's prepare", "initiator",
            apply=f"( {spec.prepare.strip() or ':'}\n) > $FRAMES/prepared 2>&1 || {{ tail -n 3 $FRAMES/prepared >&2; "
            "exit 1; }",
            remove=f"( {spec.conclude.strip() or ':'}\n) > $FRAMES/concluded 2>&1",
        )  # fmt: skip
        self.notify("running the study's prepare commands")
        for machine in self.machines.values():
            text = build.shell([step], notes=machine.notes) + "\ncp $FRAMES/prepared prepared\n"
            output = await machine.ask(text, _PREPARE)
            self._prepared[machine.name] = output["prepared"].decode(errors="replace")[-4000:]

    async def _link(self, own: Sequence[Volume]) -> None:
        """Links the devices of volumes on their machines and records what they are."""
        texts: dict[Guest, str] = {}
        for machine in self.machines.values():
            if here := [v for v in own if v.machine == machine.name]:
                texts[machine] = self.builder.link(here)
        await build.everywhere(texts)
        for lane, some in by_lane(own).items():
            devices = self.teams[lane].devices
            await devices.record(some)
            for volume in some:
                self._large_enough(volume, devices.capacity(volume))

    def _large_enough(self, volume: Volume, capacity: int) -> None:
        """Raises FairlaneError where a load would go beyond a volume that was there before. fio removes a file that is
        smaller than what it is to use (observed with 3.33)."""
        for workload, cell in self._cells if volume.external else ():
            needed = workload.extent(cell, capacity)
            if needed > capacity:
                raise FairlaneError(
                    "volume-small",
                    f"workload {cell.workload} needs {format_size(needed)}, but lane {volume.lane} has only "
                    f"{format_size(capacity)}",
                    where=f"lanes.{volume.lane}",
                    hint="lower size (or offset) in the workload",
                )

    async def _guard(self) -> None:
        """Raises Refused before the first load where a device must not be written that the study wants to write."""
        if not any(workload.writes(cell) for workload, cell in self._cells):
            return
        texts: dict[Guest, str] = {}
        for lane, own in self.lanes.items():
            for volume in own:
                machine = self.machines[volume.machine]
                texts[machine] = texts.get(machine, "") + self.teams[lane].devices.guards([volume])
        await build.everywhere(texts)

    async def _open_watches(self) -> None:
        for team in {id(t): t for t in self.teams.values()}.values():
            folders, host = team.machines[0].folders, await self.below(team.machines)
            team.watch = await Watch.open(team.machines, self.servers.get(ARRAY), host, folders=folders, living=True)

    async def below(self, machines: Sequence[Machine]) -> tuple[Machine, str] | None:  # noqa: ARG002
        """The hypervisor that runs ``machines``, and shell that sets the variables of its probes; None: not known, or
        several. Raises RunFailed."""
        return None

    async def _fill(self, wanted: Mapping[str, Sequence[Volume]]) -> None:
        """Fills volumes, one lane after the other: they may share a disk."""
        if fills(self._cells):
            for lane, own in wanted.items():
                self.notify(f"filling {lane}")
                await self.teams[lane].devices.fill(own, self._cells)

    def stage(self, block: Block, lane: str) -> LivingStage:
        return LivingStage(self, block, lane)

    async def begin(self, block: Block) -> None:
        if self._round != block.index:
            made = {lane: own for lane, own in self.lanes.items() if own[0].transport.remade}
            if self._round is not None and made:
                every = [v for own in made.values() for v in own]
                await self.builder.log_in_anew(every)
                for lane, own in made.items():
                    await self.teams[lane].devices.record(own)
                await self._fill({lane: made[lane] for lane in sorted(made, key=self._place_in(block))})
            self._round = block.index
        again = [v for lane in block.order for v in self.lanes[lane] if v.sessions() and not v.transport.remade]
        if self.study.design.sessions == "block" and again:
            await self.builder.log_in_anew(again)
            for lane, some in by_lane(again).items():
                await self.teams[lane].devices.record(some)
        for team in {id(self.teams[lane]): self.teams[lane] for lane in block.order}.values():
            await team.watch.synchronise()

    @property
    def _logs_in(self) -> bool:
        """Whether initiators log in anew in every block."""
        own = (volume for volumes_ in self.lanes.values() for volume in volumes_)
        return self.study.design.sessions == "block" and any(v.sessions() and not v.transport.remade for v in own)

    @staticmethod
    def _place_in(block: Block) -> Callable[[str], int]:
        """Key that sorts lanes as in ``block``, whose order is random: none is filled last, and freshest in a cache,
        in every round."""
        return lambda lane: block.order.index(lane) if lane in block.order else len(block.order)

    async def lost(self, lane: str) -> str:
        team = self.teams[lane]
        while all(machine.alive for machine in team.machines):
            await asyncio.sleep(0.2)
        gone = next(machine for machine in team.machines if not machine.alive)
        return f"the connection to machine {gone.name} was lost"

    async def explained(self, error: RunFailed, lane: str) -> RunFailed:  # noqa: ARG002
        gone = [machine.name for machine in self.machines.values() if not machine.alive]
        # a script's connection breaks some time before ssh's master ends, or without it, as its shell was killed
        if isinstance(error, MachineLost) or not (gone or error.kind == "connection-lost"):
            return error
        names = "" if "connection" in error.message else f"; no connection to {', '.join(gone)}"
        return MachineLost(f"{error.message}{names}", hint=error.hint)

    async def heal(self, lanes: Collection[str]) -> None:  # noqa: ARG002
        """Connects to all machines again, waits for those that restart, and builds all lanes anew: they share machines.
        Raises RunFailed."""
        self.notify("reconnecting to the machines and rebuilding the lanes")
        boots = {m.name: m.facts.get("boot") for m in self.machines.values()}
        await self._take_down(final=False)
        try:
            await self._build(self.spec.return_timeout / 1e9)
        except RunFailed:
            raise
        except FairlaneError as error:
            raise RunFailed(error.kind, error.message, hint=error.hint, where=error.where) from error
        for machine in self.machines.values():
            if boots[machine.name] != machine.facts.get("boot"):
                self.notify(f"machine {machine.name} has restarted")
        self.rebuilds += 1

    def _report(self, left: Sequence[leftovers.Left]) -> None:
        for one in left:
            self.notify(f"could not undo: {one}; run fairlane hosts clean to try again")

    async def _take_down(self, *, final: bool) -> None:
        """Ends sessions and undoes every step; never raises."""
        for team in {id(t): t for t in self.teams.values()}.values():
            await team.watch.close()
            team.watch = Watch()
        every = self.every
        await asyncio.gather(*(machine.release() for machine in every))
        self._report(await leftovers.undo_all(self.every))
        for machine in self.machines.values() if final and self.spec.conclude else ():
            with suppress(RunFailed):
                _, out, _ = await machine.plain(f"cat {machine.folders.run}/concluded 2> /dev/null")
                self.concluded[machine.name] = out[-4000:]
        await asyncio.gather(*(machine.close(remove=final) for machine in every))

    async def close(self) -> None:
        await self._take_down(final=True)
        self._held.close()
