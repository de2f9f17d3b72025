"""IOPS per Gbit/s and per cost: only where they say more than IOPS."""

import json
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.records import Observation
from fairlane.stats.efficiency import efficient
from fairlane.study.load import parse_study
from fairlane.study.spec import Study

STUDY = """
name: links
platform: {{kind: fake}}
baseline: fc
lanes:
  fc: {{transport: local{fc}}}
  tcp: {{transport: local{tcp}}}
workloads: {{main: {{kind: fio}}}}
"""


def study(fc: str = "", tcp: str = "") -> Study:
    return parse_study(STUDY.format(fc=fc, tcp=tcp), "test.yaml")


def trial(lane: str, **more: dict[str, object]) -> Observation:
    context = {"conditions": more} if more else {}
    return Observation("main.x", 0, lane, 0, metrics={"iops": 50_000.0}, steps={"iops": 0.001}, context=context)


def test_links_of_different_speed_are_divided_by() -> None:
    asked = study(", conditions: {link_speed: 32gbit}", ", conditions: {link_speed: 25gbit}")
    fc, tcp = efficient(asked, [trial("fc"), trial("tcp")])
    assert fc.metrics["iops_per_gbit"] == pytest.approx(50_000 / 32)
    assert tcp.metrics["iops_per_gbit"] == pytest.approx(2_000)
    assert tcp.steps["iops_per_gbit"] == 0.001
    assert efficient(asked, [fc, tcp]) == (fc, tcp)


def test_equal_links_say_nothing_new() -> None:
    asked = study(", conditions: {link_speed: 25gbit}", ", conditions: {link_speed: 25gbit}")
    assert "iops_per_gbit" not in efficient(asked, [trial("fc"), trial("tcp")])[0].metrics


def test_what_the_trial_itself_tells_wins_and_nonsense_is_not_known() -> None:
    asked = study(", conditions: {link_speed: 25gbit}", ", conditions: {link_speed: 25gbit}")
    fc, _tcp = efficient(asked, [trial("fc", link_speed=10e9), trial("tcp")])  # type: ignore[arg-type]
    assert fc.metrics["iops_per_gbit"] == pytest.approx(5_000)
    odd = efficient(asked, [trial("fc", link_speed="fast"), trial("tcp")])[0]  # type: ignore[arg-type]
    assert "iops_per_gbit" not in odd.metrics


def test_cost_divides_where_it_is_declared() -> None:
    fc, tcp = efficient(study(", cost: 10"), [trial("fc"), trial("tcp")])
    assert fc.metrics["iops_per_cost"] == 5_000
    assert "iops_per_cost" not in tcp.metrics


def test_a_failed_trial_has_no_efficiency() -> None:
    gone = Observation("main.x", 0, "fc", 0, failed="gone")
    assert efficient(study(", cost: 10"), [gone]) == (gone,)


def test_it_may_be_the_primary_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    links = {"fc": ", conditions: {link_speed: 32gbit}", "tcp": ", conditions: {link_speed: 25gbit}"}
    text = STUDY.format(**links).replace("{kind: fio}", "{kind: fio, runtime: 1s, primary: iops_per_gbit}")
    (tmp_path / "study.yaml").write_text(text + "design: {vary: [link_speed], looks: [6, 8]}\n")
    assert run(["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "done")]) == Exit.OK
    capsys.readouterr()
    assert run(["verdicts", str(tmp_path / "done"), "--metric", "iops_per_gbit", "--format", "json"]) == Exit.OK
    (verdict,) = json.loads(capsys.readouterr().out)
    assert verdict["verdict"] == "faster"
    assert verdict["ratio"] == pytest.approx(32 / 25, rel=0.03)
