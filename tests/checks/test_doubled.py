"""Sums of a read job and a write job, found from a table alone: no cap and no definition is stated."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from fairlane import registry
from fairlane.importers._map import parse_map
from fairlane.importers._run import import_files
from fairlane.records import Finding
from fairlane.runs.read import load_run

MAP = """\
tool: table
conditions: { iodepth: 32, numjobs: 4 }
table:
  lane: lane
  figures:
  - { column: random, cell: 4k random, metric: iops, conditions: { bs: 4k } }
  - { column: mix, cell: 4k mix, metric: iops, conditions: { bs: 4k, rw: randrw, rwmixread: 70 } }
"""
TIERS = {"tier-1": (1984, 997), "tier-2": (989, 496), "free": (64483, 48641)}
"""Figures of a published table: of two tiers with a limit, and of a lane without one."""


def findings_of(folder: Path, rates: Mapping[str, tuple[float, float]], mapping: str = MAP) -> list[Finding]:
    """What the check says of a table: lane -> rate of unknown direction, rate of the mix."""
    table = folder / "table.csv"
    table.write_text("lane,random,mix\n" + "".join(f"{lane},{a},{b}\n" for lane, (a, b) in rates.items()))
    import_files([table], folder / "run", parse_map(mapping, "map.yaml"))
    return list(registry.load("checks", "doubled").check(load_run(folder / "run")))


def test_two_tiers_at_twice_their_mix_are_sums(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, TIERS)
    assert [(f.severity, f.kind, f.lanes) for f in findings] == [
        ("critical", "iops", ("tier-1",)),
        ("critical", "iops", ("tier-2",)),
    ]
    (proof,) = findings[0].evidence.values()
    assert (proof["value"], proof["mix"], round(proof["factor"], 2)) == (1984, 997, 1.99)
    assert all(cell.endswith("4k-random") for f in findings for cell in f.cells)


def test_one_lane_may_be_chance(tmp_path: Path) -> None:
    assert [f.severity for f in findings_of(tmp_path, {"tier-1": (1984, 997), "free": (64483, 48641)})] == ["warning"]


@pytest.mark.parametrize(("random", "lanes"), [(1983, 2), (2017, 2), (1970, 0), (2030, 0), (1000, 0), (3000, 0)])
def test_twice_is_within_one_per_cent(tmp_path: Path, random: int, lanes: int) -> None:
    assert len(findings_of(tmp_path, {"a": (random, 1000), "b": (random, 1000)})) == lanes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("conditions: { bs: 4k } }", "conditions: { bs: 4k, rw: randread } }"),  # known to be no sum
        ("conditions: { bs: 4k } }", "conditions: { bs: 8k } }"),
        ("conditions: { bs: 4k } }", "conditions: { bs: 4k, iodepth: 64 } }"),
        ("rw: randrw, rwmixread: 70", "rw: randread"),  # no mix to hold it against
    ],
)
def test_another_load_is_no_measure(tmp_path: Path, old: str, new: str) -> None:
    assert findings_of(tmp_path, TIERS, MAP.replace(old, new)) == []
