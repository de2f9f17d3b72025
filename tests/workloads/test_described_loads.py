"""Database loads as the study describes them: their cells, what must match, and that they cannot be run."""

from typing import Any

import pytest
from pydantic import ValidationError

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.guard.parameters import load_of
from fairlane.workloads.oltp import OltpSpec
from fairlane.workloads.slob import SlobSpec
from tests.words import kind, refused

MINUTE = 60 * 10**9


def oltp(**keys: Any) -> OltpSpec:
    return OltpSpec.model_validate({"kind": "oltp", "load": "hammerdb", "database": "mariadb", **keys})


def slob(**keys: Any) -> SlobSpec:
    return SlobSpec.model_validate({"kind": "slob", **keys})


def test_cells_are_every_combination_in_order() -> None:
    cells = oltp(vms=(1, 9), users=(10, 150)).cells("db")
    assert [c.name for c in cells] == [
        "MariaDB 1 VM x10", "MariaDB 1 VM x150", "MariaDB 9 VMs x10", "MariaDB 9 VMs x150",
    ]  # fmt: skip
    assert [(c.params["fleet"], c.params["numjobs"]) for c in cells] == [(1, 10), (1, 150), (9, 10), (9, 150)]
    assert len({c.key for c in oltp(users=(8, 8, 16)).cells("db")}) == 2


def test_cells_of_slob_are_numbers_of_sessions() -> None:
    cells = slob(schemas=(32, 64, 64)).cells("rac")
    assert [c.params["numjobs"] for c in cells] == [32, 64]
    assert [c.key for c in cells] == ["rac.SLOB-x32", "rac.SLOB-x64"]


def test_what_must_match_is_known_as_of_a_database() -> None:
    spec = oltp(disk_size="500GiB", runtime="15m", ramp="2m")
    cell = spec.cells("db")[0]
    known = spec.known(cell)
    assert load_of(known, spec.primary) == "database"
    assert (known["scale"], known["runtime"], known["ramp"]) == (500, 15 * MINUTE, 2 * MINUTE)
    assert known["disk_size"] == 500 * 2**30
    assert spec.trial_seconds(cell) == 17 * 60
    assert "disk_size" not in oltp().known(oltp().cells("db")[0])


def test_slob_is_known_as_of_a_database() -> None:
    spec = slob(schemas=(128,), scale="4GiB")
    cell = spec.cells("rac")[0]
    known = spec.known(cell)
    assert load_of(known, spec.primary) == "database"
    assert known["scale"] == "128 schemas of 4g"
    assert spec.trial_seconds(cell) == 300


NO_OLTP = [
    ({"runtime": "90s"}, ["HammerDB"]),
    ({"ramp": "30s"}, ["HammerDB"]),
    ({"runtime": "0s"}, ["1m"]),
    ({"users": (0,)}, ["10000", " 0"]),
    ({"vms": (1, 1001)}, ["1000", "1001"]),
    ({"users": ()}, ["1"]),
    ({"database": "oracle"}, ["'mariadb'", "'postgresql'"]),
    ({"warehouses": 0}, ["1"]),
]
"""Keys, and what the message has."""


@pytest.mark.parametrize(("keys", "tokens"), NO_OLTP)
def test_what_hammerdb_cannot_do_is_refused(keys: dict[str, Any], tokens: list[str]) -> None:
    (key,) = keys
    with pytest.raises(ValidationError, check=refused(key, *tokens)):
        oltp(**keys)


NO_SLOB = [({"schemas": (0,)}, ["4096", " 0"]), ({"runtime": "1500ms"}, ["1s"]), ({"runtime": "0s"}, ["1s"])]
"""Keys, and what the message has."""


@pytest.mark.parametrize(("keys", "tokens"), NO_SLOB)
def test_what_slob_cannot_do_is_refused(keys: dict[str, Any], tokens: list[str]) -> None:
    (key,) = keys
    with pytest.raises(ValidationError, check=refused(key, *tokens)):
        slob(**keys)


@pytest.mark.parametrize("spec", [oltp(), slob()])
def test_none_of_them_can_be_run_or_read(spec: OltpSpec | SlobSpec) -> None:
    plugin, cell = registry.load("workloads", spec.kind), spec.cells("db")[0]
    for attempt in (lambda: plugin.script(cell, ["/dev/sdz"], 1), lambda: plugin.observe(cell, {})):
        with pytest.raises(FairlaneError, check=kind("workload-unsupported", where="workloads.db")) as caught:
            attempt()
        assert repr(spec.kind) in str(caught.value)
