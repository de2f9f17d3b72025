"""The file of a capture: everything that was counted, before any analysis."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairlane.capture.diskstats import Sample
from fairlane.errors import FairlaneError

VERSION = 1


@dataclass(frozen=True)
class Disk:
    """The disk that was watched."""

    name: str
    """The kernel's: sda."""
    identity: str
    """``serial:...`` and so on, as lanes name it; empty: it has none."""
    size: int
    """Bytes."""
    model: str = ""
    rotational: bool = False
    scheduler: str = ""
    write_cache: str = ""
    asked: str = ""
    """What the user named: a path, a host and a disk."""
    stacked: bool = False
    """Made of other disks, without requests of its own."""


@dataclass(frozen=True)
class Capture:
    """One capture. ``trace``: the counts of ``Tally.counts``, with ``missed`` and ``damaged``; None: no trace."""

    disk: Disk
    machine: str
    kernel: str
    began: str
    """UTC, ISO 8601."""
    seconds: float
    sources: tuple[str, ...]
    gaps: tuple[str, ...] = ()
    """What was not captured, and why, as sentences."""
    interrupted: bool = False
    samples: tuple[Sample, ...] = ()
    trace: Mapping[str, Any] | None = None
    cpu: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds of the capture: of reading and counting (``fairlane``), of the source (``source``); ``cpus`` of the
    machine."""

    def dump(self) -> str:
        """JSON, to be read by ``load``."""
        return json.dumps({"fairlane_capture": VERSION, **asdict(self)}, allow_nan=False, separators=(",", ":")) + "\n"


_TRACE = (
    "sizes", "depth_time", "depth_issue", "latency", "gaps", "writes_between_flushes", "seconds", "flushes", "fua",
    "sync_writes", "discards", "discard_bytes", "touched", "heat", "span", "blocks_sampled", "repeats", "missed",
    "lost",
)  # fmt: skip


def load(path: Path) -> Capture:
    """Raises FairlaneError if the file is no capture."""
    return parse(path.read_text(encoding="utf-8", errors="replace"), str(path))


def parse(text: str, where: str = "") -> Capture:
    """The capture in ``text``. Raises FairlaneError."""
    try:
        tree = json.loads(text)
        version = tree.pop("fairlane_capture")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise FairlaneError(
            "capture-file", "not a capture file", where=where, hint="`fairlane capture DISK --out X.yaml` writes X.json"
        ) from None
    if version != VERSION:
        raise FairlaneError("capture-version", f"unknown version {version} of the capture file", where=where)
    try:
        tree["disk"] = Disk(**tree["disk"])
        tree["samples"] = tuple((float(t), tuple(int(n) for n in c)) for t, c in tree["samples"])
        tree |= {key: tuple(map(str, tree[key])) for key in ("sources", "gaps")}
        found = Capture(**tree)
        missing = [key for key in _TRACE if found.trace is not None and key not in found.trace]
        if missing:
            raise KeyError(missing[0])
        if not found.seconds > 0:
            raise ValueError("no time")
    except (KeyError, TypeError, ValueError) as error:
        raise FairlaneError("capture-file", f"the capture is damaged: {error}", where=where) from None
    return found
