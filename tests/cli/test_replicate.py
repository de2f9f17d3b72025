"""``fairlane replicate`` from outside. The quick form of study 003 asks its published tables alone, and no machine."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.report.text import DASH
from fairlane_replication import render
from fairlane_replication.claims import catalogue
from fairlane_replication.judge import UNKNOWN, WORDS, Answer
from tests.words import kinds

TABLES = ["replicate", "--quick", "--study", "003"]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("replicate") / "none")


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    capsys.readouterr()
    assert run([*args]) == Exit.OK
    return capsys.readouterr().out


def test_the_dry_run_tells_the_studies_and_the_minutes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = printed(capsys, "replicate", "--quick", "--dry-run", "--jobs", "2")
    for lab in catalogue().labs:
        assert f"\n{lab} " in told
    assert str(len(catalogue().claims)) in told.rpartition("\n\n")[2].split()
    assert re.search(r"\d+ min\b", told.rpartition("\n\n")[2])
    assert list(tmp_path.iterdir()) == []


def test_the_dry_run_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(capsys, "replicate", "--quick", "--dry-run", "--study", "002", "--format", "json"))
    assert {row["study"] for row in rows} == {"fabric-small", "split"}


def test_the_table_fits_80_columns_and_has_every_claim(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, *TABLES, "--out", out)
    assert max(map(len, told.splitlines())) <= 80
    known = catalogue().of(("003",)).claims
    assert re.findall(r"^003-\S+$", told, re.MULTILINE) == [claim.id for claim in known]
    words = re.findall(r"^  (?:direction|answer) +(.+)$", told, re.MULTILINE)
    assert len(words) == len(known)
    assert set(words) <= set(WORDS)
    assert re.search(r"^003-tiers\n(?:  claim .+\n|     .+\n)+  answer +disagree$", told, re.MULTILINE)
    direction, size = told.rstrip().splitlines()[-2:]
    assert re.findall(r"\d+", direction) == ["0", "2", "0", "10"]
    assert re.findall(r"\d+", size) == ["9", "0", "3", "6"]
    assert re.search(r"^  above_cap: iops +critical +2 +2 +0$", told, re.MULTILINE)


def test_json_has_all_of_it(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(printed(capsys, *TABLES, "--out", out, "--format", "json"))
    assert told["summary"]["direction"] == dict(zip(WORDS, (0, 2, 0, 10), strict=True))
    assert told["summary"]["size"] == {"agree": 0, "disagree": 3, UNKNOWN: 6}
    entry = next(c for c in told["claims"] if c["id"] == "003-mixed")
    assert entry["answer"] == {"direction": UNKNOWN, "size": UNKNOWN}
    assert entry["size"] == {"least": 2.16, "most": 2.29}
    assert entry["cells"] == {"asked": 2, "bear_out": 0, "contradict": 0}
    assert entry["figures"] == "published"
    assert "26 May 2026" in told["sources"]["003"]["later"]
    sums = next(row for row in told["versions"] if row["check"] == "added_up")
    assert sums["cells"] == {"first": 0, "explained": 14, "corrected": 0}


def test_markdown_is_a_table_for_each_study(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, *TABLES, "--out", out, "--format", "md")
    rows = [line for line in told.splitlines() if line.startswith("| 003-")]
    assert len(rows) == 12
    assert {row.split(" | ")[4] for row in rows} <= set(WORDS)
    assert {row.split(" | ")[5] for row in rows} <= {*WORDS, DASH}
    assert "| above_cap: iops | critical | 2 | 2 | 0 |" in told


def test_an_unknown_study_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replicate", "--study", "9"]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == ["study-unknown"]
    assert "000, 001, 002, 003, 004" in err


HOSTILE = "<script>alert(1)</script> \x1b[31m\u202e| `x` =cmd|' /C calc'!A0 \n| injected | row |"


@pytest.mark.parametrize("form", [render.table, render.page])
def test_what_came_from_outside_is_harmless(form: object) -> None:
    asked = catalogue().of(("002",))
    answers = [Answer(c, "disagree", here=HOSTILE, why=HOSTILE, figures=HOSTILE) for c in asked.claims]
    told = form(asked, answers)  # type: ignore[operator]
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert "\n| injected" not in told
    assert max(map(len, told.splitlines())) <= 80 or form is render.page
    if form is render.page:
        assert "<script>" not in told
        assert all(line.replace("\\|", "").count("|") == 8 for line in told.splitlines() if line.startswith("| 002"))


def test_data_of_hostile_answers_is_escaped_json() -> None:
    asked = catalogue().of(("002",))
    answers = [dataclasses.replace(Answer(c, "agree"), here=HOSTILE) for c in asked.claims]
    told = json.dumps(render.data(asked, answers), ensure_ascii=False)
    assert "\x1b" not in told
    assert "\u202e" not in told
