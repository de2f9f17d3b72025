"""The picture of clone storms says what the trials say."""

import dataclasses
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from fairlane.records import Evidence, Observation
from fairlane.report import html, markdown, model, storms
from fairlane.report.text import DASH
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from tests.figures import figures

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


def told(count: int, created: float, waited: float) -> dict[str, Any]:
    """Context of a storm in a cluster, seconds in nanoseconds; its last machine straggles."""
    ends = {"requested": 1e6, "bound": created / 2, "cloned": created, "scheduled": created + 0.5e9,
            "running": created + 1e9, "answers": created + 3e9, "first_io": created + 4e9}  # fmt: skip
    phases = {name: ns / 1e6 for name, ns in ends.items()}
    slow = {"name": "<clone>-4", "answered_ms": 41e3, "warnings": ["FailedMount: <device> busy", "other"]}
    return {
        "vms": [{"name": f"clone{n}", "phases_ms": phases} for n in range(count)],
        "storm": {"used": ["csi-clone"], "stragglers": [slow] if count == 5 else [],
                  "rates": {"qps": 50.0, "waited": waited}},
    }  # fmt: skip


def evidence(
    *, counts: str = "[1, 2, 5]", failed: tuple[str, int] = ("", 0), cluster: bool = False, waited: float = 0.0
) -> Evidence:
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
                context = told(count, created, waited) if cluster else {}
                seen.append(Observation(cell.key, block, lane, place, bad, {} if bad else metrics, context=context))
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
    found = storms.view(run, "main", LABEL)
    assert found
    title = storms.figure(found, "s").title
    assert title in page
    assert re.search(r"<th\b[^>]*>&lt;overlay&gt;: ", page)
    assert "<overlay>" not in page
    assert f"### {title}" in text


def test_phases_are_stacked_for_each_size_and_lane() -> None:
    found = storms.view(evidence(cluster=True), "main", LABEL)
    assert found
    copy = found.lines[0]
    assert copy.sizes[2].parts == pytest.approx((4.02e9, 0.5e9, 0.5e9, 2e9, 1e9))
    drawn = storms.figure(found, "s")
    bars = [e for e in ET.fromstring(drawn.svg).iter(f"{NS}g") if len(figures(e[0].text or "")) == 6]  # noqa: S314
    told_of = bars[4][0].text or ""
    assert told_of.startswith("copy, 5 ")
    assert figures(told_of) == ["5", "4.02", "500", "500", "2", "1"]
    assert len(bars) == 6
    lengths = [[float(piece.attrib["width"]) for piece in bar.iter(f"{NS}rect")] for bar in bars]
    assert all(len(own) == 5 for own in lengths)
    assert sum(lengths[4]) == max(map(sum, lengths))  # the longest: five whole copies
    first = next(n for n, head in enumerate(drawn.table.columns) if "copy" in head and "volume" in head)
    assert drawn.table.rows[2][first : first + 5] == ("4.02 s", "500 ms", "500 ms", "2 s", "1 s")


def test_how_clones_were_made_who_straggled_and_what_waited_is_told() -> None:
    found = storms.view(evidence(cluster=True, waited=3.5), "main", LABEL)
    assert found
    made, slow, waited = found.notes
    assert "csi-clone (<overlay>, copy)" in made
    assert figures(slow)[0] == "4"
    assert slow.count("<clone>-4") == 3
    assert slow.count("41 s (FailedMount: <device> busy)") == 3
    assert figures(slow)[-1] == "1"
    assert figures(waited) == ["12", "50", "3.5"]
    page = html.render(model.build(evidence(cluster=True, waited=3.5), (), ()))
    assert "&lt;device&gt; busy" in page
    assert "<device>" not in page


def test_how_exactly_the_end_of_a_storm_is_known_is_told() -> None:
    run = evidence(cluster=True)
    seen = tuple(
        dataclasses.replace(o, steps={"job_time": 0.01 * (n + 1)}, context={**o.context, "storm": {"gaps": int(n < 2)}})
        for n, o in enumerate(run.observations)
    )
    found = storms.view(dataclasses.replace(run, observations=seen), "main", LABEL)
    assert found
    assert [figures(note) for note in found.notes] == [["12.0", "6.5"], ["2"]]


@pytest.mark.parametrize(
    "context",
    [{"vms": 3}, {"vms": [3]}, {"vms": [{"phases_ms": {"bound": "x"}}]}, {"storm": []}, {"storm": {"used": "copy"}},
     {"storm": {"stragglers": [None, {"answered_ms": "x"}, 3], "rates": 3}}, {"vms": []}],
)  # fmt: skip
def test_what_a_trial_tells_wrongly_is_not_drawn(context: dict[str, Any]) -> None:
    run = evidence()
    seen = tuple(dataclasses.replace(o, context=context) for o in run.observations)
    found = storms.view(dataclasses.replace(run, observations=seen), "main", LABEL)
    assert found
    assert not found.notes
    assert not any(size.parts for line in found.lines for size in line.sizes)
