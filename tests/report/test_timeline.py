"""Faults in reports: one panel per lane on one scale, counts said as counts, in every form of the report."""

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from fairlane.cli import _answer
from fairlane.records import Evidence, Observation
from fairlane.report import html, markdown, model, timeline
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from tests.figures import figures

STUDY = """\
name: faults
platform: {kind: lab, clock: wall, paths: 2, medium: {memory_backed: true, size: 64m}}
baseline: iscsi
lanes:
  iscsi: {transport: iscsi, label: "iSCSI <b>"}
  nvme-tcp: {transport: nvme_tcp}
workloads:
  main: {kind: failover, size: 16m}
design: {looks: [6]}
"""


def trial(cell: str, block: int, lane: str, position: int) -> Observation:
    """Two seconds before, three without I/O (iSCSI), one (NVMe), three after."""
    quiet = 30 if lane == "iscsi" else 10
    iops = [1000.0 + 10 * block] * 20 + [0.0] * quiet + [800.0] * (60 - quiet)
    stall = (quiet * 100 + block) * 1e6
    metrics = {"stall": stall, "recover_time": quiet * 1e8, "iops_before": 1000.0, "iops_after": 800.0}
    fault = {"kind": "link", "path": 0, "begins_ms": 2000.0, "ends_ms": 5000.0, "stall_ends_ms": 2000 + stall / 1e6,
             "iops_during": 300.0, "recovered": True, "carried": {}}  # fmt: skip
    data = {"written": 5000, "checked": 256, "wrong_blocks": 0, "io_errors": 0}
    load = {"series": {"interval_ms": 100, "iops": iops}}
    context = {"fault": fault, "data": data, "load": load}
    return Observation(cell, block, lane, position, "", metrics, {}, context)


def faults() -> Evidence:
    study = parse_study(STUDY, "faults.yaml")
    blocks = schedule(study, 6)
    seen = [trial(b.cell.key, b.index, lane, n) for b in blocks for n, lane in enumerate(b.order)]
    return Evidence("r", study, STUDY, 1, blocks, tuple(sorted(seen, key=lambda o: (o.block, o.lane))), {}, {})


@pytest.fixture
def evidence() -> Evidence:
    return faults()


LABEL = {"iscsi": "iSCSI", "nvme-tcp": "NVMe/TCP"}


def test_counts_are_said_as_counts(evidence: Evidence) -> None:
    (view,) = timeline.views(evidence, LABEL)
    assert view.sentences[0].startswith("iSCSI: ")
    assert figures(view.sentences[0]) == ["0", "0", "6", "3", "3"]
    lane, trials, _, worst, *_, errors, wrong = view.table.rows[1]
    assert lane == "NVMe/TCP"
    assert worst == "1 s"
    assert (wrong, errors, trials) == ("0", "0", "6")


def test_failed_trials_and_lasting_faults_are_not_hidden(evidence: Evidence) -> None:
    first, second, *rest = evidence.observations
    hung = Observation(first.cell, first.block, first.lane, first.position, failed="the load did not end")
    kept = {name: value for name, value in second.metrics.items() if name != "recover_time"}
    wrong = {**second.context, "data": {**second.context["data"], "wrong_blocks": 2}}
    changed = replace(evidence, observations=(hung, replace(second, metrics=kept, context=wrong), *rest))
    (view,) = timeline.views(changed, LABEL)
    assert figures(view.sentences[0]) == ["0", "0", "5", "3", "3", "1"]
    assert figures(view.sentences[1]) == ["2", "0", "6", "1", "1", "1"]
    assert figures(view.table.rows[0][1]) == ["5", "6"]
    assert figures(view.table.rows[1][5]) == ["1"]
    assert not re.search(r" m?s$", view.table.rows[1][5])  # no time: it never recovered


def test_panels_share_their_scales_and_mark_the_median_stall(evidence: Evidence) -> None:
    (view,) = timeline.views(evidence, LABEL)
    assert [panel.lane for panel in view.panels] == ["iSCSI", "NVMe/TCP"]
    assert view.panels[0].traces[view.panels[0].typical].block == 2
    root = ET.fromstring(timeline.figure(view, "f").svg)  # noqa: S314 - our own output
    space = "{http://www.w3.org/2000/svg}"
    shaded = root.findall(f"{space}rect")
    assert len(shaded) == 2
    assert {rect.attrib["x"] for rect in shaded} == {shaded[0].attrib["x"]}
    assert shaded[0].attrib["width"] == shaded[1].attrib["width"]
    numbers = [float(x) for path in root.iter(f"{space}path") for x in path.attrib["d"].replace("M", "L").split("L")
               if " " not in x.strip() and x.strip()]  # fmt: skip
    assert all(map(math.isfinite, numbers))
    titles = [e.text for e in root.iter(f"{space}title")]
    assert [figures(t or "") for t in titles if (t or "").startswith("NVMe/TCP, ")] == [["2", "1"]]


def test_a_trial_without_series_is_in_the_table_and_not_in_the_picture(evidence: Evidence) -> None:
    bare = [replace(o, context={k: v for k, v in o.context.items() if k != "load"}) for o in evidence.observations]
    (view,) = timeline.views(replace(evidence, observations=tuple(bare)), LABEL)
    assert view.panels == ()
    assert view.table.rows[0][1] == "6"
    assert 'id="faults"' in html.render(model.build(replace(evidence, observations=tuple(bare)), (), ()))


def test_every_form_of_the_report_tells_of_it(evidence: Evidence, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = judge(evidence, ())
    primary = next(v for v in verdicts if v.primary)
    assert (primary.metric, primary.verdict) == ("stall", "faster")
    report = model.build(evidence, verdicts, ())
    page, text = html.render(report), markdown.render(report)
    assert 'id="fault-1"' in page
    (first, *_), *_ = (view.sentences for view in report.failovers)
    counts = first.removeprefix("iSCSI <b>: ")
    assert f"iSCSI &lt;b&gt;: {counts}" in page.replace("\u00a0", " ")
    assert counts in text
    _answer.show(evidence, verdicts, ())
    assert counts in capsys.readouterr().out
