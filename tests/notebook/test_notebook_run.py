"""``fairlane.open``: what it gives is what the export writes, typed; and what is wrong is said with a hint."""

import copy
import dataclasses
import json
import pickle
import shutil
import subprocess
import sys
import traceback
import xml.etree.ElementTree as ET
from datetime import datetime

import pandas as pd
import pytest

import fairlane
from fairlane import notebook
from fairlane.cli.main import run as call
from fairlane.errors import Exit, FairlaneError
from fairlane.export._columns import columns_of
from fairlane.export.base import iso
from fairlane.metrics import METRICS
from tests.words import kind

TABLES = ("verdicts", "findings", "trials", "percentiles", "lanes", "parameters")


@pytest.fixture(scope="module")
def opened(place) -> notebook.Run:
    return fairlane.open(place / "runs/monday")


@pytest.fixture(scope="module")
def exported(place, tmp_path_factory):
    """The document of ``fairlane export --to json``."""
    out = tmp_path_factory.mktemp("exported")
    assert call(["export", str(place / "runs/monday"), "--to", "json", "--out", str(out)]) == Exit.OK
    return json.loads((out / "fairlane.json").read_text())


def test_importing_fairlane_imports_nothing_heavy():
    code = (
        "import sys, fairlane; print(fairlane.open.__doc__ is not None, [m for m in sys.modules if 'fairlane.' in m or "
        "m in ('numpy', 'pydantic', 'pandas')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "[]"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_records_are_the_rows_of_the_export(opened, exported, name):
    records = getattr(opened, name)()
    common = {column: exported["provenance"][column] for column in ("run", "uuid", "figures", "complete")}
    assert len(records) == len(exported[name]) > 0
    for record, row in zip(records, exported[name], strict=True):
        told = json.loads(json.dumps(vars(record), default=iso))
        assert told == {**common, **row}
        assert list(vars(record)) == [*common, *row]


@pytest.mark.parametrize("name", TABLES)
def test_the_types_of_fields_are_those_of_the_values(opened, name):
    columns = {c.name: c.kind for c in columns_of(getattr(opened, name)().record)}
    types = {"text": str, "prose": str, "integer": int, "real": float, "boolean": bool, "instant": datetime,
             "texts": tuple, "tree": dict}  # fmt: skip
    for record in getattr(opened, name)():
        for column, value in vars(record).items():
            assert value is None or type(value) is types[columns[column]], column


def test_records_are_frozen_and_a_sequence(opened):
    verdicts = opened.verdicts()
    with pytest.raises(dataclasses.FrozenInstanceError):
        verdicts[0].ratio = 2.0
    assert isinstance(verdicts[0], notebook.VerdictRow)
    assert list(verdicts[1:3]) == list(verdicts)[1:3]
    assert isinstance(verdicts[1:3], notebook.Records)
    assert verdicts == opened.verdicts()
    assert verdicts != opened.trials()
    iops = verdicts.where(metric="iops", lane="nvme")
    assert [v for v in verdicts if v.metric == "iops" and v.lane == "nvme"] == list(iops)
    assert len(iops) == len(opened.study.cells())


def test_a_trial_has_its_metrics_as_fields_and_by_name(opened):
    trials = opened.trials()
    assert isinstance(trials[0], notebook.TrialRow)
    assert any(t.failed for t in trials)
    for trial in trials:
        assert trial.value("iops") == trial.iops_per_s
        assert (trial.value("iops") is None) == bool(trial.failed)
        assert trial.value("tpm") is None
    assert trials.units["iops_per_s"] == METRICS["iops"].unit
    assert trials.units["lat_p99_ns"] == "ns"
    again = pickle.loads(pickle.dumps(list(trials)))  # noqa: S301 - our own
    assert again == list(trials)
    assert copy.deepcopy(trials[0]) == trials[0]


@pytest.mark.parametrize("name", [*TABLES, "histograms"])
def test_pandas_takes_records_and_to_pandas_keeps_their_types(opened, name):
    records = getattr(opened, name)()
    plain, typed = pd.DataFrame(records), records.to_pandas()
    assert list(plain) == list(typed) == list(records.columns)
    assert len(plain) == len(typed) == len(records)
    for column in records.columns:
        values = [getattr(record, column) for record in records]
        seen = [None if not isinstance(x, tuple | dict | list) and pd.isna(x) else x for x in typed[column]]
        assert seen == values, column


def test_a_frame_of_no_rows_has_columns(opened):
    empty = opened.verdicts().where(lane="none").to_pandas()
    assert list(empty) == list(opened.verdicts().columns)
    assert str(empty["blocks"].dtype) == "Int64"
    assert str(opened.trials().to_pandas()["at"].dtype) == "datetime64[ms, UTC]"


@pytest.mark.slow
def test_without_pandas_it_is_said_and_all_else_works(place, tmp_path):
    (tmp_path / "pandas.py").write_text("raise ImportError('No module named pandas')\n")
    code = (
        "import sys, fairlane; verdicts = fairlane.open(sys.argv[1]).verdicts(); print(len(verdicts))\n"
        "try: verdicts.to_pandas()\n"
        "except fairlane.errors.FairlaneError as error: print(error.kind, error.hint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(place / "runs/monday")], env={"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    number, said = done.stdout.splitlines()
    assert int(number) > 10
    assert said.startswith("package-missing pip install pandas")


def test_histograms_are_of_all_ios_and_give_the_percentiles(opened):
    rows = {(r.cell_key, r.lane): r for r in opened.percentiles() if r.histogram == "lat"}
    histograms = opened.histograms()
    assert {(h.cell_key, h.lane) for h in histograms} == set(rows)
    for h in histograms:
        row = rows[h.cell_key, h.lane]
        assert sum(h.counts) == h.ios == row.ios
        assert list(h.ns) == sorted(set(h.ns))
        assert (h.percentile(0.5), h.percentile(0.99), h.percentile(0.9999)) == (row.p50_ns, row.p99_ns, row.p9999_ns)
        assert h.percentile(1.0) is None
    one = opened.histogram("4k randread qd16", "nvme")
    assert one == opened.histogram("main.4k-randread-qd16", "nvme")
    assert (
        opened.histogram("4k randrw 70/30 qd1", "nvme", "write.lat").ios
        < opened.histogram("4k randrw 70/30 qd1", "nvme").ios
    )
    with pytest.raises(ValueError, match="share"):
        one.percentile(1.5)


@pytest.mark.slow
def test_figures_are_those_of_the_command(opened, place, tmp_path, capsys):
    assert call(["figure", str(place / "runs/monday"), "--format", "json"]) == Exit.OK
    listed = [entry["name"] for entry in json.loads(capsys.readouterr().out)]
    assert [f.name for f in opened.figures()] == listed
    assert [f.name for f in opened.figures("forest")] == [n for n in listed if n.startswith("forest-")]
    assert opened.figure("forest").name == opened.figures("forest-*")[0].name
    for ending in ("svg", "png"):
        for dark in (False, True):
            ours, theirs = tmp_path / "a" / f"ours.{ending}", tmp_path / f"theirs.{ending}"
            assert opened.figure("forest-1-1").save(ours, dark=dark) == ours
            flags = ["--dark"] if dark else []
            assert call(["figure", str(place / "runs/monday"), "forest-1-1", "-o", str(theirs), *flags]) == Exit.OK
            assert ours.read_bytes() == theirs.read_bytes()


def test_a_figure_shows_itself_and_its_caveat(opened):
    figure = opened.figure("forest")
    words = "".join(ET.fromstring(figure._repr_svg_()).itertext())  # noqa: S314 - ours
    assert "invented" in words.lower()
    shown = ET.fromstring(figure._repr_html_().replace('%">', '%"/>'))  # noqa: S314 - ours
    assert shown.tag == "img"
    assert shown.attrib["src"].startswith("data:image/svg+xml;base64,")
    assert figure.title in shown.attrib["alt"]


def test_what_a_notebook_shows_is_escaped_and_keeps_the_caveat(opened, place):
    comparison = opened.compare(place / "runs/friday")
    for shown in (opened, opened.verdicts(), opened.trials(), comparison, comparison.deltas()):
        page = shown._repr_html_()
        assert "<b>nvme" not in page
        assert "<i>NVMe" not in page
        assert repr(shown).startswith("<")
    assert "&lt;i&gt;NVMe&lt;/i&gt;" in opened.verdicts()._repr_html_()
    for shown in (opened, opened.verdicts(), comparison):
        assert "invented" in shown._repr_html_().lower()
    assert "invented" in comparison.figure("forest").svg().lower()
    long = opened.parameters()
    assert long._repr_html_().count("<tr>") == 21


@pytest.mark.slow
def test_a_comparison_is_that_of_the_command(opened, place, capsys):
    places = [str(place / "runs/monday"), str(place / "runs/friday")]
    assert call(["compare", *places, "--format", "json"]) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    made = opened.compare(place / "runs/friday")
    assert made.baseline == told["baseline"] == "monday"
    assert list(made.takeaways) == told["takeaways"]
    for rows, name in ((made.deltas(), "deltas"), (made.scores(), "scorecard")):
        assert json.loads(json.dumps([vars(row) for row in rows])) == told[name]
    assert [f.message for f in made.findings()] == [f["message"] for f in told["findings"]]
    assert opened.compare(fairlane.open(place / "runs/friday")).deltas() == made.deltas()
    assert list(made.deltas().to_pandas()["run"].unique()) == ["friday"]
    assert opened.compare(place / "runs/friday", names=("before", "after")).baseline == "before"


def test_lanes_are_paired_by_a_file_and_differences_accepted(opened, place, tmp_path):
    (tmp_path / "pairs.yaml").write_text("pairs:\n  path: {monday: iscsi, friday: nvme}\n")
    made = opened.compare(place / "runs/friday", pairs=tmp_path / "pairs.yaml")
    assert {row.category for row in made.deltas()} == {"path"}
    refused = opened.verdicts().where(lane="other", primary=True)
    assert {v.verdict for v in refused} == {"refused"}
    accepting = fairlane.open(place / "runs/monday", accept={"copies": "the array deduplicates"})
    assert "refused" not in {v.verdict for v in accepting.verdicts().where(lane="other", primary=True)}
    assert accepting.provenance["accepted"] == {"copies": "the array deduplicates"}


@pytest.mark.parametrize(
    ("wrong", "told", "hint"),
    [
        (lambda run: run.figure("forrest"), "figure-unknown", "forest-1-1"),
        (lambda run: run.figures()[0].save("x.pdf"), "figure-type", "endings"),
        (lambda run: run.verdicts().where(metrik="iops"), "column-unknown", "metric"),
        (lambda run: run.trials()[0].value("iosp"), "metric-unknown", "iops"),
        (lambda run: run.histograms("latency"), "histogram-unknown", "lat"),
        (lambda run: run.histogram("4k write", "nvme"), "histogram-missing", "main.4k-randread-qd1"),
        (lambda run: run.histogram("4k randread qd1", "nvme"), "histogram-ambiguous", "more.4k-randread-qd1"),
        (lambda run: run.compare(), "one-run", "run.verdicts()"),
        (lambda run: run.compare(run), "name-twice", "names="),
        (lambda run: run.compare(run, names=("a",)), "names-count", "this run first"),
        (lambda run: run.compare(run, names=("a", "B!")), "name-invalid", "lower-case"),
        (lambda run: run.compare(run, names=("a", "b"), pairs="none.yaml"), "file-missing", "--print-map"),
        (lambda run: fairlane.open(run.path.parent / "mondy"), "not-a-run", "monday"),
        (lambda run: fairlane.open(run.path, accept={"rampp": "x"}), "parameter-unknown", "ramp"),
    ],
)
def test_an_error_has_a_kind_and_a_hint_that_a_notebook_shows(opened, monkeypatch, wrong, told, hint):
    monkeypatch.chdir(opened.path.parents[1])
    with pytest.raises(FairlaneError, check=kind(told)) as caught:
        wrong(opened)
    assert hint in caught.value.hint
    assert f"Hint: {caught.value.hint}" in "".join(traceback.format_exception(caught.value))


def test_without_a_path_it_is_the_newest_run(place, monkeypatch, tmp_path):
    monkeypatch.chdir(place)
    assert fairlane.open().name == "friday"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FairlaneError, check=kind("run-none")):
        fairlane.open()


def test_a_run_that_is_not_complete_says_so(place, tmp_path):
    half = tmp_path / "half"
    shutil.copytree(place / "runs/monday", half)
    lines = (half / "journal.jsonl").read_text().splitlines(keepends=True)
    (half / "journal.jsonl").write_text("".join(lines[: len(lines) // 2]))
    run = fairlane.open(half)
    assert not run.complete
    assert {trial.complete for trial in run.trials()} == {False}
    assert any("not complete" in caveat for caveat in run.caveats)
    assert "not complete" in repr(run)
