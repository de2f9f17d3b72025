"""Show the progress of a run on stderr: a bar on a terminal, else a plain line every ten seconds."""

import math
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from fairlane.records import Block, Observation
from fairlane.stats.anytime import FAR, percent
from fairlane.stats.live import Live, Standing
from fairlane.study.forecast import about
from fairlane.study.spec import Study
from fairlane.trial.progress import Estimate, Watch

_EVERY = 10.0
"""Seconds between two plain lines of progress."""
_FAILURES_SHOWN = 5
"""Failed trials that get a line; the others are counted."""


def printable(text: str) -> str:
    """``text`` on one line without control characters: it may come from outside."""
    return "".join(c if c.isprintable() else " " for c in text).strip()


class Lines(Watch):
    """Plain lines."""

    def __init__(self, console: Console, study: Study) -> None:
        self.console = console
        self.looks = study.design.looks
        self.on_width = study.design.stop is not None
        self.going = 0
        self.estimate = Estimate(study)
        self.live = Live(study)
        self.standing: Standing | None = None
        self.first = False
        """Whether the first interval has been printed."""
        self.total = self.done = self.failures = 0
        self.taken = 0
        self._last_note = time.monotonic()

    def note(self, text: str) -> None:
        self.console.print(Text(printable(text)), soft_wrap=True)

    def resumed(self, observations: Iterable[Observation]) -> None:
        observations = list(observations)
        self.first = bool(observations)  # shown when they came in
        for trial in observations:
            self._stand(trial)

    def due(self, blocks: Sequence[Block], done: frozenset[str], workers: int) -> None:
        trials = [block.trial_id(lane) for block in blocks for lane in block.order]
        self.total = len(trials)
        self.done = sum(trial in done for trial in trials)
        self.estimate.due(blocks, done, workers)
        if self.done < self.total:
            self._progress(now=True)

    def trial(self, block: Block, observation: Observation, seconds: float) -> None:  # noqa: ARG002
        self.done += 1
        self.estimate.trial(observation.trial, seconds)
        self._stand(observation)
        if observation.failed:
            self.failures += 1
            if self.failures <= _FAILURES_SHOWN:
                self.note(f"{observation.trial} failed: {observation.failed}")
            elif self.failures == _FAILURES_SHOWN + 1:
                self.note("more trials failed; the report counts them")
        self._progress()

    def failed(self, block: Block, reason: str) -> None:
        cause, *further = reason.splitlines() or [""]
        self.note(f"block {block.key} failed: {cause}")
        for line in further:  # a console
            indent = "  " * (1 + line.startswith(" "))
            self.console.print(Text(f"{indent}{printable(line)}"), soft_wrap=True)

    def retry(self, block: Block, unjudged: Sequence[str], reason: str) -> None:  # noqa: ARG002
        self.note(f"block {block.key} is begun anew")
        self.done -= len(unjudged)
        self.estimate.retry(block, unjudged)
        self.live.retry(block, unjudged)
        self._progress()

    def look(self, number: int, opened: frozenset[str], cells: int) -> None:
        self.taken = number + 1
        blocks = self.looks[number]
        if self.on_width:  # every block is a look: only ended cells are reported
            ended = max(self.going, cells if not number else 0) - len(opened)
            self.going = len(opened)
            if ended > 0:
                self.note(f"after {blocks} blocks: {cells - len(opened)} of {cells} cells are narrow enough")
        elif number + 1 < len(self.looks):
            goes_on = f"{len(opened)} of {cells} cells go on" if opened else "all cells are decided"
            self.note(f"look {number + 1} of {len(self.looks)}, after {blocks} blocks: {goes_on}")

    def status(self) -> str:
        """``45 of 144 trials, 1 min to look 1 of 4``."""
        where = "" if len(self.looks) == 1 else f" to look {self.taken + 1} of {len(self.looks)}"
        if self.on_width:
            where = f" to block {self.looks[min(self.taken, len(self.looks) - 1)]}"
        left = f", about {about(self.estimate.seconds)}{where}" if self.done < self.total else ""
        failed = f", {self.failures} failed" if self.failures else ""
        return f"{self.done} of {self.total} trials{failed}{left}{self._so_far()}"

    def _stand(self, observation: Observation) -> None:
        changed = self.live.add(observation)
        self.standing = changed[-1] if changed else self.standing
        if not self.first and self.live.comparisons > 1 and self.standing and self.standing.alone[1] < math.inf:
            self.first = True
            self._print_first(self.standing)

    def _print_first(self, at: Standing) -> None:
        """The plain interval of whichever comparison has one first, after two blocks (two provisionings, where a study
        has several): the schedule picks it, not its figures, and it is printed once, so that it holds as that of any
        single comparison does. Nothing where it says nothing."""
        low, high = at.alone
        if high < FAR:
            interval = f"{percent(low)} to {percent(high)}"
            self.note(f"first interval, after {at.blocks} blocks: {at.lane} {interval} at {at.cell} (by itself)")

    def _so_far(self) -> str:
        """Interim result, valid at any moment: ``, interim results in 3 of 8 cells``; of a study with one comparison,
        its interval: ``, nvme-tcp so far +11.2 % to +18.9 %``. The looks decide later, and more sharply."""
        if self.live.comparisons > 1:
            decided = self.live.decided
            return f", interim results in {decided} of {self.live.cells} cells" if decided else ""
        at = self.standing
        return f", {at.lane} so far {percent(at.low)} to {percent(at.high)}" if at and at.high < FAR else ""

    def _progress(self, *, now: bool = False) -> None:
        if now or time.monotonic() - self._last_note >= _EVERY or self.done == self.total:
            self._last_note = time.monotonic()
            self.note(self.status())


class Bar(Lines):
    """A bar that stays at the bottom of the terminal; notes scroll above it."""

    def __init__(self, console: Console, study: Study) -> None:
        super().__init__(console, study)
        self._bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, left="preparing")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def _progress(self, *, now: bool = False) -> None:  # noqa: ARG002 - a bar is always up to date
        left = self.status().partition(", ")[2]
        self._bar.update(self._task, total=self.total, completed=self.done, left=left)


def watching(study: Study) -> Lines:
    """A bar if stderr is a terminal, else plain lines."""
    console = Console(stderr=True)
    return Bar(console, study) if console.is_terminal else Lines(console, study)
