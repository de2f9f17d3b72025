"""What holds for every format."""

import csv
import dataclasses
import io
import json
from xml.etree import ElementTree

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fairlane import registry
from fairlane.export import _gather
from fairlane.platforms.lab.spec import LabSpec
from fairlane.verdicts.judged import Judged
from tests.export.known_run import known


def _csv(files):
    about = dict(csv.reader(io.StringIO(files.pop("provenance.csv").decode(), newline="")))
    rows = [r for data in files.values() for r in csv.DictReader(io.StringIO(data.decode(), newline=""))]
    return {(r["figures"], r["complete"]) for r in rows} | {(about["figures"], about["complete"])}


def _json(files):
    about = json.loads(files["fairlane.json"])["provenance"]
    return {(about["figures"], json.dumps(about["complete"]))}


def _parquet(files):
    tables = [pq.read_table(io.BytesIO(data)) for data in files.values()]
    told = {(t.schema.metadata[b"fairlane.figures"].decode(), t.schema.metadata[b"fairlane.complete"].decode())
            for t in tables}  # fmt: skip
    return told | {(r["figures"], json.dumps(r["complete"])) for t in tables for r in t.to_pylist()}


def _junit(files):
    suites = ElementTree.fromstring(files["junit.xml"])  # noqa: S314 - our own
    told = ({p.get("name"): p.get("value") for p in suite.iterfind("properties/property")} for suite in suites)
    return {(p["figures"], p["complete"]) for p in told}


def _openmetrics(files):
    families = list(text_string_to_metric_families(files["fairlane.prom"].decode()))
    (complete,) = (s.labels["complete"] for f in families for s in f.samples if f.name == "fairlane_run_info")
    return {(s.labels["figures"], complete) for f in families for s in f.samples}


def _opensearch(files):
    documents = [json.loads(line) for line in files["opensearch.ndjson"].splitlines()[1::2]]
    return {(d["figures"], json.dumps(d["complete"])) for d in documents}


READERS = {"csv": _csv, "json": _json, "parquet": _parquet, "junit": _junit, "openmetrics": _openmetrics,
           "opensearch": _opensearch}  # fmt: skip
"""How each format that is read here says what its figures are; one that is not here has tests of its own."""


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"modelled": True}, ("modelled", "true")),
        ({"emulated": True}, ("emulated", "true")),
        ({"complete": False}, ("measured", "false")),
    ],
)
def test_what_makes_figures_less_than_measured_is_in_every_format(hostile, name, flags, told):
    """As on the lab platform, which the fake one stands for here."""
    study = hostile.evidence.study.model_copy(update={"platform": LabSpec(kind="lab")})
    evidence = dataclasses.replace(hostile.evidence, study=study, **flags)
    content = _gather.gather(_gather.Tables(Judged(evidence, hostile.verdicts, hostile.findings)))
    assert READERS[name](dataclasses.replace(hostile, content=content).files(name)) == {told}


@pytest.mark.parametrize("name", registry.names("export"))
def test_the_same_run_gives_the_same_bytes(hostile, name):
    assert known(hostile.folder).files(name) == hostile.files(name)


@pytest.mark.parametrize("name", READERS)
def test_nothing_repaints_a_terminal_or_turns_text_around(hostile, name):
    files = hostile.files(name)
    if name == "parquet":
        files = {file: str(pq.read_table(io.BytesIO(data)).to_pylist()).encode() for file, data in files.items()}
    text = b"".join(files.values()).decode()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "u202e" in text
    assert "x1b[31m" in text


@pytest.mark.parametrize("name", READERS)
def test_a_run_of_which_nothing_is_in_can_be_exported(hostile, name):
    evidence = dataclasses.replace(hostile.evidence, observations=(), complete=False)
    content = _gather.gather(_gather.Tables(Judged(evidence, (), ())))
    files = dataclasses.replace(hostile, content=content).files(name)
    assert READERS[name](files) == {("invented", "false")}
