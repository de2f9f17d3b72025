"""What the figures of the report are tested with: runs of the fake platform, read by the code that reads any run."""

import asyncio
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fairlane.checks.base import run_all
from fairlane.platforms.fake import Fake
from fairlane.records import Evidence, Finding, Observation, Verdict
from fairlane.report import ecdf, heatmap, pareto, series
from fairlane.report.lanes import labels
from fairlane.report.svg import Figure
from fairlane.report.text import scrub
from fairlane.runs.observe import observe
from fairlane.runs.read import in_order
from fairlane.stats.efficiency import efficient
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule

Case = tuple[Evidence, tuple[Verdict, ...], tuple[Finding, ...], Mapping[str, str]]
"""The arguments of every ``views``."""
NS = "{http://www.w3.org/2000/svg}"
STUDY = """\
name: figures
platform: {kind: fake, effects: {%(effects)s}, noise: {sd: 1%%}, failures: %(failures)s}
baseline: iscsi
lanes:
  nvme: {transport: nvme_tcp, label: '%(label)s', %(nvme)s}
  iscsi: {transport: iscsi, label: iSCSI, %(iscsi)s}
  local: {transport: local, %(local)s}
workloads: {main: {kind: fio, runtime: 1s, %(workload)s}}
design: {seed: 3, looks: [%(blocks)s]}
"""
HOSTILE = '<script>x</script> "&" \u202eevil'


def fake(workload: str, *, blocks: int = 6, **parts: Any) -> Case:
    """A finished run of three lanes, as its run directory would give it, judged; ``parts`` fill the study's gaps."""
    gaps = dict.fromkeys(("effects", "nvme", "iscsi", "local"), "") | {"failures": "0%", "label": "NVMe/TCP"}
    text = STUDY % (gaps | parts | {"workload": workload, "blocks": blocks})
    study = parse_study(text, "figures.yaml")
    platform, plan = Fake(study), schedule(study, blocks)

    async def carried_out() -> list[Observation]:
        return [observe(b, t.lane, t.outputs) for b in plan async for t in platform.run_block(b)]

    seen = efficient(study, in_order(asyncio.run(carried_out())))
    events = ({"type": "start"}, {"type": "look", "look": 0, "blocks": blocks, "open": []}, {"type": "end"})
    return judged(Evidence("run", study, text, 3, plan, seen, {}, {}, events))


def judged(evidence: Evidence) -> Case:
    findings = run_all(evidence)
    return evidence, judge(evidence, findings), findings, labels(evidence.study)


def without_figures(case: Case) -> Case:
    """The same run with every trial failed."""
    lost = tuple(Observation(o.cell, o.block, o.lane, o.position, "lost") for o in case[0].observations)
    return judged(replace(case[0], observations=lost))


def drawn(figure: Figure) -> ET.Element:
    return ET.fromstring(figure.svg)  # noqa: S314 - our own output


def words(figure: Figure) -> list[str]:
    return [e.text or "" for e in drawn(figure).iter(f"{NS}text")]


def placed(figure: Figure, start: str) -> list[tuple[float, float]]:
    """Centres of the shapes whose title begins with ``start``, in the order drawn; circles and squares only."""
    found = []
    for group in drawn(figure).iter(f"{NS}g"):
        title = group.find(f"{NS}title")
        if title is not None and (title.text or "").startswith(start):
            d = next(e for e in group if e.tag == f"{NS}path").attrib["d"]
            x, y = (float(n) for n in d[1:].split("a")[0].split("H")[0].split())
            size = float(d.split("a")[1].split()[0]) if "a" in d else (float(d.split("H")[1].split("V")[0]) - x) / 2
            found.append((x + size, y if "a" in d else y + size))
    return found


MODULES = (heatmap, ecdf, series, pareto)
GRID = "rw: [randread, randwrite], bs: [4k, 64k], iodepth: [1, 4, 16], slo: {lat_p99: 300us}"


@pytest.fixture(scope="module")
def whole() -> Case:
    """Everything at once, with hostile labels."""
    return fake(GRID, failures="5%", label=HOSTILE, nvme="cost: 12", iscsi="cost: 10", local="cost: 30")


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_every_figure_has_data_words_and_no_markup_from_outside(module, whole: Case) -> None:
    views = module.views(*whole)
    assert views
    for n, view in enumerate(views):
        figure = module.figure(scrub(view), f"f-{n}")
        root = drawn(figure)
        assert (root.find(f"{NS}title").text or "").strip() == figure.title  # type: ignore[union-attr]
        assert root.find(f"{NS}desc").text  # type: ignore[union-attr]
        assert figure.caption
        assert figure.table.rows
        assert {len(row) for row in figure.table.rows} == {len(figure.table.columns)}
        assert "<script" not in figure.svg
        assert "\u202e" not in figure.svg + figure.title + figure.caption + str(figure.table)
        assert figure.svg == module.figure(scrub(view), f"f-{n}").svg
        ids = [e.attrib["id"] for e in root.iter() if "id" in e.attrib]
        assert len(ids) == len(set(ids))
        assert all(i.startswith(f"f-{n}") for i in ids)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_what_a_run_does_not_tell_is_not_drawn(module, whole: Case) -> None:
    assert module.views(*without_figures(whole)) == ()
    nothing = judged(replace(whole[0], observations=(), blocks=()))
    assert module.views(*nothing) == ()


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_nothing_is_drawn_outside_the_picture(module, whole: Case) -> None:
    for n, view in enumerate(module.views(*whole)):
        root = drawn(module.figure(view, f"f-{n}"))
        width, height = (float(x) for x in root.attrib["viewBox"].split()[2:])
        for text in root.iter(f"{NS}text"):
            assert 0 <= float(text.attrib["x"]) <= width
            assert 0 < float(text.attrib["y"]) <= height
