"""``fairlane figure``: lists, writes SVG and PNG that stand alone, and says what is wrong."""

import re
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from fairlane.cli.main import run as call
from tests.words import kinds

STUDY = """
name: pictured
platform: {kind: fake, effects: {nvme: {speed: 1.2}}}
baseline: iscsi
lanes:
  iscsi: {transport: iscsi, label: "<b>=1+1</b>"}
  nvme: {transport: nvme_tcp}
workloads:
  main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1, 8], runtime: 1s}
design: {looks: [6]}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    (folder / "study.yaml").write_text(STUDY)
    assert call(["run", str(folder / "study.yaml"), "--out", str(folder / "run")]) == 0
    return folder / "run"


def test_it_lists_what_the_report_shows(made, capsys):
    assert call(["figure", str(made)]) == 0
    listed = capsys.readouterr().out
    names = [line.split()[0] for line in listed.splitlines()[2:]]
    assert {"lanes-1", "forest-1-1", "bars-1-iops"} <= set(names)
    assert len(names) == len(set(names))


def test_an_svg_stands_alone(made, tmp_path, capsys):
    target = tmp_path / "x" / "lanes.svg"
    assert call(["figure", str(made), "lanes-1", "-o", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    text = target.read_text()
    root = ET.fromstring(text)  # noqa: S314 - ours
    said = "".join(root.itertext())
    badge = re.search(r'class="badge caution"[^>]*>(.+?)<', (made / "report.html").read_text())
    assert badge
    assert badge[1] in said  # what the run is travels with it
    assert root.attrib["viewBox"] == "0 0 960 540"
    assert "<b>=1+1</b>" in said
    assert "var(" not in text
    assert not re.search(r"(href|src)=\"(?!#)", text)


def test_dark_has_other_colours(made, tmp_path):
    for name, flags in (("a", []), ("b", ["--dark"])):
        assert call(["figure", str(made), "forest-1-1", "-o", str(tmp_path / f"{name}.svg"), *flags]) == 0
    assert (tmp_path / "a.svg").read_text() != (tmp_path / "b.svg").read_text()
    assert "#14171c" in (tmp_path / "b.svg").read_text()


def test_a_png_has_the_size_asked_for(made, tmp_path):
    assert call(["figure", str(made), "*", "--png", "--scale", "2", "-o", str(tmp_path)]) == 0
    pictures = sorted(tmp_path.glob("*.png"))
    assert len(pictures) >= 4
    for path in pictures:
        head = path.read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">I", head[16:20]) == (1920,)


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["nope"], ("figure-unknown", "'nope'")),
        (["lanes-1", "-o", "x.jpg"], ("figure-type", "x.jpg")),
        (["*", "-o", "x.svg"], ("figures-many", "x.svg")),
    ],
)
def test_errors_say_what_to_do(made, args, complaint, capsys, empty):
    kind, said = complaint
    assert call(["figure", str(made), *args]) == 1
    told = capsys.readouterr().err
    assert kinds(told) == [kind]
    assert said in told
    assert "Hint:" in told
    assert list(empty.iterdir()) == []
