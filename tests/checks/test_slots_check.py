"""Long trials beside short ones: what changes within minutes is planted, in noise."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from fairlane.cli.main import run as main
from fairlane.errors import Exit
from fairlane.records import Evidence, Observation
from fairlane.study.base import CHECK_BLOCKS
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule

STUDY = """\
name: minutes
platform: {kind: fake, noise: {placement: 3%}}
lanes: {a: {transport: iscsi}, b: {transport: iscsi}, c: {transport: iscsi}}
baseline: a
workloads:
  main: {kind: fio, iodepth: [1, 16], ramp: 1s, runtime: 1s}
  minutes: {kind: fio, check_of: main, iodepth: [16], ramp: 5s, runtime: 60s}
design: {PROVISIONINGS}
"""
SHORT, LONG = "main.4k-randread-qd16", "minutes.4k-randread-qd16"


def build(rng, change, sd=0.01, provisionings=1):
    """Lane b is 20 % faster in short trials, and by ``change`` (log scale) less so in long ones. Where volumes are made
    anew, each making moves lane b by a tenth, in short and in long trials alike."""
    text = STUDY.replace("PROVISIONINGS", f"provisionings: {provisionings}" if provisionings > 1 else "looks: [12]")
    study = parse_study(text, "minutes.yaml")
    places = rng.normal(0, 0.1, 20) if provisionings > 1 else np.zeros(20)
    blocks = schedule(study, 12)
    observations = []
    for block in blocks:
        for position, lane in enumerate(block.order):
            log = rng.normal(0, sd)
            if lane == "b":
                log += math.log(1.2) + places[study.design.provisioning_of(block)]
                log += change if block.cell.key == LONG else 0
            figures = {"iops": 1000 * math.exp(log)}
            observations.append(Observation(block.cell.key, block.index, lane, position, "", figures))
    observations.sort(key=lambda o: (o.cell, o.block, o.lane))
    return Evidence("r", study, text, 1, blocks, tuple(observations), {}, {})


def test_a_ratio_that_falls_within_a_minute_is_found(run_check):
    (only,) = run_check("slots", build(np.random.default_rng(1), -0.15))
    assert (only.kind, only.severity, only.lanes, only.cells) == ("contradicted", "critical", ("b",), (SHORT,))
    proof = only.evidence[SHORT]
    assert proof["short"] == pytest.approx(0.2, abs=0.02)
    assert proof["long"] == pytest.approx(1.2 * math.exp(-0.15) - 1, abs=0.03)
    assert proof["low"] < proof["change"] < proof["high"] < -0.05
    assert proof["blocks"] == CHECK_BLOCKS


def test_a_ratio_that_stays_is_not(run_check):
    assert run_check("slots", build(np.random.default_rng(2), 0.0, sd=0.004)) == []


def test_a_change_within_the_margin_contradicts_nothing(run_check):
    rng = np.random.default_rng(3)
    kinds = [f.kind for _ in range(40) for f in run_check("slots", build(rng, -math.log(1.05)))]
    assert kinds.count("contradicted") <= 4  # of 40, at 2.5 % or less each
    assert "unclear" in kinds


def test_blocks_that_do_not_tell_say_so(run_check):
    (first, *_) = run_check("slots", build(np.random.default_rng(4), 0.0, sd=0.05))
    assert (first.kind, first.severity) == ("unclear", "info")


def test_where_volumes_come_to_lie_is_no_change_within_minutes(run_check):
    """Long blocks of two provisionings against the short ones of the same two, not against the mean of all six."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        assert run_check("slots", build(rng, 0.0, sd=0.004, provisionings=6)) == []
    kinds = [f.kind for f in run_check("slots", build(rng, -0.15, sd=0.004, provisionings=6))]
    assert kinds == ["contradicted"]


def test_a_burst_that_a_short_study_takes_for_the_whole_loses_its_headline(tmp_path, capsys):
    """Lane b is 20 % faster for 20 s: all of a short trial, a quarter of a long one."""
    text = STUDY.replace("noise: {placement: 3%}", "effects: {b: {warm: {speed: 1.2, time: 20s}}}")
    (tmp_path / "study.yaml").write_text(text.replace("PROVISIONINGS", "looks: [6]"))
    assert main(["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "run")]) == Exit.OK
    capsys.readouterr()
    assert main(["verdicts", str(tmp_path / "run"), "--primary", "--format", "json"]) == Exit.OK
    verdicts = {(v["key"], v["lane"]): v for v in json.loads(capsys.readouterr().out)}
    assert {key for key, _ in verdicts} == {SHORT, "main.4k-randread-qd1"}  # the long cell gets no verdict
    assert (verdicts[SHORT, "b"]["verdict"], verdicts[SHORT, "b"]["headline"]) == ("faster", False)
    assert verdicts["main.4k-randread-qd1", "b"]["headline"]
    assert verdicts[SHORT, "c"]["verdict"] != "refused"


def test_failed_long_trials_leave_too_little(run_check):
    whole = build(np.random.default_rng(6), -0.3)
    failed = tuple(
        replace(o, failed="killed", metrics={}) if o.cell == LONG and o.lane == "a" and o.block else o
        for o in whole.observations
    )
    assert run_check("slots", replace(whole, observations=failed)) == []
