"""Three lanes and more in the report: the plausible winners, and how much of the spread pairing has cancelled."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fairlane.cli import _answer
from fairlane.records import Finding
from fairlane.report import html, markdown, model
from fairlane.report.winners import views
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study
from tests.figures import figures

LABELS = {"local": "local", "iscsi": "iSCSI", "nvme-tcp": "NVMe/TCP"}


def test_cells_with_the_same_answer_share_a_line(case):
    (view,) = views(case[0], judge(case[0], ()), (), LABELS)
    assert "IOPS" in view.title
    ((cells, answer),) = view.lines
    assert (figures(cells), answer) == (["8"], "local")
    assert [row[0] for row in view.table.rows] == [cell.name for cell in case[0].cells()]
    assert view.table.columns[1:-1] == ("local", "NVMe/TCP")
    assert all("local" in row[2] for row in view.table.rows)
    assert {row[-1] for row in view.table.rows} == {"local"}


def test_lanes_that_are_not_told_apart_are_named_together(case):
    evidence = paired(case, 0.1, 0.1)
    (view,) = views(evidence, judge(evidence, ()), (), LABELS)
    cells, answer = view.lines[0]
    assert [label for label in LABELS.values() if label in answer] == list(LABELS.values())
    assert figures(cells) == ["8"]


def test_a_critical_finding_withholds_it_and_a_refusal_leaves_the_lane_out(case):
    evidence = case[0]
    first, second, *others = [cell.key for cell in evidence.cells()]
    drops = Finding("drops", "critical", "3 packets were dropped", (first,), ("local",))
    refusal = Finding("unmatched", "critical", "the disks differ", (second,), ("nvme-tcp",), refuses=True)
    (view,) = views(evidence, judge(evidence, (drops, refusal)), (drops, refusal), LABELS)
    told = dict(view.lines)
    withheld = told[evidence.cells()[0].name]
    assert not any(label in withheld for label in LABELS.values())
    assert len(view.table.rows) == 7  # two lanes left: their verdict says it all
    assert len(others) == 6


def test_every_form_of_the_report_has_it(case, capsys):
    evidence, verdicts = case[0], judge(case[0], ())
    report = model.build(evidence, verdicts, ())
    (view,) = report.winners
    ((cells, answer),) = view.lines
    assert f"### {view.title}\n\n{cells}: {answer}" in markdown.render(report)
    page = html.render(report)
    assert f"<li>{cells}: <strong>{answer}</strong></li>" in page
    _answer.show(evidence, verdicts, ())
    assert f"{cells}: {answer}" in capsys.readouterr().out


def test_names_from_outside_are_harmless_in_it(make_case):
    evidence, _, _ = make_case(local="<b>local\u202e</b>")
    report = model.build(evidence, judge(evidence, ()), ())
    assert "<b>local" not in html.render(report)
    assert "\u202e" not in markdown.render(report)


def paired(case, shared, own, provision=False, only=0.0):
    """The case with IOPS made anew: standard deviations of block, trial and of a lane in a provisioning."""
    evidence = case[0]
    rng = np.random.default_rng(1)
    blocks = {(c.key, b): rng.normal(0, shared) for c in evidence.cells() for b in range(6)}
    lanes = {(c.key, lane, p): rng.normal(0, only) for c in evidence.cells() for lane in LABELS for p in range(3)}
    seen = []
    for o in evidence.observations:
        log = blocks[o.cell, o.block] + rng.normal(0, own) + lanes[o.cell, o.lane, o.block // 2]
        seen.append(replace(o, metrics={"iops": 5000 * math.exp(log)}, context={}))
    changes = {"provisionings": 3, "looks": (6,)} if provision else {}
    design = evidence.study.design.model_copy(update=changes)
    return replace(evidence, observations=tuple(seen), study=evidence.study.model_copy(update={"design": design}))


def pairing(evidence):
    """The sentences on the spread, which come last."""
    said = model.build(evidence, (), ()).sureness
    first = next(n for n, text in enumerate(said) if "correlation" in text)
    return said[first:]


def test_the_sentence_on_pairing(case):
    (said,) = pairing(paired(case, 0.2, 0.1))
    factor, share, level, *_ = map(float, figures(said))
    assert "IOPS" in said
    assert level == 95
    assert share == pytest.approx(80, abs=8)
    assert factor == pytest.approx(1 / math.sqrt(1 - share / 100), abs=0.1)


def test_what_pairing_cannot_cancel_is_said(case):
    gained, provisioning = pairing(paired(case, 0.2, 0.05, provision=True, only=0.3))
    assert "IOPS" in gained
    assert len(figures(gained)) == 5
    assert 70 < float(figures(provisioning)[0]) < 100  # per cent: 0.3 against 0.2 and 0.05, squared
    assert len(pairing(paired(case, 0.2, 0.1, provision=True))) == 1


def test_how_often_volumes_were_made_is_said(case):
    once, anew = (model.build(paired(case, 0.2, 0.1, provision=several), (), ()).scope for several in (False, True))
    assert [figures(text) for text in once] == []
    assert [figures(text) for text in anew] == [["3", "2"]]  # times, blocks


def test_nothing_shared_is_said_plainly(case):
    evidence = paired(case, 0.0, 0.1)
    alternating = [replace(o, metrics={"iops": 5000 * (1.1 if o.position % 2 else 0.9)}) for o in evidence.observations]
    (said,) = pairing(replace(evidence, observations=tuple(alternating)))
    assert "IOPS" in said
    assert figures(said)[:3] == ["0", "95", "0"]
    assert len(figures(said)) == 4  # no factor


def test_two_lanes_have_no_set_of_winners(make_case):
    evidence, _, _ = make_case()
    text = evidence.study_text.replace('  local: {transport: local, label: "local"}\n', "")
    study = parse_study(text, "two")
    two = replace(evidence, study=study, observations=tuple(o for o in evidence.observations if o.lane != "local"))
    assert model.build(two, judge(two, ()), ()).winners == ()
