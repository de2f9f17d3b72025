"""A comparison while it runs: every path's throughput now, the interval as it narrows, the time that is left."""

import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fairlane.records import Block, Cell, Observation
from fairlane.report.phrases import metric_of
from fairlane.stats.anytime import FAR, percent
from fairlane.stats.live import Live as Standings
from fairlane.stats.live import Standing
from fairlane.study.forecast import about
from fairlane.study.spec import Study
from fairlane.trial.progress import Watch
from fairlane.versus.meter import Meter

_EVERY = 10.0
"""Seconds between two plain lines."""
_ROWS = 12
"""Rows of paths on a terminal; of more, only the cell that runs is shown."""


class State(Watch):
    """What is known at any moment."""

    def __init__(self, study: Study, run: str, *, cached: bool = False) -> None:
        """``run``: id of the run."""
        self.study = study
        self.meter = Meter(run, cached=cached)
        self.standings: dict[tuple[str, str], Standing] = {}
        self.newest: dict[tuple[str, str], float] = {}
        """(cell key, lane) -> the primary metric in the newest trial."""
        self.scarce: set[tuple[str, str]] = set()
        """(cell key, lane) whose newest trial had too few I/Os for its percentile."""
        self.activity = "inspecting the machines"
        self.failures = 0
        self._live = Standings(study)
        self._cells = {cell.key: cell for cell in study.cells()}
        self._open = frozenset(self._cells)
        self._pending: list[tuple[Block, str]] = []
        self._done: set[str] = set()
        self._seconds: list[float] = []

    # --- events

    def note(self, text: str) -> None:
        self.activity = " ".join(text.split())

    def resumed(self, observations: Iterable[Observation]) -> None:
        for observation in observations:
            self._add(observation)

    def due(self, blocks: Sequence[Block], done: frozenset[str], workers: int) -> None:  # noqa: ARG002
        self._done |= done
        self._pending = [(b, lane) for b in blocks for lane in b.order if b.trial_id(lane) not in done]

    def trial(self, block: Block, observation: Observation, seconds: float) -> None:  # noqa: ARG002
        self._seconds.append(seconds)
        self._done.add(observation.trial)
        self._pending = [(b, lane) for b, lane in self._pending if b.trial_id(lane) != observation.trial]
        self._add(observation)

    def failed(self, block: Block, reason: str) -> None:
        self.failures += 1
        cause, _, _ = reason.partition("\n")  # one line of display; the journal has the rest
        self.note(f"block {block.key} failed: {cause}")

    def retry(self, block: Block, unjudged: Sequence[str], reason: str) -> None:
        self.note(f"block {block.key} is begun anew: {reason}")
        self._done -= {block.trial_id(lane) for lane in unjudged}
        rest = [(b, lane) for b, lane in self._pending if b is not block]
        self._pending = [*((block, lane) for lane in block.order), *rest]
        self._live.retry(block, unjudged)

    def look(self, number: int, opened: frozenset[str], cells: int) -> None:  # noqa: ARG002
        self._open = opened

    def _add(self, observation: Observation) -> None:
        for standing in self._live.add(observation):
            self.standings[standing.cell, standing.lane] = standing
        cell = self._cells.get(observation.cell)
        if observation.failed:
            self.failures += 1
            self.note(f"{observation.trial} failed: {observation.failed}")
        elif cell and (value := observation.metrics.get(self.primary(cell))) is not None:
            self.newest[observation.cell, observation.lane] = value
            self.scarce.discard((observation.cell, observation.lane))
        elif cell and metric_of(self.primary(cell)).percentile is not None:
            self.scarce.add((observation.cell, observation.lane))

    # --- readings

    @property
    def cells(self) -> Sequence[Cell]:
        return [*self._cells.values()]

    def primary(self, cell: Cell) -> str:
        """Metric that decides the cell."""
        return self.study.workloads[cell.workload].primary

    @property
    def now(self) -> tuple[Cell, str] | None:
        """Cell and lane that run now."""
        return (self._pending[0][0].cell, self._pending[0][1]) if self._pending else None

    @property
    def done(self) -> int:
        return len(self._done)

    @property
    def most(self) -> int:
        """Trials up to the last look, of cells that are not decided yet."""
        last = self.study.design.looks[-1]
        return sum(
            (last if cell.key in self._open else self._blocks(cell)) * len(self.study.lanes_of(cell))
            for cell in self.cells
        )

    def _blocks(self, cell: Cell) -> int:
        return max((s.blocks for (name, _), s in self.standings.items() if name == cell.name), default=0)

    @property
    def left(self) -> float:
        """Seconds until the last look, if nothing is decided before."""
        recent = self._seconds[-12:]
        each = sum(recent) / len(recent) if recent else self._planned
        return max(0, self.most - self.done) * each

    @property
    def _planned(self) -> float:
        each = [self.study.platform.wall_seconds(self.study.workloads[c.workload].trial_seconds(c)) for c in self.cells]
        return sum(each) / len(each)

    def status(self) -> str:
        """``24 of at most 48 trials, at most 1 min left``."""
        if not self._seconds and not self._done:
            return self.activity
        failed = f", {self.failures} failed" if self.failures else ""
        return f"{self.done} of at most {self.most} trials, at most {about(self.left)} left{failed}"

    def rate(self, cell: Cell) -> str:
        """What runs now: ``12,345 IOPS``, where block sizes are one, else ``120 MiB/s``; empty: not known."""
        moved = self.meter.rate()
        if moved is None:
            return ""
        if bs := cell.params.get("bs"):
            return f"{moved / bs:,.0f} IOPS" if bs < 2**17 else f"{moved / 2**20:,.0f} MiB/s"
        return f"{moved / 2**20:,.0f} MiB/s"

    def label(self, lane: str) -> str:
        return self.study.lanes[lane].label or lane

    def interval(self, cell: Cell, lane: str) -> str:
        """``+29.1 % to +35.2 %`` against the baseline; empty: too early."""
        at = self.standings.get((cell.name, lane))
        return f"{percent(at.low)} to {percent(at.high)}" if at and at.high < FAR and at.low > -FAR else ""


class Lines(State):
    """Plain lines: the state every ten seconds, and what happens in between."""

    def __init__(self, console: Console, study: Study, run: str, *, cached: bool = False) -> None:
        super().__init__(study, run, cached=cached)
        self.console = console
        self._next = time.monotonic()
        self._said: set[str] = set()

    def note(self, text: str) -> None:
        super().note(text)
        if self.activity not in self._said:  # every round fills files
            self._said.add(self.activity)
            self.say(self.activity)

    def trial(self, block: Block, observation: Observation, seconds: float) -> None:
        super().trial(block, observation, seconds)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            self.show(block.cell)

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(Text("".join(c if c.isprintable() else " " for c in text)), soft_wrap=True, highlight=False)

    def show(self, running: Cell) -> None:
        """The state in a line, and a line per path of the cell that runs."""
        self.say(f"{self.status()}; {running.name}:")
        for lane in self.study.lanes:
            metric = self.primary(running)
            value = self.newest.get((running.key, lane))
            figure = f"{metric_of(metric).format(value)} {_unit(metric)}".rstrip() if value is not None else "-"
            if (running.key, lane) in self.scarce:
                figure = f"{_short(metric)}: too few I/Os yet"
            self.say(f"  {self.label(lane)}: {figure}{self._against(running, lane)}")

    def _against(self, cell: Cell, lane: str) -> str:
        if lane == self.study.baseline:
            return " (baseline)"
        interval = self.interval(cell, lane)
        return f", {interval} so far" if interval else ""


def _short(metric: str) -> str:
    """``p99``."""
    return metric_of(metric).title.partition(" ")[0]


def _unit(metric: str) -> str:
    return "IOPS" if metric == "iops" else ""


class Area(Lines):
    """A live area at the bottom of the terminal."""

    def note(self, text: str) -> None:
        State.note(self, text)

    def trial(self, block: Block, observation: Observation, seconds: float) -> None:
        State.trial(self, block, observation, seconds)

    def __enter__(self) -> Self:
        self._area = Live(
            get_renderable=self.view, console=self.console, refresh_per_second=4, transient=True, screen=False
        )
        self._area.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._area.stop()

    def view(self) -> RenderableType:
        """The area as it stands."""
        width = min(self.console.width, 100)
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=max(1, self.most), completed=self.done, width=20),
            Text(self.status(), overflow="ellipsis", no_wrap=True),
        )
        parts: list[RenderableType] = []
        if self.newest or self.now:
            parts.append(self._table(width))
        parts.append(bar)
        if self.failures:
            parts.append(Text(self.activity, style="dark_orange3", overflow="ellipsis", no_wrap=True))
        return Group(*parts)

    def _table(self, width: int) -> RenderableType:
        now = self.now
        table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, width=width, header_style="dim")
        table.add_column("", width=1)
        table.add_column("", overflow="ellipsis", no_wrap=True, ratio=1)
        table.add_column("now", justify="right", width=14)
        table.add_column("last trial", justify="right", width=12)
        table.add_column("against baseline", justify="right", width=22)
        cells = self.cells
        if len(cells) * len(self.study.lanes) > _ROWS:
            cells = [now[0]] if now else list(cells)[:1]
        for cell in cells:
            table.add_row("", Text(cell.name, style="bold"))
            for lane in self.study.lanes:
                active = bool(now and now[0].key == cell.key and now[1] == lane)
                table.add_row(*self._row(cell, lane, active=active))
        return table

    def _row(self, cell: Cell, lane: str, *, active: bool) -> list[RenderableType]:
        value = self.newest.get((cell.key, lane))
        metric = metric_of(self.primary(cell))
        shown = metric.format(value) if value is not None else ""
        if lane == self.study.baseline:
            against = Text("baseline", style="dim")
        else:
            at = self.standings.get((cell.name, lane))
            against = Text(self.interval(cell, lane) or "…", style="bold" if at and at.decided else "")
        return [
            Text("▶" if active else "", style="green"),
            Text(f" {self.label(lane)}"),
            Text(self.rate(cell) if active else "", style="green"),
            Text("too few I/Os" if (cell.key, lane) in self.scarce else shown),
            against,
        ]


def showing(study: Study, run: str, *, cached: bool = False) -> Lines:
    """A live area if stderr is a terminal, else plain lines."""
    console = Console(stderr=True)
    return (Area if console.is_terminal else Lines)(console, study, run, cached=cached)
