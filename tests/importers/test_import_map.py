"""The import map: everything wrong in it is told at once, with its line."""

import jsonschema
import pytest

from fairlane.errors import SEVERAL, FairlaneError
from fairlane.importers._map import json_schema, load_map, parse_map
from fairlane.importers.table import TableOptions
from tests.words import kind as of_kind
from tests.words import kinds

WHOLE = """\
name: roks
question: Which tier?
tool: table
baseline: rep3
conditions: {vm_memory: 8GiB, date: 2026-02-27, direct: yes}
lanes:
  rep3: {files: [rep3/*.json], label: Three copies, conditions: {copies: 3}, cap_iops: 500, cap_mibs: 10, cost: 2.5}
  rep2: {where: {pool: [r2, R2], host: 7}}
cells: {4k random: {primary: lat_p99, conditions: {rw: randread}}}
paired: false
margins: {iops: 10%}
accept: {prefill: not told by the page}
table: {lane: storage, figures: [{column: IOPS, metric: iops}]}
"""


def test_a_whole_map_is_read_in_the_registrys_units():
    found = parse_map(WHOLE, "m.yaml")
    assert found.conditions["vm_memory"] == 8 * 2**30
    assert found.lanes["rep2"].where == {"pool": ["r2", "R2"], "host": 7}
    assert found.margins == {"iops": 0.1}
    options = found.options("table")
    assert isinstance(options, TableOptions)
    assert options.lane == "storage"
    assert found.options("nothing") is None


WRONG = [
    ("tool: tabel\n", 1, "value", "tool: 'tabel'", "table"),
    ("lanes:\n  a:\n    fils: [x]\n", 3, "key-unknown", "lanes.a.fils", "files"),
    ("lanes:\n  A b: {}\n", 2, "name-invalid", "lanes.A b", ""),
    ("lanes:\n  a: {files: x}\n", 2, "type", "lanes.a.files", "[x]"),
    ("conditions: {vm_mem: 8GiB}\n", 1, "value", "'vm_mem'", "'vm_memory'"),
    ("conditions: {ramp: 10}\n", 1, "value", "conditions.ramp: 10", ""),
    ("primary: iopz\n", 1, "value", "'iopz'", "'iops'"),
    ("table:\n  figures:\n  - {column: a, metric: lat_p99}\n", 3, "value", "lat_p99", ""),
    ("table:\n  figures:\n  - {column: a, metric: bw, unit: m}\n", 3, "value", "'m'", ""),
    ("table: {figures: [{metric: iops}]}\n", 1, "value", "iops", ""),
    ("table: {figures: []}\n", 1, "too-few", "table.figures", ""),
    ("tabel: {}\n", 1, "key-unknown", "tabel", "table"),
]


@pytest.mark.parametrize(("text", "line", "kind", "message", "hint"), WRONG)
def test_what_is_wrong_is_told_with_its_line(text, line, kind, message, hint):
    with pytest.raises(FairlaneError) as raised:
        parse_map(text, "m.yaml")
    assert (raised.value.kind, raised.value.where) == (kind, f"m.yaml:{line}")
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_all_problems_at_once():
    with pytest.raises(FairlaneError, check=of_kind(SEVERAL)) as raised:
        parse_map("tool: tabel\nprimary: iopz\n", "m.yaml")
    assert kinds(str(raised.value)) == ["value", "value"]
    assert all(f"\n  m.yaml:{part}'" in str(raised.value) for part in ("1: tool: 'tabel", "2: primary: 'iopz"))


def test_no_such_file(tmp_path):
    with pytest.raises(FairlaneError, check=of_kind("file-missing", str(tmp_path / "m.yaml"))):
        load_map(str(tmp_path / "m.yaml"))


def test_its_schema_is_one_and_knows_the_importers_options():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "table" in schema["properties"]
    jsonschema.Draft202012Validator(schema).validate({"lanes": {"a": {"files": ["x"]}}, "margins": {"iops": "10%"}})
