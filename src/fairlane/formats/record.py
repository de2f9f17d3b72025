"""The stored form of an imported trial: importers write it, all later steps read it."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson

from fairlane.errors import FairlaneError, Garbage
from fairlane.records import Figures, Histogram
from fairlane.stats.histogram import Bins


@dataclass(frozen=True)
class Record:
    """One trial that another tool measured. Values that the file lacks are empty, never guessed."""

    params: Mapping[str, Any] = field(default_factory=dict)
    """The load, by the names of ``guard.parameters``: rw, bs (bytes), iodepth, numjobs, runtime (ns), ..."""
    figures: Figures = field(default_factory=Figures)
    """``context["conditions"]``: the conditions in the file, above all tool and tool_version."""
    name: str = ""
    """Name of the cell, if the file has a better one than its params."""
    lane: str = ""
    """Lane named in the file; empty: the import map, or else the folder, decides."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Further columns or keys for an import map to select by: host, pool, run. ``block`` is the repetition: if all
    trials of a cell have it, equal values form a block."""
    started: float | None = None
    """Unix time of the trial's start, in seconds."""
    failed: str = ""
    """Why the trial has no figures: the tool's own report of a failure."""


_LOAD = ("rw", "bs", "rwmixread", "iodepth", "numjobs")
"""Parameters that make a load what it is."""


def load(trial: Record) -> str:
    """A short digest of what the trial is of: its name and the parameters of its load."""
    known = [trial.name, *(trial.params.get(name) for name in _LOAD)]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:12]


def completed(trial: Record) -> Record:
    """The trial with its params and its day as conditions, so that the guard compares lanes in them."""
    figures = trial.figures
    conditions = {**_day(trial.started), **trial.params, **figures.context.get("conditions", {})}
    return replace(trial, figures=replace(figures, context={**figures.context, "conditions": conditions}))


def _day(started: float | None) -> dict[str, str]:
    """The condition ``date``: the guard refuses results more than a week apart."""
    if started is None:
        return {}
    try:
        return {"date": datetime.fromtimestamp(started, UTC).date().isoformat()}
    except (OverflowError, ValueError, OSError):
        return {}


def figures(trial: Record) -> Figures:
    """The figures of a trial that did not fail, with its start in the context. Raises Garbage with the reason if it
    did."""
    if trial.failed:
        raise Garbage("trial-failed", trial.failed)
    if trial.started is None:
        return trial.figures
    return replace(trial.figures, context={**trial.figures.context, "started": trial.started})


def write(trial: Record) -> bytes:
    """The record as JSON. Raises ValueError for a figure that is not finite."""
    figures = trial.figures
    return json.dumps(
        {
            "params": dict(trial.params),
            "name": trial.name,
            "lane": trial.lane,
            "labels": dict(trial.labels),
            "started": trial.started,
            "failed": trial.failed,
            "metrics": dict(figures.metrics),
            "histograms": {name: _written(Bins.of(bins)) for name, bins in figures.histograms.items()},
            "context": dict(figures.context),
            "steps": dict(figures.steps),
        },
        separators=(",", ":"),
        allow_nan=False,
    ).encode()


def read(data: bytes) -> Record:
    """The reverse of ``write``. ValueError for anything else."""
    try:
        tree = orjson.loads(data)
        histograms = _Histograms(tree["histograms"])
        metrics = {str(name): float(value) for name, value in tree["metrics"].items()}
        if wrong := next((name for name, value in metrics.items() if not math.isfinite(value)), None):
            raise ValueError(f"metric {wrong} is {metrics[wrong]}, which no measurement gives")
        figures = Figures(metrics, histograms, dict(tree["context"]), dict(tree["steps"]))
        return Record(
            dict(tree["params"]),
            figures,
            str(tree["name"]),
            str(tree["lane"]),
            dict(tree["labels"]),
            tree["started"],
            str(tree["failed"]),
        )
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a record: {error!r}") from None


def _written(bins: Bins) -> str:
    """Pairs of numbers in rising order: how far the bin lies above the one before, in ns, and its count.

    Of 10,000 trials with json+ this is half the bytes of a list of midpoints, and reads five times as fast.
    """
    pairs = np.empty(2 * len(bins), np.int64)
    pairs[::2] = np.diff(bins.ns, prepend=0)
    pairs[1::2] = bins.counts
    return orjson.dumps(pairs, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].replace(b",", b" ").decode()


class _Histograms(Mapping[str, Histogram]):
    """Histograms by name, parsed on access: nothing reads slat and clat of 10,000 trials with json+.

    Those of ``lat``, which every step uses, are parsed at once, so that damage is reported where the record is read.
    Raises ValueError for these, FairlaneError for others later.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._by_name: dict[str, str | Bins] = {
            name: _read(text) if name.rpartition(".")[2] == "lat" else _text(text) for name, text in texts.items()
        }

    def __getitem__(self, name: str) -> Histogram:
        histogram = self._by_name[name]
        if isinstance(histogram, str):
            try:
                histogram = self._by_name[name] = _read(histogram)
            except ValueError as error:
                raise FairlaneError(
                    "histogram-damaged", f"the histogram {name!r} of an imported trial is damaged: {error}"
                ) from None
        return histogram

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a histogram is not text")
    return value


_PAIRS = re.compile(r"[0-9]{1,18}(?: [0-9]{1,18})*|")


def _read(text: str) -> Bins:
    if not _PAIRS.fullmatch(text):
        raise ValueError("a histogram is not made of whole numbers")
    pairs = np.fromstring(text, np.int64, sep=" ")
    if len(pairs) % 2:
        raise ValueError("a histogram is cut off")
    return Bins(pairs[::2].cumsum(), pairs[1::2])
