"""Logs in which fio keeps several jobs: fio's default up to 2.2, later ``per_job_logs=0``. Against fio's own json.

fio runs here, with its null engine and a rate, so that logs and json are of one run whatever else this machine does.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairlane.checks.base import run_all
from fairlane.formats.record import Record
from fairlane.importers import fio_hist, fio_log
from fairlane.importers._run import import_files
from fairlane.importers.base import Unreadable
from fairlane.importers.fio_hist import FioHistOptions
from fairlane.importers.fio_log import FioLogOptions
from fairlane.runs.read import load_run
from tests.importers.importer_oracle import sources
from tests.words import kind

needs_fio = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed: run make setup")
JOB = ("--rw=randread", "--bs=4k", "--rate_iops=200")
CLONES = ("--name=clone", *JOB, "--numjobs=4")
LATE = 1150
"""ms after which a job of a second ended late: a busy machine did not let fio run, and its rates are no comparison."""
APART = ("--name=a", *JOB, "--name=b", "--stonewall", *JOB, "--name=c", "--stonewall", *JOB)


@pytest.fixture
def fio(tmp_path: Path) -> Any:
    """``fio(*options)``: the I/Os of each job and its IOPS in fio's json, and the logs it left."""

    def run(*options: str) -> tuple[list[int], list[float], dict[str, bytes]]:
        common = (
            "--eta=never",
            "--ioengine=null",
            "--size=64m",
            "--time_based",
            "--runtime=1s",
            "--per_job_logs=0",
        )
        command = ["fio", *common, *options, "--output-format=json", "--output=out.json"]
        for _ in range(5):
            for old in tmp_path.glob("*.log"):
                old.unlink()
            subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
            jobs = json.loads((tmp_path / "out.json").read_bytes())["jobs"]
            if all(job["read"]["runtime"] < LATE for job in jobs):
                break
        logs = {path.name: path.read_bytes() for path in tmp_path.glob("*.log")}
        return [job["read"]["total_ios"] for job in jobs], [job["read"]["iops"] for job in jobs], logs

    return run


def records(logs: dict[str, bytes], **options: Any) -> list[Record]:
    return list(fio_log.PLUGIN.configured(FioLogOptions(**options)).read(sources(logs)))


BUSY = 0.3
"""fio's run time is up to the end, that of a log up to the last I/O, which a busy machine completes earlier. A job that
was lost or counted twice is at least a third off."""


def counted(found: list[Record]) -> list[int]:
    return [record.figures.context["load"]["ios"]["read"] for record in found]


def rates(found: list[Record]) -> list[float]:
    return [record.figures.metrics["iops"] for record in found]


@needs_fio
@pytest.mark.parametrize("averaged", [(), ("--log_avg_msec=300",)])
def test_clones_in_one_file_add_up_to_fios_own_rate(fio: Any, averaged: tuple[str, ...]) -> None:
    """Of four clones of 250 IOPS each the file was once taken for one: 250.3 where fio's json has 999.5."""
    ios, json_says, logs = fio("--write_iops_log=x", "--write_lat_log=x", *averaged, *CLONES)
    (together,) = records(logs, jobs="together")
    assert together.figures.metrics["iops"] == pytest.approx(sum(json_says), rel=BUSY)
    assert averaged or counted([together]) == [sum(ios)]
    assert together.params["numjobs"] == 4
    assert together.name == "x"


@needs_fio
@pytest.mark.parametrize("averaged", [(), ("--log_avg_msec=300",)])
@pytest.mark.parametrize("each", [0, 1])
def test_stonewalled_jobs_are_never_added(fio: Any, averaged: tuple[str, ...], each: int) -> None:
    """Three jobs of 200 IOPS, one after the other, were once 600.8 IOPS; in one file or in a file each."""
    ios, json_says, logs = fio("--write_iops_log=x", *averaged, f"--per_job_logs={each}", *APART)
    found = records(logs)
    assert rates(found) == pytest.approx(json_says, rel=BUSY)
    assert averaged or counted(found) == ios
    assert [record.name for record in found] == ["x job 1 of 3", "x job 2 of 3", "x job 3 of 3"]
    assert all("numjobs" not in record.params for record in found)
    assert rates(records(logs, jobs="apart")) == rates(found)


@needs_fio
def test_unix_times_say_which_jobs_ran_together(fio: Any) -> None:
    ios, json_says, logs = fio(
        "--write_lat_log=x", "--log_unix_epoch=1", "--per_job_logs=1", "--name=a", *JOB, "--numjobs=2", "--name=b",
        "--stonewall", *JOB, "--numjobs=2",
    )  # fmt: skip
    first, second = records(logs)
    assert rates([first, second]) == pytest.approx([sum(json_says[:2]), sum(json_says[2:])], rel=BUSY)
    assert counted([first, second]) == [sum(ios[:2]), sum(ios[2:])]
    assert [record.params["numjobs"] for record in (first, second)] == [2, 2]
    assert second.started is not None
    assert first.started is not None
    assert second.started - first.started >= 0.9
    assert "equal_jobs" not in first.figures.context["load"]


@needs_fio
def test_histograms_in_one_file(fio: Any) -> None:
    _, json_says, logs = fio("--write_hist_log=x", "--log_hist_msec=100", *APART)
    hist = {name: data for name, data in logs.items() if "_hist" in name}
    found = list(fio_hist.PLUGIN.read(sources(hist)))
    assert rates(found) == pytest.approx(json_says, rel=BUSY)  # fio logs no last interval
    (together,) = fio_hist.PLUGIN.configured(FioHistOptions(jobs="together")).read(sources(hist))
    assert together.figures.metrics["iops"] == pytest.approx(sum(rates(found)), rel=BUSY)


# --- by hand


def averages(*jobs: str) -> dict[str, bytes]:
    """Rows ``500:200`` of reads, in ms and IOPS, of jobs in one file."""
    rows = [row.split(":") for job in jobs for row in job.split()]
    return {"x_iops.log": b"".join(f"{time}, {rate}, 0, 0, 0\n".encode() for time, rate in rows)}


def test_rows_of_one_millisecond_are_of_several_jobs() -> None:
    logs = averages("500:252 1000:250 1559:248", "500:250 1000:250 1559:250", "500:214 1000:286 1559:250")
    assert rates(records(logs)) == pytest.approx(
        [249.924, 250, 250], abs=0.001
    )  # (252 x 500 + 250 x 500 + 248 x 559) / 1559
    (together,) = records(logs, jobs="together")
    assert together.figures.metrics["iops"] == pytest.approx(749.924, abs=0.001)
    assert together.figures.context["load"]["series"]["iops"] == [716, 786, 748]


def test_an_interval_without_io_has_no_row_and_counts() -> None:
    """1000, 1000, nothing, nothing, 1000 I/Os a second."""
    (trial,) = records(averages("1000:1000 2000:1000 5000:1000"))
    assert trial.figures.metrics["iops"] == pytest.approx(3000 / 5)
    assert trial.figures.context["load"]["series"]["iops"] == [1000, 1000, 0, 0, 1000]


def test_bursts_far_apart_are_of_their_own_interval() -> None:
    """16 I/Os in 50 ms every 800 ms or so, as fio 3.12 logs a disk that is held at 20 IOPS: not 320 IOPS."""
    (trial,) = records(averages("50:100 901:313 1700:320 2501:313 3300:320 4001:320"))
    assert trial.figures.metrics["iops"] == pytest.approx((100 + 313 + 320 + 313 + 320 + 320) * 50 / 4001, rel=0.01)


def test_latencies_of_one_millisecond_after_an_interval_without_any() -> None:
    rows = b"778, 745205, 1, 0\n778, 538101, 1, 0\n829, 741033, 1, 0\n"
    logs = {"x_iops.log": averages("800:20 850:20")["x_iops.log"].replace(b", 0, 0, 0", b", 1, 0"), "x_lat.log": rows}
    (trial,) = records(logs)
    assert "iops" in trial.figures.metrics


def test_what_was_left_when_a_job_ended_is_no_interval() -> None:
    (trial,) = records(averages("1000:1000 2000:1000 3000:1000 3001:7 3001:9"))
    assert trial.figures.metrics["iops"] == 1000


def test_bandwidth_of_single_jobs_of_a_shared_file_is_left_out() -> None:
    """Jobs that end together may write their logs in another order to each file."""
    logs = averages("500:200 1000:200", "500:300 1000:300")
    logs["x_bw.log"] = logs["x_iops.log"]
    assert [sorted(record.figures.metrics) for record in records(logs)] == [["iops"], ["iops"]]
    (together,) = records(logs, jobs="together")
    assert sorted(together.figures.metrics) == ["bw", "iops"]


@pytest.mark.parametrize(
    ("name", "text", "error", "where"),
    [
        ("x_iops.1.log", "500, 9, 0, 0, 0\n1000, 9, 0, 0, 0\n500, 9, 0, 0, 0\n", "time-back", "x_iops.1.log:3"),
        ("x_lat.1.log", "1, 9, 0, 512, 0\n900, 9, 0, 512, 0\n7, 9, 0, 512, 0\n", "time-back", "x_lat.1.log:3"),
        ("x_iops.log", "500, 9, 0, 0, 0\n500, 8, 0, 0, 0\n", "time-twice", "x_iops.log"),
        ("x_iops.log", "9000, 9, 0, 512, 0\n1, 9, 0, 512, 0\n" * 1500, "time-back", "x_iops.log"),
    ],
)
def test_time_that_goes_back_in_the_log_of_one_job(name: str, text: str, error: str, where: str) -> None:
    with pytest.raises(Unreadable, check=kind(error, where)):
        records({name: text.encode()})


def test_a_shared_log_that_was_cut() -> None:
    logs = averages("500:200 1000:200", "500:300 1000:300")
    logs["x_bw.log"] = averages("500:200 1000:200")["x_iops.log"]
    with pytest.raises(Unreadable, check=kind("jobs-differ", "x_iops.log")):
        records(logs)


def test_equal_jobs_are_a_finding_and_have_no_headline(tmp_path: Path) -> None:
    for lane, rate in (("iscsi", 200), ("nvme", 300)):
        for block in range(4):
            folder = tmp_path / "in" / lane / str(block)
            folder.mkdir(parents=True)
            job = f"500:{rate + block} 1000:{rate + 2 * block} 1500:{rate}"
            (folder / "x_iops.log").write_bytes(averages(job, job.replace(" ", " "), job)["x_iops.log"])
    import_files([tmp_path / "in"], tmp_path / "out")
    found = [f for f in run_all(load_run(tmp_path / "out")) if f.check == "jobs_unknown"]
    assert {(f.severity, f.kind, f.lanes) for f in found} == {
        ("critical", "unknown", ("iscsi",)), ("critical", "unknown", ("nvme",)),
    }  # fmt: skip
    assert all(len(f.cells) == 3 for f in found)
    assert next(iter(found[0].evidence.values()))["file"].endswith("x_iops.log")
