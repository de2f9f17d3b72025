"""Files whose figures exclude each other are refused with the place: recorded and documented files, damaged.

What each case says cannot be is worked out beside it.
"""

import json

import pytest

from fairlane.formats.record import Record
from fairlane.importers._consistent import consistent
from fairlane.importers.base import Unreadable
from fairlane.importers.table import TableOptions
from fairlane.records import Figures
from tests.importers.importer_oracle import fixtures, folder, importers, sources
from tests.words import kind

US = 1000

# --- the rules


@pytest.mark.parametrize(
    ("metrics", "params", "steps", "sound"),
    [
        ({"lat_p50": 2 * US, "lat_p99": 1 * US}, {}, {}, False),
        ({"lat_p50": 2 * US, "lat_p95": 2 * US, "lat_p99": 3 * US}, {}, {}, True),
        ({"lat_read_p95": 3 * US, "lat_read_p99": 2 * US}, {}, {}, False),
        ({"sync_lat_p50": 3 * US, "sync_lat_p99": 2 * US}, {}, {}, False),
        ({"lat_p50": 3 * US, "lat_p99": 2.9 * US}, {}, {"lat_p99": 0.04}, True),  # within rounding
        ({"lat_mean": 100 * US, "lat_p50": 210 * US}, {}, {}, False),  # half take 210 us: at least 105 on average
        ({"lat_mean": 100 * US, "lat_p50": 190 * US}, {}, {}, True),
        ({"lat_mean": 100 * US, "lat_p99": 11_000 * US}, {}, {}, False),  # a hundredth takes 11 ms: at least 110 us
        ({"lat_mean": 100 * US, "lat_p99": 9_000 * US}, {}, {}, True),
        ({"iops": 1000, "iops_read": 700, "iops_write": 200}, {}, {}, False),
        ({"iops": 1000, "iops_read": 700, "iops_write": 300}, {}, {}, True),
        ({"bw": 1000, "bw_read": 700, "bw_write": 400}, {}, {}, False),
        ({"lat_mean": 5 * US, "lat_read_mean": 1 * US, "lat_write_mean": 4 * US}, {}, {}, False),
        ({"lat_mean": 3 * US, "lat_read_mean": 1 * US, "lat_write_mean": 4 * US}, {}, {}, True),
        ({"iops": 1000, "bw": 5_000_000}, {"bs": 4096}, {}, False),  # 4096 bytes each are 4,096,000
        ({"iops": 1000, "bw": 4_096_000}, {"bs": 4096}, {}, True),
        ({"iops": 1000, "bw": 3_000_000}, {"bs": 4096}, {}, True),  # ends of files
        ({"iops": 1000, "lat_mean": 5_000 * US}, {}, {}, False),  # 5 in flight of 4
        ({"iops": 1000, "lat_mean": 4_200 * US}, {}, {}, True),
        ({"iops": 1000, "lat_mean": 2_000 * US}, {}, {}, True),
        ({"tps": 1000, "lat_mean": 5_000 * US}, {}, {}, False),
    ],
)
def test_what_cannot_be(metrics, params, steps, sound):
    record = Record(params, Figures(metrics, {}, {}, steps))
    if sound:
        assert consistent(record, "a.txt:7", in_flight=4) is record
        return
    with pytest.raises(Unreadable, check=kind("contradiction", "a.txt:7")):
        consistent(record, "a.txt:7", in_flight=4)


def test_trims_are_part_of_the_whole():
    context = {"load": {"ios": {"read": 7, "write": 2, "trim": 1}}}
    record = Record({}, Figures({"iops": 1000, "iops_read": 700, "iops_write": 200}, {}, context))
    assert consistent(record, "a") is record


# --- files


def swapped(text: bytes, one: bytes, other: bytes) -> bytes:
    assert one in text
    assert other in text
    return text.replace(one, b"\0").replace(other, one).replace(b"\0", other)


def flat(files: dict[str, bytes], column: str, value: str) -> dict[str, bytes]:
    """The first average of a run in flatfile.html with another value in ``column``."""
    (name,) = (n for n in files if n.endswith("flatfile.html"))
    lines = files[name].decode().split("\n")
    head = next(line for line in lines if "Interval" in line and not line.startswith("*")).split()
    at = next(n for n, line in enumerate(lines) if "avg_" in line and "format" not in line)
    fields = lines[at].split()
    fields[head.index(column)] = value
    lines[at] = " ".join(fields)
    return {name: "\n".join(lines).encode()}


CASES = {
    # 5051 / 4.0067 s = 1260.6
    "sysbench oltp, rate": ("sysbench", "oltp_rw.txt", (b"1260.23 per sec", b"6210.23 per sec"), "oltp_rw.txt:1"),
    # 15995.54 ms / 5051 = 3.17
    "sysbench oltp, mean": ("sysbench", "oltp_rw.txt", (b"15995.54", b"51995.54"), "oltp_rw.txt:1"),
    # 1000 x 127,999 us are 128 in flight, of 4 threads x 16 x 2 hosts = 128
    "elbencho, latency": ("elbencho", "results.csv", (b",127999,", b",927999,"), "results.csv:2"),
    "elbencho, bandwidth": ("elbencho", "results.csv", (b",783,781,", b",783,1781,"), "results.csv:4"),
    "diskspd, reads": ("diskspd", "mixed.xml", (b"<ReadCount>3500<", b"<ReadCount>5300<"), "mixed.xml (time span 1)"),
    "diskspd, p99": (
        "diskspd", "mixed.xml", (b"<TotalMilliseconds>3.750<", b"<TotalMilliseconds>0.375<"), "mixed.xml (time span 1)",
    ),
    "hammerdb, NOPM and TPM": ("hammerdb", "result.json", (b"280001", b"28000"), "result.json"),
    "pgio, rate": ("pgio", "", (b"RIOPS >100000<", b"RIOPS >10000<"), "runs.txt:11"),
    "slob, per second": ("slob", "awr.txt.32", (b"   40,010.0", b"   14,010.0"), "awr.txt.32:28"),
    "vdbench summary, rate": ("vdbench", "summary_only", (b"5050.00", b"5550.00"), "summary.html:"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_damaged_files(name):
    tool, place, (sound, damaged), where = CASES[name]
    files = folder(tool, place) if place else {n: t for n, t in fixtures().items() if n.startswith(tool) and sound in t}
    assert any(sound in text for text in files.values())
    assert list(importers()[tool].read(sources(files)))
    broken = {n: text.replace(sound, damaged, 1) for n, text in files.items()}
    with pytest.raises(Unreadable, check=kind("contradiction")) as told:
        list(importers()[tool].read(sources(broken)))
    assert where in told.value.where


def test_vdbench_mean_outside_of_its_directions():
    files = folder("vdbench", "output")
    with pytest.raises(Unreadable, check=kind("contradiction")):
        list(importers()["vdbench"].read(sources(flat(files, "resp", "9.5000"))))


def test_vdbench_intervals_that_go_back():
    files = folder("vdbench", "output")
    (name,) = (n for n in files if n.endswith("flatfile.html"))
    lines = files[name].split(b"\n")
    at = next(n for n, line in enumerate(lines) if line.split()[2:4] and line.split()[3] == b"2")
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    with pytest.raises(Unreadable, check=kind("time-back")):
        list(importers()["vdbench"].read(sources({name: b"\n".join(lines)})))


def test_fio_json_mean_below_what_its_p99_needs():
    """Recorded by fio 3.33; a digit of the mean is lost."""
    (name, text), *_ = folder("fio_json", "plain-lat.json").items()
    report = json.loads(text)
    lat = report["jobs"][0]["read"]["lat_ns"]
    lat["mean"] = lat["percentile"]["50.000000"] / 10
    with pytest.raises(Unreadable, check=kind("contradiction", name)):
        list(importers()["fio_json"].read(sources({name: json.dumps(report).encode()})))


@pytest.mark.parametrize(("one", "other"), [(b"100000", b"2000000")])
def test_table_row_with_two_columns_swapped(one, other):
    columns = [{"metric": f"lat_{name}", "column": name, "unit": "us"} for name in ("p50", "p99")]
    plugin = importers()["table"].configured(TableOptions.model_validate({"figures": columns, "cell": "cell"}))
    text = b"cell,p50,p99\na,100,2000\nb,100000,2000000\n"
    assert len(list(plugin.read(sources({"a.csv": text})))) == 2
    with pytest.raises(Unreadable, check=kind("contradiction", "a.csv:3")):
        list(plugin.read(sources({"a.csv": swapped(text, one, other)})))
