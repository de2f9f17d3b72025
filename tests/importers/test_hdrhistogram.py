"""HdrHistogram's logs and tables: values that are known, encoded by HdrHistogram's Python port."""

import base64
import struct
import zlib

import pytest

from fairlane.errors import Garbage
from fairlane.formats.hdr_histogram import decode
from fairlane.formats.record import Record
from fairlane.importers.base import Unreadable
from fairlane.importers.hdrhistogram import PLUGIN, HdrHistogramOptions
from tests.importers.importer_oracle import fixtures, source
from tests.words import kind


def content(name: str) -> bytes:
    return fixtures()[f"hdrhistogram/{name}"]


def read(data: bytes, **options: str) -> list[Record]:
    options = {"unit": "us"} | options
    return list(PLUGIN.configured(HdrHistogramOptions.model_validate(options)).read([source("a.hlog", data)]))


def test_each_tag_is_a_trial_of_its_merged_intervals() -> None:
    reads, updates = read(content("tagged.hlog"), rate="tps")
    # 200 to 1199 us, each three times: the 1500th of 3000 values is 699
    assert reads.figures.metrics == {
        "tps": 100, "lat_mean": 699_500, "lat_p50": 699_000, "lat_p95": 1_149_000, "lat_p99": 1_189_000,
    }  # fmt: skip
    assert reads.figures.steps["lat_p99"] == 0.001
    assert (reads.name, reads.labels, reads.started) == ("READ", {"tag": "READ"}, 1772442000.25)
    assert reads.figures.context["load"]["series"] == {"interval_ms": 10_000, "tps": [100, 100, 100]}
    # 900 to 1899 three times, and 20 of 2 s, whose bin is 1999872 to 2000895
    assert updates.figures.metrics["lat_mean"] == pytest.approx((3000 * 1399.5 + 20 * 2_000_384) / 3020 * 1000)
    assert updates.figures.metrics["tps"] == pytest.approx(3020 / 30)
    assert sum(updates.figures.histograms["all.lat"].values()) == 3020
    assert "tps" not in read(content("tagged.hlog"))[0].figures.metrics


def test_the_unit_must_be_said() -> None:
    with pytest.raises(Unreadable, check=kind("unit-unknown"), match="unit: us"):
        list(PLUGIN.read([source("a.hlog", content("tagged.hlog"))]))
    (reads, _) = read(content("tagged.hlog"), unit="ns")
    assert reads.figures.metrics["lat_p50"] == 699


def test_a_published_table() -> None:
    (trial,) = read(content("rtt.hgrm"))
    metrics, steps = trial.figures.metrics, trial.figures.steps
    assert metrics == {
        "lat_mean": 23_587, "lat_p50": 24_383, "lat_p95": 59_423, "lat_p99": 59_423, "lat_p999": 100_159,
    }  # fmt: skip
    assert steps["lat_p95"] == pytest.approx(1 - 24_383 / 59_423)  # p95 lies between these two rows
    assert trial.figures.context["load"]["events"] == 10_000_000


def test_a_table_of_known_values() -> None:
    """100 to 20099, printed as thousands: 10.099 is the middle one."""
    (trial,) = read(content("spectrum.hgrm"), unit="ms")
    for metric, value in {"lat_p50": 10.099, "lat_p95": 19.099, "lat_p99": 19.899, "lat_p999": 20.079}.items():
        assert trial.figures.metrics[metric] * (1 - trial.figures.steps[metric]) <= value * 1e6
        assert trial.figures.metrics[metric] >= value * 1e6
    assert trial.figures.steps["lat_p99"] < 0.002


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"HISTFAAA", b"HISTgAAA", "histogram-damaged"),
        (b"Tag=READ,20.000", b"Tag=READ,5.000", "contradiction"),
        (b"Tag=READ,20.000,10.000", b"Tag=READ,20", "cut-off"),
        (b"Tag=READ,20.000", b"#[StartTime: 1772449999 (seconds since epoch), x]\nTag=READ,20.000", "several-reports"),
    ],
)
def test_damaged_logs(old: bytes, new: bytes, expected: str) -> None:
    with pytest.raises(Unreadable, check=kind(expected)) as caught:
        read(content("tagged.hlog").replace(old, new))
    assert caught.value.where.startswith("a.hlog:")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"#[Max", b"[Max", "cut-off"),
        (b"Total count    =     10000000", b"Total count    =     10000001", "contradiction"),
        (b"9990262", b"990262", "contradiction"),
    ],
)
def test_damaged_tables(old: bytes, new: bytes, expected: str) -> None:
    with pytest.raises(Unreadable, check=kind(expected)):
        read(content("rtt.hgrm").replace(old, new))


def encoded(words: bytes, digits: int = 3, lowest: int = 1, cookie: int = 0x1C849313) -> str:
    plain = struct.pack(">iiiiqqd", cookie, len(words), 0, digits, lowest, 2**40, 1.0) + words
    packed = zlib.compress(plain)
    return base64.b64encode(struct.pack(">ii", 0x1C849314, len(packed)) + packed).decode()


def test_words_are_zigzag_leb128() -> None:
    # 3 empty bins, 1 value, then 2^40: 2 and 2^41 as zigzag, seven bits a byte
    found = decode(encoded(b"\x05\x02" + b"\x80" * 5 + b"\x40"))
    assert (found.values.tolist(), found.counts.tolist()) == ([3, 4], [1, 2**40])


def test_bins_grow_wider() -> None:
    # with 1 digit bins are 1 wide to 31, then 2 to 63; the bin of index 33 is 34 and 35
    assert decode(encoded(b"\x41\x02", digits=1)).values.tolist() == [35]


@pytest.mark.parametrize(
    "text",
    [
        "HIST!", "HIST", encoded(b"\x80"), encoded(b"\xff" * 9), encoded(b"\x02", digits=9), encoded(b"\x02", lowest=0),
        encoded(b"\x02", cookie=1), encoded(b"\xff\xff\xff\xff\x0f\x02"), encoded(b"\x02" * (2**24 + 1)),
    ],
)  # fmt: skip
def test_hostile_histograms(text: str) -> None:
    with pytest.raises(Garbage):
        decode(text)


def test_an_older_encoding_is_named() -> None:
    with pytest.raises(Garbage, check=kind("histogram-old"), match="V1"):
        decode(base64.b64encode(struct.pack(">ii", 0x1C849382, 0)).decode())
