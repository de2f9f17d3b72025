"""axe-core over whole reports: nothing serious or critical, in light, dark and print, on a phone and at a desk."""

import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from fairlane.records import Evidence, Finding, Observation
from fairlane.stats.histogram import binned
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from tests.report.chromium import Opened, chromium, opened

pytestmark = pytest.mark.browser

EVERYTHING = """\
name: everything
question: Does a page with all there can be still work for everybody?
platform: {kind: lab, clock: wall, paths: 2, medium: {memory_backed: true, size: 64m}}
baseline: iscsi
lanes:
  iscsi: {transport: iscsi, label: iSCSI}
  iscsi-again: {transport: iscsi, copy_of: iscsi}
  nvme-tcp: {transport: nvme_tcp, label: NVMe/TCP}
  nfs: {transport: nfs}
workloads:
  fio: {kind: fio, rw: [randread, randwrite], bs: [4k, 64k], iodepth: [1, 4, 16], runtime: 1s, slo: {lat_p99: 2ms}}
  faults: {kind: failover, size: 16m}
design: {looks: [4]}
"""
STORM = """\
name: storm
platform: {kind: lab, clock: wall, medium: {file: true}}
baseline: copy
lanes: {overlay: {transport: clone_overlay}, copy: {transport: clone_copy}}
workloads: {main: {kind: clone, counts: [1, 2, 5, 10]}}
design: {looks: [2], vary: [provisioning, image_format]}
"""
PLACES = ("generator", "initiator", "target", "shared", "other")
AXE = {"resultTypes": ["violations"]}


def loaded(cell: Any, lane: str, rng: Random) -> dict[str, Any]:
    """fio: figures, bins and CPU time."""
    depth, slow = cell.params["iodepth"], {"nvme-tcp": 1.0, "nfs": 1.5}.get(lane, 1.2) * math.exp(rng.gauss(0, 0.02))
    latency = slow * (80_000 + 6_000 * depth + cell.params["bs"])
    ns = (latency * np.exp(np.random.default_rng(rng.getrandbits(32)).normal(0, 0.3, 20_000))).astype(np.int64)
    iops = depth / float(ns.mean()) * 1e9
    cpu = {place: latency / 50 * n for n, place in enumerate(PLACES, start=1)}
    metrics = {
        "iops": iops,
        "bw": iops * cell.params["bs"],
        "lat_mean": float(ns.mean()),
        "cpu_per_io": sum(cpu.values()),
    }
    return {"metrics": metrics, "histograms": {"read.lat": binned(ns)}, "context": {"cpu": {"by_place": cpu}}}


def broken(lane: str, block: int) -> dict[str, Any]:
    """failover: a gap in a series."""
    quiet = 30 if lane.startswith("iscsi") else 10
    stall = (quiet * 100 + block) * 1e6
    metrics = {"stall": stall, "recover_time": quiet * 1e8, "iops_before": 1000.0 + block, "iops_after": 800.0 + block}
    fault = {"kind": "link", "path": 0, "begins_ms": 2000.0, "ends_ms": 5000.0, "stall_ends_ms": 2000 + stall / 1e6,
             "iops_during": 300.0, "recovered": True, "carried": {}}  # fmt: skip
    series = {"interval_ms": 100, "iops": [1000.0] * 20 + [0.0] * quiet + [800.0] * (60 - quiet)}
    data = {"written": 5000, "checked": 256, "wrong_blocks": 0, "io_errors": 0}
    return {"metrics": metrics, "context": {"fault": fault, "data": data, "load": {"series": series}}}


def everything() -> Evidence:
    """Curves, faults, CPU time, abilities, histograms, failed trials, many cells."""
    study, rng, seen = parse_study(EVERYTHING, "everything"), Random(3), []  # noqa: S311 - figures for a page
    blocks = schedule(study, 4)
    for block in blocks:
        for place, lane in enumerate(block.order):
            told = broken(lane, block.index) if block.cell.kind == "failover" else loaded(block.cell, lane, rng)
            seen.append(Observation(block.cell.key, block.index, lane, place, **told))
    seen[5] = replace(seen[5], failed="exit code 1: <b>Input/output error", metrics={}, histograms={}, context={})
    can = {"discard": {"value": "yes", "evidence": "1 MiB"}, "resize": {"value": "no", "evidence": "refused"}}
    lanes: dict[str, Mapping[str, Any]] = {n: {"device": f"/dev/{n}", "capabilities": can} for n in study.lanes}
    lanes["nfs"] = {**lanes["nfs"], "capabilities": {**can, "discard": {"value": "no", "evidence": "max is 0"}}}
    return Evidence(
        "everything", study, EVERYTHING, 1, blocks, tuple(sorted(seen, key=lambda o: (o.cell, o.block, o.lane))),
        {"lanes": lanes, "platform": {"kernel": "6.1", "link": {"rate": "25gbit"}}},
        {"fairlane": "0.1.0", "packages": {f"package-{n}": str(n) for n in range(20)}},
        emulated=True,
    )  # fmt: skip


def storm() -> Evidence:
    study, seen = parse_study(STORM, "storm"), []
    for cell in study.cells():
        for block in range(2):
            for place, lane in enumerate(study.lanes):
                count = cell.params["count"]
                created = count * {"copy": 0.8e9, "overlay": 0.1e9}[lane] * (1 + block / 100)
                times = (created, created + 3e9, created + 4e9, created + 4e9 + count * 1e9)
                names = ("vm_created_mean", "vm_booted_mean", "vm_ready_mean", "job_time")
                seen.append(Observation(cell.key, block, lane, place, metrics=dict(zip(names, times, strict=True))))
    return Evidence("storm", study, STORM, 1, tuple(schedule(study, 2)), tuple(seen), {}, {})


@pytest.fixture(scope="module")
def pages(tmp_path_factory: Any, write: Any) -> dict[str, Path]:
    """Reports to look at, made before the browser runs: a page of each kind."""
    folder = tmp_path_factory.mktemp("reports")
    found: dict[str, Path] = {}
    for evidence in (everything(), storm()):
        cells = [cell.key for cell in evidence.cells()]
        told = (
            Finding("drops", "critical", "3 packets were dropped.", (cells[0],), (), {"drops": 3}),
            Finding("spread", "warning", "p99 varies more than 20 %.", (cells[1],), (), {"spread": 0.27}),
            Finding("unmatched", "critical", "caches differ", (cells[-1],), refuses=True),
            Finding("position", "info", "The order made no difference."),
        )
        found[evidence.name] = write((evidence, judge(evidence, told), told), folder / evidence.name)[0]
    return found


@pytest.fixture(scope="module")
def printed(tmp_path_factory: Any) -> Path:
    """The report of a run by the command itself."""
    folder: Path = tmp_path_factory.mktemp("printed") / "fake"
    for command in (["run", "fake", "--out"], ["report"]):
        subprocess.run([sys.executable, "-m", "fairlane", *command, folder], check=True, capture_output=True)
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser(pages: object) -> Iterator[Browser]:
    with chromium() as program:
        yield program


def severe(seen: Opened) -> list[str]:
    """Violations that keep somebody out: rule, element, and what axe says."""
    return [
        f"{v['id']} ({v['impact']}): {node['target']} {node['failureSummary']}"
        for v in Axe().run(seen.page, options=AXE).response["violations"]
        for node in v["nodes"]
        if v["impact"] in {"serious", "critical"}
    ]


VIEWS = [(1280, "light"), (1280, "dark"), (360, "light"), (360, "dark"), (1280, "print")]
FIRST = {("storm", 360, "light"), ("storm", 1280, "print")}
"""Views that take seconds; the others are slow."""


@pytest.mark.parametrize(
    ("name", "width", "look"),
    [
        pytest.param(name, width, look, marks=() if (name, width, look) in FIRST else pytest.mark.slow)
        for name in ("everything", "storm", "fake")
        for width, look in VIEWS
    ],
)
def test_nobody_is_kept_out(browser: Browser, request: Any, name: str, width: int, look: str) -> None:
    media = "print" if look == "print" else None
    page = request.getfixturevalue("printed") if name == "fake" else request.getfixturevalue("pages")[name]
    with opened(browser, page, width=width, dark=look == "dark", media=media) as seen:
        assert seen.overflow() == 0
        seen.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert severe(seen) == []
        assert seen.overflow() == 0
        assert seen.asked == []
        assert seen.complaints == []


def test_the_page_with_everything_has_everything(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["everything"]) as seen:
        found = set(seen.page.evaluate("[...document.querySelectorAll('section')].map(s => s.id)"))
    assert {"answer", "verdicts", "figures", "faults", "curves", "cpu", "able-1", "findings", "trials"} <= found


def test_axe_would_say_so(browser: Browser, tmp_path: Path) -> None:
    """The tests above can fail."""
    path = tmp_path / "bad.html"
    path.write_text("<!DOCTYPE html><title>x</title><p style='color:#bbb;background:#fff'>faint</p><img src='data:,'>")
    with opened(browser, path) as seen:
        told = severe(seen)
    assert {line.split(" ")[0] for line in told} >= {"color-contrast", "image-alt", "html-has-lang"}


@pytest.mark.parametrize("name", ["everything", "storm"])
def test_on_a_phone_the_words_of_every_figure_can_be_read(browser: Browser, pages: dict[str, Path], name: str) -> None:
    with opened(browser, pages[name], width=390) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert seen.overflow() == 0
        assert seen.check("smallLabels") == []
