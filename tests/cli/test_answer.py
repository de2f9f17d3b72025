"""What a run prints when it has ended: the verdicts last, and nothing of what explains them unless asked for."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit

STUDY = """\
name: answer
question: Is [red]b[/red] faster than a?
platform: {kind: fake, effects: {b: {speed: 1.3}}, noise: {sd: NOISE}, failures: FAILURES}
baseline: a
lanes:
  a: {transport: iscsi, conditions: {prefill: "yes"}}
  b: {transport: nvme_tcp, conditions: {prefill: "yes"}}
workloads: {main: {kind: fio, rw: [randread, randwrite], bs: [4k, 64k], iodepth: [1, 16], runtime: 1s}}
design: {seed: 3, looks: [4]}
"""

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with clear figures, with noisy ones, and with failed trials."""
    place = tmp_path_factory.mktemp("answers")
    for name, noise, failures in (("clear", "1%", "0%"), ("noisy", "40%", "0%"), ("failing", "1%", "8%")):
        (place / f"{name}.yaml").write_text(STUDY.replace("NOISE", noise).replace("FAILURES", failures))
        assert run(["run", str(place / f"{name}.yaml"), "--out", str(place / name), "--jobs", "2"]) == Exit.OK
    return place


@pytest.fixture(autouse=True)
def _here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def printed(capsys: Captured, *args: str) -> tuple[list[str], list[str]]:
    """Lines on stdout and on stderr."""
    capsys.readouterr()
    assert run(list(args)) == Exit.OK
    out, err = capsys.readouterr()
    return out.splitlines(), err.splitlines()


def again(capsys: Captured, name: str, *args: str) -> tuple[list[str], list[str]]:
    """What a run prints that has ended: its results once more."""
    return printed(capsys, "run", "--resume", name, *args)


@pytest.mark.slow
def test_the_last_24_lines_hold_every_verdict_and_the_report(capsys: Captured) -> None:
    out, _ = again(capsys, "clear")
    last = out[-24:]
    cells = [f"{bs} {rw} qd{qd}" for rw in ("randread", "randwrite") for bs in ("4k", "64k") for qd in (1, 16)]
    rows = [[line for line in last if line.startswith(f"{cell} ")] for cell in cells]
    assert [len(found) for found in rows] == [1] * 8
    assert all(row.endswith("  faster") for (row,) in rows)
    assert last[-1] == "report: clear/report.html"
    assert any("b is faster than a in all 8 cells" in line for line in last)


def test_no_line_ends_in_blanks_or_holds_an_escape(capsys: Captured) -> None:
    for args in (("run", "--resume", "noisy"), ("verdicts", "noisy", "--explain"), ("watch", "noisy", "--once"),
                 ("compare", "clear", "noisy")):  # fmt: skip
        out, _ = printed(capsys, *args)
        assert [line for line in out if line != line.rstrip() or "\x1b" in line] == [], args


def test_notes_are_printed_with_explain_alone(capsys: Captured) -> None:
    short, _ = again(capsys, "noisy")
    whole, _ = again(capsys, "noisy", "--explain")
    assert set(short) - {line for line in short if re.match(r"\d|Invented", line)} <= set(whole)
    assert not [line for line in short if line.startswith(("• ", "note: "))]
    assert len([line for line in whole if line.startswith("• ")]) >= 3
    explained, _ = printed(capsys, "verdicts", "noisy", "--explain")
    assert [line for line in whole if line.startswith("• ")] == [line for line in explained if line.startswith("• ")]


@pytest.mark.slow
def test_findings_are_counted_and_the_first_warning_stands_there(capsys: Captured) -> None:
    out, _ = again(capsys, "failing")
    (line,) = [line for line in out if re.match(r"\d+ (critical|warning|note)", line)]
    counts, first = line.split(". ", 1)
    explained, _ = again(capsys, "failing", "--explain")
    findings = [line for line in explained if re.match(r"(critical finding|warning|note): ", line)]
    assert sum(int(n) for n in re.findall(r"\d+", counts)) == len(findings)
    assert any(line.startswith(first) for line in findings)


def test_the_table_has_the_estimate_and_further_blocks(capsys: Captured) -> None:
    out, err = again(capsys, "noisy")
    open_rows = [line for line in out if re.search(r"  inconclusive", line)]
    assert open_rows
    assert all(
        re.search(r" [^ \d][\d.,]+ %  .* to .*  inconclusive, (\d+|more than 100) more blocks?$", x) for x in open_rows
    )
    head = next(line for line in out if line.startswith("cell "))
    assert head.split() == ["cell", "a", "b", "estimate", "interval", "verdict"]
    assert err[-2:] == [
        "next: fairlane report --open noisy  # the report in a browser",
        "      fairlane pilot noisy  # how many blocks decide the rest",
    ]


def test_the_next_step_names_the_run(capsys: Captured) -> None:
    _, err = again(capsys, "clear")
    assert err[-2] == "next: fairlane report --open clear  # the report in a browser"
    assert "fairlane verdicts --explain clear" in err[-1]


@pytest.mark.parametrize("command", [["run", "--resume", "noisy"], ["verdicts", "noisy"]])
def test_tsv_has_plain_ratios(command: list[str], capsys: Captured) -> None:
    out, _ = printed(capsys, *command, "--format", "tsv")
    heads, *rows = [line.split("\t") for line in out]
    assert len(rows) == 8
    assert {len(row) for row in rows} == {len(heads)}
    for row in (dict(zip(heads, row, strict=True)) for row in rows):
        assert (row["lane"], row["baseline"], row["metric"], row["blocks"]) == ("b", "a", "iops", "4")
        assert float(row["low"]) <= float(row["ratio"]) <= float(row["high"])
        assert float(row["ratio"]) == pytest.approx(float(row["lane_value"]) / float(row["baseline_value"]), rel=0.02)


def test_the_questions_markup_is_text(capsys: Captured) -> None:
    out, _ = again(capsys, "clear")
    assert out[0] == "Is [red]b[/red] faster than a?"


def on_a_terminal(columns: int, *args: str) -> str:
    """What the program prints on a terminal of that width."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    env.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-m", "fairlane", *args], stdout=theirs, stderr=subprocess.DEVNULL, env=env
    ) as p:
        os.close(theirs)
        data = b""
        try:
            while part := os.read(ours, 65536):
                data += part
        except OSError:  # the other end is closed
            pass
        assert p.wait() == Exit.OK
    os.close(ours)
    return data.decode().replace("\r\n", "\n")


def test_on_a_terminal_verdicts_are_coloured_and_fit_80_columns() -> None:
    text = on_a_terminal(80, "verdicts", "clear")
    assert len(re.findall(r"\x1b\[34m\x1b\[1mfaster\x1b\[0m", text)) == 8
    lines = re.sub(r"\x1b\[\d+m", "", text).splitlines()
    assert len(lines) == 10
    assert max(map(len, lines)) <= 80


@pytest.mark.slow
def test_a_narrow_terminal_is_not_exceeded() -> None:
    text = re.sub(r"\x1b\[\d+m", "", on_a_terminal(66, "verdicts", "noisy", "--explain"))
    assert max(map(len, text.splitlines())) <= 66
