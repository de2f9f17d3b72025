"""OpenSearch: what the bulk API would be given, line by line, and the template that types it."""

import json
from datetime import datetime

import pytest

from fairlane.export._columns import metric_column
from fairlane.metrics import METRICS
from tests.export.known_run import known


def entries(known):
    lines = known.files("opensearch")["opensearch.ndjson"].decode().split("\n")
    assert lines.pop() == ""  # the bulk API wants a newline at the end
    assert len(lines) % 2 == 0
    pairs = zip(lines[::2], lines[1::2], strict=True)
    return [(json.loads(action)["index"], json.loads(document)) for action, document in pairs]


@pytest.fixture
def found(hostile):
    return entries(hostile)


def of(found, index):
    return [document for action, document in found if action["_index"] == f"fairlane-{index}"]


def test_a_document_per_row(hostile, found):
    for table in hostile.content.whole():
        documents = of(found, table.name)
        assert len(documents) == len(table.rows)
        for document, row in zip(documents, table.records(), strict=True):
            for column in table.columns:
                value = row[column.name]
                if column.kind == "instant":
                    when = datetime.fromisoformat(document["@timestamp"])
                    assert when == value
                elif value in (None, ()):
                    assert column.name not in document
                elif column.kind == "tree":
                    assert json.loads(document[column.name]) == value
                else:
                    assert document[column.name] == (list(value) if isinstance(value, tuple) else value)
    (run,) = of(found, "runs")
    assert run["uuid"] == hostile.content.provenance["uuid"]


def test_documents_are_flat_and_have_a_time_and_what_the_figures_are(found):
    for _, document in found:
        assert document["figures"] == "invented"
        assert document["uuid"]
        datetime.fromisoformat(document["@timestamp"])
        for value in document.values():
            assert isinstance(value, str | int | float | bool | list)
            assert all(isinstance(part, str) for part in value) if isinstance(value, list) else True


def test_ids_are_unique_and_stay(hostile, found):
    ids = [(action["_index"], action["_id"]) for action, _ in found]
    assert len(set(ids)) == len(ids) > 100
    assert [action for action, _ in entries(known(hostile.folder))] == [action for action, _ in found]


def test_the_template_types_every_field(hostile, found):
    template = json.loads(hostile.files("opensearch")["opensearch-template.json"])
    assert template["index_patterns"] == ["fairlane-*"]
    properties = template["template"]["mappings"]["properties"]
    assert properties["timestamp"] == {"type": "alias", "path": "@timestamp"}
    checks = {"keyword": str, "text": str, "long": int, "double": float, "boolean": bool, "date": str}
    for _, document in found:
        for field, value in document.items():
            kind = checks[properties[field]["type"]]
            assert all(type(part) is kind for part in (value if isinstance(value, list) else [value])), field
    assert {metric_column(name).name for name in METRICS} <= set(properties)
