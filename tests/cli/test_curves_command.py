"""``fairlane curves`` and the report's curves, on a real run of the fake platform whose true ratio is 1.2."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from tests.words import kinds

STUDY = """\
name: ladder
platform: {kind: fake, effects: {fast: {speed: 1.2}}, noise: {sd: 1%}}
baseline: slow
lanes: {slow: {transport: local}, fast: {transport: local}}
workloads:
  main: {kind: fio, iodepth: [1, 2, 4, 8, 16, 32], runtime: 10s, slo: {lat_p99: 500us}}
design: {looks: [6]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("curves")
    (place / "study.yaml").write_text(STUDY)
    assert run(["run", str(place / "study.yaml"), "--out", str(place / "done")]) == Exit.OK
    return place / "done"


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    capsys.readouterr()
    assert run(["curves", *args]) == Exit.OK
    return capsys.readouterr().out


@pytest.mark.slow
def test_the_lanes_are_compared_within_the_objective(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, str(folder))
    title = next(line for line in out.splitlines() if line.startswith("main: "))
    assert all(part in title for part in ("4k randread", "iodepth", "p99", "1", "32"))
    (answer,) = [line for line in out.splitlines() if line.startswith("•")]
    assert "p99" in answer
    assert "500 µs" in answer
    assert "▲ faster" in answer


def test_json_has_curves_and_comparisons(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (view,) = json.loads(printed(capsys, str(folder), "--format", "json"))
    slow, fast = view["curves"]
    assert [rung["load"] for rung in slow["rungs"]] == [1, 2, 4, 8, 16, 32]
    for one, other in zip(slow["rungs"], fast["rungs"], strict=True):
        assert other["throughput"] / one["throughput"] == pytest.approx(1.2, rel=0.03)
        assert other["latency"] / one["latency"] == pytest.approx(1 / 1.2, rel=0.05)
    rows: list[dict[str, Any]] = view["equal"]
    assert len(rows) == 12
    assert {row["verdict"] for row in rows[2:10]} == {"faster"}


def test_another_objective_takes_the_studys_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, str(folder), "--slo", "lat_p99=1s", "--slo", "lat_mean=150us")
    told = [line for line in out.splitlines() if line.startswith("•")]
    assert len(told) == 2
    assert "≥" in told[0]
    assert "inconclusive" in told[0]
    assert "mean" in told[1]
    assert "150 µs" in told[1]
    assert "faster" in told[1]


def test_the_reports_have_the_picture_and_the_answer(folder: Path) -> None:
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    assert 'id="curve-1"' in page
    figure = page.partition('id="curve-1"')[2].partition("</figure>")[0]
    assert "500 µs" in figure.replace("\u00a0", " ")
    lines = text.replace("\u00a0", " ").splitlines()
    assert [line for line in lines if "500 µs" in line and "p99" in line and "▲ faster" in line]
    assert "500 µs" in page.partition("</figure>")[2].replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("slo", "kind"),
    [("iops=5ms", "slo-metric"), ("lat_p99", "slo-invalid"), ("lat_p99=5", "slo-invalid"), ("lat_p99=0ms", "slo-zero")],
)
def test_a_wrong_objective_is_told(folder: Path, capsys: pytest.CaptureFixture[str], slo: str, kind: str) -> None:
    assert run(["curves", str(folder), "--slo", slo]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == [kind]
    assert slo.partition("=")[0] in err.partition("Hint: ")[0]


def test_a_run_without_ladder_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace("[1, 2, 4, 8, 16, 32]", "[1, 8]"))
    assert run(["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "done")]) == Exit.OK
    assert run(["curves", str(tmp_path / "done")]) == Exit.USER_ERROR
    assert kinds(capsys.readouterr().err) == ["no-ladder"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("margin", "state", "load"), [("5%", "not-reached", None), ("40%", "reached", 16), ("32%", "not-decided", None)]
)
def test_diminishing_returns_are_named_only_where_they_are_proven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], margin: str, state: str, load: float | None
) -> None:
    """The fake device gains 32 % from 16 to 32 in flight, 47 % from 8 to 16."""
    (tmp_path / "study.yaml").write_text(STUDY.replace("looks: [6]", f"looks: [6], margins: {{iops: {margin}}}"))
    assert run(["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "done")]) == Exit.OK
    (view,) = json.loads(printed(capsys, str(tmp_path / "done"), "--format", "json"))
    slow = view["curves"][0]
    assert (slow["knee"]["state"], slow["knee"]["load"], slow["knee"]["blocks"]) == (state, load, 6)
    last = slow["knee"]["steps"][-1]
    assert (last["load"], last["next_load"]) == (16, 32)
    assert last["low"] < last["gain"] < last["high"]
    words = slow["returns"]
    assert f"{100 * last['gain']:+.1f} %" in words
    assert ("16 in flight" in words) == (load is not None)
    assert words in printed(capsys, str(tmp_path / "done"))
    for name in ("report.html", "report.md"):
        assert words in (tmp_path / "done" / name).read_text().replace("\u00a0", " ").replace("\\", "")
