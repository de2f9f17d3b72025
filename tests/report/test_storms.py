"""The picture of clone storms says what the trials say."""

import re
import xml.etree.ElementTree as ET

from fairlane.records import Evidence, Observation
from fairlane.report import html, markdown, model, storms
from fairlane.report.text import DASH
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule

STUDY = """
name: storm
platform: {kind: lab, clock: wall, medium: {file: true}}
baseline: copy
lanes:
  overlay: {transport: clone_overlay, label: <overlay>}
  copy: {transport: clone_copy}
workloads:
  main: {kind: clone, counts: [1, 2, 5]}
design: {looks: [2], vary: [provisioning, image_format]}
"""
NS = "{http://www.w3.org/2000/svg}"


def evidence(*, counts: str = "[1, 2, 5]", failed: tuple[str, int] = ("", 0)) -> Evidence:
    text = STUDY.replace("[1, 2, 5]", counts)
    study = parse_study(text, "x")
    seen = []
    for cell in study.cells():
        for block in range(2):
            for place, lane in enumerate(study.lanes):
                count = cell.params["count"]
                created = count * {"copy": 0.8e9, "overlay": 0.1e9}[lane] * (1 + block / 100)
                times = (created, created + 3e9, created + 4e9, created + 4e9 + count * 1e9)
                metrics = dict(
                    zip(("vm_created_mean", "vm_booted_mean", "vm_ready_mean", "job_time"), times, strict=True)
                )
                bad = "lost" if (lane, count) == failed else ""
                seen.append(Observation(cell.key, block, lane, place, bad, {} if bad else metrics))
    blocks = tuple(schedule(study, 1))
    return Evidence("run", study, text, 1, blocks, tuple(seen), {}, {}, complete=True)


LABEL = {"overlay": "<overlay>", "copy": "copy"}


def test_a_line_per_lane_the_baseline_first_with_a_point_per_size() -> None:
    found = storms.view(evidence(), "main", LABEL)
    assert found
    assert [(line.lane, line.index) for line in found.lines] == [("copy", 0), ("<overlay>", 1)]
    assert [size.count for size in found.lines[0].sizes] == [1, 2, 5]
    drawn = storms.figure(found, "s")
    solid = [
        [float(y) for _, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", e.attrib["d"])]
        for e in ET.fromstring(drawn.svg).iter(f"{NS}path")  # noqa: S314 - our own output
        if e.attrib.get("stroke-width") == "2"
    ]
    copy, overlay = solid
    assert copy == sorted(copy, reverse=True)  # more machines, more time: higher up
    assert all(c < o for c, o in zip(copy, overlay, strict=True))  # copies take longer
    assert drawn.table.rows[2][0] == "5"
    assert drawn.table.rows[2][1] == "4.02 s"


def test_failed_trials_leave_a_gap_and_one_size_makes_no_picture() -> None:
    found = storms.view(evidence(failed=("overlay", 2)), "main", LABEL)
    assert found
    assert [size.count for size in found.lines[1].sizes] == [1, 5]
    assert storms.figure(found, "s").table.rows[1][5:] == (DASH,) * 4
    assert storms.view(evidence(counts="[3]"), "main", LABEL) is None


def test_reports_have_picture_and_table() -> None:
    run = evidence()
    report = model.build(run, judge(run, ()), ())
    page, text = html.render(report), markdown.render(report)
    assert "Time to ready against machines made at once" in page
    assert "&lt;overlay&gt;: last answered" in page
    assert "<overlay>" not in page
    assert "### Time to ready against machines made at once" in text
