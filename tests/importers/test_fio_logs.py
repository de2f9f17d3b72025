"""fio's logs of single I/Os and of histograms, against the json+ of the same runs."""

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlane.formats.fio_json import reports
from fairlane.formats.fio_log import read_log
from fairlane.formats.record import Record
from fairlane.importers import fio_hist, fio_log
from fairlane.importers.base import Unreadable
from fairlane.importers.fio_hist import FioHistOptions
from fairlane.importers.fio_log import FioLogOptions
from fairlane.stats.histogram import BIN_ERROR, Bins, count, latency, merge, percentile
from tests.figures import figures
from tests.importers.importer_oracle import fixtures, judged, sources
from tests.importers.test_hostile_importers import _peak, endless
from tests.words import kind

LOG = fio_log.PLUGIN.configured(FioLogOptions(jobs="together"))
HIST = fio_hist.PLUGIN.configured(FioHistOptions(jobs="together"))


def logs(prefix: str, tool: str = "fio_log") -> dict[str, bytes]:
    return {name: data for name, data in fixtures().items() if name.startswith(f"{tool}/{prefix}_")}


def one(files: dict[str, bytes], plugin: Any = LOG) -> Record:
    (trial,) = plugin.read(sources(files))
    assert isinstance(trial, Record)
    return trial


def job_bins(name: str, way: str, kind: str) -> Bins:
    (report,) = reports(fixtures()[f"fio_json/{name}.json"], name)
    return merge(job.sides[way].latency[kind].bins for job in report.jobs)


# --- single I/Os


def test_bins_of_single_ios_are_fios_own() -> None:
    histograms = one(logs("io")).figures.histograms
    assert sorted(histograms) == ["read.clat", "read.lat", "read.slat", "write.clat", "write.lat", "write.slat"]
    for name, bins in histograms.items():
        assert bins == job_bins("io", *name.split("."))


def test_rates_and_means_are_those_of_json() -> None:
    trial = one(logs("io"))
    (report,) = reports(fixtures()["fio_json/io.json"], "io")
    load = trial.figures.context["load"]
    assert load["ios"] == {way: sum(job.sides[way].ios for job in report.jobs) for way in ("read", "write")}
    assert load["bytes"] == {way: sum(job.sides[way].size for job in report.jobs) for way in ("read", "write")}
    assert load["runtime_ms"] == pytest.approx(report.jobs[0].runtime, abs=5)
    assert trial.params == {"numjobs": 2, "bs": 4096}
    assert trial.name == "io"
    bins = latency(trial.figures.histograms)
    assert trial.figures.metrics["lat_p50"] == percentile(bins, 0.5)
    exact = sum(bins.ns * bins.counts) / bins.total
    assert trial.figures.metrics["lat_mean"] == pytest.approx(exact, rel=BIN_ERROR)


def test_the_course_of_iops_adds_up() -> None:
    series = one(logs("io")).figures.context["load"]["series"]
    assert series["interval_ms"] == 100
    assert series["iops"] == pytest.approx([2000] * len(series["iops"]), rel=0.2)  # 2 jobs, each capped at 700 + 300


def test_unix_time_offsets_and_priorities() -> None:
    trial = one(logs("epoch"))
    report = json.loads(fixtures()["fio_json/plus.json"])
    assert trial.started == pytest.approx(report["timestamp"], abs=3600)  # recorded in one go
    assert trial.figures.context["load"]["runtime_ms"] == pytest.approx(300, abs=10)
    assert trial.figures.metrics["iops"] == pytest.approx(1000, rel=0.05)


def test_averages_have_no_percentiles() -> None:
    trial = one(logs("avg"))
    assert not trial.figures.histograms
    assert set(trial.figures.metrics) == {"iops", "bw"}
    assert trial.figures.metrics["iops"] == pytest.approx(2000, rel=0.02)
    assert trial.figures.metrics["bw"] == pytest.approx(2000 * 4096, rel=0.02)
    assert trial.figures.context["load"]["series"]["interval_ms"] == 250
    assert "log_avg_msec" in trial.figures.context["fio"]["warnings"]
    assert "averages" in trial.figures.context["conditions"]["metric_definition"]


def test_averages_that_begin_at_the_start_of_the_clock() -> None:
    """A first row at 0 ends no interval; the others are 250 ms apart."""
    course = "".join(f"{ms}, {value}, 0, 0, 0\n" for ms, value in ((0, 4016), (250, 4016), (500, 4000), (750, 4000)))
    assert one({"a_iops.1.log": course.encode()}).figures.metrics["iops"] == pytest.approx(4000, rel=0.01)


def test_averages_with_their_maximum() -> None:
    rows = b"".join(b"%d, 90000, 300000, %d, 0, 0, 0\n" % (at, way) for at in range(250, 2001, 250) for way in (0, 1))
    log = read_log(io.BytesIO(rows), latencies=True)
    assert log.averages == {way: dict.fromkeys(range(250, 2001, 250), 90000.0) for way in ("read", "write")}


def test_clat_alone_is_taken_when_asked() -> None:
    files = {name: data for name, data in logs("io").items() if "_lat." not in name}
    plain = one(files)
    assert "lat_mean" not in plain.figures.metrics
    assert "percentiles: clat" in plain.figures.context["fio"]["warnings"]
    asked = one(files, LOG.configured(FioLogOptions(percentiles="clat", jobs="together")))
    assert asked.figures.histograms["read.lat"] == job_bins("io", "read", "clat")
    assert "clat" in asked.figures.context["conditions"]["metric_definition"]


def test_rates_alone() -> None:
    files = {name: data for name, data in logs("io").items() if "_iops." in name}
    trial = one(files)
    assert trial.figures.context["load"]["ios"] == one(logs("io")).figures.context["load"]["ios"]
    assert not trial.figures.histograms


def test_jobs_that_did_other_things_are_records_of_their_own() -> None:
    files = {"a_lat.1.log": b"1, 50000, 0, 4096, 0\n" * 50, "a_lat.2.log": b"1, 50000, 1, 4096, 0\n" * 50}
    reads, writes = LOG.read(sources(files))
    assert (reads.figures.context["load"]["ios"], writes.figures.context["load"]["ios"]) == (
        {"read": 50, "write": 0},
        {"read": 0, "write": 50},
    )


def rows(values: Any, gap_ms: float, tail: str = "") -> bytes:
    return "".join(f"{int(i * gap_ms)}, {value}, 0, 4096{tail}\n" for i, value in enumerate(values)).encode()


@pytest.mark.parametrize(
    ("values", "gap_ms", "tail", "unit"),
    [
        ([100_000] * 1000, 0.1, ", 0", "ns"),  # priorities
        ([100_000] * 1000, 0.1, ", 4096, 0x4001", "ns"),  # offsets and priorities
        ([400_000] * 1000, 0.1, "", "ns"),  # in us 4000 would have been in flight
        ([150] * 1000, 0.15, "", "us"),  # no storage takes 150 ns
        ([100_000] * 1000, 0.1, "", None),  # 1 in flight in ns, or 1000 in us
        ([100_000] * 1000, 0.1, ", 4096", None),  # offsets alone, as fio 2 writes them
        ([900] * 10_000, 0.001, "", None),  # below 1 us as ns, but 900 in flight as us
    ],
)
def test_the_unit_is_told_where_something_tells_it(values: list[int], gap_ms: float, tail: str, unit: str) -> None:
    log = read_log(io.BytesIO(rows(values, gap_ms, tail)), latencies=True)
    assert log.unit == unit


@pytest.mark.parametrize(("unit", "factor"), [("us", 1000), ("ns", 1)])
def test_a_unit_that_nothing_tells_is_asked_for(unit: Any, factor: int) -> None:
    files = {"a_lat.1.log": rows([100_000] * 1000, 0.1)}
    plain = one(files)
    assert "lat_mean" not in plain.figures.metrics
    assert "unit: ns" in plain.figures.context["fio"]["warnings"]
    asked = one(files, LOG.configured(FioLogOptions(unit=unit)))
    assert asked.figures.metrics["lat_mean"] == 100_000 * factor


def test_machines_of_a_client_are_a_fleet() -> None:
    files = {f"x_lat.{job}.log.{host}": rows([50_000] * 99, 1, ", 0") for job in (1, 2) for host in ("a.b", "c.d")}
    trial = one(files)
    assert trial.params == {"numjobs": 2, "fleet": 2, "bs": 4096}


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        (b"1, 2, 0, 4096, 0\n1, 2, 0", "cut-off", 2),
        (b"1, 2, 0, 4096, 0\n1, 2, 0, 4096\n", "columns", 2),
        (b"1, 2, 0, 4096, 0\n\n", "not-numbers", 2),
        (b"1, 2, 0, 4096, 0\n1, 2, , 4096, 0\n", "not-numbers", 2),
        (b"1, 2, 0, 4096, 0\n1, 2 3, 4096, 0\n", "not-numbers", 2),
        (b"1, 2, 0, 4096, 0\n1, 2 3, 0, 4096,\n", "direction", 2),
        (b"1, 2, 0, 4096, 0\n1, -2, 0, 4096, 0\n", "not-numbers", 2),
        (b"1, 2, 7, 4096, 0\n", "direction", 1),
        (b"1, 2, 0, 4096, 0\n1, 2, 0, 0, 0\n", "mixed-log", 1),
        (b"1, 1000000000000000, 0, 4096, 0\n", "not-a-number", 1),
        (b"1, 9999999999999999999, 0, 4096, 0\n", "not-numbers", 1),
        (b"1, 2, 0, 4096, 0x\n", "not-numbers", 1),
        (b"1, 2\n", "columns", 1),
        (b"", "empty", None),
        (b"\n", "not-numbers", 1),
    ],
)
def test_damage_is_told_with_its_line(text: bytes, name: str, line: int | None) -> None:
    with pytest.raises(Unreadable, check=kind(name)) as raised:
        one({"a_lat.1.log": text})
    assert line is None or figures(raised.value.message)[0] == str(line)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.lists(
            st.one_of(st.integers(0, 10**16).map(str), st.sampled_from(["", " ", "0x1f", "-1", "1 2", "nan"])),
            min_size=1,
            max_size=7,
        ).map(", ".join),
        max_size=6,
    ).map("\n".join),
    st.sampled_from(["a_lat.1.log", "a_iops.log", "a_clat_hist.1.log"]),
)
def test_any_columns_are_read_or_unreadable(text: str, name: str) -> None:
    for end in ("", "\n"):
        judged(LOG, {name: (text + end).encode()})
        judged(HIST, {name: (text + end).encode()})


@pytest.mark.slow
@pytest.mark.parametrize("line", [b"1, 60000, 0, 4096, 0\n", b"1700000000123, 60000, 1, 4096, 8192, 0x4001\n"])
def test_a_long_log_takes_no_more_memory_than_a_short_one(line: bytes) -> None:
    assert _peak("fio_log", [endless("a_lat.1.log", b"", line, 2 * 10**7)]) < 10**8 / 1.5


def test_slots_do_not_grow_with_the_time_they_claim() -> None:
    text = b"1, 60000, 0, 4096, 0\n" * 20 + b"99999999999999999, 60000, 0, 4096, 0\n" * 20
    trial = one({"a_lat.1.log": text})
    assert "series" not in trial.figures.context["load"]


def test_blocks_meet_in_the_middle_of_a_line() -> None:
    values = np.random.default_rng(3).integers(1000, 10**9, 60_000)
    log = read_log(io.BytesIO(rows(values, 0.5, ", 0")), latencies=True)
    assert log.ios == 60_000
    assert log.mean("read", "ns") == pytest.approx(values.mean())


# --- histograms


def test_histogram_logs_add_up_to_jsons_bins_but_for_the_last_interval() -> None:
    trial = one(logs("hist", "fio_hist"), HIST)
    assert trial.params == {"numjobs": 2, "bs": 4096}
    for way in ("read", "write"):
        bins, whole = trial.figures.histograms[f"{way}.lat"], job_bins("hist", way, "clat")
        assert all(whole.get(ns, 0) >= n for ns, n in bins.items())
        assert count(bins) == pytest.approx(0.75 * whole.total, rel=0.05)  # 3 of 4 intervals
    assert trial.figures.metrics["iops"] == pytest.approx(1600, rel=0.03)
    assert trial.figures.context["load"]["series"]["iops"] == pytest.approx([1600] * 3, rel=0.1)
    assert "clat" in trial.figures.context["conditions"]["metric_definition"]


def test_coarse_bins_are_as_near_as_they_say() -> None:
    trial = one(logs("coarse", "fio_hist"), HIST)
    fine = job_bins("coarse", "read", "clat")
    assert trial.figures.steps["lat_p50"] == 8 / 128
    assert trial.figures.metrics["lat_p50"] == pytest.approx(percentile(fine, 0.5), rel=3 * 8 / 128)


def test_microseconds_of_fio_2() -> None:
    row = [0] * 1216
    row[100], row[1215 - 64] = 90, 10
    text = ("500, 0, 4096, " + ", ".join(map(str, row)) + "\n").encode()
    bins = one({"a_clat_hist.1.log": text * 2}, HIST).figures.histograms["read.lat"]
    assert dict(bins) == {100_000: 180, (2**22 + int(63.5 * 2**16)) * 1000: 20}


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        (b"1, 0, 4096, " + b"0, " * 1215 + b"0\n", "no-io", None),
        (b"1, 0, 4096, " + b"1, " * 1216 + b"0\n", "columns", 1),
        (b"1, 3, 4096, " + b"1, " * 1215 + b"0\n", "direction", 1),
        (b"0, 0, 4096, " + b"1, " * 1215 + b"0\n", "no-io", None),
        (b"1, 0, 4096, " + b"1000000000000000, " * 1215 + b"0\n", "too-large", 1),
        (b"", "empty", None),
    ],
)
def test_damaged_histograms_are_told(text: bytes, name: str, line: int | None) -> None:
    with pytest.raises(Unreadable, check=kind(name)) as raised:
        one({"a_clat_hist.1.log": text}, HIST)
    assert line is None or figures(raised.value.message)[0] == str(line)


def test_each_kind_of_log_is_claimed_by_one_importer() -> None:
    for name, data in fixtures().items():
        if name.startswith(("fio_log/", "fio_hist/")):
            assert LOG.claims(name, data[:65536]) == name.startswith("fio_log/")
            assert HIST.claims(name, data[:65536]) == name.startswith("fio_hist/")
    for name in ("a_lat.1.log", "a_clat_hist.1.log", "x.csv"):
        for data in (b"", b"hello\n", b"1, 2\n", b"time, value, 0, 4096\n"):
            assert not LOG.claims(name, data)
            assert not HIST.claims(name, data)
