"""MariaDB under sysbench: the keys, and the figures of a recorded trial (MariaDB 10.11.19, sysbench 1.0.20, 2 tables of
50,000 rows, 4 clients, 1 s + 2 s)."""

import tarfile
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fairlane.errors import Garbage
from fairlane.guard.parameters import load_of, parameter
from fairlane.metrics import METRICS
from fairlane.workloads.oltp import PLUGIN, OltpSpec
from tests.words import refused


def oltp(**keys: Any) -> OltpSpec:
    return OltpSpec.model_validate({"kind": "oltp", "load": "sysbench", **keys})


def recorded() -> dict[str, bytes]:
    with tarfile.open(Path(__file__).parent / "data" / "sysbench_trial.tar.gz") as tar:
        files = {member.name.removeprefix("./"): tar.extractfile(member) for member in tar if member.isfile()}
        return {name: file.read() for name, file in files.items() if file}


POOL = {"innodb_buffer_pool_size": "16M"}
SMALL = {"tables": 2, "rows": 50_000, "settings": {**POOL, "innodb_log_file_size": "16M"}, "runtime": "2s",
         "ramp": "1s", "clients": [4]}  # fmt: skip
TRANSACTIONS = 1245
"""As sysbench printed it."""


def test_sysbench_loads_mariadb_unless_told_otherwise() -> None:
    spec = oltp(clients=[1, 4, 16], distribution="uniform")
    cells = spec.cells("db")
    assert [c.name for c in cells] == [f"MariaDB read_write x{n}" for n in (1, 4, 16)]
    known = spec.known(cells[0])
    assert load_of(known, spec.primary) == "database"
    assert (known["tool"], known["database"]) == ("sysbench", "MariaDB")
    assert known["transactions"] == "read_write (uniform)"
    assert known["scale"] == "8 x 1000000 rows"
    other = oltp(database="postgresql", transactions="point_select", checksums=False, version=15)
    assert other.cells("db")[0].name == "PostgreSQL point_select x1"
    assert PLUGIN.calls(other.cells("db")[0])[1] == "postgres"
    assert {"mariadbd", "sysbench"} <= set(PLUGIN.calls(cells[0]))
    assert "pgbench" not in PLUGIN.calls(cells[0])


@pytest.mark.parametrize(
    ("keys", "key", "tokens"),
    [
        ({"settings": {"innodb_flush_log_at_trx_commit": 2}}, "settings", ["innodb_flush_log_at_trx_commit 2"]),
        ({"settings": {"innodb_flush_log_at_trx_commit": 0}}, "settings", ["innodb_flush_log_at_trx_commit 0"]),
        ({"settings": {"innodb_doublewrite": False}}, "settings", ["innodb_doublewrite off"]),
        ({"settings": {"innodb_flush_method": "O_DIRECT_NO_FSYNC"}}, "settings", ["O_DIRECT_NO_FSYNC"]),
        ({"settings": {"innodb_flush_method": "nosync"}}, "settings", ["nosync"]),
        ({"settings": {"innodb_flush_method": 5}}, "settings", ["innodb_flush_method 5"]),
        ({"settings": {"log_bin": True}}, "settings", ["sync_binlog 0"]),
        ({"settings": {"log_bin": True, "sync_binlog": 100}}, "settings", ["sync_binlog 100"]),
        ({"settings": {"debug_no_sync": True}}, "settings", ["debug_no_sync on"]),
        ({"settings": {"innodb_doublewrite": "off"}, "unsafe": "--"}, "settings", ["innodb_doublewrite off"]),
        ({"unsafe": "for a test"}, "unsafe", []),
        ({"settings": {"datadir": "x"}}, "settings", ["datadir"]),
        ({"settings": {"innodb_log_group_home_dir": "/var/tmp"}}, "settings", ["innodb_log_group_home_dir"]),
        ({"rows": 10_000}, "rows", ["128m", "innodb_buffer_pool_size"]),
        ({"settings": {"innodb_buffer_pool_size": "8G"}}, "rows", ["8g"]),
        ({"transactions": "tpcb-like"}, "transactions", ["read_write"]),
        ({"scale": 3}, "scale", ["pgbench"]),
        ({"rate": 3}, "rate", ["pgbench"]),
        ({"version": 15}, "version", ["postgresql"]),
        ({"checksums": False}, "checksums", ["postgresql"]),
        ({"runtime": "1500ms"}, "runtime", ["sysbench"]),
    ],
)
def test_what_cannot_be_measured_is_refused(keys: dict[str, Any], key: str, tokens: list[str]) -> None:
    with pytest.raises(ValidationError, check=refused(key, *tokens)):
        oltp(**keys)


@pytest.mark.parametrize(
    "settings",
    [
        {"innodb_flush_log_at_trx_commit": 1, "innodb_doublewrite": True, "innodb_flush_method": "O_DIRECT"},
        {"innodb_flush_log_at_trx_commit": 3, "innodb_flush_method": "fsync"},
        {"log_bin": True, "sync_binlog": 1},
        {"log_bin": False, "sync_binlog": 0},
    ],
)
def test_settings_that_keep_what_was_acknowledged_need_no_reason(settings: dict[str, Any]) -> None:
    assert oltp(settings=settings).loose == ()


def test_durability_is_given_up_for_a_reason_that_reports_print() -> None:
    spec = oltp(settings={"innodb_doublewrite": False}, unsafe="the array writes pages atomically")
    known = spec.known(spec.cells("db")[0])
    assert "innodb_doublewrite off" in known["durability"]
    assert "the array writes pages atomically" in known["durability"]


def test_the_data_fit_twice_with_the_redo_log() -> None:
    spec = oltp(**SMALL)
    assert spec.buffer == 16 * 2**20 < spec.data
    assert spec.needs > 2 * spec.data + 2 * 16 * 2**20
    binary = oltp(**{**SMALL, "settings": {**POOL, "innodb_log_file_size": "16M", "log_bin": True, "sync_binlog": 1}})
    assert binary.needs == spec.needs + spec.data


def test_rate_and_latencies_are_those_of_the_log_within_the_time_measured() -> None:
    (cell,) = oltp(**SMALL).cells("db")
    outputs = recorded()
    figures = PLUGIN.observe(cell, outputs)
    rows = [
        line.split() for name, data in outputs.items() if name.startswith("sysbench_log.")
        for line in data.decode().splitlines()
    ]  # fmt: skip
    ended = [(int(r[4]) * 10**6 + int(r[5]), int(r[2])) for r in rows]
    begin = min(at - us for at, us in ended) + 10**6
    measured = sorted(us for at, us in ended if begin <= at < begin + 2 * 10**6)
    assert 0 < len(measured) < len(rows) == TRANSACTIONS
    assert figures.metrics["tps"] == len(measured) / 2
    assert figures.metrics["lat_mean"] == pytest.approx(1000 * sum(measured) / len(measured))
    median = 1000 * measured[(len(measured) + 1) // 2 - 1]
    assert figures.metrics["lat_p50"] == pytest.approx(median, rel=1 / 128)
    assert set(figures.metrics) <= set(METRICS)
    # what sysbench itself measured of the whole run, in ms
    mean = float(next(line.split()[1] for line in outputs["load.out"].decode().splitlines() if "avg:" in line))
    assert sum(us for _, us in ended) / len(ended) / 1000 == pytest.approx(mean, rel=0.01)


def test_counters_are_per_transaction_of_the_whole_load() -> None:
    (cell,) = oltp(**SMALL).cells("db")
    outputs = recorded()
    figures = PLUGIN.observe(cell, outputs)
    state = [dict(line.split("\t") for line in outputs[f"state.{when}"].decode().splitlines())
             for when in ("before", "after")]  # fmt: skip
    assert figures.metrics["wal_per_tx"] == (int(state[1]["wal_bytes"]) - int(state[0]["wal_bytes"])) / TRANSACTIONS
    disk = [outputs[f"volume.{when}"].split() for when in ("before", "after")]
    assert figures.metrics["flushes_per_tx"] == (int(disk[1][16]) - int(disk[0][16])) / TRANSACTIONS
    database = figures.context["database"]
    assert (database["transactions"], database["commits_per_transaction"]) == (TRANSACTIONS, 1)
    assert (database["retries"], database["reconnects"], database["page_cache"]) == (0, 0, False)
    assert (database["history_length"], database["dirty_pages"], database["pending_io"]) == (0, 0, 0)
    assert 0 < database["hit_rate"] < 1
    assert database["dirty_pages_after"] > 0
    conditions = figures.context["conditions"]
    assert (conditions["database_version"], conditions["tool_version"]) == ("10.11.19", "1.0.20")
    assert conditions["mariadb_innodb_buffer_pool_size"] == str(16 * 2**20)
    assert parameter("mariadb_innodb_buffer_pool_size").role == "controlled"
    # the server is one process: its CPU time, and sysbench's
    ticks = [outputs[f"postmaster.{when}"].decode().rpartition(")")[2].split() for when in ("before", "after")]
    server = 10**7 * (int(ticks[1][11]) - int(ticks[0][11]))
    spent = figures.context["generator"]
    assert server < spent["user"] * TRANSACTIONS
    assert spent["user"] + spent["system"] < 2 * 3e9 / TRANSACTIONS  # two CPUs, three seconds


def test_transactions_that_were_repeated_are_counted() -> None:
    (cell,) = oltp(**SMALL).cells("db")
    outputs = recorded()
    text = outputs["load.out"].replace(
        b"ignored errors:                      0", b"ignored errors:                      7"
    )
    figures = PLUGIN.observe(cell, {**outputs, "load.out": text})
    assert figures.context["database"]["retries"] == 7


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda files: {n: d for n, d in files.items() if not n.startswith("sysbench_log")}, "no-log"),
        (lambda files: {n: d for n, d in files.items() if n != "sysbench_log.3"}, "log-incomplete"),
        (lambda files: {**files, "sysbench_log.0": b"no log\n"}, "not-this-tool"),
    ],
)
def test_a_log_that_is_not_whole_is_no_figure(change: Any, kind: str) -> None:
    (cell,) = oltp(**SMALL).cells("db")
    with pytest.raises(Garbage) as error:
        PLUGIN.observe(cell, change(recorded()))
    assert error.value.kind == kind
