"""Databases on this machine: a real PostgreSQL in directories and on block devices, and everything that goes wrong."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fairlane.workloads._postgresql import FOLDERS
from tests.platforms.hosts.database_bench import (
    commands,
    left,
    observations,
    other_commits,
    reachable,
    servers,
    small_disk,
    started,
)  # fmt: skip
from tests.platforms.hosts.hosts_bench import WORK, Bench, identity, study, until
from tests.words import kinds

INSTALLED = any(Path("/").glob(f"{folder[1:]}/postgres") for folder in FOLDERS)
pytestmark = pytest.mark.skipif(not INSTALLED, reason="needs PostgreSQL")
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

SETTINGS = {"shared_buffers": "16MB", "max_wal_size": "64MB"}


@pytest.fixture
def bench() -> Iterator[Bench]:
    with reachable() as made:
        yield made


def database(lanes: Mapping[str, Mapping[str, Any]], **keys: Any) -> dict[str, Any]:
    load = {"kind": "oltp", "load": "pgbench", "scale": 2, "settings": SETTINGS, "clients": [2], "runtime": "1s",
            "ramp": "1s", **keys}  # fmt: skip
    return study(lanes, workloads={"db": load}, platform={"size": "420m", "keep_free": "0%"})


@pytest.mark.slow
def test_two_directories_are_compared_by_transactions(bench: Bench) -> None:
    lanes = {"a": bench.lane("a"), "new": bench.lane("b c")}  # notes that are being written are called so, too
    file = bench.write(database(lanes, ramp="0s"))
    run = bench.folder / "run"
    done = bench.run("run", str(file), "--out", str(run))
    assert done.returncode == 0, done.stderr
    (verdict,) = [v for v in json.loads((run / "verdicts.json").read_text()) if v["primary"]]
    assert (verdict["metric"], verdict["blocks"], verdict["voided"]) == ("tps", 2, 0)
    assert " tps " in done.stdout
    for trial in observations(run):
        metrics, context = trial["metrics"], trial["context"]
        # a transaction writes five rows, and its commit is flushed before it is acknowledged
        assert metrics["wal_per_tx"] > 300
        assert 0 <= other_commits(trial) < 100
        assert context["database"]["vacuums_running"] == 0 == context["database"]["dead_tuples"]
        assert 0 < metrics["lat_p50"] < metrics["lat_p95"] if "lat_p95" in metrics else metrics["lat_p50"] > 0
        assert metrics["tps"] == context["load"]["processed"]
        conditions = context["conditions"]
        assert (conditions["pg_shared_buffers"], conditions["pg_max_wal_size"]) == ("16MB", "64MB")
        assert conditions["pg_synchronous_commit"] == "on"
    fingerprint = json.loads((run / "fingerprint.json").read_text())
    assert observations(run)[0]["context"]["conditions"]["database_version"] in fingerprint["postgresql"]
    assert left(bench, run) == []


@contextmanager
def loop_devices(bench: Bench, count: int) -> Iterator[list[str]]:
    """Loop devices of 420 MiB, by their identities."""
    nodes, names = [], []
    try:
        for number in range(count):
            file = bench.folder / f"disk{number}"
            with file.open("wb") as handle:
                handle.truncate(420 * 2**20)
            for free in range(340, 380):
                node = f"/dev/loop{free}"
                if subprocess.run(["losetup", node, str(file)], check=False, capture_output=True).returncode == 0:
                    nodes.append(node)
                    names.append(f"loop:{file}")
                    break
            else:
                pytest.skip("no loop device from 340 to 379 is free")
        yield names
    finally:
        for node in nodes:
            subprocess.run(["losetup", "--detach", node], check=True)


@root
@pytest.mark.slow
@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
def test_block_devices_get_a_file_system_that_is_mounted_while_it_is_used(bench: Bench, filesystem: str) -> None:
    with loop_devices(bench, 2) as names:
        lanes = {lane: {"transport": "device", "identity": name, "destroy": name}
                 for lane, name in zip("ab", names, strict=True)}  # fmt: skip
        keys = {"transactions": "simple-update", "rate": 100, "filesystem": filesystem, "ramp": "0s", "runtime": "2s"}
        file = bench.write(database(lanes, **keys))
        run = bench.folder / "run"
        done = bench.run("run", str(file), "--out", str(run))
        assert done.returncode == 0, done.stderr
        for trial in observations(run):
            assert trial["context"]["conditions"]["filesystem"] == filesystem
            assert trial["context"]["database"]["disk"]["name"].startswith("loop")
            assert trial["metrics"]["flushes_per_tx"] > 0
            assert trial["metrics"]["tps"] < 150  # as scheduled
        assert left(bench, run) == []


@pytest.mark.slow
@pytest.mark.parametrize("keeper", [False, True])
def test_a_killed_run_leaves_no_server(bench: Bench, keeper: bool) -> None:
    """``keeper``: what the machine itself would end with the program is killed with it, as by a power cut."""
    file = bench.write(database({"a": bench.lane("a"), "b": bench.lane("b")}, runtime="60s"))
    run = bench.folder / "run"
    with bench.running("run", str(file), "--out", str(run)) as process:
        until(lambda: started(run) and "pgbench" in commands(identity(run)))
        assert servers(bench.folder) != []
        own = WORK / f"fairlane-{identity(run)}"
        if keeper:
            os.kill(int((own / "keeper").read_text().split()[0]), signal.SIGKILL)
        process.kill()
        process.wait()
    if keeper:
        assert servers(bench.folder) != []
        until(lambda: bench.run("hosts", "clean", "local", "--run", identity(run)).returncode == 0 and not own.exists())
    until(lambda: not own.exists() and left(bench, run) == [])  # the keeper outlives its folder by a moment


@pytest.mark.slow
def test_a_volume_that_fills_up_fails_the_trial_with_one_sentence(bench: Bench) -> None:
    with small_disk(bench, 700) as small:
        lanes = {"b": bench.lane("b"), "a": {**bench.lane("small/a")}}
        file = bench.write(database(lanes, runtime="15s", ramp="0s", clients=[4]))
        run = bench.folder / "run"
        with bench.running("run", str(file), "--out", str(run)) as process:
            # under load, not while the database is made
            until(lambda: started(run) and servers(small) and "pgbench" in commands(identity(run)))
            fill = small / "fill"
            with suppress(OSError), fill.open("wb") as handle:
                while True:
                    handle.write(b"x" * 2**20)
            until(lambda: process.poll() is not None)
        failed = [trial["failed"] for trial in observations(run) if trial["failed"]]
        assert failed
        assert all("the volume is full: " in reason and reason.count("No space left") == 1 for reason in failed)
        fill.unlink()
        assert left(bench, run) == []
        assert [path.name for path in (small / "a").iterdir()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"settings": {**SETTINGS, "work_mem": "banana"}}, ["the server does not start", "banana"]),
        ({"settings": {**SETTINGS, "shared_buffers": "900TB"}, "fits_buffer": True}, ["the server does not start"]),
        ({"version": 99}, ["PostgreSQL 99 is not installed"]),
        ({"sql": "select no_such_column from pgbench_branches;"}, ["no_such_column"]),
    ],
)
def test_what_cannot_run_says_why_and_leaves_nothing(bench: Bench, keys: dict[str, Any], words: list[str]) -> None:
    file = bench.write(database({"a": bench.lane("a"), "b": bench.lane("b")}, **keys))
    run = bench.folder / "run"
    done = bench.run("run", str(file), "--out", str(run))
    assert all(word in done.stderr for word in words), done.stderr
    assert left(bench, run) == []


@root
@pytest.mark.slow
def test_a_missing_client_is_found_before_anything_is_made(bench: Bench) -> None:
    empty = bench.folder / "empty"
    empty.mkdir()
    file = bench.write(database({"a": bench.lane("a"), "b": bench.lane("b")}))
    words = bench.command("run", str(file), "--out", str(bench.folder / "run"))
    hide = f'mount --bind {empty} /usr/lib/postgresql && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", hide, "sh", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "program-missing" in kinds(done.stderr)
    assert "postgres" in done.stderr
    assert bench.files() == []


@pytest.mark.slow
def test_a_database_needs_room_and_a_volume_for_itself(bench: Bench) -> None:
    content = database({"a": bench.lane("a"), "b": bench.lane("b")}, scale=20)
    done = bench.run("run", str(bench.write(content)), "--dry-run")
    assert kinds(done.stderr) == ["working-set"]
    content = database({"a": bench.lane("a"), "b": bench.lane("b")})
    content["workloads"]["main"] = {"kind": "fio", "rw": ["randread"], "runtime": "300ms"}
    done = bench.run("run", str(bench.write(content)), "--dry-run")
    assert kinds(done.stderr) == ["loads-mixed"]
    content["workloads"] = {"db": {"kind": "oltp", "load": "hammerdb", "database": "mariadb"}}
    done = bench.run("run", str(bench.write(content)), "--dry-run")
    assert kinds(done.stderr) == ["workload-unsupported"]
