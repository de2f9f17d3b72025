"""``figures.index``: the figures of a run's trials, so that no command reads thousands of raw outputs again.

It is derived, may be deleted, and is made again from the raw files. It is believed only if nothing else could stand in
it: it is bound to journal (which has the SHA-256 of every raw file), schedule and study, and to the code that turns raw
outputs into figures, and it is sealed with a key that never leaves the user's own machine. One that came with a run
from elsewhere, or was changed, is not believed, whoever computed its checksums; the raw files are read instead.

Layout: a line with the format, a piece per trial (what ``figures`` wrote), the directory (JSON: binding, and trial id
-> place of the piece), its length, and the seal, HMAC-SHA256 (RFC 2104) of all before it.
"""

import functools
import hashlib
import hmac
import json
import os
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import orjson

from fairlane.records import Block, Histogram, Observation
from fairlane.runs.files import cache_dir, write_all
from fairlane.stats.histogram import SYNCS, Apart, Bins, Ints, Stored, latency, summary

NAME = "figures.index"
_FORMAT = b"fairlane figures 1\n"
_SEAL = 32
_LENGTH = struct.Struct("<Q")
_HEAD = struct.Struct("<I")
_KEY = "figures.key"
_CODE = ("formats", "importers", "probes", "runs", "workloads", "metrics.py", "records.py", "stats/histogram.py")
"""Code that decides what a trial's figures are."""
_PART = 2**20

Again = Callable[[str], Mapping[str, Histogram]]
"""Trial id -> all its histograms, from its raw file."""


# --- what it is bound to


def binding(folder: Path) -> str:
    """SHA-256 of what the figures are a function of: journal, schedule, study, settings and code; empty if one of them
    cannot be read."""
    digest = hashlib.sha256(code().encode())
    for name in ("run.json", "study.yaml", "schedule.jsonl", "journal.jsonl"):
        try:
            with (folder / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError:
            return ""
    return digest.hexdigest()


@functools.cache
def code() -> str:
    """SHA-256 of the code that reads raw outputs: a change of any of it makes every index stale."""
    digest = hashlib.sha256(_FORMAT)
    for name in _CODE:
        for text in _sources(resources.files("fairlane") / name):
            digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()


def _sources(place: Any) -> Iterator[bytes]:
    if place.is_file():
        if place.name.endswith(".py"):
            yield place.read_bytes()
    elif place.is_dir():
        for part in sorted(place.iterdir(), key=lambda p: str(p.name)):
            yield from _sources(part)


@functools.cache
def key() -> bytes:
    """The user's own key, made at first use. Empty: it can be neither read nor written, so that no index is believed or
    kept."""
    path = cache_dir() / _KEY
    with suppress(OSError):
        with suppress(FileNotFoundError):
            return _known(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{_KEY}.{secrets.token_hex(8)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, secrets.token_bytes(_SEAL))
            os.fsync(descriptor)
            with suppress(FileExistsError):  # another process was first: its key is everybody's
                os.link(fresh, path)
        finally:
            os.close(descriptor)
            fresh.unlink()
        return _known(path)
    return b""


def _known(path: Path) -> bytes:
    """The key in ``path``; empty if others may read or write it, or it is not one."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        found = file.read(_SEAL + 1)
    own = status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return found if own and len(found) == _SEAL else b""


# --- pieces


def piece(observation: Observation) -> bytes:
    """What is kept of one trial: its figures, and the bins of ``lat`` and of syncs. ValueError: a figure is not finite.

    The bins of other histograms (slat, clat) are rarely asked for, and read from the raw file then.
    """
    arrays: list[bytes] = []
    size = 0
    table: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name in observation.histograms:
        bins = Bins.of(observation.histograms[name])
        if not _common(name):
            others[name] = summary(bins) if bins.total else ()
            continue
        width = 4 if not bins.total or max(int(bins.ns[-1]), int(bins.counts.max())) < 2**32 else 8
        arrays += [bins.ns.astype(f"<u{width}").tobytes(), bins.counts.astype(f"<u{width}").tobytes()]
        table[name] = [size, len(bins), width, *(summary(bins) if bins.total else ())]
        size += 2 * width * len(bins)
    whole = latency(observation.histograms)
    parts = [name for name in table if name.rpartition(".")[2] == "lat" and len(table[name]) > 3]
    merged = summary(whole, mark=True) if parts else ()
    context = dict(observation.context)
    conditions = _json(context.pop("conditions")).decode() if "conditions" in context else ""
    head = _json(
        [observation.failed, observation.metrics, context, conditions, observation.steps, table, merged, others]
    )
    return b"".join([_HEAD.pack(len(head)), head, *arrays])


def _json(value: Any) -> bytes:
    """Raises ValueError for a number that is not finite, which orjson takes for null."""
    with suppress(orjson.JSONEncodeError):
        text = orjson.dumps(value, default=dict)
        if b"null" not in text:
            return text
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=dict).encode()


def _common(name: str) -> bool:
    return name.endswith(".lat") or name == SYNCS


# --- writing


class Writer:
    """Writes an index to ``file``, which is new; pieces as they come."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._seal = hmac.new(key(), digestmod="sha256")
        self._at = 0
        self._write(_FORMAT)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._seal.update(data)
        self._at += len(data)

    def add(self, data: bytes) -> tuple[int, int]:
        """Returns the piece's place."""
        place = self._at, len(data)
        self._write(data)
        return place

    def close(self, places: Mapping[str, tuple[int, int]], bound: str) -> None:
        """``places``: trial id -> place of its piece. The file stays open."""
        directory = orjson.dumps([bound, places])
        self._write(directory)
        self._write(_LENGTH.pack(len(directory)))
        self._file.write(self._seal.digest())
        self._file.flush()


# --- reading


class Index:
    """The figures in an index. Its file stays open, as long as an observation of it lives."""

    def __init__(self, file: BinaryIO, places: Mapping[str, tuple[int, int]]) -> None:
        self._file = file
        self._places = places
        self._heads: dict[int, _Head] = {}
        self._shared: dict[str, Any] = {}
        self._last: tuple[Any, Any] = (None, None)
        self._read_again: dict[str, Mapping[str, Histogram]] = {}

    def __del__(self) -> None:
        self._file.close()

    def __contains__(self, trial: str) -> bool:
        return trial in self._places

    def observation(self, block: Block, lane: str, again: Again) -> Observation:
        """The trial's observation. ``again`` reads its raw file, for histograms that are not in the index.

        Of more than ``_HELD`` trials, what an observation holds is read from the index whenever it is asked for."""
        trial = block.trial_id(lane)
        at, size = self._places[trial]
        head = self.head(at, size)
        parts: Iterable[Any] = (head.metrics, head.context, head.steps)
        if len(self._places) > _HELD:
            parts = (_Part(self, at, size, name) for name in ("metrics", "context", "steps"))
        metrics, context, steps = parts
        histograms = _Histograms(self, trial, at, size, again) if head.table or head.others else {}
        place = block.order.index(lane)
        return Observation(block.cell.key, block.index, lane, place, head.failed, metrics, histograms, context, steps)

    def head(self, at: int, size: int) -> "_Head":
        """All of a trial but the arrays."""
        if head := self._heads.get(at):
            return head
        data = os.pread(self._file.fileno(), size, at)
        (length,) = _HEAD.unpack_from(data)
        head = _Head(_HEAD.size + length, *orjson.loads(data[_HEAD.size : _HEAD.size + length]))
        if head.conditions:
            if head.conditions not in self._shared:  # those of a lane and cell are nearly always alike
                self._shared[head.conditions] = orjson.loads(head.conditions)
            head.context["conditions"] = self._shared[head.conditions]
        if len(self._heads) >= (_HELD if len(self._places) <= _HELD else _NEAR):
            self._heads.clear()
        self._heads[at] = head
        return head

    def arrays(self, places: list[tuple[int, int, int]]) -> list[tuple[Ints, Ints]]:
        """Midpoints and counts of the histograms at ``places`` (offset, bins, bytes of a number). The last ones are
        kept: whoever asks for midpoints asks for counts."""
        if self._last[0] != places:
            found = []
            for at, count, width in places:
                data = os.pread(self._file.fileno(), 2 * width * count, at)
                both = np.frombuffer(data, f"<u{width}").astype(np.int64)
                both.flags.writeable = False
                found.append((both[:count], both[count:]))
            self._last = places, found
        last: list[tuple[Ints, Ints]] = self._last[1]
        return last

    def raw(self, trial: str, again: Again) -> Mapping[str, Histogram]:
        """All histograms of a trial, from its raw file. Keeps those of the last trials: an export merges the slat of a
        lane's trials, and then their clat."""
        if trial not in self._read_again:
            if len(self._read_again) >= _NEAR:
                self._read_again.clear()
            self._read_again[trial] = again(trial)
        return self._read_again[trial]


_HELD = 20_000
"""Trials that are held in memory, at some 5 KB each."""
_NEAR = 1000
"""Of more than that, as many at a time: they are read in order, again and again."""


class _Head(NamedTuple):
    """A piece without its arrays, as ``piece`` wrote it."""

    length: int
    """Bytes up to the arrays."""
    failed: str
    metrics: dict[str, float]
    context: dict[str, Any]
    conditions: str
    """JSON."""
    steps: dict[str, float]
    table: dict[str, list[Any]]
    """Histogram -> offset, bins, bytes of a number, and what ``Stored`` knows of it, if it is not empty."""
    merged: Any
    """What ``Stored`` knows of all ``lat`` bins; empty: there are none."""
    others: dict[str, Any]
    """Histogram whose bins are in the raw file only -> what ``Stored`` knows of it, if it is not empty."""


class _Part(Mapping[str, Any]):
    """One of the mappings of a trial, read when it is asked for."""

    __slots__ = ("_at", "_index", "_name", "_size")

    def __init__(self, index: Index, at: int, size: int, name: str) -> None:
        self._index, self._at, self._size, self._name = index, at, size, name

    def _whole(self) -> dict[str, Any]:
        whole: dict[str, Any] = getattr(self._index.head(self._at, self._size), self._name)
        return whole

    def __getitem__(self, key: str) -> Any:
        return self._whole()[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self._whole().get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())


class _Histograms(Apart):
    """The histograms of one trial."""

    __slots__ = ("_again", "_at", "_index", "_size", "_trial")

    def __init__(self, index: Index, trial: str, at: int, size: int, again: Again) -> None:
        self._index, self._trial, self._at, self._size, self._again = index, trial, at, size, again

    @property
    def _head(self) -> _Head:
        return self._index.head(self._at, self._size)

    def __getitem__(self, name: str) -> Histogram:
        head = self._head
        rare = name in head.others
        known: Any = head.others[name] if rare else head.table[name][3:]
        return Stored(functools.partial(self._in_raw if rare else self._arrays, name), known) if known else Bins()

    def get(self, name: str, default: Any = None) -> Any:
        head = self._head  # without the exception that Mapping's own would raise for every trial without syncs
        return self[name] if name in head.table or name in head.others else default

    @property
    def whole(self) -> Bins:
        head = self._head
        return Stored(self._arrays, head.merged) if head.merged else Bins()

    def _in_raw(self, name: str) -> list[tuple[Ints, Ints]]:
        return Bins.of(self._index.raw(self._trial, self._again)[name]).pieces()

    def _arrays(self, name: str = "") -> list[tuple[Ints, Ints]]:
        """Those of one histogram; without a name of every ``lat``."""
        head = self._head
        entries = [head.table[name]] if name else [entry for key, entry in head.table.items() if key.endswith(".lat")]
        start = self._at + head.length
        return self._index.arrays([(start + at, count, width) for at, count, width, *known in entries if known])

    def __iter__(self) -> Iterator[str]:
        head = self._head
        yield from head.table
        yield from head.others

    def __len__(self) -> int:
        return len(self._head.table) + len(self._head.others)


def read(folder: Path, bound: str) -> Index | None:
    """The index of a run, if it is there and may be believed. ``bound``: what it must be bound to (``binding``)."""
    try:
        file = (folder / NAME).open("rb")
    except OSError:
        return None
    found = opened(file, bound)
    if found is None:
        file.close()
    return found


def opened(file: BinaryIO, bound: str) -> Index | None:
    """The index in ``file``; None: it is cut off, changed, of another key, or bound to something else."""
    if not key():
        return None
    try:
        size = os.fstat(file.fileno()).st_size - _SEAL
        seal = hmac.new(key(), digestmod="sha256")
        file.seek(0)
        left = size
        while left > 0 and (data := file.read(min(left, _PART))):
            seal.update(data)
            left -= len(data)
        if left or not hmac.compare_digest(seal.digest(), file.read()):
            return None
        # nothing below can fail: the seal says that this code wrote it
        file.seek(size - _LENGTH.size)
        (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
        file.seek(size - _LENGTH.size - length)
        was, places = orjson.loads(file.read(length))
    except (OSError, ValueError, struct.error):
        return None
    return Index(file, places) if was == bound else None
