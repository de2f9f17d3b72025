"""Every importer in the registry, whatever its files hold: Unreadable or trials that can be kept, in bounded memory."""

import io
import random
import re
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlane.importers import _pgbench_log
from fairlane.importers._reading import LARGEST_TREE
from fairlane.importers.base import HEAD, Source, Unreadable
from tests.importers.importer_oracle import FIXTURES, fixtures, groups, importers, judged, source, sources
from tests.words import kind

TOOLS = sorted(importers())
FED = [tool for tool in TOOLS if (FIXTURES / tool).is_dir()]
"""Those with fixtures: an importer without is tested with random bytes and with the files of all others."""
HOSTILE_NUMBERS = (
    "-1", "0", "-0", "NaN", "nan", "inf", "-Infinity", "1e400", "1e308", "9" * 30, "9" * 400, "9" * 5000, "0x10",
    "-" + "9" * 20, "1_000", "1,5", "٣", "", " ", "18446744073709551616", "9223372036854775807", "1e-320",
)  # fmt: skip
HOSTILE_TEXTS = (
    "\x1b[2J",
    "\x00",
    "\u202e",
    "\ufeff",
    '"',
    "{",
    "]",
    "<!DOCTYPE x>",
    "\r",
    "|" * 50,
    "\\ud800",
    "%s",
    "../",
)
_NUMBER = re.compile(rb"[0-9]+(?:\.[0-9]+)?")
_FIELD = re.compile(rb"[^\s,|;:=<>\"]+")


def _numbers(data: bytes, choose: random.Random) -> bytes:
    return _replaced(_NUMBER, data, choose, [text.encode() for text in HOSTILE_NUMBERS])


def _texts(data: bytes, choose: random.Random) -> bytes:
    return _replaced(_FIELD, data, choose, [text.encode() for text in (*HOSTILE_TEXTS, "")])


def _replaced(what: re.Pattern[bytes], data: bytes, choose: random.Random, by: list[bytes]) -> bytes:
    found = list(what.finditer(data))
    if not found:
        return data
    one = choose.choice(found)
    return data[: one.start()] + choose.choice(by) + data[one.end() :]


def _flip(data: bytes, choose: random.Random) -> bytes:
    if not data:
        return data
    place = choose.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << choose.randrange(8))]) + data[place + 1 :]


def _lines(data: bytes, choose: random.Random) -> bytes:
    """A line doubled, lost, moved, or repeated very often."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    place = choose.randrange(len(lines))
    kind = choose.randrange(4)
    if kind == 0:
        lines.insert(place, lines[place])
    elif kind == 1:
        del lines[place]
    elif kind == 2:
        lines.insert(choose.randrange(len(lines)), lines.pop(place))
    else:
        lines[place] *= 200
    return b"".join(lines)


def _cut(data: bytes, choose: random.Random) -> bytes:
    """The end, the beginning, or a part of the middle is missing."""
    low, high = sorted(choose.randrange(len(data) + 1) for _ in range(2))
    return choose.choice((data[:high], data[low:], data[:low] + data[high:]))


def _inserted(data: bytes, choose: random.Random) -> bytes:
    place = choose.randrange(len(data) + 1)
    return data[:place] + choose.randbytes(choose.randrange(40)) + data[place:]


MUTATIONS = (_numbers, _numbers, _texts, _flip, _lines, _cut, _inserted)
quietly = settings(max_examples=70, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.mark.parametrize("tool", FED)
def test_each_importer_reads_its_fixtures(tool):
    assert groups(tool), f"{tool} claims none of its fixtures"
    assert any(judged(importers()[tool], files) for files in groups(tool))


@pytest.mark.parametrize("tool", FED)
@quietly
@given(seed=st.integers(0, 2**32), many=st.integers(1, 5))
def test_damaged_fixtures(tool, seed, many):
    choose = random.Random(seed)  # noqa: S311
    files = dict(choose.choice(groups(tool)))
    for _ in range(many):
        name = choose.choice(sorted(files))
        files[name] = choose.choice(MUTATIONS)(files[name], choose)
    plugin = importers()[tool]
    for name, content in files.items():
        assert plugin.claims(name, content[:HEAD]) in (True, False)
        assert isinstance(plugin.group(name), str)
    judged(plugin, files)


@pytest.mark.parametrize("tool", FED)
def test_fixtures_cut_off_anywhere(tool):
    plugin = importers()[tool]
    for files in groups(tool):
        for name, content in files.items():
            for place in {round(len(content) * n / 20) for n in range(20)}:
                judged(plugin, {**files, name: content[:place]})


@pytest.mark.parametrize("tool", TOOLS)
@quietly
@given(content=st.binary(max_size=2000), name=st.text(max_size=60))
def test_random_bytes(tool, content, name):
    plugin = importers()[tool]
    assert plugin.claims(name, content) in (True, False)
    assert isinstance(plugin.group(name), str)
    judged(plugin, {name: content})


@pytest.mark.parametrize("tool", TOOLS)
def test_the_files_of_all_other_importers(tool):
    plugin = importers()[tool]
    for name, content in fixtures().items():
        judged(plugin, {name: content})


@pytest.mark.parametrize("tool", TOOLS)
def test_no_files_and_empty_files(tool):
    plugin = importers()[tool]
    for files in groups(tool):
        judged(plugin, dict.fromkeys(files, b""))
        judged(plugin, dict.fromkeys(files, b"\n" * 5000))


# --- memory


def _peak(tool: str, files: list[Source]) -> int:
    """Bytes that reading needed at most."""
    tracemalloc.start()
    try:
        for _ in importers()[tool].read(files):
            pass
    except Unreadable:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


class Endless(io.RawIOBase):
    """A file that goes on with the same bytes for ``size`` bytes."""

    def __init__(self, begin: bytes, more: bytes, size: int) -> None:
        self._left, self._more, self._size = begin, more, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while len(self._left) < len(buffer) and self._size > 0:
            block = self._more * max(1, 2**16 // len(self._more))
            self._left += block
            self._size -= len(block)
        part, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def endless(name: str, begin: bytes, more: bytes, size: int) -> Source:
    return Source(name, lambda: io.BufferedReader(Endless(begin, more, size)))


@pytest.mark.parametrize("tool", FED)
@pytest.mark.parametrize("more", [b"\0", b"A", b"[", b'{"a":', b"<a>", b"1 "])
def test_a_file_that_is_one_endless_line(tool, more):
    """Its first lines look right; then 1 MiB without an end of line, nested as deeply as they are long."""
    files = groups(tool)[0]
    name, content = next(iter(files.items()))
    others = [one for one in sources(files) if one.name != name]
    begin = content[: content.rfind(b"\n", 0, len(content) // 2) + 1]
    size = 2**20
    assert _peak(tool, sorted([*others, endless(name, begin, more, size)], key=lambda s: s.name)) < 40 * size


STREAMED = {
    "pgbench": ("pgbench_log.77", b"", b"0 1 500 0 1795307919 92214\n"),
    "sysbench": ("a.txt", b"sysbench 1.0.20 (using x)\n", b"WARNING: nothing of interest\n"),
    "hammerdb": ("a.log", b"HammerDB CLI v4.12\n", b"Vuser 2:FINISHED SUCCESS\n"),
    "elbencho": ("a.csv", b"", b"x,y,z\n"),
    "pgio": ("a.txt", b"Date: x\n", b"BEFORE: a | 1 | 2 | 3\n"),
    "slob": ("awr.txt.8", b"WORKLOAD REPOSITORY report for\n", b"physical read total IO requests 1 2.0 3.0\n"),
    "vdbench": ("flatfile.html", b"tod timestamp Run Interval rate\n", b"10:00:00.000 x rd1 1 5\n"),
}
"""Tools whose files are read line by line: name, beginning, a line for ever."""


@pytest.mark.parametrize("tool", sorted(STREAMED))
def test_a_long_file_takes_no_more_memory_than_its_trial(tool):
    name, begin, line = STREAMED[tool]
    short, long = (_peak(tool, [endless(name, begin, line, size)]) for size in (100_000, 400_000))
    assert long < 1.3 * short + 30_000


def test_pgbench_puts_rare_latencies_into_bins(monkeypatch):
    choose = random.Random(1)  # noqa: S311
    rows = [b"%d %d %d 0 1795307919 92214\n" % (n % 50, n // 50 + 1, choose.randrange(10**12)) for n in range(5000)]
    log = source("pgbench_log.1", b"".join(rows))
    (at_once,) = importers()["pgbench"].read([log])
    monkeypatch.setattr(_pgbench_log, "_DISTINCT", 300)
    (bit_by_bit,) = importers()["pgbench"].read([log])
    assert bit_by_bit.figures == at_once.figures
    assert sum(at_once.figures.histograms["tx.lat"].values()) == 5000
    assert len(at_once.figures.histograms["tx.lat"]) < 1000


def test_what_is_read_whole_has_a_limit():
    large = source("a.json", b"[" + b"1," * (LARGEST_TREE // 2))
    for tool in ("kube_burner", "hammerdb", "diskspd"):
        with pytest.raises(Unreadable, check=kind("too-large", "a.json"), match="64"):
            list(importers()[tool].read([large]))
