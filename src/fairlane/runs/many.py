"""Read the raw files of many trials, on all cores if that saves time.

A trial's observation is a function of its own raw file, so the result is the same on any number of processes.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from fairlane.records import Block, Histogram, Observation
from fairlane.runs import raw
from fairlane.runs.observe import observe

ENOUGH = 500
"""Trials from which on further processes save more than they cost; reading one takes about a millisecond."""
_MOST = 8
_CHUNK = 50

_Job = tuple[str, Block, str, str, str]
"""Trial id, block, lane, name and SHA-256 of the raw file."""


def observations(
    folder: Path, trials: Mapping[str, tuple[Block, str]], files: Mapping[str, tuple[str, str]]
) -> dict[str, Observation]:
    """Trial id -> observation, in the order of ``trials``; trials with damaged raw files are left out."""
    jobs: list[_Job] = [(trial, block, lane, *files[trial]) for trial, (block, lane) in trials.items()]
    cores = min(len(os.sched_getaffinity(0)), _MOST)
    read = partial(_read, folder)
    # a process that has threads cannot be forked safely: the viewer reads in one process
    if len(jobs) < ENOUGH or cores < 2 or threading.active_count() > 1 or multiprocessing.parent_process():
        return _undamaged(map(read, jobs))
    with ProcessPoolExecutor(cores, multiprocessing.get_context("fork"), initializer=_alone) as pool:
        parts = pool.map(partial(_part, folder), jobs, chunksize=_CHUNK)
        whole = (
            (job[0], observation and _whole(folder, job, observation, names))
            for job, (observation, names) in zip(jobs, parts, strict=True)
        )
        return _undamaged(whole)


def _undamaged(trials: Iterable[tuple[str, Observation | None]]) -> dict[str, Observation]:
    return {trial: observation for trial, observation in trials if observation is not None}


def _read(folder: Path, job: _Job) -> tuple[str, Observation | None]:
    trial, block, lane, name, sha256 = job
    try:
        return trial, observe(block, lane, raw.fetch(folder, name, sha256))
    except raw.Damaged:
        return trial, None


def _part(folder: Path, job: _Job) -> tuple[Observation | None, tuple[str, ...]]:
    """The observation with the ``lat`` histograms only, and the names of all: the others are rarely used, and slow to
    pass between processes."""
    _, observation = _read(folder, job)
    if observation is None:
        return None, ()
    names = tuple(observation.histograms)
    return replace(
        observation, histograms={name: observation.histograms[name] for name in names if name.endswith(".lat")}
    ), names


def _whole(folder: Path, job: _Job, observation: Observation, names: tuple[str, ...]) -> Observation:
    return replace(observation, histograms=_Histograms(names, observation.histograms, partial(_read, folder, job)))


class _Histograms(Mapping[str, Histogram]):
    """Histograms by name; those not passed on are read from the raw file when first used. Raises Damaged then, if the
    file has changed."""

    def __init__(
        self,
        names: tuple[str, ...],
        loaded: Mapping[str, Histogram],
        read_again: Callable[[], tuple[str, Observation | None]],
    ) -> None:
        self._names, self._loaded, self._read_again = names, loaded, read_again

    def __getitem__(self, name: str) -> Histogram:
        if name in self._names and name not in self._loaded:
            _, observation = self._read_again()
            if observation is None:
                raise raw.Damaged("raw-changed", "the raw file of a trial changed while its run was read")
            self._loaded = observation.histograms
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _alone() -> None:
    """Ignores SIGINT: Ctrl-C goes to all processes of a terminal, and the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
