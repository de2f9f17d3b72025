"""What must hold whatever an importer is given, for the tests and for bench/fuzz_importers.py; and the fixtures."""

import io
import math
import posixpath
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fairlane import registry
from fairlane.formats import record as kept
from fairlane.formats.record import Record
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.metrics import METRICS
from fairlane.stats.histogram import Bins

FIXTURES = Path(__file__).parent / "fixtures"
Files = dict[str, bytes]
"""Files of one group: name -> content."""

OPTIONS: dict[str, Any] = {
    "hdrhistogram": {"unit": "us", "rate": "tps"},
    "table": {
        "lane": "lane",
        "cell": "cell",
        "params": {"bs": "bs", "iodepth": "qd"},
        "figures": [{"metric": "iops", "column": "iops"}, {"metric": "lat_p99", "column": "p99", "unit": "ms"}],
    },
}
"""For importers that read nothing without."""


def importers() -> dict[str, Importer]:
    """All of them, ready to read."""
    found = {}
    for name, plugin in registry.every("importers"):
        options = plugin.Options
        configured = options is not None and name in OPTIONS
        found[name] = plugin.configured(options.model_validate(OPTIONS[name])) if configured else plugin
    return found


def source(name: str, content: bytes) -> Source:
    return Source(name, lambda: io.BytesIO(content))


def sources(files: Mapping[str, bytes]) -> list[Source]:
    return [source(name, files[name]) for name in sorted(files)]


def claims(plugin: Importer, name: str, content: bytes) -> bool:
    """Whether ``plugin`` claims a file, as an import asks it."""
    return plugin.claims(name, source(name, content).head())


@cache
def fixtures() -> Mapping[str, bytes]:
    """Every fixture of any importer: path below ``fixtures`` -> content."""
    return {
        path.relative_to(FIXTURES).as_posix(): path.read_bytes()
        for path in sorted(FIXTURES.rglob("*"))
        if path.is_file() and path.name != "README.md"
    }


@cache
def groups(tool: str) -> tuple[Files, ...]:
    """The fixtures that ``tool`` reads, in the groups it reads them in."""
    plugin = importers()[tool]
    found: dict[str, Files] = {}
    for name, content in fixtures().items():
        mine = name.startswith(f"{tool}/") if plugin.explicit else claims(plugin, name, content)
        if mine:
            found.setdefault(plugin.group(name), {})[name] = content
    return tuple(found.values())


def folder(tool: str, name: str) -> Files:
    """The files of one folder of fixtures, or one file: ``folder("pgbench", "logged")``."""
    start = posixpath.join(tool, name)
    return {key: content for key, content in fixtures().items() if key == start or key.startswith(start + "/")}


def judged(plugin: Importer, files: Mapping[str, bytes]) -> list[Record] | None:
    """The trials in ``files``, all as they must be; None: Unreadable, told as it must be."""
    try:
        found = []
        for trial in plugin.read(sources(files)):
            judge(trial)
            found.append(trial)
    except Unreadable as error:
        reason = error
    else:
        return found
    assert reason.message
    assert any(reason.where.startswith(name) for name in files), reason.where
    assert all(c.isprintable() for c in reason.message), repr(reason.message)
    return None


def judge(trial: Record) -> None:
    """A record that can be kept: figures of the registry, finite and not negative; names that can be printed."""
    figures = trial.figures
    assert trial.failed or figures.metrics, "a trial with neither figures nor a reason"
    for name, value in figures.metrics.items():
        assert name in METRICS, name
        assert math.isfinite(value), f"{name} = {value}"
        assert value >= 0, f"{name} = {value}"
    for name, value in figures.steps.items():
        assert math.isfinite(value), f"step of {name} = {value}"
        assert value >= 0, f"step of {name} = {value}"
    for bins in figures.histograms.values():
        Bins.of(bins)
    for text in (trial.name, trial.lane, trial.failed, *trial.labels, *trial.labels.values()):
        assert isinstance(text, str)
        assert all(c.isprintable() for c in text), repr(text)
    for name, value in trial.params.items():
        assert isinstance(value, str | int | float), f"{name} = {value!r}"
        assert not isinstance(value, float) or math.isfinite(value), f"{name} = {value}"
    assert trial.started is None or math.isfinite(trial.started)
    again = kept.read(kept.write(trial))
    assert again.figures.metrics == dict(figures.metrics)


def texts(tool: str) -> Iterator[tuple[Files, str]]:
    """Each fixture of ``tool``: the group it is in, and its name."""
    for files in groups(tool):
        for name in files:
            yield files, name
