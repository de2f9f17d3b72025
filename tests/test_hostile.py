"""One run that is hostile wherever a user or a tool can put words, and everything that is printed or written of it.

What came from outside is text: it repaints no terminal, turns no line around, runs in no page, links nowhere, is no
formula in a spreadsheet, and breaks no table. Commands are taken from the command line itself: a new one that reads a
run is tried without a change here.
"""

import csv
import io
import json
import re
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import pytest

from fairlane.cli.main import main, run
from fairlane.errors import Exit
from fairlane.runs import raw

pytestmark = pytest.mark.xdist_group("hostile")  # one run, made once

TAG = "<script>alert(1)</script><img src=x onerror=alert(2)>"
EVIL = (
    f"{TAG} \x1b[31mred\x1b]0;title\x07 \u202egnp\u2066 \x00 \r\nnext line|pipe [click](javascript:alert(3)) "
    "![i](http://127.0.0.1:9/i.png) {{7*7}} {% raw %} ${7*7} `x` &lt;b&gt; \"quoted' \x9b1m \u2028 end"
)
FORMULAS = ("=cmd|' /C calc'!A0", "+cmd|'x'!A0", "@SUM(1)", "-2+3")
SERVERS = {"serve"}
"""They run until somebody ends them."""
NEEDED = {"gate": ["--rule", "no critical finding"], "curves": ["--slo", "lat_p99=2ms"], "watch": ["--once"]}
"""Options without which a command has nothing to do, or does not end."""


def _study() -> str:
    lanes = {
        "old": {"transport": "iscsi", "label": f"{FORMULAS[0]} {EVIL}"},
        "again": {"transport": "iscsi", "label": f"{FORMULAS[1]} {EVIL}", "conditions": {"write_ack": f"{EVIL} one"}},
        "new": {"transport": "nvme_tcp", "label": f"{FORMULAS[2]} {EVIL}"},
        "share": {"transport": "nfs", "label": f"{FORMULAS[3]} {EVIL}"},
    }
    load = {"kind": "fio", "rw": ["randread"], "bs": ["4k"], "iodepth": [1, 4, 16], "runtime": "1s"}
    accept = dict.fromkeys(("volume_mode", "provisioning"), f"because {EVIL}")
    return json.dumps(
        {
            "name": "hostile",
            "question": EVIL,
            "platform": {"kind": "fake", "effects": {"new": {"speed": 1.2}}},
            "lanes": lanes,
            "baseline": "old",
            "conditions": {"flush": EVIL},
            "workloads": {"main": load},
            "design": {"seed": 2, "looks": [6], "accept": accept},
        }
    )


def _poison(folder: Path) -> None:
    """What tools and machines said, as if they were hostile too; the journal's hashes are made to match."""
    lines = []
    for number, line in enumerate((folder / "journal.jsonl").read_text().splitlines()):
        event = json.loads(line)
        if event["type"] == "trial":
            outputs = raw.fetch(folder, event["raw"], event["sha256"])
            if number % 9 == 4:
                outputs |= {"status": b"1\n", "fio.err": f"{EVIL} {FORMULAS[0]}".encode()}
            else:
                report = json.loads(outputs["fio.json"])
                report["fio version"] = f"fio-3.33 {EVIL}"
                report["jobs"][0] |= {"jobname": EVIL, "hostname": f"{FORMULAS[0]} {EVIL}", "port": 8765}
                report["jobs"][0]["job options"] |= {"description": EVIL, EVIL: EVIL}
                outputs["fio.json"] = f"fio: {EVIL}\n{json.dumps(report)}".encode()
            event["raw"], event["sha256"] = raw.store(folder, event["raw"].removesuffix(".tar.gz"), outputs)
        lines.append(json.dumps(event))
    (folder / "journal.jsonl").write_text("\n".join(lines) + "\n")
    description = json.loads((folder / "description.json").read_text())
    for lane in description["lanes"].values():
        lane |= {"device": f"{FORMULAS[0]} {EVIL}", "capabilities": {"discard": {"value": EVIL, "evidence": EVIL}}}
        lane[EVIL] = EVIL
    description["platform"] |= {"kernel": EVIL, "link": {EVIL: EVIL}}
    (folder / "description.json").write_text(json.dumps(description))
    fingerprint = {"fairlane": EVIL, EVIL: FORMULAS[0], "packages": {f"{EVIL}{n}": EVIL for n in range(15)}}
    (folder / "fingerprint.json").write_text(json.dumps(fingerprint))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hostile")
    (place / "study.yaml").write_text(_study())
    study, run = str(place / "study.yaml"), str(place / "run")
    command = [sys.executable, "-m", "fairlane", "run", study, "--unjudged", "--out", run]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.OK, done.stderr
    assert invisible(done.stdout + done.stderr) == []
    _poison(place / "run")
    return place


def invisible(text: str) -> list[str]:
    """Characters that steer a terminal or turn a line around; a line ends with a line feed alone."""
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return [f"U+{ord(c):04X} in {text[max(0, n - 60) : n]!r}" for n, c in enumerate(text)
            if c != "\n" and unicodedata.category(c) in hidden]  # fmt: skip


class Elements(HTMLParser):
    """Elements with their attributes, and the words between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes += [(key, value or "") for key, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words += data


FORBIDDEN = {"script", "img", "iframe", "object", "embed", "form", "base", "b"}


def page(text: str) -> list[str]:
    """What is wrong with a page or an SVG picture."""
    seen = Elements(text)
    wrong = [f"<{tag}>" for tag in sorted(seen.tags & FORBIDDEN)] + invisible(text)
    wrong += [key for key, _ in seen.attributes if key.startswith("on")]
    links = [value for key, value in seen.attributes if key in {"href", "src", "xlink:href"}]
    return wrong + [link for link in links if not re.match(r"#|(\.\./)*([\w.-]+/)*raw/[\w.%-]+$|data:,$|$", link)]


def markdown(text: str) -> list[str]:
    """What is wrong with Markdown: tags, links and pictures that live, rows of a table that are broken."""
    wrong, columns, fenced = invisible(text), 0, ""
    for line in text.splitlines():
        if fence := re.match(r"`{3,}", line):
            fenced = "" if fenced and len(fence[0]) >= len(fenced) else fenced or fence[0]
            continue
        if fenced:
            continue
        live = re.sub(r"\\.|`[^`]*`", "", line)
        wrong += [f"tag: {line[:200]}"] if re.search(r"<[a-zA-Z/!]", live) else []
        wrong += (
            [f"link: {line[:200]}"] if re.search(r"\]\((?!#|(\.\./)*([\w.-]+/)*raw/[\w.%-]+\))|https?://", live) else []
        )
        here = live.count("|") if line.startswith("|") else 0
        wrong += [f"row: {line[:200]}"] if columns and here and here != columns else []
        columns = here
    return wrong


def spreadsheet(text: str, delimiter: str = ",") -> list[str]:
    """Cells of a CSV or TSV file that a spreadsheet would carry out."""
    number = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    assert len({len(row) for row in rows}) == 1
    return [cell for row in rows for cell in row if cell[:1] in set("=+-@\t\r") and not number.fullmatch(cell)]


def reading() -> Iterator[tuple[str, str]]:
    """The commands that read a run, from the command line itself."""
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command
        arguments = [p for p in command.params if isinstance(p, click.Argument)]
        if name not in SERVERS and arguments and arguments[0].name in {"run", "runs", "given"}:
            formats = next(
                (p.type.choices for p in command.params if p.name == "output" and isinstance(p.type, click.Choice)),
                [""],
            )
            for form in formats:
                yield name, str(form)


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[str, str]:
    """What a command line prints: to stdout, and to stderr."""
    capsys.readouterr()
    assert run(list(args)) in {Exit.OK, Exit.NOT_DECIDED}
    return capsys.readouterr()


def judged(out: str, form: str) -> list[str]:
    """What is wrong with what was printed in this format."""
    if form == "json":
        json.loads(out)
        return []
    if form == "tsv":
        return invisible(out.replace("\t", " ")) + spreadsheet(out, "\t")
    return markdown(out) if form == "md" else invisible(out)


@pytest.mark.slow
@pytest.mark.parametrize("asked", list(reading()), ids=" ".join)
def test_what_a_command_prints_is_text(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    asked: tuple[str, str],
) -> None:
    name, form = asked
    monkeypatch.chdir(tmp_path)  # what a command writes without being told where
    args = [name, str(folder / "run"), *NEEDED.get(name, [])]
    args += [f"other={folder / 'run'}"] if name == "compare" else []
    args += ["--to", "csv", "--out", str(tmp_path)] if name == "export" else []
    args += ["--out", str(tmp_path)] if name == "report" else []
    out, err = printed(capsys, *args, *(["--format", form] if form else []))
    assert out
    assert judged(out, form) == []
    assert invisible(err) == []


@pytest.mark.parametrize("form", ["table", "json", "md"])
def test_what_a_check_of_the_study_prints_is_text(folder: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    out, err = printed(capsys, "study", "check", str(folder / "study.yaml"), "--format", form)
    assert judged(out, form) == []
    assert invisible(err) == []


def test_the_reports_show_it_as_text(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "report", str(folder / "run"), "--out", str(tmp_path))
    text = (tmp_path / "report.html").read_text()
    assert page(text) == []
    words = Elements(text).words
    for piece in (TAG, "\\x1b[31mred", "\\u202egnp\\u2066", "{{7*7}}", "{% raw %}", *FORMULAS, "&lt;b&gt;"):
        assert piece in words
    assert markdown((tmp_path / "report.md").read_text()) == []


def test_a_comparison_of_runs_shows_it_as_text(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "compare", f"one={folder / 'run'}", f"two={folder / 'run'}", "--out", str(tmp_path))
    assert page((tmp_path / "report.html").read_text()) == []
    assert markdown((tmp_path / "report.md").read_text()) == []


def _has(name: str) -> bool:
    return name in main.list_commands(click.Context(main))


@pytest.mark.skipif(not _has("export"), reason="this version has no fairlane export")
@pytest.mark.parametrize("form", ["csv", "json", "junit", "openmetrics", "opensearch"])
def test_what_is_exported_is_well_formed_and_no_formula(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    printed(capsys, "export", str(folder / "run"), "--to", form, "--out", str(tmp_path))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        text = path.read_text(encoding="utf-8-sig")
        match path.suffix:
            case ".csv":
                assert spreadsheet(text) == []
            case ".json":
                json.loads(text)
            case ".ndjson":
                assert all(json.loads(line) for line in text.splitlines())
            case ".xml":
                assert ET.fromstring(text).iter()  # noqa: S314 - our own output
            case _:
                assert invisible(text) == []


@pytest.mark.skipif(not _has("figure"), reason="this version has no fairlane figure")
def test_pictures_are_pictures(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "figure", str(folder / "run"), "*", "-o", str(tmp_path))
    pictures = list(tmp_path.glob("*.svg"))
    assert pictures
    for path in pictures:
        ET.fromstring(path.read_text())  # noqa: S314 - our own output
        assert page(path.read_text()) == []


@pytest.mark.parametrize(
    ("judge", "bad"),
    [
        (invisible, "a\x1b[31m"),
        (invisible, "a\u202eb"),
        (invisible, "a\rb"),
        (page, "<p><script>1</script>"),
        (page, "<a href='javascript:1'>"),
        (page, "<p onclick='1'>"),
        (markdown, "a [b](javascript:1)"),
        (markdown, "<img src=x>"),
        (markdown, "| a | b |\n| --- | --- |\n| a | b | c |"),
        (spreadsheet, "a\n=1+1\n"),
    ],
)
def test_each_of_these_would_be_seen(judge: Any, bad: str) -> None:
    assert judge(bad)
