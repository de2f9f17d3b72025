"""Read the trials of a run: from its index, or else from its raw files, on all cores if that saves time.

A trial's observation is a function of its own raw file, so the result is the same on any number of processes, and with
an index or without one.
"""

import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from fairlane.records import Histogram, Observation
from fairlane.runs import index, packs, raw, units
from fairlane.runs.files import replacing
from fairlane.runs.units import Unit

ENOUGH = 500
"""Trials from which on an index, and further processes, save more than they cost; reading one takes about a
millisecond. Trials of packs are always indexed: one may be a log of gigabytes."""
_MOST = 8
_CHUNK = 50


def observations(
    folder: Path, every: Sequence[Unit], bound: str, kept: index.Index | None = None
) -> dict[str, Observation]:
    """Trial id -> observation, of the trials of ``every``; those with damaged raw archives are left out.

    ``kept``: the run's index, if the caller has opened it. ``bound``: what an index must be bound to
    (``index.binding``); empty: no index is looked for or written, because the run has not ended. Raises FairlaneError
    for packed files as ``units.read`` does; the packs themselves have been verified.
    """
    packed = any(unit.files for unit in every)
    if kept is None and not packed and len(every) < ENOUGH:
        with packs.Reader(folder) as reader:
            return {o.trial: o for unit in every for o in units.read(folder, unit, reader) if o is not None}
    if kept is None and bound:
        kept = index.read(folder, bound)
    if kept is not None:
        every = [unit for unit in every if unit.files or raw.whole(folder, unit.archive, unit.sha256)]
    if kept is None or not all(place.trial in kept for unit in every for place in unit.places):
        kept = _made(folder, every, bound)
    again = _Again(folder, every)
    return {
        place.trial: kept.observation(place.block, place.lane, again)
        for unit in every
        for place in unit.places
        if place.trial in kept
    }


class _Again:
    """Reads the raw file of a trial once more, for its rarer histograms."""

    def __init__(self, folder: Path, every: Sequence[Unit]) -> None:
        self._folder = folder
        self._units = {place.trial: unit for unit in every for place in unit.places}
        self._reader = packs.Reader(folder)

    def __call__(self, trial: str) -> Mapping[str, Histogram]:
        unit = self._units[trial]
        number = next(n for n, place in enumerate(unit.places) if place.trial == trial)
        observation = units.read(self._folder, unit, self._reader)[number]
        if observation is None:
            raise raw.Damaged(
                "raw-changed", "the raw file changed while its run was read", where=str(self._folder / unit.archive)
            )
        return observation.histograms


# --- making an index


def _made(folder: Path, every: Sequence[Unit], bound: str) -> index.Index:
    """The index of ``every``, kept in the run if ``bound`` and the run's folder can be written."""
    if bound and index.key():
        try:
            return _written(replacing(folder / index.NAME), folder, every, bound)
        except OSError:  # a folder of somebody else's, a full disk: it is made all the same, and not kept
            pass
    return _written(_scratch(), folder, every, bound)


@contextmanager
def _scratch() -> Iterator[BinaryIO]:
    yield tempfile.TemporaryFile()  # noqa: SIM115 - the index keeps it open


def _written(target: AbstractContextManager[BinaryIO], folder: Path, every: Sequence[Unit], bound: str) -> index.Index:
    with target as file:
        writer = index.Writer(file)
        places: dict[str, tuple[int, int]] = {}
        for trial, piece in _pieces(folder, every):
            if piece:
                places[trial] = writer.add(piece)
        writer.close(places, bound)
    return index.Index(file, places)


def _pieces(folder: Path, every: Sequence[Unit]) -> Iterator[tuple[str, bytes]]:
    """(trial id, its piece of an index), in any order; empty: its archive is damaged."""
    cores = min(len(os.sched_getaffinity(0)), _MOST)
    chunks = list(_chunks(every))
    # a process that has threads cannot be forked safely: the viewer reads in one process
    if len(every) < ENOUGH or cores < 2 or threading.active_count() > 1 or multiprocessing.parent_process():
        for chunk in chunks:
            yield from _part(folder, chunk)
        return
    with ProcessPoolExecutor(cores, multiprocessing.get_context("fork"), initializer=_alone) as pool:
        for part in pool.map(partial(_part, folder), chunks):
            yield from part


def _chunks(every: Iterable[Unit]) -> Iterator[list[Unit]]:
    waiting = iter(every)
    while chunk := list(islice(waiting, _CHUNK)):
        yield chunk


def _part(folder: Path, chunk: Sequence[Unit]) -> list[tuple[str, bytes]]:
    with packs.Reader(folder) as reader:
        return [
            (place.trial, b"" if observation is None else index.piece(observation))
            for unit in chunk
            for place, observation in zip(unit.places, units.read(folder, unit, reader), strict=True)
        ]


def _alone() -> None:
    """Ignores SIGINT: Ctrl-C goes to all processes of a terminal, and the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
