"""``fairlane export`` on real runs of the fake platform: where the files go, stdout, what is refused."""

import csv
import json
import re
import shutil
from xml.etree import ElementTree

import pytest

from fairlane import registry
from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.export import _gather
from tests.words import kinds

STUDY = """\
name: small
platform: {kind: fake, effects: {fast: {speed: 1.3}}, noise: {sd: 1%}}
lanes: {slow: {transport: iscsi}, fast: {transport: nvme_tcp, conditions: {copies: 3}}}
baseline: slow
workloads: {main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1, 16], runtime: 1s}}
design: {seed: 3, looks: [6]}
"""
FORMATS = registry.names("export")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    (place / "study.yaml").write_text(STUDY)
    assert run(["run", str(place / "study.yaml"), "--unjudged", "--out", str(place / "done")]) == Exit.OK
    return place / "done"


def test_several_formats_into_one_folder(folder, tmp_path, capsys):
    asked = [word for name in FORMATS for word in ("--to", name)]
    assert run(["export", str(folder), *asked, "--out", str(tmp_path / "new" / "folder")]) == Exit.OK
    told = capsys.readouterr().out.splitlines()
    assert sorted(told) == sorted(str(path) for path in (tmp_path / "new" / "folder").iterdir())
    content = _gather.gather(_gather.read(folder, {}))
    assert len(told) == sum(len(writer.files(content)) for _, writer in registry.every("export"))


def test_into_the_run_if_nothing_else_is_said(folder, capsys):
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert run(["export", str(folder), "--to", "json", "--format", "json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == {"json": [str(folder / "export" / "fairlane.json")]}
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert run(["verdicts", str(folder)]) == Exit.OK  # it is a run as before
    assert run(["export", str(folder), "--to", "json", "--format", "md"]) == Exit.OK  # and once more, over it
    assert [path.name for path in (folder / "export").iterdir()] == ["fairlane.json"]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("json", lambda text: json.loads(text)["verdicts"]),
        ("junit", ElementTree.fromstring),
        ("openmetrics", lambda text: text.endswith("# EOF\n")),
        ("opensearch", lambda text: [json.loads(line) for line in text.splitlines()]),
    ],
)
def test_one_file_to_stdout(folder, name, read, capsys):
    assert run(["export", str(folder), "--to", name, "--out", "-"]) == Exit.OK
    out, err = capsys.readouterr()
    assert read(out)
    assert err == ""


@pytest.mark.parametrize("asked", [["csv"], ["parquet"], ["json", "junit"]])
def test_several_files_do_not_go_to_stdout(folder, asked, capsys):
    assert run(["export", str(folder), *(w for name in asked for w in ("--to", name)), "--out", "-"]) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    listed = set(re.findall(r"\w+", err.partition("Error: ")[2]))
    assert {"json", "junit", "openmetrics"} <= listed
    assert not {"csv", "parquet"} & listed


def test_a_run_that_is_not_complete_is_exported_and_says_so(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "part")
    lines = (folder / "journal.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "part" / "journal.jsonl").write_text("".join(lines[:9]))
    capsys.readouterr()
    assert run(["export", str(tmp_path / "part"), "--to", "json", "--out", "-"]) == Exit.OK
    out, err = capsys.readouterr()
    assert re.findall(r"\d+", err) == ["8", "24"]
    found = json.loads(out)
    assert (found["provenance"]["complete"], len(found["trials"])) == (False, 8)


def test_what_is_accepted_is_told_with_its_reason(folder, tmp_path):
    def verdicts(*options):
        assert run(["export", str(folder), "--to", "csv", "--out", str(tmp_path), *options]) == Exit.OK
        with (tmp_path / "verdicts.csv").open(newline="") as file:
            return {row["verdict"] for row in csv.DictReader(file) if row["metric"] == "iops"}

    assert verdicts() == {"refused"}
    assert verdicts("--accept", "copies=known and wanted") == {"faster"}
    assert '{""copies"":""known and wanted""}' in (tmp_path / "provenance.csv").read_text()


def test_what_is_no_run_and_what_cannot_be_written_is_said(folder, tmp_path, capsys):
    assert run(["export", str(tmp_path), "--to", "csv"]) == Exit.USER_ERROR
    assert kinds(capsys.readouterr().err) == ["not-a-run"]
    (tmp_path / "file").write_text("")
    assert run(["export", str(folder), "--to", "csv", "--out", str(tmp_path / "file" / "below")]) == Exit.USER_ERROR
    assert "Error: " in capsys.readouterr().err


def test_the_help_has_every_format_in_a_sentence(capsys):
    assert run(["export", "--help"]) == Exit.OK
    told = " ".join(capsys.readouterr().out.partition(registry.kind("export").title)[2].split())
    for name in FORMATS:
        assert registry.summary("export", name)
        assert f"{name} {registry.summary('export', name)}" in told
