"""The check of database loads, on trials with planted facts."""

from typing import Any

import pytest

from fairlane.checks.database_state import PLUGIN
from fairlane.records import Cell, Evidence, Observation
from fairlane.study.load import parse_study

STUDY = """
name: db
platform: {kind: hosts, machines: {here: local}, size: 4g}
baseline: a
lanes:
  a: {transport: directory, path: /mnt/a}
  b: {transport: directory, path: /mnt/b}
workloads:
  db: {kind: oltp, load: pgbench, scale: 50, clients: [4], runtime: 100s, ramp: 0s, rate: 100}
"""


def found(database: dict[str, Any], tps: float = 100.0) -> list[tuple[str, str]]:
    study = parse_study(STUDY, "s.yaml")
    cell: Cell = study.cells()[0]
    context = {"database": database, "load": {"processed": 10_000, "runtime_ms": 100_000.0},
               "conditions": {"vm_memory": 2**30}}  # fmt: skip
    trial = Observation(cell.key, 0, "a", 0, metrics={"tps": tps}, context=context)
    evidence = Evidence("x", study, STUDY, 1, (), (trial,), {}, {})
    return [(finding.kind, finding.severity) for finding in PLUGIN.check(evidence)]


@pytest.mark.parametrize(
    ("database", "tps", "expected"),
    [
        ({"bytes": 2**31, "transactions": 10_000}, 100.0, []),
        ({"bytes": 2**31}, 95.5, []),
        ({"bytes": 2**31}, 94.0, [("rate-not-kept", "critical")]),
        ({"bytes": 2**20}, 100.0, [("in-memory", "info")]),
        ({"checkpoints": 2}, 100.0, [("checkpoints", "info")]),
        ({"checkpoints": 0}, 100.0, []),
        ({"bytes": 2**20, "page_cache": False}, 100.0, []),
        ({"history_length": 300, "dirty_pages": 2, "pending_io": 0}, 100.0, [("not-at-rest", "warning")]),
        ({"history_length": 0, "dirty_pages": 0, "pending_io": 0}, 100.0, []),
        ({"retries": 12, "transactions": 10_000}, 100.0, [("retried", "info")]),
        ({"reconnects": 1, "retries": 0}, 100.0, [("reconnects", "warning")]),
        ({"vacuums_running": 1}, 100.0, [("vacuum", "warning")]),
        ({"not_completed_deadlock": 3, "not_completed_failed": 1}, 100.0, [("not-completed", "warning")]),
        ({"not_completed_deadlock": "many", "bytes": [], "vacuums_running": None}, 100.0, []),
    ],
)
def test_what_is_odd_about_a_database(database: dict[str, Any], tps: float, expected: list[tuple[str, str]]) -> None:
    assert found(database, tps) == expected
