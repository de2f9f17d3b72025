"""fio's normal output: against fio's own json of the same run, and figures copied from published results by hand."""

import re

import pytest

from fairlane.formats.record import Record
from fairlane.importers.base import Unreadable
from fairlane.importers.fio_json import PLUGIN as JSON
from fairlane.importers.fio_json import FioJsonOptions
from fairlane.importers.fio_text import PLUGIN as TEXT
from tests.importers.importer_oracle import fixtures, source
from tests.words import kind

BOTH = ("both-clones.txt", "both-group.txt", "both-stonewall.txt")
PRINTED = 0.0005
"""Share by which a mean with two decimals, or a rate of whole I/Os, is off here."""


def content(name: str) -> str:
    return fixtures()[f"fio_text/{name}"].decode()


def read(text: str, **options: str) -> list[Record]:
    plugin = TEXT.configured(FioJsonOptions.model_validate(options))
    return list(plugin.read([source("a.txt", text.encode())]))


def both(name: str) -> tuple[bytes, bytes]:
    """fio's json and its text, of a file that holds both."""
    data = fixtures()[f"fio_json/{name}"]
    report = re.search(rb'^\{\n  "fio version".*?^\}\n', data, re.MULTILINE | re.DOTALL)
    assert report is not None
    return report[0], data.replace(report[0], b"")


@pytest.mark.parametrize("percentiles", ["lat", "clat"])
@pytest.mark.parametrize("name", BOTH)
def test_the_text_has_the_figures_of_the_json(name: str, percentiles: str) -> None:
    options = FioJsonOptions.model_validate({"percentiles": percentiles})
    json, text = both(name)
    exact = list(JSON.configured(options).read([source("a", json)]))
    printed = list(TEXT.configured(options).read([source("a", text)]))
    assert len(printed) == len(exact)
    for mine, fios in zip(printed, exact, strict=True):
        metrics = mine.figures.metrics
        assert {"iops", "bw", "lat_mean"} <= metrics.keys() <= fios.figures.metrics.keys()
        for metric, value in metrics.items():
            step = mine.figures.steps.get(metric, 0.0)
            assert value == pytest.approx(fios.figures.metrics[metric], rel=step + PRINTED), metric
        assert mine.figures.context.get("disk") == fios.figures.context.get("disk")
        assert mine.params["numjobs"] == fios.params["numjobs"]
        known = {"rw", "bs", "iodepth", "engine", "numjobs"}
        assert mine.params.keys() <= known  # nothing of direct, size or the run time is in the text
        assert all(fios.params[key] == value for key, value in mine.params.items())


def test_percentiles_of_several_jobs_do_not_merge() -> None:
    _, text = both("both-clones.txt")
    (clones,) = read(text.decode())
    assert not [metric for metric in clones.figures.metrics if metric.startswith("lat_p")]
    _, text = both("both-stonewall.txt")
    reads, writes = read(text.decode())
    assert reads.figures.metrics["iops"] == pytest.approx(598 / 1.002)
    assert writes.figures.metrics["iops"] == pytest.approx(600 / 1.001)
    assert writes.figures.metrics["lat_p95"] == 11_994_000  # whole microseconds
    assert writes.figures.steps["lat_p50"] == pytest.approx(1000 / 58_000, rel=0.02)
    assert "as fio printed them" in writes.figures.context["fio"]["printed"]


def test_a_page_of_results() -> None:
    """Two runs of fio 2.8; the second stands there twice, and is one trial."""
    stopped, whole = read(content("pasted.txt"), percentiles="clat")
    assert whole.params == {"rw": "write", "bs": 4096, "iodepth": 16, "engine": "libaio", "numjobs": 1}
    metrics = whole.figures.metrics
    assert metrics["iops"] == pytest.approx(1942 / 20.048)
    assert metrics["bw"] == pytest.approx(7768 * 1024 / 20.048)
    assert (metrics["lat_p50"], metrics["lat_p99"]) == (126e6, 494e6)
    assert metrics["lat_mean"] == pytest.approx(154_131_730)
    assert "lat_p999" not in metrics, "of 1942 I/Os fewer than ten lie beyond"
    assert whole.figures.steps["lat_p50"] == pytest.approx(1 / 126, rel=0.01)
    assert whole.figures.context["conditions"]["tool_version"] == "2.8-1-g87a0"
    assert whole.figures.context["conditions"]["date"] == 16970  # 2016-06-18
    assert stopped.figures.metrics["iops"] == pytest.approx(113 / 0.998)
    assert "terminating on signal 2" in stopped.figures.context["fio"]["warnings"]


def test_two_runs_one_after_the_other() -> None:
    first, second = read(content("sync-2.1.txt"))
    assert first.figures.metrics["iops"] == pytest.approx(786432 / 73.609)
    assert first.figures.metrics["bw"] == pytest.approx(3072 * 2**20 / 73.609)
    assert first.figures.metrics["lat_mean"] == 93_150
    assert first.figures.context["disk"]["reads"] == 784278
    assert second.figures.metrics["lat_mean"] == 93_160
    assert "lat_p50" not in first.figures.metrics
    assert "percentiles are of clat" in first.figures.context["fio"]["warnings"]
    assert second.params == {"numjobs": 1}, "its header is damaged: nothing is known of its load"
    assert second.name == "test"
    assert second.figures.metrics["iops"] == pytest.approx(786432 / 73.612)


def test_a_mix_without_latency() -> None:
    (mix,) = read(content("diskless.txt"))
    metrics = mix.figures.metrics
    assert metrics["iops_read"] == pytest.approx(786347 / 56.621)
    assert metrics["iops_write"] == pytest.approx(262229 / 56.621)
    assert metrics["bw"] == pytest.approx((786347 + 262229) * 4096 / 56.621)
    assert not [metric for metric in metrics if metric.startswith("lat")]
    assert mix.params["rw"] == "randrw"
    assert "rwmixread" not in mix.params


def test_blanks_of_fio_2_0() -> None:
    """The form of a published result of fio 2.0.15: a range of block sizes, blanks before commas, 1805.8K."""
    (trial,) = read(
        "iometer: (g=0): rw=randread, bs=512-64K/512-64K/512-64K, ioengine=libaio, iodepth=64\n"
        "fio-2.0.15\n"
        "iometer: (groupid=0, jobs=1): err= 0: pid=21423: Thu May  9 16:33:14 2013\n"
        "  Description  : [Emulation of Intel IOmeter File Server Access Pattern]\n"
        "  read : io=326081KB, bw=1023.3KB/s, iops=170 , runt=318686msec\n"
        "     lat (usec): min=293 , max=1805.8K, avg=300958.41, stdev=282008.08\n"
        "     issued    : total=r=54312/w=0/d=0, short=r=0/w=0/d=0\n"
    )
    assert trial.params == {"rw": "randread", "iodepth": 64, "engine": "libaio", "numjobs": 1}
    assert trial.figures.metrics["iops"] == pytest.approx(54312 / 318.686)
    assert trial.figures.metrics["bw"] == pytest.approx(326081 * 1024 / 318.686)
    assert trial.figures.metrics["lat_mean"] == 300_958_410
    assert trial.figures.steps["bw"] == 0.005


def test_clients() -> None:
    """fio's client prints the entries of all machines, which do not say whose they are, and then their sum."""
    (trial,) = read(content("clients.txt"))
    assert trial.params == {"fleet": 2, "numjobs": 2}
    assert trial.figures.metrics["iops"] == pytest.approx(400 / 0.501)
    assert trial.figures.metrics["lat_mean"] == 85_280
    with pytest.raises(Unreadable, check=kind("cut-off"), match="2 machines"):
        read(content("clients.txt").partition("All clients")[0])
    again = content("clients.txt")
    assert len(read(again + again.replace("12:54:47", "12:58:47"))) == 2


def test_later_reports_of_one_run_include_the_earlier() -> None:
    """--status-interval prints the whole report each time."""
    _, text = both("both-group.txt")
    late = text.decode()
    early = late.replace("total=900,450", "total=90,45").replace("1001msec", "100msec")
    (trial,) = read(early + late[late.index("mix: (groupid") :])
    assert trial.figures.metrics["iops"] == pytest.approx(1350 / 1.001)
    assert trial.params["bs"] == 8192


def test_runs_without_headers_are_told_apart_by_their_time() -> None:
    _, text = both("both-group.txt")
    entry = text.decode()[text.decode().index("mix: (groupid") :].partition("\nRun status")[0]
    later = entry.replace("12:52:33", "12:53:33").replace("13804", "13901")
    assert len(read(f"{entry}\n{later}\n")) == 2
    (together,) = read(f"{entry}\n{entry.replace('13804', '13901')}\n")
    assert together.params["numjobs"] == 6


def test_a_job_that_failed() -> None:
    line = (
        "full: (groupid=0, jobs=1): err=28 (file:io_u.c:1880, func=io_u error, error=No space left on device): pid=7\n"
    )
    (trial,) = read(line)
    assert "No space left on device" in trial.failed


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ((r"     issued.*\n", ""), "cut-off"),
        ((r"  write: IOPS.*\n", ""), "cut-off"),
        (("total=900,450", "total=90,450"), "contradiction"),
        (("IOPS=899", "IOPS=8.99k"), "contradiction"),
        (("/1001msec", "/0msec"), "no-time"),
        (("total=900,450", "total=" + "9" * 17 + ",450"), "contradiction"),
    ],
)
def test_damaged_results_are_refused_with_the_line(change: tuple[str, str], expected: str) -> None:
    _, text = both("both-group.txt")
    damaged = re.sub(*change, text.decode())
    number = next(n for n, line in enumerate(damaged.splitlines(), 1) if "(groupid" in line)
    with pytest.raises(Unreadable, check=kind(expected, "a.txt"), match=f"line {number}"):
        read(damaged)


def test_json_far_down_in_the_file() -> None:
    json, text = both("both-group.txt")
    data = text + b"\n" * 70_000 + json
    assert TEXT.claims("a", source("a", data).head())
    (trial,) = TEXT.read([source("a", data)])
    assert trial.params["size"] == 16 << 20
