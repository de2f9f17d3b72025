"""Known loads on a real disk, captured with the kernel's trace and fitted; their replays."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlane.capture import compare, replay, target, watch
from fairlane.capture.record import load as load_capture
from fairlane.capture.record import parse
from fairlane.capture.shape import shape
from fairlane.capture.workload import workload
from fairlane.cli.main import run as fairlane
from fairlane.errors import FairlaneError, Refused, RunFailed
from tests.capture.live import BUSY, captured, left, load, loop_device, needs_trace, stat
from tests.words import kind

pytestmark = [needs_trace, pytest.mark.speed, pytest.mark.xdist_group("capture")]  # they count what is left behind


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    with loop_device(tmp_path / "disk.img") as device:
        yield device
    assert left() == []


def fitted(device: str, *jobs: str, closed: bool = False, seconds: int = 4) -> dict[str, Any]:
    found = shape(captured(device, *jobs, seconds=seconds))
    keys = dict(workload(found, closed=closed).keys)
    replay.spec(keys, "")  # a study takes it
    return keys


@pytest.mark.slow
def test_4k_random_reads_one_at_a_time(disk: str) -> None:
    keys = fitted(disk, "rw=randread bs=4k ioengine=psync rate_iops=500 size=128m")
    assert keys["rw"] == ["randread"]
    assert keys["bs"] == ["4k"]
    assert keys["iodepth"] == [1]
    assert keys["rate_iops"][0] == pytest.approx(500, rel=BUSY)
    assert not keys.keys() & {"random_distribution", "percentage_random", "fdatasync", "thinktime", "jobs"}


@pytest.mark.slow
def test_a_mix_at_a_depth_of_8(disk: str) -> None:
    keys = fitted(disk, "rw=randrw rwmixread=70 bs=8k ioengine=io_uring iodepth=8", closed=True)
    assert keys["rw"] == ["randrw"]
    assert keys["bs"] == ["8k"]
    assert keys["rwmixread"][0] == pytest.approx(70, abs=2)
    assert keys["iodepth"][0] == pytest.approx(8, abs=1)
    assert "rate_iops" not in keys


@pytest.mark.slow
def test_a_hot_spot(disk: str) -> None:
    keys = fitted(disk, "rw=randread bs=4k ioengine=io_uring iodepth=4 random_distribution=zipf:1.2")
    name, _, theta = keys["random_distribution"].partition(":")
    assert name == "zipf"
    assert float(theta) == pytest.approx(1.2, abs=0.1)


@pytest.mark.slow
def test_a_log_that_is_synced_after_each_write(disk: str) -> None:
    keys = fitted(disk, "rw=write bs=64k ioengine=psync fdatasync=1 rate_iops=100 size=64m")
    assert keys["rw"] == ["write"]
    assert keys["bs"] == ["64k"]
    assert keys["fdatasync"] == [1]
    assert keys["iodepth"] == [1]
    assert keys["rate_iops"][0] == pytest.approx(100, rel=BUSY)


THREE = (
    "rw=write bs=64k ioengine=psync fdatasync=1 rate_iops=100 offset=128m size=64m",
    "rw=randread bs=4k ioengine=io_uring iodepth=4 rate_iops=400 size=64m",
    "rw=randwrite bssplit=8k/70:16k/30 ioengine=psync rate_iops=256 size=64m",
)
"""A log, readers and a writer of pages; fio makes 200 I/Os per second of the last rate: it counts them as 8k."""


def test_three_loads_at_once_are_told_apart(disk: str) -> None:
    jobs = fitted(disk, *THREE)["jobs"]
    assert sorted(jobs) == ["reads", "write-random", "write-stream"]
    assert {name: job["rw"] for name, job in jobs.items()} == {
        "reads": "randread",
        "write-random": "randwrite",
        "write-stream": "write",
    }
    assert {name: job.get("fdatasync") for name, job in jobs.items()} == {
        "reads": None,
        "write-random": None,
        "write-stream": 1,
    }
    rates = [jobs[name]["rate_iops"] for name in ("write-stream", "reads", "write-random")]
    assert rates == pytest.approx([100, 400, 200], rel=BUSY)
    sizes = dict(entry.split("/") for entry in jobs["write-random"]["bssplit"].split(":"))
    assert sizes.keys() == {"8k", "16k"}
    assert int(sizes["8k"]) == pytest.approx(70, abs=6)


@pytest.mark.slow
def test_bursts_become_pauses(disk: str) -> None:
    keys = fitted(disk, "rw=randread bs=4k ioengine=io_uring iodepth=8 thinktime=200ms thinktime_blocks=200")
    pause = int(keys["thinktime"].removesuffix("us").removesuffix("ms"))
    assert (pause if keys["thinktime"].endswith("ms") else pause / 1000) == pytest.approx(200, rel=0.3)
    assert keys["thinktime_blocks"] == pytest.approx(200, rel=0.3)
    assert "rate_iops" not in keys


def test_an_idle_disk_is_written_to_by_nobody(disk: str) -> None:
    before = stat(disk)
    found = watch.watch(target.look(disk), 2)
    assert stat(disk)[4:8] == before[4:8]
    with pytest.raises(FairlaneError, check=kind("capture-idle")):
        workload(shape(found))


@pytest.mark.slow
def test_a_replay_resembles_its_capture(disk: str, tmp_path: Path) -> None:
    before = shape(captured(disk, *THREE, seconds=6))
    done = replay.replay(dict(workload(before).keys), tmp_path, 6)
    table = compare.rows(before, shape(done.capture), scaled=done.scale < 1)
    # a busy machine slows the loads themselves: what they are is compared strictly, how fast they are is not
    most = {"distance": 0.15, "points": 0.12, "relative": 0.35}
    assert [row for row in table if row.judged and abs(row.deviation) > most[row.how]] == []
    assert len(table) >= 12
    assert [path.name for path in tmp_path.iterdir()] == ["disk.img"]


@pytest.mark.slow
def test_another_load_does_not_resemble_it(disk: str, tmp_path: Path) -> None:
    before = shape(captured(disk, THREE[0]))
    other = {"kind": "fio", "rw": ["randread"], "bs": ["4k"], "rate_iops": [100], "size": "64m"}
    table = compare.rows(before, shape(replay.replay(other, tmp_path, 4).capture))
    assert compare.sentence(table).startswith("The replay does not resemble the capture")


def test_counters_alone_give_rates_sizes_and_flushes(disk: str) -> None:
    found = captured(disk, THREE[0], source="counters")
    assert found.trace is None
    assert found.gaps
    counted = shape(found)
    assert counted.parts["write"].iops == pytest.approx(100, rel=BUSY)
    assert counted.parts["write"].size == pytest.approx(65536, rel=0.02)
    assert counted.writes_per_flush == pytest.approx(1, rel=0.15)
    assert dict(workload(counted).keys)["fdatasync"] == [1]


class _Nobody(target.Place):
    """This machine, for a user without rights."""

    def start(self, words: Any) -> "subprocess.Popen[bytes]":
        return super().start(("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words))


def test_without_root_only_the_counters_are_read(disk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "Place", _Nobody)
    there = target.look(disk)
    assert not there.root
    with load(disk, THREE[0]):
        found = watch.watch(there, 3)
    assert found.sources == ("diskstats",)
    assert shape(found).parts["write"].iops == pytest.approx(100, rel=BUSY)
    with pytest.raises(FairlaneError, check=kind("source-missing")):
        watch.watch(there, 3, "events")


def test_blktrace_sees_the_same_or_says_why_not(disk: str) -> None:
    """A machine without debugfs, or whose kernel keeps it closed, says so."""
    there = target.look(disk)
    try:
        found = shape(captured(disk, THREE[1], source="blktrace"))
    except FairlaneError as error:
        why = error
    else:
        assert found.parts["read"].iops == pytest.approx(400, rel=BUSY)
        return
    assert why.kind == ("trace-failed" if there.debugfs else "source-missing")
    assert "debug" in why.message


def command(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "fairlane", "capture", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_instance() -> None:
    while not left():
        time.sleep(0.05)
    time.sleep(1.5)


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_captured(disk: str, tmp_path: Path) -> None:
    out = tmp_path / "captured.yaml"
    with load(disk, THREE[1]):
        process = command(disk, "--for", "10m", "--out", str(out))
        wait_for_instance()
        process.send_signal(signal.SIGINT)
        assert process.communicate()[0]
    assert process.returncode == 0
    found = load_capture(out.with_suffix(".json"))
    assert found.interrupted
    assert shape(found).parts["read"].iops == pytest.approx(400, rel=BUSY)
    assert yaml.safe_load(out.read_text())["rw"] == ["randread"]


def test_a_killed_capture_leaves_no_trace_behind(disk: str) -> None:
    process = command(disk, "--for", "10m")
    wait_for_instance()
    process.kill()
    process.communicate()
    while left():
        time.sleep(0.1)


def test_a_disk_of_another_machine_over_ssh(
    disk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ssh = tmp_path / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text(
        '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\n[ "$2" = db1 ] || { echo "no such host" >&2; exit 255; }\n'
        'exec sh -c "$3"\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    with load(disk, THREE[1]):
        assert fairlane(["capture", f"db1:{disk}", "--for", "3s", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["shape"]["parts"]["read"]["iops"] == pytest.approx(400, rel=BUSY)
    assert told["disk"]["asked"] == f"db1:{disk}"
    with pytest.raises(RunFailed, check=kind("unreachable")):
        target.look(f"db2:{disk}")


def test_a_replay_writes_to_no_disk_and_over_no_file(disk: str, tmp_path: Path) -> None:
    writing = {"kind": "fio", "rw": ["randwrite"], "bs": ["4k"], "size": "16m"}
    with pytest.raises(Refused, check=kind("replay-writes")):
        replay.replay(writing, Path(disk), 2)
    mine = tmp_path / "mine"
    mine.write_text("precious")
    with pytest.raises(Refused, check=kind("replay-exists")):
        replay.replay(writing, mine, 2)
    assert mine.read_text() == "precious"


WRITER = {"kind": "fio", "rw": ["randrw"], "bs": ["4k"], "size": "16m", "engine": "psync", "numjobs": [2]}


def marked() -> list[str]:
    """fio's processes of a replay."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"FAIRLANE_REPLAY=" in (process / "environ").read_bytes():
                found.append((process / "comm").read_text().strip())
        except OSError:
            continue
    return found


def loops_in(folder: Path) -> list[str]:
    listed = subprocess.run(["losetup", "-nO", "BACK-FILE"], check=True, capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if str(folder) in line]


@pytest.mark.parametrize("loop", [True, False])
def test_a_replay_killed_at_work_leaves_nothing(tmp_path: Path, *, loop: bool) -> None:
    if not loop:  # as without root
        (tmp_path / "losetup").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "losetup").chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="replay-test-", dir="/var/tmp") as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        text = (
            "from pathlib import Path; from fairlane.capture.replay import replay\n"
            f"replay({WRITER!r}, Path({name!r}), 600)"
        )
        words = [sys.executable, "-c", text]
        places = {"TMPDIR": f"{folder}/tmp", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        process = subprocess.Popen(words, env=os.environ | places, stderr=subprocess.PIPE)
        try:
            while marked().count("fio") < 3 and process.poll() is None:
                time.sleep(0.05)
        finally:
            process.kill()
        assert process.communicate()[1] is not None
        assert process.returncode == -signal.SIGKILL
        while marked() or any((folder / "tmp").iterdir()) or loops_in(folder):
            time.sleep(0.05)
        assert sorted(p.name for p in folder.iterdir()) == ["tmp"]


ZRAM = Path("/sys/class/zram-control")


@pytest.mark.skipif(not ZRAM.is_dir(), reason="this kernel has no zram")
def test_a_disk_without_requests_of_its_own() -> None:
    number = (ZRAM / "hot_add").read_text().strip()
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text("64M")
        device = f"/dev/zram{number}"
        if not Path(device).exists():
            subprocess.run(
                ["mknod", device, "b", *Path(f"/sys/block/zram{number}/dev").read_text().split(":")], check=True
            )
        found = captured(device, "rw=randread bs=4k ioengine=psync rate_iops=300", seconds=3)
        assert found.disk.stacked
        part = shape(found).parts["read"]
        assert part.sizes == {4096: 1.0}
        assert part.iops == pytest.approx(300, rel=BUSY)
        assert part.latency is not None
    finally:
        Path(f"/sys/block/zram{number}/reset").write_text("1")
        (ZRAM / "hot_remove").write_text(number)
    assert left() == []


def test_names_of_a_disk(disk: str, tmp_path: Path) -> None:
    name = Path(disk).name
    for asked in (disk, name, f"loop:{tmp_path}/disk.img"):
        assert target.look(asked).disk.name == name
    link = tmp_path / "link"
    link.symlink_to(disk)
    assert target.look(str(link)).disk.name == name
    with pytest.raises(FairlaneError, check=kind("disk-unknown")):
        target.look("no-such-disk")
    assert parse(watch.watch(target.look(disk), 2).dump()).disk.name == name
