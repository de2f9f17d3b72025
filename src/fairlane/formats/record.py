"""One imported trial as Fairlane keeps it: what every importer makes, and what every later reading starts from."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlane.records import Figures, Histogram


@dataclass(frozen=True)
class Record:
    """One trial that another tool measured. What the file does not say is empty, and never guessed."""

    params: Mapping[str, Any] = field(default_factory=dict)
    """The load, by the names of ``study.parameters``: rw, bs (bytes), iodepth, numjobs, runtime (ns), ..."""
    figures: Figures = field(default_factory=Figures)
    """``context["conditions"]`` holds what the file says of its circumstances, tool and tool_version above all."""
    name: str = ""
    """Name of the cell, where the file has a better one than its params give."""
    lane: str = ""
    """Lane that the file itself names; the import map, or else the folder, decides otherwise."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Other columns or keys by which an import map may choose: host, pool, run."""
    started: float | None = None
    """Unix time of the trial's start, in seconds."""
    failed: str = ""
    """Why the trial has no figures: the tool itself says that it failed."""


def write(trial: Record) -> bytes:
    """As JSON. Histograms as two lists, in the order of latency."""
    figures = trial.figures
    bins = {name: [list(keys := sorted(h)), [h[k] for k in keys]] for name, h in figures.histograms.items()}
    return json.dumps(
        {
            "params": dict(trial.params),
            "name": trial.name,
            "lane": trial.lane,
            "labels": dict(trial.labels),
            "started": trial.started,
            "failed": trial.failed,
            "metrics": dict(figures.metrics),
            "histograms": bins,
            "context": dict(figures.context),
            "steps": dict(figures.steps),
        },
        separators=(",", ":"),
        allow_nan=False,
    ).encode()


def read(data: bytes) -> Record:
    """The reverse of ``write``. ValueError for anything else."""
    try:
        tree = json.loads(data)
        histograms: dict[str, Histogram] = {
            name: dict(zip(map(int, bins[0]), map(int, bins[1]), strict=True))
            for name, bins in tree["histograms"].items()
        }
        metrics = {str(name): float(value) for name, value in tree["metrics"].items()}
        if not all(map(math.isfinite, metrics.values())):
            raise ValueError("a metric is not finite")
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
