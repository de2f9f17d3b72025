"""The load like SLOB: its keys, and figures of a made-up log."""

from typing import Any

import pytest
from pydantic import ValidationError

from fairlane.workloads import _slob
from fairlane.workloads.oltp import PLUGIN, OltpSpec
from tests.words import refused


def slob(**keys: Any) -> OltpSpec:
    return OltpSpec.model_validate({"kind": "oltp", "load": "slob", "ramp": "1s", "runtime": "2s", **keys})


def test_keys_and_cells() -> None:
    spec = slob(rows=50_000, clients=[1, 4], hotspot="8m", settings={"shared_buffers": "64MB"})
    cells = spec.cells("db")
    assert [cell.name for cell in cells] == [f"PostgreSQL SLOB-like x{n}" for n in (1, 4)]
    known = spec.known(cells[0])
    assert known["scale"] == "50000 blocks"
    assert known["transactions"] == "SLOB-like (64 blocks, 25 % updates, every 3. in 8m)"
    assert (spec.primary, slob().rows, spec.data // 2**20) == ("tps", 100_000, 50_000 * 8215 // 2**20)
    assert {"postgres", "pgbench"} <= set(PLUGIN.calls(cells[0]))
    assert PLUGIN.unable(cells[0], "lab") == ""


@pytest.mark.parametrize(
    ("keys", "key", "tokens"),
    [
        ({"scale": 3}, "scale", ["pgbench"]),
        ({"database": "mariadb"}, "database", ["postgresql"]),
        ({"hotspot_frequency": 2}, "hotspot_frequency", ["hotspot"]),
        ({"hotspot": "1g", "rows": 1000}, "hotspot", ["8k"]),
        ({"rows": 2000}, "rows", ["15m", "128m"]),
    ],
)
def test_keys_that_make_no_sense_are_refused(keys: dict[str, Any], key: str, tokens: list[str]) -> None:
    with pytest.raises(ValidationError, check=refused(key, *tokens)):
        slob(**keys)


@pytest.mark.parametrize(
    ("keys", "shares"),
    [
        ({}, (75, 25, 0, 0)),
        ({"update_pct": 0}, (100, 0, 0, 0)),
        ({"update_pct": 40, "hotspot": "8m", "hotspot_frequency": 4}, (180, 120, 60, 40)),
        ({"hotspot": "8m", "hotspot_frequency": 1}, (0, 0, 75, 25)),
    ],
)
def test_work_units_have_their_shares(keys: dict[str, Any], shares: tuple[int, ...]) -> None:
    (cell,) = slob(clients=[1], **keys).cells("db")
    assert tuple(_slob.weights(cell.params).values()) == shares


def test_kinds_of_work_units_are_told_apart() -> None:
    (cell,) = slob(clients=[1]).cells("db")
    lines = [
        f"0 {n} {100_000 + n} {script} {1_000_000_000 + ms // 1000} {ms % 1000 * 1000}"
        for n, (script, ms) in enumerate(((0, 150), (0, 1200), (1, 1300), (0, 1900)))
    ]
    seen = PLUGIN.observe(cell, {"pgbench_log.7": "\n".join(lines).encode()})
    assert seen.metrics["tps"] == 1.5
    assert "nopm" not in seen.metrics
    assert seen.context["load"]["by_transaction"] == {"read": 2, "update": 1, "hot-read": 0, "hot-update": 0}
    assert {name: sum(bins.values()) for name, bins in seen.histograms.items()} == {
        "tx.lat": 3, "tx.lat@read": 2, "tx.lat@update": 1,
    }  # fmt: skip
