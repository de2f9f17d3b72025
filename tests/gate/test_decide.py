"""Rules decided on real runs of the fake platform, whose true effects are known."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlane.checks.base import run_all
from fairlane.cli.main import run
from fairlane.errors import Exit, FairlaneError
from fairlane.gate.decide import Outcome, decide
from fairlane.gate.grammar import parse
from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge
from tests.words import kind

STUDY = """\
name: small
platform: {kind: fake, effects: {fast: {speed: 1.3}}, noise: {sd: 1%}, failures: FAILURES}
lanes: {slow: {transport: iscsi}, same: {transport: iscsi}, fast: {transport: nvme_tcp}}
baseline: slow
workloads:
  main: {kind: fio, rw: [randread], bs: [4k, 64k], iodepth: [16], runtime: 1s}
  tail: {kind: fio, rw: [randread], bs: [4k], iodepth: [1], runtime: 1s, primary: lat_p99}
design: {seed: 3, looks: [10]}
"""

CELL = "main.4k-randread-qd16"


def carried_out(folder: Path, failures: str = "0%") -> Evidence:
    (folder / "study.yaml").write_text(STUDY.replace("FAILURES", failures))
    assert run(["run", str(folder / "study.yaml"), "--out", str(folder / "done")]) == Exit.OK
    return load_run(folder / "done")


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return carried_out(tmp_path_factory.mktemp("runs"))


def none(_: Evidence) -> Sequence[Finding]:
    return ()


def told(evidence: Evidence, *rules: str) -> list[Outcome]:
    return list(decide([parse(rule) for rule in rules], evidence, none))


def words(evidence: Evidence, *rules: str) -> set[str]:
    return {outcome.word for outcome in told(evidence, *rules)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ("fast >= 20 % over slow on main/", "met"),
        ("fast >= 45 % over slow on main/", "not met"),
        ("slow <= 0 % over fast on main/", "met"),
        ("fast <= 20 % over slow on main/", "not met"),
        ("slow <= 30 % under fast on main/", "met"),
        ("fast >= 15 % under slow in p99 on main/", "met"),
        ("fast >= 40 % under slow in p99 on main/", "not met"),
        ("same ties slow on main/", "met"),
        ("fast ties slow on main/", "not met"),
        ("fast within 60 % of slow on main/", "met"),
        ("fast faster than slow", "met"),
        ("slow slower than fast", "met"),
        ("fast slower than slow on main/", "not met"),
        ("same faster than slow on main/", "not met"),  # equal within the margin
        ("fast not faster than slow", "not met"),
        ("same not faster than slow on main/", "met"),
        ("same not slower than slow in p50 on main/", "met"),
        ("fast not slower than slow in p99 on main/ and tail/", "met"),
        ("fast faster than slow in p99 on main/4k and main/64k and tail/", "met"),
        ("same within 0.01 % of slow on main/", "not proven"),
        ("iops of fast >= 50k on 4k randread qd16", "met"),
        ("iops of fast <= 50k on 4k randread qd16", "not met"),
        ("p99 of fast <= 2ms on main/4k", "met"),
        ("bw of fast >= 1 TB/s on main/4k", None),
        ("no finding", "met"),
    ],
)
def test_the_truth_decides(evidence: Evidence, rule: str, word: str | None) -> None:
    if word is None:
        with pytest.raises(FairlaneError):
            parse(rule)
    else:
        assert words(evidence, rule) == {word}


def test_the_interval_decides_and_not_the_estimate(evidence: Evidence) -> None:
    """Between the interval's end and the ratio the estimate agrees with the rule, and the rule is not proven. What
    meets is one-sided at alpha: the interval at twice alpha, which is the tie test's. What fails is the interval of all
    comparisons together."""
    (v,) = (v for v in judge(evidence, ()) if v.lane == "fast" and v.primary and v.cell == "4k randread qd16")
    assert v.tie_low is not None
    assert v.tie_high is not None
    assert v.ratio is not None
    assert v.joint_high is not None
    low, high = v.tie_low, v.joint_high
    for factor, word in (
        (low - 1e-4, "met"),
        (low + 1e-4, "not proven"),
        (v.ratio - 1e-4, "not proven"),
        (v.tie_high + 1e-4, "not proven"),
        (high - 1e-4, "not proven"),
        (high + 1e-4, "not met"),
    ):
        assert words(evidence, f"fast >= {100 * (factor - 1):.4f} % over slow on main/4k") == {word}


def test_one_sided_rules_err_at_alpha_whatever_their_number(evidence: Evidence) -> None:
    """One look, 10 blocks: the ends are those of t at twice 5 %, times the lent or widened standard error; the level of
    the interval that decides the word is the stricter one of Holm."""
    (v,) = (v for v in judge(evidence, ()) if v.lane == "same" and v.primary and v.cell == "64k randread qd16")
    assert v.joint_low is not None
    assert v.joint_high is not None
    assert v.tie_low is not None
    assert v.tie_high is not None
    assert v.joint_low < v.tie_low < v.tie_high < v.joint_high
    assert v.low is not None
    assert v.low < v.tie_low, "printed at alpha, two-sided"
    edge = 100 * max(v.tie_high - 1, 1 / v.tie_low - 1)
    assert words(evidence, f"same within {edge + 0.01:.4f} % of slow on main/64k") == {"met"}
    assert words(evidence, f"same within {edge - 0.01:.4f} % of slow on main/64k") == {"not proven"}


def test_any_lane_may_be_the_baseline(evidence: Evidence) -> None:
    """Re-based, the same blocks give the reciprocal interval."""
    (there,) = told(evidence, "fast >= 0 % over same on main/4k")
    (back,) = told(evidence, "same <= 0 % over fast on main/4k")
    assert (there.word, back.word) == ("met", "met")
    study = evidence.study.model_copy(update={"baseline": "same"})
    rebased = judge(dataclasses.replace(evidence, study=study), ())
    assert {v.baseline for v in rebased} == {"same"}


def test_a_rule_without_metric_means_the_primary_of_each_workload(evidence: Evidence) -> None:
    outcomes = told(evidence, "fast ties slow")
    assert [o.cell for o in outcomes] == ["main/4k randread qd16", "main/64k randread qd16", "tail/4k randread qd1"]
    with pytest.raises(FairlaneError, check=kind("rule-direction")) as raised:
        told(evidence, "fast >= 10 % over slow on tail/")
    assert METRICS["lat_p99"].title in raised.value.message
    assert "under" in raised.value.hint
    assert words(evidence, "fast >= 10 % under slow on tail/") == {"met"}


def test_no_single_block_may_fall_short(evidence: Evidence) -> None:
    (easy,) = told(evidence, "fast >= 20 % over slow on main/4k, no block below 10 %")
    assert easy.word == "met"
    assert "10" in easy.observed.split()
    (hard,) = told(evidence, "fast >= 20 % over slow on main/4k, no block below 29.5 %")
    assert hard.word == "not met"
    blocks = {o.block: o.metrics["iops"] for o in evidence.observations if o.cell == CELL and o.lane == "fast"}
    slow = {o.block: o.metrics["iops"] for o in evidence.observations if o.cell == CELL and o.lane == "slow"}
    worst = min(blocks, key=lambda block: blocks[block] / slow[block])
    assert str(worst) in hard.reason.split()
    assert words(evidence, "iops of fast >= 50k on main/4k, no block below 60k") == {"met"}
    assert words(evidence, "iops of fast >= 50k on main/4k, no block below 1M") == {"not met"}


@pytest.mark.slow
def test_a_block_without_a_figure_may_be_any(tmp_path: Path) -> None:
    evidence = carried_out(tmp_path, failures="5%")
    assert words(evidence, "fast >= 15 % over slow on main/4k") == {"met"}
    (outcome,) = told(evidence, "fast >= 15 % over slow on main/4k, no block below 1 %")
    assert outcome.word == "not proven"
    (verdict,) = (v for v in judge(evidence, ()) if v.primary and (v.key, v.lane) == (CELL, "fast"))
    assert verdict.voided
    assert str(verdict.voided) in outcome.reason.split()


def test_a_cell_is_meant_by_its_words(evidence: Evidence) -> None:
    assert len(told(evidence, "fast ties slow on 4k")) == 2
    assert len(told(evidence, "fast ties slow on 4k*")) == 2
    assert len(told(evidence, "fast ties slow on randread ?4k")) == 1
    assert len(told(evidence, "fast ties slow on main/")) == 2
    assert len(told(evidence, "fast ties slow on 64k and tail/ and main/64k")) == 2
    with pytest.raises(FairlaneError, check=kind("cell-unknown")):
        told(evidence, "fast ties slow on 64k and 8k")
    with pytest.raises(FairlaneError, check=kind("cell-unknown")) as raised:
        told(evidence, "fast ties slow on 8k randread qd16")
    assert "'8k randread qd16'" in raised.value.message
    assert "randread qd16" in raised.value.hint


@pytest.mark.parametrize(
    ("rule", "wrong", "near"),
    [("fats ties slow", "fats", "fast"), ("fast ties solw", "solw", "slow"), ("iops of fats >= 5", "fats", "fast")],
)
def test_an_unknown_lane_gets_the_nearest(evidence: Evidence, rule: str, wrong: str, near: str) -> None:
    with pytest.raises(FairlaneError, check=kind("lane-unknown")) as raised:
        told(evidence, rule)
    assert near in raised.value.hint
    assert repr(wrong) in raised.value.message


def test_a_critical_finding_refuses_what_it_touches(evidence: Evidence) -> None:
    cell = evidence.cells()[0].key
    grave = Finding("odd", "critical", "the link was full", (cell,), ("fast",))
    rules = [parse(r) for r in ("fast >= 1 % over slow on main/", "same ties slow on main/", "no critical finding")]
    outcomes = decide(rules, evidence, lambda _: [grave])
    assert [o.word for o in outcomes] == ["refused", "met", "met", "met", "not met"]
    assert grave.check in outcomes[0].reason
    assert grave.message in outcomes[0].reason


def test_absolute_figures_of_a_model_prove_nothing(evidence: Evidence) -> None:
    modelled = dataclasses.replace(evidence, modelled=True)
    assert words(modelled, "iops of fast >= 1 on main/4k") == {"refused"}
    assert words(modelled, "fast >= 20 % over slow on main/4k") == {"met"}


def test_one_trial_proves_nothing(evidence: Evidence) -> None:
    first = dataclasses.replace(
        evidence,
        blocks=tuple(b for b in evidence.blocks if b.index == 0),
        observations=tuple(o for o in evidence.observations if o.block == 0),
    )
    assert words(first, "fast >= 1 % over slow on main/4k", "iops of fast >= 1 on main/4k") == {"not proven"}


def test_the_checks_of_the_run_are_asked_for_every_baseline(evidence: Evidence) -> None:
    """What compares lanes must be asked anew when a rule names another baseline."""
    asked = []

    def check(one: Evidence) -> Sequence[Finding]:
        asked.append(one.study.baseline)
        return run_all(one)

    decide([parse("fast ties same on main/4k"), parse("same ties fast on main/4k")], evidence, check)
    assert asked == ["slow", "same", "fast"]


@pytest.mark.slow
def test_a_copy_is_a_lane_like_any_other_and_a_broken_control_stains_every_rule(tmp_path: Path) -> None:
    """Only the judge compares a copy with its original alone; a rule may name any two lanes."""
    text = STUDY.replace("same: {transport: iscsi}", "same: {transport: iscsi, copy_of: slow}")
    (tmp_path / "study.yaml").write_text(text.replace("FAILURES", "0%"))
    assert run(["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "done")]) == Exit.OK
    evidence = load_run(tmp_path / "done")
    for rule in (
        "fast >= 20 % over same on main/4k",
        "same <= 15 % under fast on main/4k",
        "same ties slow on main/4k",
    ):
        (outcome,) = told(evidence, rule)
        assert outcome.word == ("not met" if rule.startswith("same <=") else "met"), rule
    control = Finding("aa_control", "critical", "the control failed", (evidence.cells()[0].key,))

    def check(one: Evidence) -> Sequence[Finding]:
        return [control] if any(lane.copy_of for lane in one.study.lanes.values()) else []

    (outcome,) = decide([parse("fast >= 20 % over same on main/4k")], evidence, check)
    assert outcome.word == "refused"
