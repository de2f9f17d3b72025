"""Failures and stalls that hit one lane more than the other: reasons to withhold that they are alike.

A tie speaks for all trials: a lane that stalls or fails in some is no equal of one that never does, whatever the means
of the others. A machine that died under a trial counts as a failure of its lane, though the trial was then carried out.
A difference is one of means: what trials without a figure could do to it is in its interval (``missing``).
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import comb
from statistics import median

from fairlane.metrics import METRICS
from fairlane.records import Note, Word
from fairlane.stats.pairs import Reading, Shelf

_EVEN = 0.1
"""Chance (Fisher's exact test, one-sided) below which counts of two lanes, both above 0, are not even."""
_SLOW = 0.7
"""Share of its lane's median figure below which a trial counts as stalled."""


def withheld(word: Word, shelf: Shelf, lane: str, baseline: str, metric: str) -> Note | None:
    """Why the trials of ``shelf`` do not bear ``word`` out; None: they do."""
    if word not in ("tie", "different-but-small"):
        return None
    return next((note for _, note in burdens(shelf, lane, baseline, metric)), None)


def missing(shelf: Shelf, lane: str, baseline: str, everywhere: tuple[float, float]) -> Note:
    """That failures took the word away, even or not. ``everywhere``: share of each lane's trials without a figure, in
    all cells together."""
    ours, theirs = shelf.get(lane, {}), shelf.get(baseline, {})
    counts = _failures(ours), _failures(theirs)
    text = _counts(_what(ours, theirs), counts, (lane, baseline), ours, theirs)
    if not any(counts):
        ours_gone, theirs_gone = (f"{share * 100:.0f} %" for share in everywhere)
        text = f"over all cells, {ours_gone} of the trials of {lane} failed, {theirs_gone} of those of {baseline}"
    return Note("missing", f"withheld: {text}; the figures that these trials may have had could change the word")


def burdens(shelf: Shelf, lane: str, baseline: str, metric: str) -> Iterator[tuple[int, Note]]:
    """What one side has clearly more of: its index (0: ``lane``) and the note, failures before stalls."""
    ours, theirs = shelf.get(lane, {}), shelf.get(baseline, {})
    trials, names = (len(ours), len(theirs)), (lane, baseline)
    counted: tuple[tuple[str, str, tuple[int, int]], ...] = (
        ("lopsided-failures", _what(ours, theirs), (_failures(ours), _failures(theirs))),
        ("lopsided-stalls", "stalled", (len(stalls(ours, metric)), len(stalls(theirs, metric)))),
    )
    for kind, what, counts in counted:
        if (side := worse(counts, trials)) is not None:
            yield side, Note(kind, f"withheld: {_counts(what, counts, names, ours, theirs)}")


def _counts(
    what: str,
    counts: tuple[int, int],
    names: tuple[str, str],
    ours: Mapping[int, Reading],
    theirs: Mapping[int, Reading],
) -> str:
    (a, b), (lane, baseline) = counts, names
    return f"{a} of {len(ours)} trials of {lane} {what}, {b} of {len(theirs)} of {baseline}"


def _what(*sides: Mapping[int, Reading]) -> str:
    """``failed``, or what counts as that."""
    readings = [r for side in sides for r in side.values()]
    if not any(r.lost for r in readings):
        return "failed"
    return "failed or lost a machine" if any(r.failed for r in readings) else "lost a machine"


def _failures(readings: Mapping[int, Reading]) -> int:
    return sum(bool(r.failed or r.lost) for r in readings.values())


def stalls(readings: Mapping[int, Reading], metric: str) -> set[int]:
    """Blocks of trials much worse than their lane's median, or with a stall inside."""
    figures = {b: r.figures[metric].value for b, r in readings.items() if metric in r.figures}
    if not figures:
        return set()
    better, middle = METRICS[metric].better, median(figures.values())
    slow = {b for b, value in figures.items() if (value / middle) ** better < _SLOW}
    return slow | {b for b, r in readings.items() if r.stalled}


def in_a_row(sides: Iterable[tuple[Sequence[int], Container[int]]]) -> float:
    """Mean length of the runs of marked blocks, of (blocks, those that are marked); 1 where none is."""
    marked = runs = 0
    for blocks, marks in sides:
        states = [block in marks for block in blocks]
        marked += sum(states)
        runs += sum(here and not before for before, here in pairwise([False, *states]))
    return marked / runs if runs else 1.0


def worse(counts: tuple[int, int], trials: tuple[int, int]) -> int | None:
    """Index of the side that has clearly more; None: even. One side alone is never even."""
    (a, b), (m, n) = counts, trials
    if a == b or not m or not n:
        return None
    more = 0 if a * n > b * m else 1
    if not min(a, b):
        return more
    return more if _fisher(counts[more], trials[more], counts[1 - more], trials[1 - more]) < _EVEN else None


def _fisher(a: int, m: int, b: int, n: int) -> float:
    """Chance of ``a`` or more of the ``m`` if the a + b of m + n were spread by chance."""
    return sum(comb(m, x) * comb(n, a + b - x) for x in range(a, min(m, a + b) + 1)) / comb(m + n, a + b)
