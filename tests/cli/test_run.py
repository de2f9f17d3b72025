"""``fairlane run`` from the outside: real processes on the fake platform, killed, interrupted, out of disk."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.runs import journal
from testkit.held import HeldRun
from testkit.process import Fairlane, events
from tests.figures import figures
from tests.words import kinds

STUDY = """\
name: small
baseline: iscsi
platform: {kind: fake}
lanes:
  iscsi: {transport: iscsi}
  nvme-tcp: {transport: nvme_tcp}
workloads:
  main: {kind: fio, rw: [randread, randwrite], bs: [4k], iodepth: [1, 16], runtime: 1s}
design: {looks: [3, 6]}
"""
DERIVED = ("observations.jsonl", "verdicts.json", "schedule.jsonl", "study.yaml")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(STUDY)
    Path("other.yaml").write_text(STUDY.replace("fake}", "fake, latency: 90us}"))
    Path("long.yaml").write_text(STUDY.replace("[3, 6]", "[24]"))
    return tmp_path


def changed(platform: str) -> None:
    """Adds a key to the platform of ``study.yaml``."""
    Path("study.yaml").write_text(STUDY.replace("fake}", f"fake, {platform}}}"))


def same(one: Path, other: Path) -> None:
    """Equal results; raw files too."""
    for name in DERIVED:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    files = [{p.name: p.read_bytes() for p in (run / "raw").iterdir()} for run in (one, other)]
    assert files[0] == files[1]


def once_each(folder: Path) -> None:
    """No trial is journaled twice, and none that was repeated differed."""
    trials = [(e["cell"], e["block"], e["lane"]) for e in events(folder, "trial")]
    assert len(trials) == len(set(trials))
    assert not events(folder, "mismatch")


# --- what it prints and writes ------------------------------------------------------------------------------------


def test_table_goes_to_stdout_and_the_rest_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "study.yaml", "--out", "out"]) == Exit.OK
    out, err = capsys.readouterr()
    assert "nvme-tcp" in out
    assert "trials" not in out.splitlines()[0]
    assert out.splitlines()[-1] == "report: out/report.html"
    assert "out" in err.split()
    assert ["24", "24"] in [figures(line) for line in err.splitlines()]
    for name in (*DERIVED, "report.html", "report.md", "run.json", "description.json", "fingerprint.json"):
        assert Path("out", name).stat().st_size > 0


def test_json_and_md_are_all_of_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    run(["run", "study.yaml", "--out", "out", "--format", "json"])
    verdicts = json.loads(capsys.readouterr().out)
    wanted = {"lane", "baseline", "cell", "metric", "ratio", "low", "high", "verdict", "blocks"}
    assert all(wanted <= verdict.keys() for verdict in verdicts)
    assert verdicts == json.loads(Path("out/verdicts.json").read_text())
    run(["run", "--resume", "out", "--format", "md"])
    assert capsys.readouterr().out == Path("out/report.md").read_text()


def test_default_folder_is_named_after_study_and_time() -> None:
    assert run(["run", "study.yaml", "--blocks", "2"]) == Exit.OK
    assert run(["run", "study.yaml", "--blocks", "2"]) == Exit.OK
    names = [p.name for p in Path("runs").iterdir()]
    assert len(names) == 2
    assert all(name.startswith("small-2") for name in names)


def test_options_are_in_force_and_written_down() -> None:
    run(["run", "study.yaml", "--out", "out", "--blocks", "2", "--seed", "7", "--jobs", "1"])
    manifest = json.loads(Path("out/run.json").read_text())
    assert (manifest["looks"], manifest["seed"]) == ([2], 7)
    assert Path("out/study.yaml").read_text() == Path("study.yaml").read_text()
    assert len(Path("out/observations.jsonl").read_text().splitlines()) == 2 * 4 * 2


def test_dry_run_prints_the_plan_and_creates_nothing(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    before = sorted(folder.iterdir())
    assert run(["run", "study.yaml", "--dry-run"]) == Exit.OK
    assert "4k randwrite qd16" in capsys.readouterr().out
    assert sorted(folder.iterdir()) == before


def test_dry_run_tells_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    changed("effects: {nvme: {speed: 2}, isci: {speed: 2}}")
    for args in (["--dry-run"], []):
        assert run(["run", "study.yaml", *args]) == Exit.USER_ERROR
        err = capsys.readouterr().err
        assert kinds(err) == ["lane-unknown", "lane-unknown"]
        for name in ("'nvme'", "'isci'"):
            (line,) = (line for line in err.splitlines() if name in line)
            assert "platform.effects" in line
            assert "iscsi, nvme-tcp" in line
    assert not Path("runs").exists()


def test_any_number_of_jobs_gives_the_same_result() -> None:
    for jobs in "1", "4":
        assert run(["run", "study.yaml", "--out", f"{jobs}/small", "--jobs", jobs]) == Exit.OK
    same(Path("1/small"), Path("4/small"))
    assert timeless(Path("1/small/report.md")) == timeless(Path("4/small/report.md"))


def timeless(report: Path) -> str:
    """The report without its date and duration."""
    return re.sub(r"(Date|Duration): [^;]*", r"\1", report.read_text())


def test_a_run_that_lacks_blocks_prints_what_it_knows_and_the_way_on_and_is_exit_3(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changed("deaths: 15%")
    assert run(["run", "study.yaml", "--out", "out"]) == Exit.RUN_FAILED
    out, err = capsys.readouterr()
    assert kinds(err) == ["blocks-missing"]
    assert "fairlane run --resume out" in err
    assert "report: out/report.html" in out
    assert "unfinished" in Path("out/report.html").read_text()
    assert {v["cell"] for v in json.loads(Path("out/verdicts.json").read_text())}


def test_a_run_in_which_nothing_worked_is_exit_3_and_has_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    changed("failures: 100%")
    assert run(["run", "study.yaml", "--out", "out"]) == Exit.RUN_FAILED
    out, err = capsys.readouterr()
    assert kinds(err) == ["all-trials-failed"]
    assert "fio: io_u error" in err
    verdicts = json.loads(Path("out/verdicts.json").read_text())
    assert {v["verdict"] for v in verdicts if v["primary"]} == {"refused"}
    ((reason,),) = {tuple(v["notes"]) for v in verdicts if v["primary"]}
    assert reason in " ".join(out.split())
    assert reason in Path("out/report.md").read_text()
    assert run(["check", "out", "--format", "json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(f["check"], f["kind"], f["lanes"]) for f in found] == [
        ("failed_trials", "all-failed", [lane]) for lane in ("iscsi", "nvme-tcp")
    ]


# --- which run is resumed -----------------------------------------------------------------------------------------


def unfinished(out: str, *options: str) -> Path:
    """A run whose end is cut off."""
    assert run(["run", "study.yaml", "--out", out, *options]) == Exit.OK
    path = Path(out, "journal.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:7]) + lines[7][:30])
    return Path(out)


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", [["out"], ["study.yaml", "--out", "out"], ["out", "--out", "out/"], ["out", "--blocks", "3", "--seed", "1"]]
)
def test_run_is_resumed_from_its_folder(args: list[str]) -> None:
    whole = Path("whole")
    run(["run", "study.yaml", "--out", "whole", "--blocks", "3"])
    folder = unfinished("out", "--blocks", "3")
    assert run(["run", "--resume", *args]) == Exit.OK
    same(folder, whole)
    once_each(folder)
    assert len(events(folder, "resume")) == 1


@pytest.mark.slow
def test_newest_unfinished_run_of_the_study_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    unfinished("runs/small-1")
    time.sleep(0.01)
    newest = unfinished("runs/a-name-that-sorts-first")
    run(["run", "study.yaml", "--out", "runs/small-3"])  # finished
    Path("runs/not-a-run").mkdir()
    assert run(["run", "study.yaml", "--resume"]) == Exit.OK
    assert str(newest) in capsys.readouterr().err.split()
    assert run(["run", "study.yaml", "--resume"]) == Exit.OK
    assert "runs/small-1" in capsys.readouterr().err.split()
    assert run(["run", "study.yaml", "--resume"]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == ["run-none"]
    assert figures(err) == ["3"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "kind", "token"),
    [
        (["study.yaml", "--out", "out"], "run-exists", "--resume"),
        (["out"], "run-not-study", "--resume"),
        (["--resume", "other.yaml", "--out", "out"], "run-other-study", "out/study.yaml"),
        (["--resume", "out", "--seed", "5"], "run-options", "--seed 5"),
        (["--resume", "out", "--blocks", "5"], "run-options", "--blocks 5"),
        (["--resume", "out", "--quick"], "run-options", "--quick"),
        (["--resume", "out", "--out", "other"], "run-ambiguous", "other"),
        (["--resume", "other.yaml"], "run-none", "other.yaml"),
        (["absent.yaml"], "study-unknown", "absent.yaml"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    args: list[str], kind: str, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = unfinished("out")
    before = Path(folder, "journal.jsonl").read_bytes()
    capsys.readouterr()
    assert run(["run", *args]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == [kind]
    assert token in err
    assert "Hint: " in err
    assert Path(folder, "journal.jsonl").read_bytes() == before


def test_a_preset_is_meant_though_a_run_has_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    unfinished("fake")
    assert run(["run", "fake", "--out", "fresh", "--dry-run"]) == Exit.OK
    assert kinds(capsys.readouterr().err) == []


def test_run_killed_before_it_had_a_folder_begins_afresh() -> None:
    assert run(["run", "study.yaml", "--out", "out", "--resume"]) == Exit.OK
    assert Path("out/observations.jsonl").exists()


# --- killed ---------------------------------------------------------------------------------------------------------

FORKS = """
import os, random, signal, sys
from pathlib import Path
from fairlane.cli import main, run, _progress
from fairlane import registry
from fairlane.platforms import fake
from fairlane.runs import plan, read
from fairlane.trial import runner
from fairlane.checks import base
from fairlane.cli import _answer
from fairlane.report import bundle, model
import fairlane.stats.judge
class Killed(fake.Fake):
    passed = 0
    async def run_block(self, block):
        async for trial in super().run_block(block):
            yield trial
            Killed.passed += 1
            if Killed.passed == goal:
                kill()
def kill():  # by the CPU time that this process takes, so that the moment does not depend on what else runs here
    signal.setitimer(signal.ITIMER_PROF, seconds)
fake.PLUGIN = Killed
for package in ("platforms", "workloads", "lanes", "probes", "checks"):
    list(registry.every(package))
dice = random.Random(int(sys.argv[1]))
reached = []
for _ in range(int(sys.argv[2])):
    goal = 1 + int(dice.expovariate(1 / 4)) if dice.random() < 0.7 else 0  # trials; 0: before the first, perhaps
    seconds = 1e-6 + dice.expovariate(1 / 0.02)  # 0 would be no timer
    child = os.fork()
    if not child:
        if not goal:
            kill()
        os._exit(main.run(["run", "long.yaml", "--out", "out", "--resume", "--jobs", "2"]))
    os.waitpid(child, 0)
    path = Path("out/journal.jsonl")
    reached.append(path.read_bytes().count(b'"trial"') if path.exists() else 0)
print(*reached)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_many_random_moments_and_resumed(folder: Path) -> None:
    seed, kills = (int(os.environ.get(f"FAIRLANE_TEST_{name}", usual)) for name, usual in (("SEED", 1), ("KILLS", 25)))
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(seed), str(kills)], text=True, stdout=subprocess.PIPE, check=True
    )
    reached = [int(n) for n in done.stdout.splitlines()[-1].split()]
    assert reached == sorted(reached)  # nothing that was done is lost
    assert len(set(reached)) > 3, reached
    assert run(["run", "long.yaml", "--out", "out", "--resume"]) == Exit.OK
    assert run(["run", "long.yaml", "--out", "whole"]) == Exit.OK
    same(Path("out"), Path("whole"))
    once_each(Path("out"))


@pytest.mark.slow
def test_process_killed_from_outside() -> None:
    with HeldRun("run", "study.yaml", "--out", "out", "--jobs", "2", workers=2) as process:
        process.let(5)
        process.kill()
    assert len(events(Path("out"), "trial")) == 5
    assert run(["run", "--resume", "out"]) == Exit.OK
    assert run(["run", "study.yaml", "--out", "whole"]) == Exit.OK
    same(Path("out"), Path("whole"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(number: signal.Signals) -> None:
    with HeldRun("run", "study.yaml", "--out", "out", "--jobs", "2", workers=2) as process:
        process.let(3)
        while process.running:  # an impatient user, up to the very end
            process.send(number)
            time.sleep(0.02)
        code, out, err = process.end()
    assert code == Exit.INTERRUPTED, err
    assert out == ""
    assert err.rstrip().endswith("fairlane run --resume out")
    assert "Hint: " in err
    assert len(events(Path("out"), "trial")) == 3
    assert run(["run", "--resume", "out", "--jobs", "12"]) == Exit.OK
    once_each(Path("out"))


@pytest.mark.slow
def test_second_process_on_the_same_run_is_turned_away() -> None:
    with HeldRun("run", "study.yaml", "--out", "out", "--jobs", "1") as first:
        first.let(1)
        with Fairlane("run", "--resume", "out") as second:
            code, _, err = second.end()
        assert code == Exit.USER_ERROR
        assert kinds(err) == ["run-busy"]
        first.let(1)  # the first is not disturbed
    assert len(events(Path("out"), "trial")) == 2


# --- no room --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Callable[[], None]]:
    """Mounts a disk on ``out`` that the run does not fit on; gives what makes it larger."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    Path("disk").mkdir()

    def enlarge() -> None:
        subprocess.run(["mount", "-o", "remount,size=50m", "disk"], check=True)

    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=160k", "test", "disk"], check=False, capture_output=True
    )
    if mount.returncode:
        pytest.skip(f"cannot mount: {mount.stderr.decode()}")
    try:
        yield enlarge
    finally:
        subprocess.run(["umount", "disk"], check=True)


@pytest.mark.slow
def test_full_disk_ends_the_run_and_room_lets_it_go_on(small_disk: Callable[[], None]) -> None:
    with Fairlane("run", "study.yaml", "--out", "disk/out", "--jobs", "2") as process:
        code, _, err = process.end()
    assert code == Exit.RUN_FAILED, err
    assert kinds(err) == ["unwritable"]
    assert "disk/out" in err
    assert len(events(Path("disk/out"), "trial")) > 3
    small_disk()
    assert run(["run", "--resume", "disk/out"]) == Exit.OK
    once_each(Path("disk/out"))
    run(["run", "study.yaml", "--out", "whole"])
    same(Path("disk/out"), Path("whole"))


@pytest.mark.slow
def test_journal_that_may_not_grow_ends_the_run() -> None:
    with Fairlane("run", "study.yaml", "--out", "out", "--jobs", "2", under=("prlimit", "--fsize=4000")) as process:
        code, _, err = process.end()
    assert code == Exit.RUN_FAILED, err
    text = Path("out/journal.jsonl").read_bytes()
    assert text.endswith(b"\n")
    assert len(text) <= 4000
    assert run(["run", "--resume", "out"]) == Exit.OK
    run(["run", "study.yaml", "--out", "whole"])
    same(Path("out"), Path("whole"))


def test_a_study_of_several_provisionings_comes_to_its_end(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "study.yaml").read_text().replace("looks: [3, 6]", "looks: [4, 8], provisionings: 2")
    (folder / "anew.yaml").write_text(text)
    assert run(["run", "anew.yaml", "--out", "anew"]) == Exit.OK
    made = [event["provisioning"] for event in journal.read(folder / "anew") if "provisioning" in event]
    assert made == [0, 1]
    assert "first interval" in capsys.readouterr().err
