"""``fairlane versus`` from the outside: real fio on directories, files and loop devices of this machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.study.load import load_study
from tests.machines.behind import loops
from tests.words import kinds

pytestmark = [
    pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio"),
    pytest.mark.xdist_group("versus"),  # one at a time: each loads the disk
]
SMALL = ("--shared", "--size", "8m", "--runtime", "300ms", "--blocks", "2")
"""Beside other runs, and short: what is measured does not matter here."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    Path("b ü").mkdir()
    return tmp_path


def versus(*args: str | Path) -> int:
    return run(["versus", *map(str, args)])


def left(folder: Path) -> list[str]:
    """Files in the users' directories."""
    return [str(p) for name in ("a", "b ü") for p in (folder / name).rglob("*")]


@pytest.mark.slow
def test_tsv_is_the_table_of_verdicts_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert versus("a", "b ü", "--rw", "randread", *SMALL, "--out", "out", "--format", "tsv") == Exit.OK
    table = capsys.readouterr().out
    assert run(["verdicts", "out", "--format", "tsv"]) == Exit.OK
    assert capsys.readouterr().out == table
    heads, *rows = [line.split("\t") for line in table.splitlines()]
    assert [dict(zip(heads, row, strict=True))["cell"] for row in rows] == ["4k randread qd1"]


@pytest.mark.slow
def test_two_directories_are_compared_and_left_as_they_were(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = versus("old one=a", "./b ü", "--rw", "randread,randwrite", *SMALL, "--out", "out", "--format", "json",
                  "--save-study", "saved.yaml")  # fmt: skip
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (code, left(folder)) == (Exit.OK, [])
    assert [(v["lane"], v["baseline"], v["cell"]) for v in told["verdicts"] if v["primary"]] == [
        ("b-u", "old-one", "4k randread qd1"),
        ("b-u", "old-one", "4k randwrite qd1"),
    ]
    assert len(told["sentences"]) == 2
    assert len(told["overall"]) == 1
    assert {row["path"] for row in told["figures"]} == {"old one", "./b ü"}
    assert Path(told["report"]).exists()
    lanes = json.loads(Path("out/description.json").read_text())["lanes"]
    assert {lane["behind"]["kind"] for lane in lanes.values()} == {"directory"}
    assert {lane["probed"]["verdict"] for lane in lanes.values()} <= {"disks", "cache", "unknown"}
    assert Path("saved.yaml").read_text() == Path("out/study.yaml").read_text()
    assert load_study("saved.yaml")[0].lanes["b-u"].label == "./b ü"


def disks(folder: Path) -> set[str]:
    """Disks behind the folder, as the kernel names them; empty where it does not say."""
    found = subprocess.run(["lsblk", "-nso", "NAME", "--list", "-d", _source(folder)], capture_output=True, text=True,
                           check=False)  # fmt: skip
    return set(found.stdout.split())


def _source(folder: Path) -> str:
    return subprocess.run(
        ["findmnt", "-no", "SOURCE", "-T", folder], capture_output=True, text=True, check=False
    ).stdout.strip()


@pytest.mark.slow
def test_a_dry_run_says_that_both_are_on_one_disk_and_leaves_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert versus("a", "b ü", "--dry-run", "--shared", "--size", "8m", "--format", "json") == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert left(folder) == []
    assert not Path("runs").exists()
    assert [path["kind"] for path in told["paths"]] == ["directory", "directory"]
    assert told["size_bytes"] == 8 * 2**20
    assert told["looks"][-1] == told["blocks"]
    if disks(folder):
        assert told["warnings"]


def refusal(capsys: pytest.CaptureFixture[str], *args: str | Path) -> list[str]:
    assert versus(*args, "--shared") == Exit.USER_ERROR
    return [*kinds(capsys.readouterr().err)]


@pytest.mark.slow
def test_paths_that_cannot_be_compared_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("link").symlink_to("a")
    Path("file").write_bytes(os.urandom(2**20))
    assert refusal(capsys, "a", "link") == ["same-path"]
    assert refusal(capsys, "a", "nowhere") == ["path-missing"]
    assert refusal(capsys, "a", "file") == ["kinds-mixed"]
    assert refusal(capsys, "a", "b ü", "--size", "100t") == ["no-space"]
    assert refusal(capsys, "a", "b ü", "--for", "5s") == ["time-short"]
    assert refusal(capsys, "a", "b ü", "--keep-free", "101%") == ["keep-free"]
    assert refusal(capsys, "a", "b ü", "--out", "file") == ["unwritable"]
    assert refusal(capsys, "a", "b ü", "--save-study", "file") == ["file-exists"]
    assert refusal(capsys, "a", "b ü", "--dry-run", "--save-study", "nowhere/x.yaml", "--size", "8m") == ["unwritable"]
    assert refusal(capsys, "a", "b ü", "--destroy", "serial:X") == ["destroy-unknown"]
    assert refusal(capsys, "a", "b ü", "--profile", "oltpp") == ["profile-unknown"]
    assert refusal(capsys, "a", "b ü", "--profile", "log", "--bs", "4k") == ["loads-several"]
    assert left(folder) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs /dev/shm")
def test_memory_is_refused_unless_it_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    memory = Path("/dev/shm") / f"fairlane-test-{os.getpid()}"
    memory.mkdir()
    try:
        assert refusal(capsys, "a", memory) == ["in-memory"]
        assert versus("a", memory, "--buffered", "--dry-run", *SMALL) == Exit.OK
    finally:
        shutil.rmtree(memory)


def test_without_fio_the_error_says_how_to_install_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = folder / "bin"
    programs.mkdir()
    for place in ("/bin", "/usr/bin"):
        for program in Path(place).iterdir():
            if program.name != "fio" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    assert versus("a", "b ü") == Exit.USER_ERROR
    error = capsys.readouterr().err
    assert kinds(error) == ["machine-lacks"]
    assert "install fio" in error


@pytest.mark.slow
def test_files_are_read_and_never_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contents = os.urandom(4 * 2**20)
    for name in ("x", "y"):
        Path(name).write_bytes(contents)
    assert refusal(capsys, "x", "y", "--rw", "randwrite") == ["kept-written"]
    assert versus("x", "y", *SMALL[:1], *SMALL[3:], "--size", "1m", "--format", "json", "--out", "out") == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert {v["cell"] for v in told["verdicts"]} == {"4k randread qd1", "4k randread qd16"}
    assert all(Path(name).read_bytes() == contents for name in ("x", "y"))
    assert left(folder) == []


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[loops.Bench]:
    with loops.bench(tmp_path) as made:
        yield made


@pytest.mark.xdist_group("loop")
@loops.REAL[1]
def test_a_file_system_that_takes_no_file_is_refused(bench: loops.Bench, capsys: pytest.CaptureFixture[str]) -> None:
    point, _ = bench.system("full", "ext4", 64)
    room = os.statvfs(point)
    with (point / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, (room.f_bavail - 256) * room.f_frsize)
    assert refusal(capsys, "a", point, "--size", "8m") == ["no-space"]
    bench.run("mount", "-o", "remount,ro", point)
    assert refusal(capsys, "a", point, "--size", "8m") == ["read-only"]
    assert sorted(file.name for file in point.iterdir()) == ["filler", "lost+found"]


@pytest.mark.slow
def test_what_others_write_meanwhile_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not disks(folder):
        pytest.skip("the temporary folder is on no disk that is seen")
    words = ("fio", "--name=other", "--filename=other", "--size=32m", "--rw=write", "--bs=1m", "--direct=1",
             "--rate=20m", "--time_based", "--runtime=1h")  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as other:
        code = versus("a", "b ü", "--rw", "randread", "--shared", "--size", "8m", "--runtime", "1s", "--blocks", "2",
                      "--out", "out")  # fmt: skip
        other.terminate()
    assert code == Exit.OK
    capsys.readouterr()
    run(["check", "out", "--format", "json"])
    assert "other_io" in {finding["check"] for finding in json.loads(capsys.readouterr().out)["findings"]}


@pytest.mark.slow
@pytest.mark.xdist_group("loop")
@loops.REAL[1]
def test_a_disk_is_written_only_if_it_is_named_and_free(bench: loops.Bench, capsys: pytest.CaptureFixture[str]) -> None:
    free = [bench.attached(bench.file(name, 16, full=True)) for name in ("one", "two")]
    before = [Path(name).read_bytes() for name in ("one", "two")]
    assert refusal(capsys, *free, "--rw", "randwrite") == ["kept-written"]
    assert versus(*free, "--rw", "randread", *SMALL, "--out", "read") == Exit.OK
    assert [Path(name).read_bytes() for name in ("one", "two")] == before
    capsys.readouterr()
    meant = [f"--destroy=loop:{bench.folder / name}" for name in ("one", "two")]
    assert versus(*free, "--rw", "randread", *meant, *SMALL, "--out", "read too") == Exit.OK
    assert [Path(name).read_bytes() for name in ("one", "two")] == before
    capsys.readouterr()
    assert refusal(capsys, "a", free[0], meant[0], "--size", "8m") == ["not-confirmed"]
    assert versus("a", free[0], meant[0], "--yes", *SMALL, "--out", "both") == Exit.OK
    after = Path("one").read_bytes()
    assert after[: 8 * 2**20] != before[0][: 8 * 2**20]
    assert after[8 * 2**20 :] == before[0][8 * 2**20 :]
    capsys.readouterr()
    assert refusal(capsys, *free, "--rw", "randwrite", *meant, "--size", "8m") == ["not-confirmed"]
    assert versus(*free, "--rw", "randwrite", *meant, "--yes", *SMALL, "--out", "written") == Exit.OK
    assert all(Path(name).read_bytes() != was for name, was in zip(("one", "two"), before, strict=True))
    capsys.readouterr()
    _, mounted = bench.system("mounted", "ext4", 64)
    image = bench.folder / "mounted.img"
    assert refusal(capsys, free[0], mounted, "--rw", "randwrite", meant[0], f"--destroy=loop:{image}") == [
        "device-used"
    ]


@pytest.mark.slow
def test_the_profile_etcd_is_checked_against_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    code = versus("a", "b ü", "--profile", "etcd", "--shared", "--runtime", "2s", "--blocks", "2")
    out = capsys.readouterr().out.splitlines()
    assert code == Exit.OK
    assert sum(line.startswith(("PASS ", "FAIL ", "? ")) for line in out[-24:]) == 2
    assert "2300b write" in out[-2]


def begun() -> subprocess.Popen[bytes]:
    """A comparison of some seconds, whose words are in the file ``log``."""
    words = ("env", "--default-signal=INT", sys.executable, "-m", "fairlane", "versus", "a", "b ü", "--shared",
             "--runtime", "3s", "--blocks", "2", "--size", "64m", "--out", "out")  # fmt: skip
    with Path("log").open("wb") as log:
        return subprocess.Popen(words, stdout=log, stderr=log)


def test_what_killed_ones_left_is_cleaned_and_only_that(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a/.fairlane-0123456789-a").touch()  # on no run's list
    assert versus("--clean") == Exit.OK
    assert left(folder) == [str(folder / "a/.fairlane-0123456789-a")]


def test_a_job_file_says_itself_whether_it_is_buffered(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.fio").write_text("[a]\nrw=read\n")
    assert versus("a", "b ü", "--job-file", "x.fio", "--buffered") == Exit.USER_ERROR
    assert "buffered-job-file" in capsys.readouterr().err


@pytest.mark.slow
def test_a_directory_that_vanishes_is_named(folder: Path) -> None:
    process = begun()
    _until(lambda: process.poll() is not None or "of at most" in Path("log").read_text())
    shutil.rmtree(Path("b ü").rename("gone"))  # at once
    assert process.wait() == Exit.RUN_FAILED, Path("log").read_text()
    *_, error, hint = Path("log").read_text().splitlines()
    assert str(folder / "b ü/.fairlane-") in error
    assert "its directory is gone [file-missing]" in error
    assert hint == f"Hint: was {folder / 'b ü'} removed, or its file system unmounted?"
    assert left(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", ["look", "fill", "load"])
def test_killed_at_any_moment_it_leaves_no_file(folder: Path, number: signal.Signals, moment: str) -> None:
    process = begun()
    wanted = {"look": "inspecting", "fill": "filling", "load": "of at most"}[moment]

    def arrived() -> bool:
        assert process.poll() is None, Path("log").read_text()
        return wanted in Path("log").read_text() and (moment == "load" or left(folder) != [])

    _until(arrived)
    process.send_signal(number)
    process.wait()
    _until(lambda: left(folder) == [])
    told = Path("log").read_text()
    assert process.returncode in (Exit.INTERRUPTED, -number), told
    if moment == "load" and number == signal.SIGINT:
        assert "fairlane versus --resume out" in told


def _until(true: Any) -> None:
    while not true():
        time.sleep(0.02)
