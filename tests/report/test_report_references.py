"""A reference lane in the report: drawn and marked, never counted."""

from pathlib import Path

import pytest

from fairlane.checks.base import run_all
from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.report import model
from fairlane.report.markdown import render
from fairlane.report.sections import Report
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge

STUDY = """\
name: shown
platform: {kind: fake, effects: {fast: {speed: 1.3}, local: {speed: 9}}, noise: {sd: 1%}}
lanes:
  slow: {transport: iscsi, cost: 1}
  fast: {transport: nvme_tcp, cost: 2}
  other: {transport: nvme_tcp, cost: 2}
  local: {transport: iscsi, label: the medium, ROLE cost: 9}
baseline: slow
workloads:
  main: {kind: fio, rw: [randread, randwrite], bs: [4k, 64k], iodepth: [1, 4, 16], runtime: 1s, slo: {lat_p99: 900us}}
design: {seed: 3, looks: [4]}
"""


def report(folder: Path, role: str) -> Report:
    (folder / "study.yaml").write_text(STUDY.replace("ROLE", role))
    assert run(["run", str(folder / "study.yaml"), "--out", str(folder / "done")]) == Exit.OK
    evidence = load_run(folder / "done")
    findings = run_all(evidence)
    return model.build(evidence, judge(evidence, findings), findings)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report(tmp_path_factory.mktemp("runs"), "role: reference,")


MARKED = "the medium (reference)"


@pytest.mark.slow
def test_its_figures_are_drawn_and_marked(shown: Report) -> None:
    (section,) = shown.sections
    assert {bar.lane for level in section.levels for cell in level.cells for bar in cell.bars} >= {"slow", MARKED}
    drawn = [bar for level in section.levels for cell in level.cells for bar in cell.bars if bar.lane == MARKED]
    assert all(bar.value for bar in drawn)
    assert MARKED in {lane.label for lane in shown.lanes}
    assert any(MARKED in str(view) for view in shown.curves)
    assert any(MARKED in str(view) for view in shown.ecdfs)


@pytest.mark.slow
def test_its_intervals_are_among_the_exploratory_ones(shown: Report) -> None:
    (section,) = shown.sections
    assert {c.lane for c in section.primary} == {"fast", "other"}
    mine = [c for c in section.exploratory if c.lane == MARKED]
    assert "IOPS" in {c.metric for c in mine}
    assert all(row.interval and row.low is not None for c in mine for row in c.rows)


def test_it_is_in_no_answer(shown: Report) -> None:
    assert all(MARKED not in view.lanes for view in shown.scores)
    assert all(MARKED not in str(view) for view in (*shown.winners, *shown.heats, *shown.costs))
    opening = render(shown).partition("## Scorecard")[0]
    assert "the medium" not in opening.partition("baseline?")[2].partition("Findings")[0]


@pytest.mark.slow
def test_the_same_lane_as_a_contender_is_in_all_of_them(tmp_path: Path) -> None:
    """What the test above asserts can fail."""
    contending = report(tmp_path, "")
    for views in (contending.scores, contending.winners, contending.heats, contending.costs):
        assert any("the medium" in str(view) for view in views)
    assert "the medium" in render(contending).partition("## Scorecard")[0]
