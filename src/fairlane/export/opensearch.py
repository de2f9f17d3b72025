"""OpenSearch, Elasticsearch: flat documents for the bulk API, and the index template that types their fields.

One index per table (``fairlane-trials``, ...), and ``fairlane-runs`` with one document of provenance. A document's id
is made of the run's uuid and the row's key, so that a repeated import replaces documents. ``uuid`` and ``timestamp``
(an alias of ``@timestamp``) are named as in kube-burner's documents.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from fairlane.export._columns import metric_column
from fairlane.export.base import COMMON, PROVENANCE, Column, Content, Format, Kind, iso, plain
from fairlane.metrics import METRICS

_FIELD: dict[Kind, dict[str, Any]] = {
    "text": {"type": "keyword", "ignore_above": 8191},  # a Lucene term has 32,766 bytes, a character up to four
    "texts": {"type": "keyword", "ignore_above": 8191},
    "prose": {"type": "text"},
    "integer": {"type": "long"},
    "real": {"type": "double"},
    "boolean": {"type": "boolean"},
    "instant": {"type": "date"},
    "tree": {"type": "keyword", "index": False, "doc_values": False},
}


class Opensearch(Format):
    stream = "opensearch.ndjson"

    def files(self, content: Content) -> dict[str, bytes]:
        template = orjson.dumps(_template(content), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        return {self.stream: b"".join(_lines(content)), "opensearch-template.json": template}


def _lines(content: Content) -> Iterator[bytes]:
    about = content.provenance
    yield from _entry("runs", (about["uuid"],), about["ended"] or about["created"], about, PROVENANCE)
    for table in content.whole():
        for row in table.records():
            when = row["at"] if table.name == "trials" else about["ended"]
            key = (about["uuid"], *(plain(row[name]) for name in table.key))
            yield from _entry(table.name, key, when, row, table.columns)


def _entry(
    name: str, key: tuple[Any, ...], when: Any, row: Mapping[str, Any], columns: tuple[Column, ...]
) -> Iterator[bytes]:
    """The action line and the document; fields without a value are omitted."""
    digest = hashlib.sha256(orjson.dumps((name, *key))).hexdigest()[:32]
    document: dict[str, Any] = {"@timestamp": None if when is None else iso(when)}
    document |= {column.name: _value(column, row[column.name]) for column in columns if column.name != "at"}
    present = {field: value for field, value in document.items() if value is not None and value != []}
    yield orjson.dumps({"index": {"_index": f"fairlane-{name}", "_id": digest}}) + b"\n"
    yield orjson.dumps(present) + b"\n"


def _value(column: Column, value: Any) -> Any:
    return orjson.dumps(value).decode() if column.kind == "tree" and value is not None else plain(value)


def _template(content: Content) -> dict[str, Any]:
    """One template for all indices: a column has one type in all tables. Contains every metric of the registry."""
    columns = (*COMMON, *PROVENANCE, *(c for table in content.tables for c in table.columns if c.name != "at"))
    fields = {column.name: _FIELD[column.kind] for column in (*columns, *map(metric_column, METRICS))}
    properties = {
        "@timestamp": _FIELD["instant"],
        "timestamp": {"type": "alias", "path": "@timestamp"},
        **{name: fields[name] for name in sorted(fields)},
    }
    settings = {"index": {"number_of_shards": 1}}
    return {
        "index_patterns": ["fairlane-*"],
        "priority": 200,
        "version": 1,
        "template": {"settings": settings, "mappings": {"dynamic": False, "properties": properties}},
        "_meta": {"description": "fairlane export --to opensearch"},
    }


PLUGIN = Opensearch()
