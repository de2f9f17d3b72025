"""Three lanes and more in the report: the plausible winners, and how much of the spread pairing has cancelled."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from fairlane.records import Finding
from fairlane.report import html, markdown, model, terminal
from fairlane.report.winners import views
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study

LABELS = {"local": "local", "iscsi": "iSCSI", "nvme-tcp": "NVMe/TCP"}


def test_cells_with_the_same_answer_share_a_line(case):
    (view,) = views(case[0], (), LABELS)
    assert view.title == "Plausible winners by IOPS"
    assert view.lines == (("all 8 cells", "local"),)
    assert [row[0] for row in view.table.rows] == [cell.name for cell in case[0].cells()]
    assert view.table.columns == ("Cell", "local", "NVMe/TCP", "Plausible winners")
    assert all("beaten by local" in row[2] for row in view.table.rows)


def test_lanes_that_are_not_told_apart_are_named_together(case):
    (view,) = views(paired(case, 0.1, 0.1), (), LABELS)
    cells, answer = view.lines[0]
    assert answer == "local, iSCSI or NVMe/TCP: not told apart"
    assert cells.endswith("and 2 more cells")


def test_a_critical_finding_withholds_it_and_a_refusal_leaves_the_lane_out(case):
    evidence = case[0]
    first, second, *others = [cell.key for cell in evidence.cells()]
    drops = Finding("drops", "critical", "3 packets were dropped", (first,), ("local",))
    refusal = Finding("unmatched", "critical", "the disks differ", (second,), ("nvme-tcp",), refuses=True)
    (view,) = views(evidence, (drops, refusal), LABELS)
    told = dict(view.lines)
    assert told[evidence.cells()[0].name] == "withheld: critical finding"
    assert len(view.table.rows) == 7  # two lanes left: their verdict says it all
    assert len(others) == 6


def test_every_form_of_the_report_has_it(case):
    evidence, verdicts, _ = case
    report = model.build(evidence, verdicts, ())
    assert "Plausible winners by IOPS: all 8 cells: local" in markdown.render(report)
    page = html.render(report)
    assert "<li>all 8 cells: <strong>local</strong></li>" in page
    told = io.StringIO()
    terminal.show(Console(file=told), evidence, verdicts, ())
    assert "all 8 cells: local" in told.getvalue()


def test_names_from_outside_are_harmless_in_it(make_case):
    evidence, _, _ = make_case(local="<b>local\u202e</b>")
    report = model.build(evidence, judge(evidence, ()), ())
    assert "<b>local" not in html.render(report)
    assert "\u202e" not in markdown.render(report)


def paired(case, shared, own, provision=None, only=0.0):
    """The case with IOPS made anew: standard deviations of block, trial and of a lane in a provisioning."""
    evidence = case[0]
    rng = np.random.default_rng(1)
    blocks = {(c.key, b): rng.normal(0, shared) for c in evidence.cells() for b in range(6)}
    lanes = {(c.key, lane, p): rng.normal(0, only) for c in evidence.cells() for lane in LABELS for p in range(3)}
    seen = []
    for o in evidence.observations:
        log = blocks[o.cell, o.block] + rng.normal(0, own) + lanes[o.cell, o.lane, o.block // 2]
        context = {"provision": o.block // 2} if provision else {}
        seen.append(replace(o, metrics={"iops": 5000 * math.exp(log)}, context=context))
    return replace(evidence, observations=tuple(seen))


def pairing(evidence):
    """The sentences on the spread, which come last."""
    said = model.build(evidence, (), ()).sureness
    first = next(n for n, text in enumerate(said) if text.startswith("Pairing"))
    return said[first:]


def test_the_sentence_on_pairing(case):
    (said,) = pairing(paired(case, 0.2, 0.1))
    share = int(said.partition("intra-block correlation ")[2].partition(" %")[0])
    assert share == pytest.approx(80, abs=8)
    factor = float(said.partition("intervals ")[2].partition(" times narrower for IOPS")[0])
    assert factor == pytest.approx(1 / math.sqrt(1 - share / 100), abs=0.1)


def test_what_pairing_cannot_cancel_is_said(case):
    gained, provisioning = pairing(paired(case, 0.2, 0.05, provision=True, only=0.3))
    assert "times narrower for IOPS" in gained
    assert "a lane's own in each provisioning" in provisioning
    assert len(pairing(paired(case, 0.2, 0.1, provision=True))) == 1


def test_nothing_shared_is_said_plainly(case):
    evidence = paired(case, 0.0, 0.1)
    alternating = [replace(o, metrics={"iops": 5000 * (1.1 if o.position % 2 else 0.9)}) for o in evidence.observations]
    (said,) = pairing(replace(evidence, observations=tuple(alternating)))
    assert said.startswith("Pairing gained no precision in IOPS (intra-block correlation 0 %, 95 % interval 0 % to ")


def test_two_lanes_have_no_set_of_winners(make_case):
    evidence, _, _ = make_case()
    text = evidence.study_text.replace('  local: {transport: local, label: "local"}\n', "")
    study = parse_study(text, "two")
    two = replace(evidence, study=study, observations=tuple(o for o in evidence.observations if o.lane != "local"))
    assert model.build(two, judge(two, ()), ()).winners == ()
