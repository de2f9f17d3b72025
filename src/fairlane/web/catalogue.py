"""The list of runs below a folder, cached in memory; only runs whose files changed are read again.

It reads ``run.json``, ``study.yaml``, the end of the journal and ``verdicts.json``, never raw files.
"""

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from fairlane.errors import FairlaneError
from fairlane.records import Verdict
from fairlane.report import phrases
from fairlane.report.lanes import labels
from fairlane.report.text import clean
from fairlane.runs import journal
from fairlane.runs import plan as plans
from fairlane.runs.raw import FOLDER as RAW
from fairlane.study.load import parse_study
from fairlane.web import places

RunState = Literal["running", "interrupted", "complete", "damaged"]
ORDER: tuple[RunState, ...] = ("running", "damaged", "interrupted", "complete")
"""The list's order by state: first runs that need attention."""
Sort = Literal["newest", "oldest", "name", "state"]

_TAIL = 64 * 1024
"""Bytes read from the journal's end; they hold its last line and the event ``end``."""
_AGE = 2.0
"""Seconds for which the cached list is current."""
_STUDIES = 500
"""Studies kept in memory: runs of one study share an entry."""

Stamp = tuple[tuple[int, int] | None, ...]
_STAMPED = ("run.json", "study.yaml", journal.NAME, "verdicts.json")


@dataclass(frozen=True)
class About:
    """A study's name, question, lanes and workloads. Every string is clean."""

    name: str
    question: str
    baseline: str
    lanes: Mapping[str, str]
    """Name -> label."""
    workloads: Mapping[str, str]
    """Name -> kind."""


_NOTHING = About("", "", "", {}, {})


@dataclass(frozen=True)
class Entry:
    """One run of the list. Every string but ``name`` is clean."""

    name: str
    """Path of the run below the served folder, as in addresses; not clean: pages show ``title``."""
    folder: Path
    stamp: Stamp
    created: str
    """When it began, UTC, as text that sorts."""
    about: About
    state: RunState
    error: str = ""
    """Reason why the run is damaged."""
    kind: str = ""
    """Kind of that error."""
    hint: str = ""
    last: str = ""
    """Time of its last event."""
    answers: tuple[str, ...] = ()
    """The primary comparisons, a sentence each; empty if only making the report would show them."""

    @property
    def title(self) -> str:
        return clean(self.name)

    @cached_property
    def words(self) -> str:
        """Case-folded text that a search looks in."""
        about = self.about
        parts = (self.title, about.name, about.question, *about.lanes, *about.lanes.values(), *about.workloads)
        return " ".join((*parts, *about.workloads.values(), self.state, self.error)).casefold()


@dataclass(frozen=True)
class Known:
    """Results that only making a run's report yields."""

    stamp: Stamp
    answers: tuple[str, ...] = ()
    error: str = ""
    kind: str = ""
    hint: str = ""


@dataclass
class Catalogue:
    """The runs below ``root``, which may be a run itself. All methods may be called from any thread."""

    root: Path
    clock: Callable[[], float] = time.monotonic
    _entries: dict[str, Entry] = field(default_factory=dict)
    _known: dict[str, Known] = field(default_factory=dict)
    _studies: dict[tuple[str, bool], About] = field(default_factory=dict)
    _refreshed: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def entries(self) -> Mapping[str, Entry]:
        """Name -> run, at most two seconds old."""
        with self._lock:
            if self.clock() - self._refreshed >= _AGE:
                self._refresh()
                self._refreshed = self.clock()
            return self._entries

    def find(self, path: str) -> tuple[Entry, str] | None:
        """The run that ``path`` begins with, and the rest of the path; a run's folder holds no other run."""
        entries, parts = self.entries(), path.split("/")
        for n in range(1, len(parts) + 1):
            if entry := entries.get("/".join(parts[:n])):
                return entry, "/".join(parts[n:])
        return None

    def search(self, words: str = "", state: str = "", sort: Sort = "newest") -> list[Entry]:
        """The runs whose text has every one of ``words``, in the order ``sort``."""
        wanted = words.casefold().split()
        matches = [
            e for e in self.entries().values() if state in ("", e.state) and all(word in e.words for word in wanted)
        ]
        matches.sort(key=lambda e: e.name)
        if sort != "name":
            matches.sort(key=lambda e: e.created, reverse=sort != "oldest")
        if sort == "state":
            matches.sort(key=lambda e: ORDER.index(e.state))
        return matches

    def remember(self, entry: Entry, answers: Iterable[str] = (), error: FairlaneError | None = None) -> None:
        """Store the answers, or the error, of making the report of ``entry``; valid until a file of the run changes."""
        known = Known(entry.stamp, tuple(clean(a, 600) for a in answers))
        if error:
            known = replace(known, error=clean(str(error), 600), kind=error.kind, hint=clean(error.hint))
        with self._lock:
            self._known[entry.name] = known
            if (now := self._entries.get(entry.name)) and now.stamp == known.stamp:
                self._entries = {**self._entries, entry.name: _with(now, known)}

    def _refresh(self) -> None:
        alone = places.stamp(self.root / "run.json")
        runs = [(self.root.name, self.root)] if alone else places.runs_below(self.root)
        locks = places.held()
        self._entries = {name: self._entry(name, folder, locks) for name, folder in runs}
        self._known = {name: known for name, known in self._known.items() if name in self._entries}

    def _entry(self, name: str, folder: Path, locks: frozenset[tuple[int, int, int]] | None) -> Entry:
        stamp = tuple(places.stamp(folder / file) for file in _STAMPED)
        entry = self._entries.get(name)
        if entry is None or entry.stamp != stamp:
            entry = self._read(name, folder, stamp)
        known = self._known.get(name)
        if known and known.stamp == stamp:
            entry = _with(entry, known)
        if entry.state in ("complete", "damaged"):
            return entry
        written = entry.stamp[2] or entry.stamp[0]
        age = time.time() - written[0] / 1e9 if written else 0.0
        state: RunState = "running" if places.at_work(folder, locks, age) else "interrupted"
        return entry if state == entry.state else replace(entry, state=state)

    def _read(self, name: str, folder: Path, stamp: Stamp) -> Entry:
        entry = Entry(name, folder, stamp, "", _NOTHING, "damaged")
        try:
            if os.fsencode(name).decode(errors="replace") != name:
                raise FairlaneError("not-text", "the name of its folder is not UTF-8 text", where=clean(str(folder)))
            places.vet(folder, raw=False)
            text, manifest = _small(folder / "study.yaml"), _manifest(folder)
            created = clean(str(manifest.get("created", "")), 40)
            entry = replace(entry, created=created, about=replace(_NOTHING, name=clean(str(manifest.get("name", "")))))
            entry = replace(entry, about=self._about(folder, text, manifest))
            last, ended = _end(folder)
            entry = replace(entry, last=clean(last, 40), state="complete" if ended else "interrupted")
        except FairlaneError as error:
            return replace(entry, error=clean(str(error), 600), kind=error.kind, hint=clean(error.hint))
        except OSError as error:
            return replace(entry, error=clean(f"cannot be read: {error.strerror}"), kind="unreadable")
        if ended and stamp[3] and stamp[2] and stamp[3][0] >= stamp[2][0]:
            entry = replace(entry, answers=_answers(folder, entry.about))
        return entry

    def _about(self, folder: Path, text: bytes, manifest: Mapping[str, Any]) -> About:
        sha256, quick = hashlib.sha256(text).hexdigest(), bool(manifest.get("quick"))
        if sha256 != manifest.get("study_sha256"):
            raise FairlaneError(
                "run-changed",
                "the study was changed after the run began",
                where=str(folder / "study.yaml"),
                hint="put the file back as it was; a changed study is a new run",
            )
        if (sha256, quick) not in self._studies:
            study = parse_study(text.decode(), str(folder / "study.yaml"), quick=quick)
            while len(self._studies) >= _STUDIES:
                self._studies.pop(next(iter(self._studies)))
            self._studies[sha256, quick] = About(
                name=study.name,
                question=clean(study.question),
                baseline=study.baseline,
                lanes={name: clean(label, 200) for name, label in labels(study).items()},
                workloads={name: workload.kind for name, workload in study.workloads.items()},
            )
        return self._studies[sha256, quick]


def _with(entry: Entry, known: Known) -> Entry:
    if known.error:
        return replace(entry, state="damaged", error=known.error, kind=known.kind, hint=known.hint)
    return replace(entry, answers=known.answers or entry.answers)


def _small(path: Path) -> bytes:
    """Content of a small file. Raises FairlaneError if it is larger than ``places.LARGEST``, OSError."""
    with places.open_plain(path.parent, path.name) as file:
        data = file.read(places.LARGEST + 1)
    if len(data) > places.LARGEST:
        raise FairlaneError("too-large", f"larger than {places.LARGEST // 2**20} MiB", where=str(path))
    return data


def _manifest(folder: Path) -> Mapping[str, Any]:
    try:
        manifest = json.loads(_small(folder / "run.json"))
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != plans.FORMAT:
        plans.created(folder)  # raises an error with the cause
        raise FairlaneError("unreadable", "not readable", where=str(folder / "run.json"))
    return manifest


def _end(folder: Path) -> tuple[str, bool]:
    """Time of the last event, and whether the run has ended; ``""`` and False without a journal."""
    try:
        with places.open_plain(folder, journal.NAME) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _TAIL))
            data = file.read(_TAIL)
    except FileNotFoundError:
        return "", False
    lines = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
    if size > _TAIL:
        lines = lines[1:]  # the first line is cut off
    try:
        events = [json.loads(line) for line in lines]
        kinds = [event["type"] for event in events]
        last = str(events[-1].get("at", "")) if events else ""
    except (ValueError, TypeError, KeyError, RecursionError):
        journal.read(folder)  # raises an error with the line
        raise FairlaneError("journal-damaged", "the journal is damaged", where=str(folder / journal.NAME)) from None
    return last[:19].replace("T", " "), "end" in kinds


def _answers(folder: Path, about: About) -> tuple[str, ...]:
    """The answers in ``verdicts.json``, which ``fairlane run`` writes at its end; empty if the file is not valid."""
    try:
        verdicts = [Verdict(**row) for row in json.loads(_small(folder / "verdicts.json")) if row["primary"]]
        return tuple(clean(text, 600) for text in sentences(verdicts, about.lanes))
    except (OSError, FairlaneError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        return ()  # made by another version, or by hand: making the report yields them


def sentences(verdicts: Iterable[Verdict], label: Mapping[str, str]) -> Iterable[str]:
    """The primary comparisons, a sentence each, as in the answer of a report."""
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for v in verdicts:
        if v.primary and v.lane != v.baseline and not v.control:
            groups.setdefault((v.workload, v.lane), []).append(v)
    for (_, lane), group in groups.items():
        baseline = group[0].baseline
        yield phrases.summary(group, label.get(lane, lane), label.get(baseline, baseline))


def freshness(entry: Entry) -> tuple[Any, ...]:
    """A key that changes with every file the report of ``entry`` is made from: journal, raw files, description, ..."""
    parts = (entry.folder / name for name in (RAW, journal.NAME, "description.json", "fingerprint.json"))
    return (entry.name, entry.stamp[:2], *map(_changed, parts))


def _changed(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
