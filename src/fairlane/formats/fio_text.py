"""fio's normal output as the plain records of ``fio_json``, fio 2.0 to 3.x: what it prints, rounded as it prints it.

Layout: ``show_thread_status_normal`` of fio's ``stat.c`` and, above it, of ``init.c``. People
paste it: lines may be indented, text may stand around it, and a file may hold several runs.

The count of I/Os is exact (``issued``), of submissions; times of single jobs are in their printed unit. Of the options
only those in the line of the job are known. An entry without its ``issued`` line is cut off.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from fairlane.errors import Garbage
from fairlane.formats.fio_disks import disks
from fairlane.formats.fio_jobs import KINDS, WAYS, Job, Latency, Side
from fairlane.formats.fio_json import Report
from fairlane.formats.fio_options import PATTERNS

_N = r"([0-9]{1,18}(?:\.[0-9]{1,6})?)"
_MACHINE = re.compile(r"hostname=\S{1,200}, be=\d, ")
_ALL = "All clients"
"""Name of the entry in which fio's client adds up all machines. Their own entries do not say which is whose."""
_HEADER = re.compile(
    r"(.{1,200}?): \(g=(\d{1,9})\): rw=(\S{1,40}), bs=(.{1,120}), ioengine=(\S{1,60}), iodepth=(\d{1,9})"
)
_ENTRY = re.compile(r"(.{1,200}?): \(groupid=(\d{1,9}), jobs=(\d{1,9})\): err=\s*(\d{1,9})(?:\D|$)")
_PID = re.compile(r"\bpid=(\d{1,10})")
_PRINTED = re.compile(r"\w{3} (\w{3})\s+(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})")
_VERSION = re.compile(r"(fio-\d[\w.-]{0,60})$")
_SIDE = re.compile(
    rf"(read|write|trim|mixed)\s*: IOPS=\s*{_N}([kMG]?), BW=\s*\S{{1,30}} \(\S{{1,30}}\)"
    rf"\({_N}([kKMGTP]?i?B)/(\d{{1,15}})msec\)"
)
_SIDE_2 = re.compile(
    rf"(read|write|trim|mixed)\s*: io=\s*{_N}([KMGTP]?B), bw=\s*\S{{1,30}}, iops=\s*{_N}([kKMG]?)\s*, "
    r"runt=\s*(\d{1,15})\s?msec"
)
_TIMES = re.compile(rf"(slat|clat|lat)\s*\((nsec|usec|msec|sec)\)\s*:\s*min=.{{1,60}}?avg=\s*{_N}([kMG]?)(?:,|$)")
_RANKS = re.compile(r"(slat|clat|lat|sync) percentiles \((nsec|usec|msec|sec)\)\s*:")
_RANK = re.compile(r"([0-9]{1,3}\.[0-9]{1,9})th=\[\s*([0-9]{1,18})\]")
_SAMPLES = re.compile(rf"iops\s*: min=.{{1,60}}avg=\s*{_N}, stdev=\s*{_N}, samples=(\d{{1,12}})")
_CPU = re.compile(rf"cpu\s*: usr={_N}%, sys={_N}%")
_DEPTHS = re.compile(r"IO depths\s*: ")
_DEPTH = re.compile(r"(>=64|\d{1,2})=([0-9.]{1,8})%")
_DEEPEST = {"1": 1, "2": 3, "4": 7, "8": 15, "16": 31, "32": 63, ">=64": 1024}
_ISSUED = re.compile(
    r"issued(?: rwts?| r/w(?:/d)?)?\s*: "
    r"total=(?:r=)?(\d{1,18})[,/](?:w=)?(\d{1,18})(?:[,/](?:d=)?(\d{1,18}))?(?:,\d{1,18})?,? "
    r"short=(?:r=)?(\d{1,18})[,/](?:w=)?(\d{1,18})(?:[,/](?:d=)?(\d{1,18}))?(?:,\d{1,18})?"
    r"(?:,? drop(?:ped)?=(?:r=)?(\d{1,18})[,/](?:w=)?(\d{1,18})[,/](?:d=)?(\d{1,18}))?"
)
_DISK = re.compile(
    r"\S{1,200}: ios=(\d{1,18})/(\d{1,18}), (?:sectors=(\d{1,18})/(\d{1,18}), )?merge=(\d{1,18})/(\d{1,18}), "
    r"ticks=[\d/]{1,40}, in_queue=\d{1,18}, util=[\d.]{1,10}%"
    r"(?:, aggrios=(\d{1,18})/(\d{1,18}), (?:aggsectors=[\d/]{1,40}, )?aggrmerge=[\d/]{1,40}, aggrticks=[\d/]{1,40}, "
    r"aggrin_queue=\d{1,18}, aggrutil=[\d.]{1,10}%)?"
)
_DISK_KEYS = (
    "read_ios", "write_ios", "read_sectors", "write_sectors", "read_merges", "write_merges",
    "aggr_read_ios", "aggr_write_ios",
)  # fmt: skip
_SIZE = re.compile(rf"{_N}([kKMGTP]?)(?:i?B)?")
_UNIT = {"nsec": 1, "usec": 10**3, "msec": 10**6, "sec": 10**9}
_THOUSANDS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_POWER = "KMGTP"
_NOTES = ("fio: ", "note: ")
_KEPT = 2000
_APART = timedelta(seconds=10)
"""Entries of one run are printed together; later ones are of another run."""
_MOST = 20_000
"""Most entries of a file."""


@dataclass(frozen=True)
class TextReport(Report):
    """A report that was printed as text."""

    day: float | None = None
    """Days since 1970 when it was printed, by its machine's clock, whose time zone is not known."""
    machines: int = 1
    """Machines of fio's client that the one entry adds up."""


@dataclass
class _Header:
    """The line that fio prints for a job before it begins."""

    name: str
    group: int
    options: dict[str, str]


@dataclass
class _Side:
    iops: float
    digit: float
    """Value of the last digit that ``iops`` shows."""
    size: float
    size_digit: float
    runtime: int
    means: dict[str, float] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)
    percentiles: dict[str, dict[float, int]] = field(default_factory=dict)
    samples: tuple[int, float, float] | None = None


@dataclass
class _Entry:
    """The report of one job, or of a group."""

    line: int
    name: str
    group: int
    jobs: int
    error: int
    pid: str
    printed: datetime | None
    sides: dict[str, _Side] = field(default_factory=dict)
    usr_cpu: float | None = None
    sys_cpu: float | None = None
    depth: int = _DEEPEST[">=64"]
    issued: dict[str, int] | None = None
    short: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)

    def again(self, other: "_Entry") -> bool:
        """Whether ``other`` is an earlier report of the same job (status-interval)."""
        return bool(self.pid) and (self.name, self.group, self.pid) == (other.name, other.group, other.pid)


@dataclass
class _Run:
    """One run of fio in the making."""

    version: str = ""
    headers: list[_Header] = field(default_factory=list)
    entries: list[_Entry] = field(default_factory=list)
    devices: list[dict[str, int]] = field(default_factory=list)
    devices_known: bool = True
    notes: list[str] = field(default_factory=list)
    machines: int = 0
    """Machines of fio's client."""
    closed: bool = False
    """Its summary of the groups was read: what follows is of another run, or a later report of this one."""


def reports(data: bytes, name: str) -> list[TextReport]:
    """All runs in a file, in their order. Raises Garbage, with the line."""
    parser = _Parser(name)
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        parser.line(number, line)
    runs = list(_once(run for run in parser.runs if run.entries))
    if not runs:
        raise Garbage("no-jobs", f"{name} has no results: expected a line like 'job: (groupid=0, jobs=1): err= 0: ...'")
    return [_report(run, name) for run in runs]


def _once(runs: Iterable[_Run]) -> Iterator[_Run]:
    """The runs without copies: people paste a result twice, and one run is no second one."""
    known = set()
    for run in runs:
        key = tuple((entry.name, entry.group, entry.pid, entry.printed) for entry in run.entries)
        if key not in known or not all(entry.pid and entry.printed for entry in run.entries):
            yield run
        known.add(key)


class _Parser:
    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = [_Run()]
        self._entries = 0
        self._side: _Side | None = None
        self._ranks: tuple[str, int] | None = None
        """Kind and unit of the percentiles whose rows follow."""
        self._disks = False

    def line(self, number: int, line: str) -> None:
        text = line[:1000].strip()
        run = self.runs[-1]
        if header := _HEADER.match(text):
            self._begin(run, bool(run.entries)).headers.append(_header(header))
        elif version := _VERSION.match(text):
            self._begin(run, bool(run.entries)).version = version[1]
        elif _MACHINE.match(text):
            self._begin(run, bool(run.entries)).machines += 1
        elif entry := _ENTRY.match(text):
            self._enter(_entry(number, entry, text), run)
        elif text.startswith("Run status group"):
            run.closed, self._side, self._ranks = bool(run.entries), None, None
        elif text.startswith("Disk stats (read/write)"):
            self._disks = True
        elif self._disks:
            self._disks = self._device(run, text)
        elif run.entries and not run.closed:
            self._detail(run.entries[-1], text)
        if text.startswith(_NOTES) and len(run.notes) < 20:
            self.runs[-1].notes.append("".join(c if c.isprintable() else "?" for c in text[:200]))

    def _begin(self, run: _Run, anew: bool) -> _Run:
        self._side, self._ranks, self._disks = None, None, False
        if anew:
            self.runs.append(run := _Run())
        return run

    def _enter(self, entry: _Entry, run: _Run) -> None:
        self._entries += 1
        if self._entries > _MOST:
            raise Garbage("too-large", f"{self.name}: line {entry.line}: more than {_MOST} jobs")
        if entry.name == _ALL:
            self._sum_up(entry)
            return
        earlier = next((other for other in run.entries if entry.again(other)), None)
        if earlier and run.closed:
            run.entries, run.devices, run.closed = [], [], False
        elif earlier:
            run.entries.remove(earlier)
        last = run.entries[-1].printed if run.entries else None
        later = last is not None and entry.printed is not None and abs(entry.printed - last) > _APART
        self._begin(run, run.closed or later).entries.append(entry)

    def _sum_up(self, entry: _Entry) -> None:
        """The sum over all machines takes the place of their own runs, which stand before it."""
        start = next((n for n in reversed(range(len(self.runs))) if self.runs[n].machines), len(self.runs) - 1)
        first = self.runs[start]
        del self.runs[start:]
        self._begin(first, anew=True)
        self.runs[-1].version, self.runs[-1].notes, self.runs[-1].machines = first.version, first.notes, first.machines
        self.runs[-1].entries.append(entry)

    def _device(self, run: _Run, text: str) -> bool:
        """Reads a line under ``Disk stats``; False: these are over."""
        if not text:
            return not run.devices
        if match := _DISK.fullmatch(text):
            pairs = zip(_DISK_KEYS, match.groups(), strict=True)
            run.devices.append({key: int(count) for key, count in pairs if count is not None})
            return True
        run.devices_known = run.devices_known and ": ios=" not in text and not text.startswith("aggr")
        return False

    def _detail(self, entry: _Entry, text: str) -> None:
        """A line of an entry's report."""
        if side := _SIDE.match(text) or _SIDE_2.match(text):
            self._side, self._ranks = _side(side), None
            entry.sides[side[1]] = self._side
        elif self._ranks and text.startswith("|"):
            self._rank(text)
        elif ranks := _RANKS.match(text):
            self._ranks = ranks[1], _UNIT[ranks[2]]
        elif self._side and (times := _TIMES.match(text)):
            self._ranks = None
            self._side.means[times[1]] = float(times[3]) * _THOUSANDS[times[4]] * _UNIT[times[2]]
            self._side.units.setdefault(times[1], _UNIT[times[2]])
        elif self._side and (samples := _SAMPLES.match(text)):
            self._side.samples = int(samples[3]), float(samples[1]), float(samples[2])
        elif cpu := _CPU.match(text):
            entry.usr_cpu, entry.sys_cpu = float(cpu[1]), float(cpu[2])
            self._side = self._ranks = None
        elif _DEPTHS.match(text):
            used = [_DEEPEST[key] for key, share in _DEPTH.findall(text) if key in _DEEPEST and share.strip("0.")]
            entry.depth = max(used, default=entry.depth)
        elif issued := _ISSUED.match(text):
            counts = [int(count or 0) for count in issued.groups()]
            entry.issued, entry.short, entry.dropped = (
                dict(zip(WAYS, counts[at : at + 3], strict=False)) for at in (0, 3, 6)
            )

    def _rank(self, text: str) -> None:
        if self._ranks and self._side and self._ranks[0] != "sync":
            kind, unit = self._ranks
            ranks = self._side.percentiles.setdefault(kind, {})
            self._side.units[kind] = unit
            ranks |= {round(float(share) / 100, 9): int(value) * unit for share, value in _RANK.findall(text)}


def _header(match: re.Match[str]) -> _Header:
    options = {"rw": match[3], "ioengine": match[5], "iodepth": match[6]}
    if sizes := _block_sizes(match[4]):
        options["bs"] = sizes
    return _Header(match[1], int(match[2]), options)


def _block_sizes(text: str) -> str:
    """``reads,writes,trims`` in bytes; empty: not one size each. ``(R) 4096B-4096B, (W) ...``, or ``4K-4K/4K-4K``."""
    parts = [part.split(")")[-1].strip() for part in re.split(r"[,/]", text)]
    sizes = []
    for part in parts:
        low, _, high = part.partition("-")
        size = _SIZE.fullmatch(low)
        if low != (high or low) or not size:
            return ""
        exact = float(size[1]) * (1024 ** (_POWER.index(size[2].upper()) + 1) if size[2] else 1)
        if exact != int(exact):
            return ""
        sizes.append(f"{exact:.0f}")
    return ",".join(sizes)


def _entry(number: int, match: re.Match[str], text: str) -> _Entry:
    pid, printed = _PID.search(text), _PRINTED.search(text)
    when = None
    if printed:
        try:
            stamp = f"{printed[1]} {printed[2]} {printed[4]} {printed[3]}"
            when = datetime.strptime(stamp, "%b %d %Y %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            when = None
    jobs = max(1, int(match[3]))
    return _Entry(number, match[1], int(match[2]), jobs, int(match[4]), pid[1] if pid else "", when)


def _side(match: re.Match[str]) -> _Side:
    if match.re is _SIDE:
        _, iops, thousands, size, unit, runtime = match.groups()
        base = 1024 if "i" in unit else 1000
    else:
        _, size, unit, iops, thousands, runtime = match.groups()
        base = 1024
    factor = base ** (_POWER.index(unit[0].upper()) + 1) if unit[0] != "B" else 1
    many = _THOUSANDS[thousands]
    return _Side(float(iops) * many, _digit(iops) * many, float(size) * factor, _digit(size) * factor, int(runtime))


def _digit(text: str) -> float:
    """Value of the last digit of a decimal."""
    return 10.0 ** -len(text.partition(".")[2])


def _report(run: _Run, name: str) -> TextReport:
    entries = run.entries
    if run.machines > 1 and entries[0].name != _ALL:
        raise Garbage("cut-off", f"{name}: {run.machines} machines, but no sum 'All clients': the text seems cut off")
    jobs = tuple(_job(entry, run, name) for entry in entries)
    printed = next((entry.printed for entry in entries if entry.printed), None)
    day = None if printed is None else float(printed.toordinal() - date(1970, 1, 1).toordinal())
    counters = disks(run.devices) if run.devices and run.devices_known else {}
    return TextReport(run.version, jobs, counters, None, False, "\n".join(run.notes)[:_KEPT], day, max(1, run.machines))


def _job(entry: _Entry, run: _Run, name: str) -> Job:
    where = f"{name}: line {entry.line}"
    if entry.issued is None and not entry.error:
        raise Garbage("cut-off", f"{where}: the report of this job has no line 'issued': the text seems cut off")
    own = _options(entry, run) | {"numjobs": str(entry.jobs)}
    issued = entry.issued or {}
    if missing := next((way for way, ios in issued.items() if ios and not {way, "mixed"} & entry.sides.keys()), ""):
        raise Garbage(
            "cut-off", f"{where}: {issued[missing]} I/Os of {missing} were issued, but their report is missing"
        )
    sides = {
        way: read for way, side in entry.sides.items() if (read := _whole(way, side, entry, own, where)) is not None
    }
    return Job(
        name=entry.name,
        group=entry.group,
        error=entry.error,
        host="",
        own=own,
        common={},
        sides=sides,
        usr_cpu=entry.usr_cpu,
        sys_cpu=entry.sys_cpu,
        job_runtime=None,
        started=None,
        elapsed=None,
        depth=entry.depth,
    )


def _options(entry: _Entry, run: _Run) -> dict[str, str]:
    """Options of the entry's job: those in its line, or under group_reporting what the lines of its group share."""
    group = [header for header in run.headers if header.group == entry.group]
    alone = sum(other.group == entry.group for other in run.entries) == 1
    mine = group if alone else [header for header in group if header.name == entry.name]
    if entry.name not in {header.name for header in mine}:
        return {}  # with --output behind --name fio prints the line of the first job to the terminal, not to the file
    return {key: value for key, value in mine[0].options.items() if all(h.options.get(key) == value for h in mine)}


def _whole(way: str, side: _Side, entry: _Entry, own: dict[str, str], where: str) -> Side | None:
    """One direction; None: no I/O. Raises Garbage where its figures do not agree."""
    issued = entry.issued or {}
    ios = sum(issued.values()) if way == "mixed" else issued.get(way, 0)
    if not ios:
        return None
    if not side.runtime:
        raise Garbage("no-time", f"{where}: {way} has a run time of 0 ms")
    rate = ios * 1000 / side.runtime
    if abs(rate - side.iops) > side.digit + 0.01 * rate + 1:
        raise Garbage("contradiction", f"{where}: {way}: {ios} I/Os in {side.runtime} ms are not {side.iops:g} IOPS")
    if ios >= 2**48 or side.size >= 2**63 or side.runtime >= 2**53:
        raise Garbage("too-large", f"{where}: {way} has impossibly many I/Os")
    # the printed size has three or four digits; of one block size the count of I/Os is exact
    exact = ios * _block_size(own, way)
    in_flight = (entry.depth * entry.jobs + 1) * _block_size(own, way)
    size = exact if exact and abs(exact - side.size) <= side.size_digit + in_flight else round(side.size)
    return Side(
        ios=ios,
        exact=False,
        slack=float(_in_flight(entry, own)),
        submitted=ios,
        size=size,
        runtime=side.runtime,
        short=entry.short.get(way, 0),
        dropped=entry.dropped.get(way, 0),
        latency={kind: _latency(side, kind) for kind in KINDS},
        samples=side.samples,
    )


def _in_flight(entry: _Entry, own: dict[str, str]) -> int:
    """Most I/Os in flight when a ramp may have ended, whose length the text does not show."""
    return min(int(own.get("iodepth", entry.depth)), entry.depth) * entry.jobs


def _block_size(own: dict[str, str], way: str) -> int:
    """Block size of a direction in bytes; 0: not known."""
    sizes = own.get("bs", "").split(",")
    places = [WAYS.index(name) for name in ((way,) if way in WAYS[:3] else PATTERNS.get(own.get("rw", ""), ()))]
    of_way = {sizes[min(place, len(sizes) - 1)] for place in places}
    return int(of_way.pop() or 0) if len(of_way) == 1 else 0


def _latency(side: _Side, kind: str) -> Latency:
    return Latency(None, side.means.get(kind), side.percentiles.get(kind, {}), side.units.get(kind, 1))
