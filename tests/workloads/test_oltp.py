"""Databases: the keys, and the figures of a recorded trial (PostgreSQL 15.18, scale 5, 4 clients, 1 s + 2 s)."""

import tarfile
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fairlane.errors import Garbage
from fairlane.guard.parameters import load_of
from fairlane.metrics import METRICS
from fairlane.stats.ladders import ladders
from fairlane.study.load import parse_study
from fairlane.workloads.oltp import PLUGIN, OltpSpec
from tests.words import refused

SECOND = 10**9


def oltp(**keys: Any) -> OltpSpec:
    return OltpSpec.model_validate({"kind": "oltp", "load": "pgbench", **keys})


def recorded() -> dict[str, bytes]:
    with tarfile.open(Path(__file__).parent / "data" / "pgbench_trial.tar.gz") as tar:
        files = {member.name.removeprefix("./"): tar.extractfile(member) for member in tar if member.isfile()}
        return {name: file.read() for name, file in files.items() if file}


SMALL = {"scale": 5, "settings": {"shared_buffers": "16MB"}, "runtime": "2s", "ramp": "1s", "clients": [4]}


def test_every_number_of_clients_is_a_cell_and_a_rung() -> None:
    spec = oltp(clients=[1, 4, 4, 16], transactions="select-only")
    cells = spec.cells("db")
    assert [c.name for c in cells] == [f"PostgreSQL select-only x{n}" for n in (1, 4, 16)]
    assert [c.params["numjobs"] for c in cells] == [1, 4, 16]
    rest = [{k: v for k, v in c.params.items() if k != "numjobs"} for c in cells]
    assert rest[0] == rest[1] == rest[2]  # so that they are a ladder
    known = spec.known(cells[0])
    assert load_of(known, spec.primary) == "database"
    assert (known["tool"], known["database"], known["transactions"]) == ("pgbench", "PostgreSQL", "select-only")


def test_a_ladder_of_clients_is_of_transactions() -> None:
    text = "name: db\nplatform: {kind: hosts, machines: {here: local}, size: 4g}\nbaseline: a\nlanes:\n" \
           "  a: {transport: directory, path: /a}\n  b: {transport: directory, path: /b}\n" \
           "workloads:\n  db: {kind: oltp, load: pgbench, clients: [1, 4, 16]}\n"  # fmt: skip
    (ladder,) = ladders(parse_study(text, "s.yaml"))
    assert (ladder.name, ladder.throughput, ladder.unit) == ("db, clients 1 to 16", "tps", "clients")
    assert ladders(parse_study(text.replace("16]", "16], rate: 100"), "s.yaml")) == ()


def test_a_scheduled_rate_is_judged_by_its_latency() -> None:
    spec = oltp(rate=200)
    assert spec.primary == "lat_p95"
    assert spec.known(spec.cells("db")[0])["rate_tps"] == 200
    assert " -R 200 " in PLUGIN.script(spec.cells("db")[0], ["/dev/lane/a"], 1)
    assert oltp(rate=200, primary="tps").primary == "tps"


def test_seeds_are_the_same_for_all_lanes_and_differ_between_blocks() -> None:
    (cell,) = oltp(**SMALL).cells("db")
    one, two = (PLUGIN.script(cell, ["/dev/lane/a"], seed) for seed in (7, 8))
    assert one.replace("--random-seed=8 ", "") == two.replace("--random-seed=9 ", "")
    assert one != two


WRONG = [
    ({"settings": {"fsync": False, "shared_buffers": "16MB"}}, "settings", ["fsync off"]),
    ({"settings": {"synchronous_commit": "off"}}, "settings", ["synchronous_commit off"]),
    ({"settings": {"fsync": "fal"}}, "settings", ["fsync fal"]),
    ({"settings": {"include": "x.conf"}}, "settings", ["include"]),
    ({"settings": {"full_page_writes": "off"}}, "settings", ["full_page_writes off"]),
    ({"settings": {"fsync": "off"}, "unsafe": "--"}, "settings", ["fsync off"]),
    ({"unsafe": "for a test"}, "unsafe", []),
    ({"scale": 5}, "scale", ["128m"]),
    ({"settings": {"shared_buffers": "8GB"}}, "scale", ["8g"]),
    ({"settings": {"port": 5432}}, "settings", ["port"]),
    ({"settings": {"work_mem": "1'; x"}}, "settings", ["work_mem"]),
    ({"settings": {"a b": "1"}}, "settings", ["a b"]),
    ({"runtime": "1500ms"}, "runtime", []),
    ({"runtime": "0s"}, "runtime", ["1s"]),
    ({"ramp": "10ms"}, "ramp", []),
    ({"clients": [0]}, "clients", ["10000", " 0"]),
    ({"database": "mariadb"}, "database", ["postgresql"]),
    ({"sql": "select 1", "transactions": "select-only"}, "sql", ["transactions"]),
    ({"users": [3]}, "users", ["hammerdb"]),
    ({"rows": 5000}, "rows", ["sysbench"]),
    ({"transactions": "read_write"}, "transactions", ["tpcb-like"]),
    ({"version": 9}, "version", ["13"]),
]
"""Keys, the key that the message begins with, and what it has."""


@pytest.mark.parametrize(("keys", "key", "tokens"), WRONG)
def test_what_cannot_be_measured_is_refused(keys: dict[str, Any], key: str, tokens: list[str]) -> None:
    with pytest.raises(ValidationError, check=refused(key, *tokens)):
        oltp(**keys)


def test_durability_is_given_up_for_a_reason_that_reports_print() -> None:
    spec = oltp(settings={"fsync": False}, unsafe="a replica holds the data")
    known = spec.known(spec.cells("db")[0])
    assert "fsync off" in known["durability"]
    assert "a replica holds the data" in known["durability"]


def test_a_small_database_is_measured_if_asked_for() -> None:
    assert oltp(scale=1, fits_buffer=True).data < oltp(scale=1, fits_buffer=True).buffer


def test_settings_are_text_as_in_the_servers_file() -> None:
    assert oltp(settings={"autovacuum": False, "max_wal_size": "2GB", "commit_delay": 10}).settings == {
        "autovacuum": "off", "max_wal_size": "2GB", "commit_delay": "10",
    }  # fmt: skip


def test_rate_and_latencies_are_those_of_the_log_within_the_time_measured() -> None:
    (cell,) = oltp(**SMALL).cells("db")
    outputs = recorded()
    figures = PLUGIN.observe(cell, outputs)
    rows = [
        line.split() for name, data in outputs.items() if name.startswith("pgbench_log.")
        for line in data.decode().splitlines()
    ]  # fmt: skip
    ended = [(int(r[4]) * 10**6 + int(r[5]), int(r[2])) for r in rows]
    begin = min(at - us for at, us in ended) + 10**6
    measured = sorted(us for at, us in ended if begin <= at < begin + 2 * 10**6)
    assert 0 < len(measured) < len(rows) == 5768  # what pgbench printed, too
    assert figures.metrics["tps"] == len(measured) / 2
    assert figures.metrics["lat_mean"] == pytest.approx(1000 * sum(measured) / len(measured))
    assert sum(figures.histograms["tx.lat"].values()) == len(measured)
    median = 1000 * measured[(len(measured) + 1) // 2 - 1]
    assert figures.metrics["lat_p50"] == pytest.approx(median, rel=1 / 128)
    assert set(figures.metrics) <= set(METRICS)


def test_counters_are_per_transaction_of_the_whole_load() -> None:
    (cell,) = oltp(**SMALL).cells("db")
    outputs = recorded()
    figures = PLUGIN.observe(cell, outputs)
    state = [dict(line.split("\t") for line in outputs[f"state.{when}"].decode().splitlines())
             for when in ("before", "after")]  # fmt: skip
    wal = int(state[1]["wal_bytes"]) - int(state[0]["wal_bytes"])
    assert figures.metrics["wal_per_tx"] == wal / 5768
    disk = [outputs[f"volume.{when}"].split() for when in ("before", "after")]
    assert figures.metrics["flushes_per_tx"] == (int(disk[1][16]) - int(disk[0][16])) / 5768
    database = figures.context["database"]
    assert database["transactions"] == 5768
    assert database["commits_per_transaction"] == pytest.approx(1, abs=0.05)
    assert 0 < database["hit_rate"] < 1
    assert database["dead_tuples"] == 0 < database["dead_tuples_after"]
    assert database["deadlocks"] == 0
    conditions = figures.context["conditions"]
    assert (conditions["pg_shared_buffers"], conditions["pg_fsync"]) == ("16MB", "on")
    assert conditions["database_version"] == "15.18"
    spent = figures.context["generator"]
    assert 0 < spent["user"] + spent["system"] < 2 * 3 * SECOND  # two CPUs, three seconds


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda files: {n: d for n, d in files.items() if not n.startswith("pgbench_log")}, "no-log"),
        (lambda files: {**files, "pgbench_log.9461": b"no log\n"}, "not-this-tool"),
        (lambda files: {n: b"" if n.startswith("pgbench_log") else d for n, d in files.items()}, "empty"),
    ],
)
def test_a_log_that_cannot_be_read_is_no_figure(change: Any, kind: str) -> None:
    (cell,) = oltp(**SMALL).cells("db")
    with pytest.raises(Garbage) as error:
        PLUGIN.observe(cell, change(recorded()))
    assert error.value.kind == kind


def test_the_databases_of_a_fleet_add_up() -> None:
    (cell,) = oltp(**SMALL).cells("db")
    one = PLUGIN.observe(cell, recorded())
    both = PLUGIN.merge(cell, {"vm0": one, "vm1": one})
    assert both.metrics["tps"] == 2 * one.metrics["tps"]
    assert both.context["load"]["transactions"] == 2 * 5768
    assert both.context["conditions"] == one.context["conditions"]
    for name in ("lat_p50", "lat_mean", "wal_per_tx", "flushes_per_tx"):
        assert both.metrics[name] == pytest.approx(one.metrics[name]), name


@pytest.mark.parametrize("lost", ["state.after", "volume.before", "times.after", "postmaster.after", "settings.tsv"])
def test_a_counter_that_is_missing_takes_its_figures_only(lost: str) -> None:
    (cell,) = oltp(**SMALL).cells("db")
    outputs = recorded()
    whole = PLUGIN.observe(cell, outputs)
    figures = PLUGIN.observe(cell, {**outputs, lost: b"x\ty 1 2\n"})
    assert figures.metrics["tps"] == whole.metrics["tps"]
    assert figures.histograms == whole.histograms
    assert {"state.after": "wal_per_tx", "volume.before": "flushes_per_tx"}.get(lost) not in figures.metrics
