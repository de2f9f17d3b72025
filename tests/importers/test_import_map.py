"""The import map: everything wrong in it is told at once, with its line."""

import jsonschema
import pytest

from fairlane.errors import FairlaneError
from fairlane.importers._map import json_schema, load_map, parse_map
from fairlane.importers.table import TableOptions

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


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("tool: tabel\n", 1, "'tabel' is not a tool", "did you mean 'table'?"),
        ("lanes:\n  a:\n    fils: [x]\n", 3, "lanes.a.fils: unknown key", "did you mean 'files'?"),
        ("lanes:\n  A b: {}\n", 2, "expected lower-case letters", ""),
        ("lanes:\n  a: {files: x}\n", 2, "expected a list", "write [x]"),
        ("conditions: {vm_mem: 8GiB}\n", 1, "'vm_mem' is not a parameter", ""),
        ("conditions: {ramp: 10}\n", 1, "write the unit", ""),
        ("primary: iopz\n", 1, "is not a metric", "did you mean 'iops'?"),
        ("table:\n  figures:\n  - {column: a, metric: lat_p99}\n", 3, "the unit of lat_p99 is missing", ""),
        ("table:\n  figures:\n  - {column: a, metric: bw, unit: m}\n", 3, "'m' is no unit of bw", ""),
        ("table: {figures: [{metric: iops}]}\n", 1, "those of iops need a column", ""),
        ("table: {figures: []}\n", 1, "expected at least 1", ""),
        ("tabel: {}\n", 1, "unknown key", "did you mean 'table'?"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text, line, message, hint):
    with pytest.raises(FairlaneError) as raised:
        parse_map(text, "m.yaml")
    assert raised.value.where == f"m.yaml:{line}"
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_all_problems_at_once():
    with pytest.raises(FairlaneError, match="2 problems"):
        parse_map("tool: tabel\nprimary: iopz\n", "m.yaml")


def test_no_such_file(tmp_path):
    with pytest.raises(FairlaneError, match="no such file"):
        load_map(str(tmp_path / "m.yaml"))


def test_its_schema_is_one_and_knows_the_importers_options():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "table" in schema["properties"]
    jsonschema.Draft202012Validator(schema).validate({"lanes": {"a": {"files": ["x"]}}, "margins": {"iops": "10%"}})
