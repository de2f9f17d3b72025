"""Every importer in the registry, whatever its files hold: Unreadable or trials that can be kept, in bounded memory."""

import io
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlane.formats import pgbench_log
from fairlane.importers._reading import LARGEST_TREE
from fairlane.importers.base import Source, Unreadable
from tests.importers.importer_oracle import FIXTURES, claims, fixtures, groups, importers, judged, source, sources
from tests.importers.mutations import damaged
from tests.words import kind

TOOLS = sorted(importers())
FED = [tool for tool in TOOLS if (FIXTURES / tool).is_dir()]
"""Those with fixtures: an importer without is tested with random bytes and with the files of all others."""
quietly = settings(max_examples=70, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.mark.parametrize("tool", FED)
def test_each_importer_reads_its_fixtures(tool):
    assert groups(tool), f"{tool} claims none of its fixtures"
    assert any(judged(importers()[tool], files) for files in groups(tool))


@pytest.mark.slow
@pytest.mark.parametrize("tool", FED)
@quietly
@given(seed=st.integers(0, 2**32), many=st.integers(1, 5))
def test_damaged_fixtures(tool, seed, many):
    choose = random.Random(seed)  # noqa: S311
    files = dict(choose.choice(groups(tool)))
    for _ in range(many):
        name = choose.choice(sorted(files))
        files[name] = damaged(files[name], choose)
    plugin = importers()[tool]
    for name, content in files.items():
        assert claims(plugin, name, content) in (True, False)
        assert isinstance(plugin.group(name), str)
    judged(plugin, files)


@pytest.mark.slow
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
    assert claims(plugin, name, content) in (True, False)
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


def test_every_importer_has_fixtures():
    """The tests above and the fuzzer begin with them."""
    assert FED == TOOLS


@pytest.mark.slow
def test_fuzzing_finds_nothing(tmp_path):
    """Some seconds for each importer: guided by coverage where atheris is installed, else by chance."""
    program = Path(__file__).parents[2] / "bench" / "fuzz_importers.py"
    command = [sys.executable, str(program), "--seconds", "3", "--keep", str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert sorted(words[0] for words in lines[:-1]) == TOOLS
    assert all(int(words[1].replace(",", "")) > 0 for words in lines)


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
    "diskspd_text": ("a.txt", b"Input parameters:\n timespan: 1\n", b"total: 1 | 2 | 3\n"),
    "hdrhistogram": ("a.hlog", b"#[Histogram log format version 1.3]\n", b"#[nothing of interest]\n"),
    "slob": ("awr.txt.8", b"WORKLOAD REPOSITORY report for\n", b"physical read total IO requests 1 2.0 3.0\n"),
    "vdbench": ("flatfile.html", b"tod timestamp Run Interval rate\n", b"10:00:00.000 x rd1 1 5\n"),
}
"""Tools whose files are read line by line: name, beginning, a line for ever."""


@pytest.mark.slow
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
    monkeypatch.setattr(pgbench_log, "_DISTINCT", 300)
    (bit_by_bit,) = importers()["pgbench"].read([log])
    assert bit_by_bit.figures == at_once.figures
    assert sum(at_once.figures.histograms["tx.lat"].values()) == 5000
    assert len(at_once.figures.histograms["tx.lat"]) < 1000


def test_what_is_read_whole_has_a_limit():
    large = source("a.json", b"[" + b"1," * (LARGEST_TREE // 2))
    for tool in ("kube_burner", "hammerdb", "diskspd"):
        with pytest.raises(Unreadable, check=kind("too-large", "a.json"), match="64"):
            list(importers()[tool].read([large]))
