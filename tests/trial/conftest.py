"""Small runs on the fake platform, carried out for real: files, journal, signals; only the figures are invented."""

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane.platforms.base import Platform
from fairlane.platforms.fake import Fake
from fairlane.records import Block, Observation
from fairlane.runs import plan as plans
from fairlane.runs.plan import Plan
from fairlane.runs.read import load_run, write_observations
from fairlane.study.load import parse_study
from fairlane.trial.progress import Watch
from fairlane.trial.runner import carry_out

STUDY = """\
name: small
baseline: iscsi
platform: {{kind: fake, {platform}}}
lanes:
  local: {{transport: local}}
  iscsi: {{transport: iscsi}}
  nvme-tcp: {{transport: nvme_tcp}}
workloads:
  main: {{kind: fio, rw: [randread, randwrite], iodepth: [1, 16], runtime: 1s}}
design: {{looks: {looks}}}
"""


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """An interrupted run leaves its signals ignored until its process ends; this process goes on."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@dataclass
class Told(Watch):
    """Remembers what a run tells."""

    notes: list[str] = field(default_factory=list)
    trials: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    retries: list[tuple[str, list[str]]] = field(default_factory=list)
    looks: list[frozenset[str]] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def trial(self, block: Block, observation: Observation, seconds: float) -> None:
        self.trials.append(observation.trial)

    def failed(self, block: Block, reason: str) -> None:
        self.failures.append(block.key)

    def retry(self, block: Block, unjudged: Sequence[str], reason: str) -> None:
        self.retries.append((block.key, sorted(unjudged)))

    def look(self, number: int, opened: frozenset[str], cells: int) -> None:
        self.looks.append(opened)


@dataclass
class Run:
    """A run directory and what can be done with it."""

    folder: Path
    plan: Plan

    def go(self, platform: type[Platform] = Fake, jobs: int = 1) -> Told:
        """Begin it or go on with it, up to its end."""
        told = Told()
        carry_out(self.folder, self.plan, platform(self.plan.study), told, jobs)
        return told

    def fail(self, platform: type[Platform] = Fake, jobs: int = 1) -> FairlaneError:
        """The same, expecting that it does not come to its end."""
        with pytest.raises(FairlaneError) as raised:
            self.go(platform, jobs)
        return raised.value

    def result(self) -> bytes:
        """The derived observations."""
        evidence = load_run(self.folder)
        assert evidence.complete
        return write_observations(self.folder, evidence.observations).read_bytes()

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"


@pytest.fixture
def new_run(tmp_path: Path) -> Callable[..., Run]:
    """Makes a run directory: ``new_run("name", platform="deaths: 10%", looks="[2, 4]")``."""

    def make(name: str = "run", *, platform: str = "", looks: str = "[3]", seed: int | None = None) -> Run:
        text = STUDY.format(platform=platform, looks=looks)
        plan = plans.make(parse_study(text, "study.yaml"), text, seed=seed)
        plans.create(tmp_path / name, plan)
        return Run(tmp_path / name, plan)

    return make
