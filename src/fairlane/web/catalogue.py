"""The list of runs below a folder, cached in memory; only runs whose files changed are read again.

It reads ``run.json``, ``study.yaml``, both ends of the journal and ``verdicts.json``, never raw files.
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

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.records import Finding, Verdict
from fairlane.report import phrases
from fairlane.report.lanes import labels
from fairlane.report.text import clean
from fairlane.runs import journal
from fairlane.runs import plan as plans
from fairlane.runs.raw import FOLDER as RAW
from fairlane.runs.read import OPENINGS
from fairlane.study.load import parse_study
from fairlane.web import places
from fairlane.web.badges import Badge, badges
from fairlane.web.reading import first_damage, parse

RunState = Literal["running", "interrupted", "complete", "damaged"]
ORDER: tuple[RunState, ...] = ("running", "damaged", "interrupted", "complete")
"""The list's order by state: first runs that need attention."""
Sort = Literal["newest", "oldest", "name", "state"]

_TAIL = 64 * 1024
"""Bytes read from the journal's beginning and from its end; they hold how it was opened, its last line and the event
``end``."""
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
    platform: str = ""
    invented: bool = False
    """Whether the platform makes its figures up."""
    imported: bool = False
    """Whether others measured the figures."""
    sha256: str = ""
    """Of the study file."""


_NOTHING = About("", "", "", {}, {})


@dataclass(frozen=True)
class Known:
    """Results that only reading all of a run yields."""

    stamp: Stamp
    verdicts: tuple[Verdict, ...] = ()
    """Those of the primary metrics."""
    answers: tuple[str, ...] = ()
    critical: int = 0
    """Number of critical findings."""
    whole: bool = True
    """Whether no trial of it is missing."""
    error: str = ""
    kind: str = ""
    hint: str = ""


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
    quick: bool = False
    modelled: bool = False
    emulated: bool = False
    critical: int | None = None
    """Number of critical findings; None: the checks have not run since the viewer began."""
    whole: bool = True
    """False: the run has ended and trials are missing, or were damaged since."""
    answers: tuple[str, ...] = ()
    """The primary comparisons, a sentence each; empty if only making the report would show them."""

    @property
    def title(self) -> str:
        return clean(self.name)

    @property
    def badges(self) -> tuple[Badge, ...]:
        return badges(
            invented=self.about.invented,
            modelled=self.modelled,
            emulated=self.emulated,
            imported=self.about.imported,
            quick=self.quick,
            incomplete=self.state == "interrupted" or not self.whole,
            critical=self.critical or 0,
        )

    @cached_property
    def words(self) -> str:
        """Case-folded text that a search looks in."""
        about = self.about
        parts = (self.title, about.name, about.question, *about.lanes, *about.lanes.values(), *about.workloads)
        marks = (badge.text for badge in self.badges)
        return " ".join((*parts, *about.workloads.values(), self.state, self.error, *marks)).casefold()


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

    def study(self, name: str) -> list[Entry]:
        """The runs of the study ``name``, oldest first."""
        runs = [e for e in self.entries().values() if e.about.name == name and e.about.sha256]
        return sorted(runs, key=lambda e: (e.created, e.name))

    def primaries(self, entry: Entry) -> tuple[Verdict, ...]:
        """The verdicts of the primary metrics; none if only reading all of the run would show them."""
        known = self._known.get(entry.name)
        if known and known.stamp == entry.stamp:
            return known.verdicts
        return _primaries(entry.folder) if _valid(entry.state == "complete", entry.stamp) else ()

    def remember(self, entry: Entry, verdicts: Iterable[Verdict], findings: Iterable[Finding], *, whole: bool) -> None:
        """Store the results of reading all of ``entry``; valid until a file of the run changes."""
        primary = tuple(v for v in verdicts if v.primary)
        answers = tuple(clean(text, 600) for text in sentences(primary, entry.about.lanes))
        critical = sum(f.severity == "critical" for f in findings)
        self._remember(entry, Known(entry.stamp, primary, answers, critical, whole))

    def blame(self, entry: Entry, error: FairlaneError) -> None:
        """Store the damage that reading all of ``entry`` showed."""
        text = clean(str(error), 600)
        self._remember(entry, Known(entry.stamp, error=text, kind=error.kind, hint=clean(error.hint)))

    def _remember(self, entry: Entry, known: Known) -> None:
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
            entry = replace(entry, about=self._about(folder, text, manifest), quick=bool(manifest.get("quick")))
            begun, last, ended = _ends(folder)
            entry = replace(
                entry,
                last=clean(last, 40),
                state="complete" if ended else "interrupted",
                modelled=_kind_of_clock(entry.about, begun, "modelled"),
                emulated=_kind_of_clock(entry.about, begun, "emulated"),
            )
        except FairlaneError as error:
            return replace(entry, error=clean(str(error), 600), kind=error.kind, hint=clean(error.hint))
        except OSError as error:
            return replace(entry, error=clean(f"cannot be read: {error.strerror}"), kind="unreadable")
        if _valid(ended, stamp):
            answers = sentences(_primaries(folder), entry.about.lanes)
            entry = replace(entry, answers=tuple(clean(text, 600) for text in answers))
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
                platform=study.platform.kind,
                invented=study.platform.invented,
                imported=not study.platform.measured_here,
                sha256=sha256,
            )
        return self._studies[sha256, quick]


def _with(entry: Entry, known: Known) -> Entry:
    if known.error:
        return replace(entry, state="damaged", error=known.error, kind=known.kind, hint=known.hint)
    answers = known.answers or entry.answers
    whole = known.whole or entry.state != "complete"  # of a run that goes on trials are missing by nature
    return replace(entry, answers=answers, critical=known.critical, whole=whole)


def _valid(ended: bool, stamp: Stamp) -> bool:
    """Whether the run has ended and ``verdicts.json`` is not older than the journal."""
    return bool(ended and stamp[3] and stamp[2] and stamp[3][0] >= stamp[2][0])


def _kind_of_clock(about: About, begun: journal.Event, name: Literal["modelled", "emulated"]) -> bool:
    """As ``runs.read`` decides it: by the opening of the run, else by the platform."""
    return bool(begun[name] if name in begun else getattr(registry.load("platforms", about.platform), name))


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


def _ends(folder: Path) -> tuple[journal.Event, str, bool]:
    """The event that opened the run, the time of the last one, and whether the run has ended; ``{}``, ``""`` and False
    without a journal."""
    try:
        with places.open_plain(folder, journal.NAME) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(_TAIL)
            file.seek(max(0, size - _TAIL))
            tail = file.read(_TAIL)
    except FileNotFoundError:
        return {}, "", False
    cut_off = size > _TAIL
    try:
        begun = next((event for event in map(parse, _lines(head)) if event["type"] in OPENINGS), {})
        events = [parse(line) for line in _lines(tail)[cut_off:]]
    except (ValueError, RecursionError):
        raise first_damage(folder) from None
    last = str(events[-1].get("at", "")) if events else ""
    return begun, last[:19].replace("T", " "), any(event["type"] == "end" for event in events)


def _lines(data: bytes) -> list[bytes]:
    return data.split(b"\n")[:-1]


def _primaries(folder: Path) -> tuple[Verdict, ...]:
    """The primary verdicts in ``verdicts.json``, which ``fairlane run`` writes at its end; none if it is not valid."""
    try:
        verdicts = tuple(Verdict(**row) for row in json.loads(_small(folder / "verdicts.json")) if row["primary"])
        list(sentences(verdicts, {}))
    except (OSError, FairlaneError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        return ()  # made by another version, or by hand: reading the run yields them
    return verdicts


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
