"""A platform without machines: deterministic figures with chosen true effects and noise, for unit tests and docs.

The workload writes a trial's outputs (``Workload.invented``). A lane's ``speed`` is its true ratio of IOPS;
noise comes from SHA-256 of study seed, block seed, lane and position (of a placement: cell, lane and provisioning), and
is the same on every machine and in every version.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from fnmatch import fnmatchcase
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fairlane import __version__, registry
from fairlane.errors import FairlaneError, Invalid, MachineLost
from fairlane.guard.parameters import PARAMETERS
from fairlane.guard.values import NONE
from fairlane.platforms.base import Notify, Opened, Platform, RawTrial
from fairlane.records import Block, Cell
from fairlane.study.base import PlatformSpec
from fairlane.study.schedule import Stream
from fairlane.study.strict import Strict
from fairlane.units import Duration, Share
from fairlane.workloads.base import Invention

if TYPE_CHECKING:
    from fairlane.study.spec import Study

Ratio = Annotated[float, Field(ge=1e-6, le=1e6)]


class Warm(Strict):
    """A different speed at the start of a trial, such as a warm cache or a burst allowance."""

    speed: Ratio
    """Ratio of IOPS to the rest of the trial."""
    time: Duration
    """How long, since the load began; whole seconds."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.time or self.time % 10**9:
            raise Invalid("time", "time: expected whole seconds")
        return self


class Effect(Strict):
    """A lane's true effect."""

    speed: Ratio = 1.0
    """True ratio of IOPS (and, inverted, of latency) to a lane without effect."""
    cells: dict[str, Ratio] = Field(default_factory=dict)
    """Speed in cells whose name matches a pattern, in place of ``speed``: {"64k *": 1.5}. The first match counts."""
    tail: Ratio = 1.0
    """True ratio of the slowest I/Os' latency; they are 2 % of all."""
    warm: Warm | None = None
    """A different speed in a trial's first seconds, ramp-up included."""


class Noise(Strict):
    """Random differences between trials of the same lane and cell."""

    sd: Share = Field(default=0.02, le=1)
    """Standard deviation of ln(IOPS) of a trial."""
    seconds: Share = Field(default=0.0, le=1)
    """Standard deviation of ln(IOPS) of one second within a trial; correlation with the next second 0.5."""
    placement: Share = Field(default=0.0, le=1)
    """Standard deviation of ln(IOPS) between provisionings (placement of machines and volumes): one factor per lane,
    cell and provisioning, which more trials within it do not average out."""
    model: Literal["normal", "t3", "stalls", "drift", "correlated"] = "normal"
    """t3: heavy tails. stalls: 8 % of the trials ten sd slower. drift: a slow wave of five sd over the blocks, the same
    for all lanes. correlated: lag-1 correlation 0.5 between the blocks of a lane."""


class FakeSpec(PlatformSpec):
    """No machines: figures are invented from the seed, and every report says so."""

    kind: Literal["fake"]
    """Invented figures, for tests and documentation."""
    effects: dict[str, Effect] = Field(default_factory=dict)
    """True effects by lane; a lane without an entry has none."""
    noise: Noise = Noise()
    """Noise of the trials."""
    failures: Share = 0.0
    """Share of trials whose fio fails."""
    deaths: Share = 0.0
    """Share of blocks whose guest dies after the first trial, each time the block is run."""
    latency: Duration = 80_000
    """Latency of one small I/O on the idle device."""
    invented = True

    @property
    def placed(self) -> bool:
        return self.noise.placement > 0

    @property
    def loads(self) -> tuple[str, ...]:
        return tuple(name for name, workload in registry.every("workloads") if workload.invents)

    def known(self) -> Mapping[str, Any]:
        """There is no machine and nothing is stored: the same holds for every lane."""
        missing = {n: NONE for n, p in PARAMETERS.items() if p.group in ("machine", "durability", "link")}
        return {**super().known(), "backend": "invented", **missing, "fleet": 1, "disks": 1}

    def wall_seconds(self, guest_seconds: float) -> float:  # noqa: ARG002
        return 0.005

    def workers(self, jobs: int) -> int:
        return jobs


class Fake(Platform):
    Spec = FakeSpec
    repeats_exactly = True

    def __init__(self, study: "Study") -> None:
        super().__init__(study)
        self._tries: Counter[str] = Counter()

    @property
    def spec(self) -> FakeSpec:
        """This platform's part of the study."""
        spec = self.study.platform
        assert isinstance(spec, FakeSpec)  # noqa: S101 - the study's kind chose this class
        return spec

    def unfit(self) -> list[FairlaneError]:
        lanes = ", ".join(self.study.lanes)
        unknown = [name for name in self.spec.effects if name not in self.study.lanes]
        return [
            FairlaneError("lane-unknown", f"platform.effects: {name!r} is not a lane", hint=f"lanes: {lanes}")
            for name in unknown
        ]

    async def open(self, notify: Notify) -> Opened:
        notify("no machines: figures are invented")
        lanes = {
            name: {"transport": lane.transport, "device": f"fake:{name}"} for name, lane in self.study.lanes.items()
        }
        return Opened(
            description={"lanes": lanes, "platform": {"kind": "fake", "figures": "invented"}},
            fingerprint={"fairlane": __version__, "platform": "fake"},
        )

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        self._tries[block.key] += 1
        for done, lane in enumerate(block.order):
            await asyncio.sleep(0)  # other workers have their turn
            if done == 1 and self._share(block, "death", self._tries[block.key]) < self.spec.deaths:
                raise MachineLost(f"the guest died in block {block.key}", hint="set platform.deaths to 0")
            yield RawTrial(lane, self._outputs(block, lane))

    def _outputs(self, block: Block, lane: str) -> dict[str, bytes]:
        cell, effect = block.cell, self.spec.effects.get(lane, Effect())
        speed = _speed(effect, cell) * math.exp(self._noise(block, lane))
        workload = registry.load("workloads", cell.kind)
        files = workload.invented(cell, Invention(self.spec.latency, speed, effect.tail, self._course(block, lane)))
        if self._share(block, lane, "failure") >= self.spec.failures:
            return {"status": b"0\n", **files}
        complaint = f"{cell.kind}: io_u error on file /dev/fake: Input/output error\n".encode()
        cut = {name: data[: len(data) // 3] for name, data in files.items()}
        return {"status": b"1\n", **cut, f"{cell.kind}.err": complaint}

    def _course(self, block: Block, lane: str) -> tuple[float, ...]:
        """Factors on the rate in each second of a trial."""
        sd, warm = self.spec.noise.seconds, self.spec.effects.get(lane, Effect()).warm
        if not sd and not warm:
            return ()
        course, z = [], 0.0
        for second in range(math.ceil(self.study.workloads[block.cell.workload].trial_seconds(block.cell))):
            fresh = self._normal(block.cell.key, block.seed, lane, "second", second) if sd else 0.0
            z = 0.5 * z + math.sqrt(1 - 0.5**2) * fresh if second else fresh
            early = warm is not None and second * 10**9 < warm.time
            course.append((warm.speed if warm and early else 1.0) * math.exp(sd * z))
        return tuple(course)

    def _noise(self, block: Block, lane: str) -> float:
        noise = self.spec.noise
        position = block.order.index(lane)
        purpose = (block.seed, lane, position)
        z = self._normal(*purpose)
        if noise.model == "t3":  # normal / sqrt(chi2_3 / 3), scaled to variance 1
            chi2 = sum(self._normal(*purpose, "chi", n) ** 2 for n in range(3))
            z /= math.sqrt(chi2 / 3) * math.sqrt(3)
        elif noise.model == "stalls" and self._share(block, lane, "stall") < 0.08:
            z -= 10
        elif noise.model == "drift":
            z += 5 * math.sin(2 * math.pi * (block.index + position / len(block.order)) / 17)
        elif noise.model == "correlated":  # a moving sum with the weights of an AR(1) process
            steps = (self._normal(block.cell.key, lane, block.index - n) * 0.5**n for n in range(20))
            z = sum(steps) * math.sqrt(1 - 0.5**2)
        return noise.sd * z + self._placement(block, lane)

    def _placement(self, block: Block, lane: str) -> float:
        """Of the lane's place in the provisioning, which all cells share, as they share the volume. A provisioning that
        is opened again has the same one, so that a resumed run repeats exactly."""
        sd = self.spec.noise.placement
        place = self.study.design.provisioning_of(block)
        return sd * self._normal("placement", lane, place) if sd else 0.0

    def _uniform(self, *purpose: int | str) -> float:
        return (Stream("fake", self.study.design.seed, *purpose).below(2**53) + 0.5) / 2**53

    def _normal(self, *purpose: int | str) -> float:
        return NormalDist().inv_cdf(self._uniform(*purpose))

    def _share(self, block: Block, *purpose: int | str) -> float:
        """Uniform between 0 and 1; less than p with probability p."""
        return self._uniform(block.cell.key, block.seed, *purpose)


def _speed(effect: Effect, cell: Cell) -> float:
    return next((speed for pattern, speed in effect.cells.items() if fnmatchcase(cell.name, pattern)), effect.speed)


PLUGIN = Fake
