"""The bare figures of delta tables, where verdicts are refused."""

from dataclasses import replace

import pytest

from fairlane.compare.deltas import delta_tables
from fairlane.compare.joined import joined
from fairlane.compare.mapping import LaneMap, Pair
from fairlane.records import Finding
from fairlane.stats.histogram import merge, percentile
from fairlane.stats.judge import judge
from tests.stats.mixes import MS, Way, mix, run


def test_percentiles_of_a_direction_are_of_its_ios() -> None:
    lane = mix(Way(20_000, 3 * MS), Way(20_000, 350 * MS))
    one, two = (replace(run({"a": lane, "b": lane}, blocks=2, seed=seed), name=f"run{seed}") for seed in (1, 2))
    both = joined({"x": one, "y": two}, LaneMap("y", (Pair("p", "P", {"x": "a", "y": "a"}),)))
    verdicts = judge(both.evidence, (Finding("matched", "critical", "not alike", refuses=True),))
    assert {v.verdict for v in verdicts} == {"refused"}
    shown = {table.metric.name: table.rows[0].deltas[0].value for table in delta_tables(both, verdicts)}
    bins = [o.histograms["read.lat"] for o in one.observations if o.lane == "a"]
    assert shown["lat_read_p99"] == percentile(merge(bins), 0.99)
    assert shown["lat_read_p99"] == pytest.approx(13 * MS, rel=0.3)
    assert shown["lat_write_p99"] == pytest.approx(1200 * MS, rel=0.5)
