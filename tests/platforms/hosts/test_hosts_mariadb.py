"""MariaDB and sysbench on this machine: real servers in directories, and everything that goes wrong."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairlane.workloads._mariadb import FOLDERS, PROGRAMS
from fairlane.workloads._postgresql import FOLDERS as OF_POSTGRESQL
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
from tests.platforms.hosts.hosts_bench import Bench, identity, study, until
from tests.words import kinds

PATH = os.pathsep.join((os.environ["PATH"], *FOLDERS))
INSTALLED = all(shutil.which(name, path=PATH) for name in (*PROGRAMS, "sysbench"))
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not INSTALLED, reason="needs MariaDB and sysbench")]

SETTINGS = {"innodb_buffer_pool_size": "8M", "innodb_log_file_size": "16M"}


@pytest.fixture
def bench() -> Iterator[Bench]:
    with reachable() as made:
        yield made


def database(lanes: Mapping[str, Mapping[str, Any]], **keys: Any) -> dict[str, Any]:
    load = {"kind": "oltp", "load": "sysbench", "tables": 2, "rows": 20_000, "settings": SETTINGS, "clients": [2],
            "runtime": "1s", "ramp": "1s", **keys}  # fmt: skip
    return study(lanes, workloads={"db": load}, platform={"size": "380m", "keep_free": "0%"})


def test_two_directories_are_compared_by_transactions(bench: Bench) -> None:
    lanes = {"a": bench.lane("a"), "new": bench.lane("b c")}
    file = bench.write(database(lanes, runtime="2s"))
    run = bench.folder / "run"
    done = bench.run("run", str(file), "--out", str(run))
    assert done.returncode == 0, done.stderr
    (verdict,) = [v for v in json.loads((run / "verdicts.json").read_text()) if v["primary"]]
    assert (verdict["metric"], verdict["blocks"], verdict["voided"]) == ("tps", 2, 0)
    assert " tps " in done.stdout
    for trial in observations(run):
        metrics, context = trial["metrics"], trial["context"]
        found = context["database"]
        # each transaction changes three rows and an index, and its redo is flushed before it is acknowledged
        assert metrics["wal_per_tx"] > 1000
        assert other_commits(trial) == 0
        assert (found["pending_io"], found["dirty_pages"], found["history_length"]) == (0, 0, 0)
        assert found["reconnects"] == 0
        assert found["bytes"] > 2 * 20_000 * 180
        assert 0 < found["hit_rate"] < 1
        assert metrics["tps"] == context["load"]["processed"] / 2
        assert found["transactions"] > context["load"]["processed"]  # the ramp's, too
        conditions = context["conditions"]
        assert conditions["mariadb_innodb_buffer_pool_size"] == str(8 * 2**20)
        assert conditions["mariadb_innodb_log_file_size"] == str(16 * 2**20)
        assert conditions["mariadb_innodb_flush_log_at_trx_commit"] == "1"
        assert conditions["mariadb_innodb_doublewrite"] == "ON"
        assert conditions["mariadb_log_bin"] == "OFF"
        assert conditions["tool_version"].startswith("1.")
    fingerprint = json.loads((run / "fingerprint.json").read_text())
    assert observations(run)[0]["context"]["conditions"]["database_version"] == fingerprint["mariadb"]
    assert left(bench, run) == []


def test_a_server_that_flushes_each_commit_is_slower_than_one_that_does_not(bench: Bench) -> None:
    """A difference that is known: of two runs on one directory, one gives up durability."""
    flushes, redo = [], []
    for name, value in (("durable", 1), ("loose", 0)):
        settings = {**SETTINGS, "innodb_flush_log_at_trx_commit": value, "log_bin": False}
        keys = {"unsafe": "to see the difference"} if name == "loose" else {}
        lanes = {"a": bench.lane("a"), "b": bench.lane("b")}
        content = database(lanes, transactions="write_only", settings=settings, runtime="2s", **keys)
        run = bench.folder / name
        done = bench.run("run", str(bench.write(content)), "--out", str(run))
        assert done.returncode == 0, done.stderr
        trials = observations(run)
        counted = [trial["context"]["database"] for trial in trials]
        assert {trial["context"]["conditions"]["mariadb_innodb_flush_log_at_trx_commit"] for trial in trials} == {
            str(value)
        }
        if all("disk" in found for found in counted):
            flushes.append(sum(f["disk"]["flushes"] for f in counted) / sum(f["transactions"] for f in counted))
        redo.append(sum(f["wal_bytes"] for f in counted) / sum(f["transactions"] for f in counted))
    assert redo[1] == pytest.approx(redo[0], rel=0.5)  # the same work
    if not flushes:
        pytest.skip("no disk that counts flushes is behind this folder")
    assert flushes[1] < flushes[0] / 2


@pytest.mark.parametrize("transactions", ["read_only", "point_select"])
def test_loads_that_only_read(bench: Bench, transactions: str) -> None:
    lanes = {"a": bench.lane("a"), "b": bench.lane("b")}
    file = bench.write(database(lanes, transactions=transactions, distribution="uniform"))
    run = bench.folder / "run"
    done = bench.run("run", str(file), "--out", str(run))
    assert done.returncode == 0, done.stderr
    for trial in observations(run):
        assert trial["metrics"]["tps"] > 0
        assert trial["context"]["database"]["wal_bytes"] < 100_000
    assert left(bench, run) == []


@pytest.mark.skipif(not any(Path("/").glob(f"{f[1:]}/postgres") for f in OF_POSTGRESQL), reason="needs PostgreSQL")
def test_sysbench_loads_postgresql_too(bench: Bench) -> None:
    settings = {"shared_buffers": "4MB", "max_wal_size": "64MB"}
    content = database({"a": bench.lane("a"), "b": bench.lane("b")}, database="postgresql", settings=settings)
    run = bench.folder / "run"
    done = bench.run("run", str(bench.write(content)), "--out", str(run))
    assert done.returncode == 0, done.stderr
    for trial in observations(run):
        assert trial["context"]["conditions"]["pg_shared_buffers"] == "4MB"
        assert 0 <= other_commits(trial) < 100
        assert trial["metrics"]["wal_per_tx"] > 300
    assert left(bench, run) == []


@pytest.mark.parametrize("keeper", [False, True])
def test_a_killed_run_leaves_no_server(bench: Bench, keeper: bool) -> None:
    file = bench.write(database({"a": bench.lane("a"), "b": bench.lane("b")}, runtime="60s"))
    run = bench.folder / "run"
    with bench.running("run", str(file), "--out", str(run)) as process:
        until(lambda: started(run) and "sysbench" in commands(identity(run)))
        assert servers(bench.folder) != []
        own = Path("/var/tmp") / f"fairlane-{identity(run)}"
        if keeper:
            os.kill(int((own / "keeper").read_text().split()[0]), signal.SIGKILL)
        process.kill()
        process.wait()
    if keeper:
        until(lambda: bench.run("hosts", "clean", "local", "--run", identity(run)).returncode == 0 and not own.exists())
    until(lambda: not own.exists() and left(bench, run) == [])  # the keeper outlives its folder by a moment


def test_a_server_that_is_killed_fails_the_trial_with_one_sentence(bench: Bench) -> None:
    file = bench.write(database({"a": bench.lane("a"), "b": bench.lane("b")}, runtime="10s", ramp="0s"))
    run = bench.folder / "run"
    with bench.running("run", str(file), "--out", str(run)) as process:
        until(lambda: started(run) and "sysbench" in commands(identity(run)))
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                ours = str(bench.folder) in str((entry / "cwd").readlink())
                if ours and (entry / "comm").read_text().strip() == "mariadbd":
                    os.kill(int(entry.name), signal.SIGKILL)
        until(lambda: process.poll() is not None)
    failed = [trial["failed"] for trial in observations(run) if trial["failed"]]
    assert any("the server ended during the load" in reason for reason in failed), failed
    assert left(bench, run) == []


@root
def test_a_volume_that_fills_up_fails_the_trial_with_one_sentence(bench: Bench) -> None:
    with small_disk(bench, 600) as small:
        lanes = {"b": bench.lane("b"), "a": {**bench.lane("small/a")}}
        keys = {"transactions": "write_only", "distribution": "uniform", "clients": [4], "runtime": "20s", "ramp": "0s"}
        file = bench.write(database(lanes, **keys))
        run = bench.folder / "run"
        with bench.running("run", str(file), "--out", str(run)) as process:
            until(lambda: started(run) and servers(small) and "sysbench" in commands(identity(run)))
            fill = small / "fill"
            with suppress(OSError), fill.open("wb") as handle:
                while True:
                    handle.write(b"x" * 2**20)
            until(lambda: process.poll() is not None)
        failed = [trial["failed"] for trial in observations(run) if trial["failed"]]
        assert failed
        assert all("the volume is full" in reason for reason in failed), failed
        fill.unlink()
        assert left(bench, run) == []


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"settings": {**SETTINGS, "innodb_page_size": "5k"}}, ["mariadb-install-db failed", "5"]),
        ({"settings": {**SETTINGS, "innodb_buffer_pool_size": "900T"}, "fits_buffer": True}, ["innodb"]),
        ({"settings": {**SETTINGS, "no_such_setting": "1"}}, ["no_such_setting"]),
        ({"settings": {**SETTINGS, "innodb_doublewr": "off"}}, ["innodb_doublewr", "full name"]),
        ({"settings": {**SETTINGS, "loose_innodb_doublewrite": "off"}}, ["loose_innodb_doublewrite", "full name"]),
    ],
)
def test_what_cannot_run_says_why_and_leaves_nothing(bench: Bench, keys: dict[str, Any], words: list[str]) -> None:
    file = bench.write(database({"a": bench.lane("a"), "b": bench.lane("b")}, **keys))
    run = bench.folder / "run"
    done = bench.run("run", str(file), "--out", str(run))
    assert done.returncode != 0
    said = done.stderr + done.stdout
    assert all(word.lower() in said.lower() for word in words), said
    assert left(bench, run) == []


@root
@pytest.mark.parametrize("program", ["mariadbd", "sysbench"])
def test_a_missing_program_is_found_before_anything_is_made(bench: Bench, program: str) -> None:
    file = bench.write(database({"a": bench.lane("a"), "b": bench.lane("b")}))
    words = bench.command("run", str(file), "--out", str(bench.folder / "run"))
    where = Path(str(shutil.which(program, path=PATH))).resolve()
    hide = f'mount --bind /dev/null {where} && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", hide, "sh", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "program-missing" in kinds(done.stderr)
    assert program in done.stderr
    assert f"apt-get install {'mariadb-server' if program == 'mariadbd' else program}" in done.stderr
    assert bench.files() == []
