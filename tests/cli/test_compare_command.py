"""``fairlane compare`` on real runs of the fake platform, whose true effects are known."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairlane.cli import _output
from fairlane.cli.main import run
from fairlane.errors import Exit
from tests.words import kinds

STUDY = """\
name: small
platform: {kind: fake, effects: {fast: {speed: SPEED}}, noise: {sd: 1%}}
lanes: {slow: {transport: iscsi}, fast: {transport: nvme_tcp, label: "NVMe \\e[31m"}}
baseline: slow
workloads: {main: {kind: fio, rw: [randread], bs: [4k, BS], iodepth: [16], runtime: 1s}}
design: {seed: SEED, looks: [10]}
"""


def carried_out(place: Path, name: str, **changes: str) -> str:
    text = STUDY
    for key, value in {"SPEED": "1.3", "BS": "64k", "SEED": "3", **changes}.items():
        text = text.replace(key, value)
    (place / f"{name}.yaml").write_text(text)
    assert run(["run", str(place / f"{name}.yaml"), "--out", str(place / name)]) == Exit.OK
    return str(place / name)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def before(place: Path) -> str:
    return carried_out(place, "before")


@pytest.fixture(scope="module")
def after(place: Path) -> str:
    """The fast lane has lost a tenth of its speed."""
    return carried_out(place, "after", SPEED="1.17", SEED="4")


@pytest.fixture(scope="module")
def other(place: Path) -> str:
    """Another block size, and other lanes by name."""
    text = STUDY.replace("slow", "iscsi").replace("fast", "nvme")
    (place / "other.yaml").write_text(text.replace("SPEED", "1.3").replace("BS", "16k").replace("SEED", "5"))
    assert run(["run", str(place / "other.yaml"), "--out", str(place / "other")]) == Exit.OK
    return str(place / "other")


def data(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["compare", *args, "--format", "json"]) == Exit.OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.slow
def test_what_has_changed_since_is_found(before: str, after: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, before, after)
    words = {(d["category"], d["verdict"]) for d in found["deltas"] if d["primary"]}
    assert words == {("slow", "tie"), ("NVMe \\x1b[31m", "slower")}
    for delta in found["deltas"]:
        if delta["verdict"] == "slower" and delta["primary"]:
            assert delta["low"] < 1.17 / 1.3 < delta["high"]
    assert {(s["outcome"], s["winner"]) for s in found["scorecard"] if s["primary"]} == {
        ("even", ""),
        ("worse", "before"),
    }
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (?:\w+ )?(worse|even)\b", found["takeaways"][0])}
    assert counts == {"worse": 2, "even": 2}
    told = {(f["check"], f["kind"]) for f in found["findings"]}
    assert {("sequential", "not-interleaved"), ("kind_of_figures", "invented")} <= told


def test_turned_round_it_says_the_opposite(before: str, after: str, capsys: pytest.CaptureFixture[str]) -> None:
    there, back = data(capsys, before, after), data(capsys, before, after, "--baseline", "after")
    ratios = [{(d["key"], d["metric"]): d["ratio"] for d in x["deltas"] if d["primary"]} for x in (there, back)]
    assert ratios[0].keys() == ratios[1].keys()
    for key, ratio in ratios[0].items():
        assert ratio * ratios[1][key] == pytest.approx(1)
    assert {s["winner"] for s in back["scorecard"] if s["primary"]} == {"", "before"}


def test_a_run_against_itself_ties(before: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, f"a={before}", f"b={before}")
    assert {d["ratio"] for d in found["deltas"]} == {1.0}
    assert {s["outcome"] for s in found["scorecard"]} == {"even"}


@pytest.mark.slow
def test_what_has_no_partner_is_listed(
    before: str, other: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "map.yaml").write_text("pairs: {one: {title: One, before: fast, other: nvme}}\n")
    found = data(capsys, before, other, "--map", str(place / "map.yaml"))
    assert found["not_compared"] == {
        "cells": [
            {"category": "one", "run": "before", "lane": "fast", "cells": ["64k randread qd16"]},
            {"category": "one", "run": "other", "lane": "nvme", "cells": ["16k randread qd16"]},
        ],
        "lanes": {"before": ["slow"], "other": ["iscsi"]},
    }
    assert {d["cell"] for d in found["deltas"]} == {"4k randread qd16"}
    told = " ".join(found["takeaways"])
    for part in ("64k randread qd16", "16k randread qd16", "slow", "iscsi"):
        assert part in told


def test_without_namesakes_a_mapping_is_asked_for_and_can_be_printed(
    before: str, other: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["compare", before, other]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == ["lanes-unpaired"]
    assert "slow, fast" in err
    assert "iscsi, nvme" in err
    assert "--print-map" in err
    assert run(["compare", before, other, "--print-map"]) == Exit.OK
    (place / "printed.yaml").write_text(capsys.readouterr().out)
    assert run(["compare", before, other, "--map", str(place / "printed.yaml")]) == Exit.OK


def test_three_runs_each_against_the_first(before: str, after: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, f"one={before}", f"two={after}", f"three={before}")
    assert {(d["run"], d["verdict"]) for d in found["deltas"] if d["primary"] and d["category"] != "slow"} == {
        ("two", "slower"),
        ("three", "tie"),
    }
    assert run(["compare", f"one={before}", f"two={after}", f"three={before}"]) == Exit.OK


@pytest.mark.parametrize("options", [[], ["--all"], ["--format", "md"]])
def test_nothing_invisible_is_printed_and_lines_fit_a_terminal(
    before: str, after: str, options: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_output, "width", lambda: 80)
    worse = data(capsys, before, after)["takeaways"][0]
    assert run(["compare", before, after, *options]) == Exit.OK
    out = capsys.readouterr().out
    assert "\x1b" not in out
    if "md" not in options:
        assert max(map(len, out.splitlines())) <= 80
    assert worse in " ".join(out.split())


def test_strict_wants_everything_decided(before: str, after: str, place: Path) -> None:
    assert run(["compare", before, after, "--strict"]) == Exit.OK
    short = carried_out(place, "short", SEED="8", SPEED="1.3")
    journal = Path(short) / "journal.jsonl"
    lines = journal.read_text().splitlines()
    journal.write_text(
        "\n".join(line for line in lines if '"block": 0' in line or '"type": "trial"' not in line) + "\n"
    )
    assert run(["compare", before, short]) == Exit.OK
    assert run(["compare", before, short, "--strict"]) == Exit.NOT_DECIDED


def test_the_report_has_the_comparison_after_the_answer_and_links_to_the_runs(
    before: str, after: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = place / "answer"
    worse = data(capsys, before, after)["takeaways"][0]
    assert run(["compare", before, after, "--out", str(out)]) == Exit.OK
    page, text = (out / "report.html").read_text(), (out / "report.md").read_text()
    sections = re.findall(r'<section id="([a-z]+)', page)
    assert sections[0] == "answer"
    assert sections[1 : 1 + sections.count("part")] == ["part"] * sections.count("part")
    assert sections.count("part") > 3
    (answer,) = re.findall(r'<h2 id="h-answer"[^>]*>(.*?)</h2>', page)
    assert text.index(f"## {answer}") < text.index(worse)
    assert page.index('id="answer"') < page.index(worse) < page.index('id="findings"')
    links = re.findall(r'href="([^"#]+\.tar\.gz)"', page)
    assert len(links) == 2 * 2 * 2 * 10
    assert all((out / link).is_file() for link in links)
    assert "fairlane compare before=" in page
    assert "addresses" not in page.partition("<body")[2]  # the same for all lanes of a block, and these are none


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["{before}"], ("one-run", "")),
        (["{before}", "{before}"], ("name-twice", "'before'")),
        (["title={before}", "{after}"], ("name-invalid", "'title'")),
        (["A B={before}", "{after}"], ("name-invalid", "'A B'")),
        (["{before}", "{after}", "--baseline", "third"], ("run-unknown", "'third'")),
        (["{before}", "{after}", "--map", "nowhere.yaml"], ("file-missing", "nowhere.yaml")),
        (["{before}", "nowhere"], ("not-a-run", "nowhere")),
        (["{before}", "{after}", "--accept", "rampp=x"], ("parameter-unknown", "rampp")),
    ],
)
def test_wrong_input_is_one_error(
    before: str, after: str, args: list[str], told: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    kind, token = told
    capsys.readouterr()
    assert run(["compare", *(a.format(before=before, after=after) for a in args)]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == [kind]
    assert token in err.partition("Hint: ")[0]
