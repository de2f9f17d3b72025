"""The load like TPROC-C: its keys, and figures of a made-up log."""

from typing import Any

import pytest
from pydantic import ValidationError

from fairlane.errors import Garbage
from fairlane.workloads.oltp import PLUGIN, OltpSpec
from tests.words import refused

SOUND = b"1\t0\n2\t0\n3\t0\n4\t0\n"


def oltp(**keys: Any) -> OltpSpec:
    return OltpSpec.model_validate({"kind": "oltp", "load": "tproc_c", "ramp": "1s", "runtime": "2s", **keys})


def outputs(**more: bytes) -> dict[str, bytes]:
    """From 1.05 s on, 2 s long: three New-Orders, two payments, a delivery; one New-Order before."""
    ended = ((0, 150), (0, 1200), (1, 1300), (0, 1900), (1, 2100), (0, 2200), (3, 2800))
    lines = [
        f"0 {n} {100_000 + n} {script} {1_000_000_000 + ms // 1000} {ms % 1000 * 1000}"
        for n, (script, ms) in enumerate(ended)
    ]
    return {"pgbench_log.7": "\n".join(lines).encode(), "consistency.tsv": SOUND, **more}


def test_keys_and_cells() -> None:
    spec = oltp(warehouses=2, clients=[1, 4])
    assert [cell.name for cell in spec.cells("db")] == [f"PostgreSQL TPROC-C-like x{n}" for n in (1, 4)]
    assert (spec.primary, oltp().warehouses) == ("nopm", 10)
    assert spec.known(spec.cells("db")[0])["scale"] == "2 warehouses"
    other = oltp(database="mariadb", warehouses=2)
    assert {"mariadbd", "sysbench"} <= set(PLUGIN.calls(other.cells("db")[0]))
    assert {"postgres", "pgbench"} <= set(PLUGIN.calls(spec.cells("db")[0]))


@pytest.mark.parametrize(
    ("keys", "key", "tokens"),
    [
        ({"scale": 3}, "scale", ["pgbench"]),
        ({"transactions": "select-only"}, "transactions", ["pgbench or sysbench"]),
        ({"settings": {"shared_buffers": "8GB"}, "warehouses": 2}, "warehouses", ["209m", "8g"]),
    ],
)
def test_keys_of_other_loads_are_refused(keys: dict[str, Any], key: str, tokens: list[str]) -> None:
    with pytest.raises(ValidationError, check=refused(key, *tokens)):
        oltp(**keys)


def test_new_orders_within_the_time_measured_count() -> None:
    (cell,) = oltp(clients=[1]).cells("db")
    seen = PLUGIN.observe(cell, outputs())
    assert (seen.metrics["nopm"], seen.metrics["tpm"], seen.metrics["tps"]) == (3 * 30, 6 * 30, 3)
    assert seen.context["load"]["by_transaction"] == {
        "new-order": 3, "payment": 2, "order-status": 0, "delivery": 1, "stock-level": 0,
    }  # fmt: skip
    assert {name: sum(bins.values()) for name, bins in seen.histograms.items()} == {
        "tx.lat": 6, "tx.lat@new-order": 3, "tx.lat@payment": 2, "tx.lat@delivery": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("conditions", "kind", "words"),
    [
        (b"1\t0\n2\t0\n3\t2\n4\t1\n", "inconsistent", "3 in 2 places, 4 in 1 places"),
        (b"1\t0\n2\t0\n", "not-checked", "condition 3"),
        (b"", "not-checked", "condition 1"),
    ],
)
def test_a_damaged_database_has_no_figures(conditions: bytes, kind: str, words: str) -> None:
    (cell,) = oltp(clients=[1]).cells("db")
    with pytest.raises(Garbage, match=words) as found:
        PLUGIN.observe(cell, outputs(**{"consistency.tsv": conditions}))
    assert found.value.kind == kind
