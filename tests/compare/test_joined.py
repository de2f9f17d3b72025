"""Joining: names that stay unique, conditions that stay with their own side, figures of different worlds."""

import dataclasses
import re
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.compare.comparison import compare
from fairlane.compare.joined import joined
from fairlane.compare.mapping import LaneMap, Pair
from fairlane.errors import Exit, FairlaneError
from fairlane.guard.conditions import conditions
from fairlane.platforms.lab.spec import LabSpec
from fairlane.records import Evidence
from fairlane.runs.read import load_run
from tests.words import kind

STUDY = """\
name: small
platform: {kind: fake}
lanes:
  one: {transport: iscsi, conditions: {copies: 3}}
  two: {transport: nvme_tcp, conditions: {copies: 2}}
baseline: one
workloads:
  main: {kind: fio, rw: [randread], bs: [4k, 64k], iodepth: [1], runtime: 1s}
  tail: {kind: fio, rw: [randread], bs: [4k], iodepth: [1], runtime: 1s, primary: lat_p99}
design: {looks: [3]}
"""


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    place = tmp_path_factory.mktemp("runs")
    (place / "study.yaml").write_text(STUDY)
    assert run(["run", str(place / "study.yaml"), "--unjudged", "--out", str(place / "done")]) == Exit.OK
    return load_run(place / "done")


def pairs(**lanes: tuple[str, str]) -> LaneMap:
    """Categories, each with the lane of run a and that of run b; b is the baseline."""
    return LaneMap("b", tuple(Pair(n, n.upper(), {"a": a, "b": b}) for n, (a, b) in lanes.items()))


def test_a_category_has_a_workload_for_each_primary_metric(evidence: Evidence) -> None:
    whole = joined({"a": evidence, "b": evidence}, pairs(x=("one", "one")))
    primaries = {name: w.primary for name, w in whole.evidence.study.workloads.items()}
    assert primaries == {"x-iops": "iops", "x-lat-p99": "lat_p99"}
    assert {pair.title for pair in whole.categories.values()} == {"X"}


def test_names_of_categories_cannot_run_into_each_other(evidence: Evidence) -> None:
    long = "a" * 31
    mapping = LaneMap("b", tuple(Pair(n, n, {"a": "one", "b": "one"}) for n in ("x", "x-iops", long, long[:-1] + "b")))
    whole = joined({"a": evidence, "b": evidence}, mapping)
    assert len(whole.categories) == 8
    assert len({cell.key for cell in whole.evidence.cells()}) == 4 * 3


def test_every_trial_keeps_its_figures_and_knows_where_it_comes_from(evidence: Evidence) -> None:
    whole = joined({"a": evidence, "b": evidence}, pairs(x=("one", "two"), y=("two", "two")))
    source = {(o.lane, o.cell, o.block): o for o in evidence.observations}
    by_id = {o.trial: o for o in evidence.observations}
    assert len(whole.evidence.observations) == 2 * 2 * len(evidence.observations) / 2
    for o in whole.evidence.observations:
        lane, cell = whole.sources[o.lane, o.cell]
        assert o.metrics == source[lane, cell, o.block].metrics
        alias, trial = whole.trials[o.trial]
        assert alias == o.lane
        assert by_id[trial].metrics == o.metrics


def test_conditions_stay_with_the_source_lane_of_each_category(evidence: Evidence) -> None:
    whole = joined({"a": evidence, "b": evidence}, pairs(x=("one", "two"), y=("two", "two")))
    known = conditions(whole.evidence)
    told = {(side, cell.split("-")[0]): values["copies"] for (side, cell), values in known.items()}
    assert told == {("a", "x"): 3, ("b", "x"): 2, ("a", "y"): 2, ("b", "y"): 2}


def test_only_the_category_that_differs_is_refused_and_the_reason_is_true_of_it(evidence: Evidence) -> None:
    mapping = pairs(x=("one", "two"), y=("two", "two"))
    comparison = compare({"a": evidence, "b": evidence}, mapping, {})
    words = {(comparison.joined.categories[v.workload].name, v.verdict) for v in comparison.verdicts if v.primary}
    assert words == {("x", "refused"), ("y", "tie")}
    (finding,) = (f for f in comparison.findings if f.refuses)
    assert (finding.kind, set(finding.evidence)) == ("refused", {"copies"})
    shown = re.findall(r"\w+", finding.evidence["copies"]["a"])
    assert (shown[0], shown[2], shown[3], shown[5]) == ("3", "a", "2", "b")
    varied = compare({"a": evidence, "b": evidence}, dataclasses.replace(mapping, vary=("copies",)), {})
    assert "refused" not in {v.verdict for v in varied.verdicts}


@pytest.mark.parametrize("change", [{"modelled": True}, {"emulated": True}])
def test_figures_of_different_worlds_are_refused_whatever_is_accepted(
    evidence: Evidence, change: dict[str, bool]
) -> None:
    real = evidence.study.model_copy(update={"platform": LabSpec(kind="lab")})
    one = dataclasses.replace(evidence, study=real)
    other = dataclasses.replace(one, modelled="modelled" in change, emulated="emulated" in change)
    comparison = compare({"a": one, "b": other}, pairs(x=("one", "one")), {})
    assert {v.verdict for v in comparison.verdicts} == {"refused"}
    (finding,) = (f for f in comparison.findings if f.check == "kind_of_figures")
    assert (finding.kind, finding.lanes, finding.evidence["a"]) == ("differs", ("a",), "measured")
    assert all(finding.message in v.notes for v in comparison.verdicts)


def test_no_cell_in_common_is_an_error_that_lists_them(evidence: Evidence, tmp_path: Path) -> None:
    text = STUDY.replace("[4k, 64k]", "[8k]").replace("bs: [4k]", "bs: [16k]")
    (tmp_path / "study.yaml").write_text(text)
    assert run(["run", str(tmp_path / "study.yaml"), "--unjudged", "--out", str(tmp_path / "done")]) == Exit.OK
    with pytest.raises(FairlaneError, check=kind("no-common-cells")) as raised:
        joined({"a": evidence, "b": load_run(tmp_path / "done")}, pairs(x=("one", "one")))
    assert all(f"{size} randread qd1" in raised.value.hint for size in ("8k", "64k"))


def test_runs_over_links_of_different_speed_are_told_per_gbit_too(tmp_path: Path) -> None:
    made = {}
    for alias, speed in (("a", "25gbit"), ("b", "100gbit")):
        (tmp_path / "study.yaml").write_text(STUDY.replace("{copies: 3}", f"{{copies: 3, link_speed: {speed}}}"))
        assert run(["run", str(tmp_path / "study.yaml"), "--unjudged", "--out", str(tmp_path / alias)]) == Exit.OK
        made[alias] = load_run(tmp_path / alias)
        assert not any("iops_per_gbit" in o.metrics for o in made[alias].observations)
    per = {
        o.lane: o.metrics["iops"] / o.metrics["iops_per_gbit"]
        for o in joined(made, pairs(x=("one", "one"))).evidence.observations
    }
    assert per == pytest.approx({"a": 25, "b": 100})
