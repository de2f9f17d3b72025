"""How many blocks, how long a trial, how large a file: from the time given and the speed of filling. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairlane.errors import FairlaneError
from fairlane.study.forecast import about
from fairlane.units import format_duration, format_size

FOR = 170.0
"""Seconds that a comparison takes at most, by default: three minutes with the inspection of the paths before it."""
_BLOCKS = (12, 8, 6)
"""Numbers of blocks that are tried, the largest first: fewer than 6 show too little of their own spread."""
_MORE_BLOCKS = (40, 30, 20, 16)
"""Where trials are long enough for more of them."""
_ALL_BLOCKS = (*_MORE_BLOCKS, *_BLOCKS)
_LEAST, _LONG, _MOST = 0.3, 10.0, 60.0
"""Seconds of a trial: at least; from which on more blocks are better than longer ones; at most."""
_WISHED = 1.0
"""Seconds of a trial below which fewer blocks are planned."""
_TAIL = 4.0
"""The same where a tail decides, and the least is half of it: a p99 needs a thousand I/Os in every trial."""
_TAIL_IOS = 1200
"""I/Os of a trial in which a p99 is a figure: ten lie beyond it, and some more."""
_PATIENT = 600.0
"""Seconds of a trial at most, where a tail needs them."""
_USUAL = 2.0
"""Seconds of a trial where a number of blocks is given and no time."""
_FIRST = 6
"""Blocks before the first look."""
_OPEN, _EACH = 6.0, 3.0
"""Seconds to look at the machines, open the run and close it; and to try each path."""
_FILLING = 0.2
"""Share of the time that filling new files may take."""
_RAMPED = 1.0
"""Seconds of a trial from which on its ramp is a quarter of a second."""
SMALLEST, LARGEST = 64 * 1024**2, 2 * 1024**3
"""Sizes of a file that are planned; ``--size`` may name any."""
SETTLE = 0.2
"""Seconds of rest between two trials."""


@dataclass(frozen=True)
class Pace:
    """What trials cost where they run. Seconds."""

    usual: float = FOR
    """All of it, where the user gives no time."""
    overhead: float = 0.8
    """Of a trial beside ramp and load: ``HostsSpec.wall_seconds``."""
    least: float = _LEAST
    """Of a trial at least."""
    wished: float = _WISHED
    """Of a trial: where trials would be shorter, fewer blocks are planned."""
    given: float = _USUAL
    """Of a trial where a number of blocks is given and no time."""
    ramps: tuple[float, float] = (0.1, 0.25)
    """Of a trial of less than a second, and of a longer one."""

    def ramp(self, runtime: float) -> float:
        """Seconds under load before a trial of ``runtime`` is measured."""
        return self.ramps[runtime >= _RAMPED]

    def trial(self, runtime: float) -> float:
        """Seconds of a trial in all."""
        return self.overhead + self.ramp(runtime) + runtime


FILES = Pace()
"""Files, directories and disks of machines that are there."""


@dataclass(frozen=True)
class Wanted:
    """What a user gives; None: to be planned. Seconds and bytes."""

    seconds: float | None = None
    blocks: int | None = None
    runtime: float | None = None
    size: int | None = None


@dataclass(frozen=True)
class Shape:
    """What the plan must hold."""

    cells: int
    lanes: int
    fill: Mapping[str, float]
    """Lane -> bytes per second of its fill; empty: nothing is filled."""
    room: int | None = None
    """Bytes that each file may have at most; None: nothing is made."""
    existing: int | None = None
    """Bytes of the smallest file or disk that is used as it is."""
    needs: int = 0
    """Bytes that the load itself names: a file has as many at least."""
    largest: int = LARGEST
    """Bytes of a file that are planned at most."""
    tail: bool = False
    """Whether a tail latency decides a cell."""
    slowest: float | None = None
    """I/Os per second of the slowest path in its slowest cell, about; None: not known."""
    pace: Pace = FILES
    opening: float | None = None
    """Seconds beside all trials, where volumes are made and filled once; None: files are filled in every round."""

    @property
    def long(self) -> float:
        """Seconds of a trial that a tail needs."""
        return min(_PATIENT, max(_TAIL, _TAIL_IOS / self.slowest)) if self.tail and self.slowest else _TAIL


@dataclass(frozen=True)
class Sizes:
    """The plan."""

    blocks: int
    looks: tuple[int, ...]
    runtime: float
    """Seconds of a trial, without ``ramp``."""
    ramp: float
    size: int | None
    """Bytes of each new file, or of the part of existing ones that is used."""
    seconds: float
    """All of it, at most."""
    fill_seconds: float
    """Of one round: a new file in every directory."""
    reasons: tuple[str, ...]
    """Sentences that explain it."""
    warnings: tuple[str, ...] = ()
    """What it cannot do."""


def sizes(wanted: Wanted, shape: Shape) -> Sizes:
    """The plan for ``shape``. Raises FairlaneError if the time is too short, or no file fits."""
    trials, opening, pace = shape.cells * shape.lanes, _opening(shape), shape.pace
    seconds = wanted.seconds or pace.usual
    if wanted.blocks and not wanted.seconds:
        load = trials * pace.trial(wanted.runtime or (shape.long if shape.tail else pace.given))
        seconds = opening + wanted.blocks * load / (1 - _FILLING if shape.fill else 1)
    try_ = (wanted.blocks,) if wanted.blocks else _ALL_BLOCKS if wanted.runtime else _BLOCKS
    plans = [_plan(wanted, shape, seconds, blocks) for blocks in try_]
    wished, least = (shape.long, max(_TAIL / 2, pace.least)) if shape.tail else (pace.wished, pace.least)
    chosen = next((p for p in plans if p.fits(wanted.runtime or wished)), plans[-1])
    if not wanted.runtime and chosen.runtime < least:
        need = _need(wanted, shape, chosen.blocks, least)
        more = "" if shape.fill or shape.existing or shape.opening else " and the time that filling files takes"
        fewer = "a smaller --size, or fewer cells" if shape.opening else "fewer cells or paths"
        raise FairlaneError(
            "time-short", f"{about(seconds)} are too short for {chosen.blocks} blocks of {trials} trials each",
            where="--for", hint=f"give at least --for {math.ceil(need)}s{more}, or {fewer}",
        )  # fmt: skip
    if not wanted.runtime and not wanted.blocks and chosen.runtime > _LONG:
        longer = [_plan(wanted, shape, seconds, more) for more in _MORE_BLOCKS]
        chosen = next((p for p in longer if p.runtime >= max(_LONG, wished)), chosen)
    runtime = wanted.runtime or _round(min(chosen.runtime, max(_MOST, wished)))
    total = opening + chosen.blocks * (chosen.filling + trials * pace.trial(runtime))
    reasons = [*_reasons(wanted, shape, chosen)]
    if wanted.seconds and total > 1.1 * seconds:
        reasons.append(f"It takes {about(total)}, longer than --for: {chosen.blocks} blocks are the minimum.")
    looks = (*range(_FIRST, chosen.blocks, 2), chosen.blocks)
    return Sizes(chosen.blocks, looks, runtime, pace.ramp(runtime), chosen.size, total, chosen.filling, tuple(reasons),
                 tuple(_short_of_ios(wanted, shape, chosen.blocks, runtime)))  # fmt: skip


def _need(wanted: Wanted, shape: Shape, blocks: int, runtime: float) -> float:
    """Seconds of a comparison of so many blocks whose trials last ``runtime``: fills that grow with it included."""
    seconds = _opening(shape) + blocks * shape.cells * shape.lanes * shape.pace.trial(runtime)
    while (plan := _plan(wanted, shape, seconds, blocks)) and not plan.fits(runtime):
        seconds += max(1.0, blocks * shape.cells * shape.lanes * (runtime - plan.runtime))
    return seconds


def _short_of_ios(wanted: Wanted, shape: Shape, blocks: int, runtime: float) -> Iterator[str]:
    """Where trials are too short for a p99."""
    if not shape.tail or not shape.slowest or runtime * shape.slowest >= 1000:
        return
    long = math.ceil(shape.long)
    minutes = math.ceil(_need(wanted, shape, blocks, long) / 60)
    remedy = f"--runtime {long}s" if wanted.runtime or wanted.blocks else f"--for {minutes}m"
    yield (
        f"The slowest path may reach only {shape.slowest:,.0f} IOPS with this load: a trial of {about(runtime)} is "
        f"too short for a p99, which needs 1,000 I/Os. Use {remedy}"
    )


@dataclass(frozen=True)
class _Candidate:
    blocks: int
    runtime: float
    size: int | None
    filling: float

    def fits(self, runtime: float) -> bool:
        """Whether there is time for trials as long."""
        return self.runtime >= runtime - 1e-9


def _plan(wanted: Wanted, shape: Shape, seconds: float, blocks: int) -> _Candidate:
    """The longest trials of so many blocks in ``seconds``."""
    each = max(0.0, seconds - _opening(shape)) / blocks
    size = _size(wanted, shape, each)
    filling = sum(size / speed for speed in shape.fill.values()) if size else 0.0
    trial = (each - filling) / (shape.cells * shape.lanes) - shape.pace.overhead
    short, long = shape.pace.ramps
    runtime = trial - long if trial - long >= _RAMPED else min(trial - short, 0.9 * _RAMPED)
    return _Candidate(blocks, runtime, size, filling)


def _opening(shape: Shape) -> float:
    return _OPEN + _EACH * shape.lanes if shape.opening is None else shape.opening


def _size(wanted: Wanted, shape: Shape, each: float) -> int | None:
    most = [n for n in (shape.room, shape.existing) if n is not None]
    if shape.existing is not None and wanted.size and wanted.size > shape.existing:
        raise FairlaneError(
            "size-large", f"too large: the smallest path has {format_size(shape.existing)}", where="--size",
            hint="set a smaller --size, or none",
        )  # fmt: skip
    if wanted.size and wanted.size < shape.needs:
        raise FairlaneError(
            "size-small",
            f"too small: the load uses {format_size(shape.needs)}",
            where="--size",
            hint="set at least that size",
        )
    if wanted.size:
        return wanted.size
    if shape.needs > min((n for n in (shape.room, shape.existing) if n is not None), default=shape.needs):
        raise FairlaneError(
            "no-space", f"the load uses {format_size(shape.needs)}, which does not fit on every path",
            hint="make room, or lower the sizes in the load",
        )  # fmt: skip
    if shape.needs:
        return -(-shape.needs // 2**20) * 2**20 if shape.fill else shape.needs
    if not shape.fill:
        return min(most) // 2**20 * 2**20 or min(most) // 4096 * 4096 if most else None
    paid = int(_FILLING * each / sum(1 / speed for speed in shape.fill.values()))
    size = min(shape.largest, max(SMALLEST, paid), *most)
    return 2 ** int(math.log2(size)) if size >= 2**20 else size


def _round(seconds: float) -> float:
    """A trial's length in steps that can be read."""
    step = 0.1 if seconds < 2 else 0.5 if seconds < 10 else 1.0
    return round(math.floor(seconds / step + 1e-9) * step, 1)


def _reasons(wanted: Wanted, shape: Shape, plan: _Candidate) -> Sequence[str]:
    blocks, size, filling = plan.blocks, plan.size, plan.filling
    given = [
        f"{flag} {text}"
        for flag, value, text in (
            ("--for", wanted.seconds, about(wanted.seconds or 0)),
            ("--blocks", wanted.blocks, str(wanted.blocks)),
            ("--runtime", wanted.runtime, format_duration(round((wanted.runtime or 0) * 1e9))),
            ("--size", wanted.size, format_size(wanted.size or 0)),
        )
        if value
    ]
    reasons = (
        [f"You gave {', '.join(given)}."] if given else [f"Planned for {about(shape.pace.usual)}, the default (--for)."]
    )
    if shape.needs and not wanted.size:
        reasons.append(f"Files of {format_size(size or 0)}: the load defines the regions that it uses.")
    elif size and shape.fill and not wanted.size:
        slow, what = min(shape.fill.values()), "Files" if shape.room is not None else "Parts"
        share = f"filling takes {filling * blocks:.0f} s of the time" if filling * blocks >= 1 else "filling is quick"
        cap = " (the planner's maximum)" if size == shape.largest else ""
        cap = " (the planner's minimum)" if size == SMALLEST else cap
        reasons.append(
            f"{what} of {format_size(size)}{cap}: the slowest path fills at {slow / 2**20:,.0f} MiB/s, and {share}. "
            "Set a larger --size if caches of a drive or server could hold this much."
        )
    elif size and shape.existing and not wanted.size:
        reasons.append(f"The first {format_size(size)} of each path are used: the smallest has no more.")
    if blocks > _FIRST:
        reasons.append("It stops as soon as every cell is decided.")
    return reasons
