"""Tables in all their forms; what is wrong in one is told with line and column."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.errors import FairlaneError
from fairlane.formats.record import Record
from fairlane.importers._map import load_map, parse_map
from fairlane.importers.base import Source, Unreadable
from fairlane.importers.table import PLUGIN
from tests.words import kind

ROOT = Path(__file__).parents[2]


def read(options: str, data: str | bytes, name: str = "t.csv") -> list[Record]:
    chosen = parse_map("table:\n" + "".join(f"  {line}\n" for line in options.splitlines()), "m.yaml")
    content = data.encode() if isinstance(data, str) else data
    return list(PLUGIN.configured(chosen.options("table")).read([Source(name, lambda: io.BytesIO(content))]))


def brief(records: list[Record]) -> list[tuple[str, str, dict[str, float]]]:
    return [(r.lane, r.name, dict(r.figures.metrics)) for r in records]


WIDE = """\
lane: pool
cell: test
figures:
- {column: IOPS, metric: iops}
- {column: p99, metric: lat_p99, unit: ms}
"""


def test_a_column_per_metric():
    assert brief(read(WIDE, 'pool,test,IOPS,p99\nr3,4k,"64,483",50.02\nr2,4k,1984 ,n/a\n')) == [
        ("r3", "4k", {"iops": 64483.0, "lat_p99": 50.02e6}),
        ("r2", "4k", {"iops": 1984.0}),
    ]


def test_a_column_per_lane():
    options = "cell: test\nlanes: {roks: ROKS, vcf: VCF}\nfigures: [{metric: bw, unit: MiB/s}]\n"
    assert brief(read(options, "test\tROKS\tVCF\nbest\t7,599.2\t1,229.6\n")) == [
        ("roks", "best", {"bw": 7599.2 * 2**20}),
        ("vcf", "best", {"bw": 1229.6 * 2**20}),
    ]


def test_a_row_per_figure():
    options = """\
lane: pool
metric: what
value: value
figures:
- {when: IOPS, metric: iops}
- {when: p99 (us), metric: lat_p99, unit: us}
"""
    found = read(
        options, "pool;what;value\na;IOPS;10\na;p99 (us);7\na;other;junk\nb;IOPS;20\na;IOPS;11\na;p99 (us);8\n"
    )
    assert brief(found) == [
        ("a", "", {"iops": 10.0, "lat_p99": 7000.0}),
        ("a", "", {"iops": 11.0, "lat_p99": 8000.0}),
        ("b", "", {"iops": 20.0}),
    ]


def test_columns_of_several_cells_with_what_is_known_of_each():
    options = """\
lane: pool
figures:
- {column: r, metric: iops, cell: 4k random, conditions: {bs: 4k, metric_definition: sum of two jobs}}
- {column: s, metric: bw, unit: MB/s, cell: 1m sequential, conditions: {bs: 1m}}
"""
    random, sequential = read(options, "pool,r,s\na,10,20\n")
    assert (random.name, random.params) == ("4k random", {"bs": 4096})
    assert random.figures.context["conditions"]["metric_definition"] == "sum of two jobs"
    assert (sequential.name, sequential.figures.metrics) == ("1m sequential", {"bw": 20e6})


def test_params_block_start_and_labels():
    options = """\
block: run
started: at
labels: [host]
params: {bs: bs, iodepth: qd, runtime: {column: secs, unit: s}, rwmixread: mix}
figures: [{column: IOPS, metric: iops}]
"""
    (found,) = read(options, "run,at,host,bs,qd,secs,mix,IOPS\n3,2026-01-01T00:00:00+01:00,h7,64k,16,60,70 %,5k\n")
    assert found.params == {"bs": 65536, "iodepth": 16, "runtime": 60 * 10**9, "rwmixread": 70}
    assert found.labels == {"host": "h7", "block": "3"}
    assert found.started == 1767222000.0
    assert found.figures.metrics == {"iops": 5000.0}
    (other,) = read(options, "run,at,host,bs,qd,secs,mix,IOPS\n3,1767222000123,h7,,,,,5\n")
    assert other.started == 1767222000.123
    assert other.params == {}


@pytest.mark.parametrize(
    ("written", "decimal", "value"),
    [
        ("1234.5", ".", 1234.5),
        ("1,234.5", ".", 1234.5),
        ("1 234 567", ".", 1234567),
        ("1'234", ".", 1234),
        ("1.234,5", ",", 1234.5),
        ("0,5", ",", 0.5),
        ("12k", ".", 12000),
        ("1.5M", ".", 1.5e6),
        ("3e3", ".", 3000),
        ("7 IOPS", ".", 7),
        (".5", ".", 0.5),
        ("1,5", ".", None),
        ("12,34.5", ".", None),
        ("1,234,56", ".", None),
        ("1.234.567", ".", None),
        ("1'234,567", ".", None),
        ("-5", ".", None),
        ("inf", ".", None),
        ("nano", ".", None),
        ("1e999", ".", None),
        ("5 apples", ".", None),
        ("50%", ".", None),
    ],
)
def test_numbers(written, decimal, value):
    options = f"decimal: '{decimal}'\nfigures: [{{column: x, metric: iops}}]\n"
    data = json.dumps([{"x": written}])
    if value is not None:
        assert read(options, data)[0].figures.metrics["iops"] == pytest.approx(value)
    else:
        with pytest.raises(Unreadable, check=kind("column-value", "t.csv: row 1"), match="'x'"):
            read(options, data)


@pytest.mark.parametrize(
    ("unit", "metric", "factor"),
    [("ms", "lat_mean", 1e6), ("us", "lat_mean", 1e3), ("µs", "lat_mean", 1e3), ("KiB/s", "bw", 1024),
     ("MB/s", "bw", 1e6), ("Gbit/s", "bw", 1.25e8), ("MiBps", "bw", 2**20), ("k", "tpm", 1000)],
)  # fmt: skip
def test_units(unit, metric, factor):
    options = f"figures: [{{column: x, metric: {metric}, unit: {unit}}}]\n"
    assert read(options, "x\n2\n")[0].figures.metrics[metric] == pytest.approx(2 * factor)


def test_a_unit_in_the_cell_wins():
    assert read("figures: [{column: x, metric: lat_p99, unit: ms}]\n", "x\n250 us\n")[0].figures.metrics == {
        "lat_p99": 250_000.0
    }


def test_json_lines_nested_keys_and_a_list_within():
    options = "lane: host.name\nfigures: [{column: read.iops, metric: iops}]\n"
    row = {"host": {"name": "a"}, "read": {"iops": 7}}
    assert brief(read(options, json.dumps(row) + "\n" + json.dumps(row | {"read": {"iops": 8}}), "t.jsonl")) == [
        ("a", "", {"iops": 7.0}),
        ("a", "", {"iops": 8.0}),
    ]
    nested = json.dumps({"data": {"results": [row]}}, indent=1)
    assert brief(read(f"{options}rows: data.results\n", nested)) == [("a", "", {"iops": 7.0})]


def test_a_header_further_down_utf16_and_a_quoted_line_feed():
    text = 'Results of Monday\n\npool,test,IOPS,p99\n"a\nb",x,5,1\n'
    assert brief(read(WIDE + "header: 3\n", text.encode("utf-16"))) == [("a?b", "x", {"iops": 5.0, "lat_p99": 1e6})]


WRONG = [
    ("pool,test,IOPS\na,b,5\n", "t.csv:1", "column-missing", "'p99'"),
    ("pool,test,IOPS,p99,IOPS\n", "t.csv:1", "column-twice", "'IOPS'"),
    ("pool,test,IOPS,p99\na,b,5,1\nc,d,x,1\n", "t.csv:3", "column-value", "'IOPS'.*'x'"),
    ("pool,test,IOPS,p99\na,b,5,1,9\n", "t.csv:2", "columns", "5.*4"),
    ("pool,test,IOPS,p99\n\"a,b,5,1\n", "t.csv:2", "not-a-table", None),
    (b"pool,test,IOPS,p99\n\xff\xfe,b,5,1\n", "t.csv:2", "not-text", "UTF-8"),
    ('[{"pool": "a", "test": "b", "IOPS": [5], "p99": 1}]', "t.csv: row 1", "column-value", "'IOPS'"),
    ('[{"pool": "a"', "t.csv:1", "cut-off", None),
    ("[" * 100_000, "t.csv", "nested", None),
    ("[1]", "t.csv: row 1", "not-an-object", None),
    ('{"pool": "", "test": "", "IOPS": 1, "p99": 2}\nx\n', "t.csv:2", "cut-off", None),
]  # fmt: skip


@pytest.mark.parametrize(("data", "where", "name", "token"), WRONG)
def test_what_is_wrong_is_told_with_its_place(data, where, name, token):
    with pytest.raises(Unreadable, check=kind(name, where), match=token):
        read(WIDE, data)


def test_without_a_map_it_says_what_is_missing():
    with pytest.raises(Unreadable, check=kind("columns-unnamed", "t.csv")):
        list(PLUGIN.read([Source("t.csv", lambda: io.BytesIO(b"a,b\n1,2\n"))]))


@given(st.one_of(st.text(), st.binary(), st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps)))
def test_nothing_but_unreadable_whatever_the_file_holds(data: str | bytes):
    for start in (b"", b"pool,test,IOPS,p99\n", b"[", b'{"pool":'):
        content = start + (data.encode(errors="replace") if isinstance(data, str) else data)
        try:
            records = read(WIDE, content)
        except Unreadable:
            continue
        assert all(r.figures.metrics for r in records)


def page(side: str) -> Iterator[tuple[str, str, str, float]]:
    chosen = load_map(str(ROOT / "examples" / "study-003" / f"{side}.yaml"))
    path = ROOT / "examples" / "study-003" / f"{side}.csv"
    for record in PLUGIN.configured(chosen.options("table")).read([Source(path.name, lambda: path.open("rb"))]):
        ((metric, value),) = record.figures.metrics.items()
        yield record.lane, record.name, metric, value


def test_study_003_is_there_to_the_digit():
    roks, vcf = list(page("roks")), list(page("vcf"))
    assert (len(roks), len(vcf)) == (28, 24)
    assert ("ibmc-vpc-file-500-iops", "average p99", "lat_p99", 1610.19e6) in roks
    assert ("rep2", "1M sequential", "bw", 8306.0 * 2**20) in roks
    assert ("raid1-ftt1", "4k mixed 70/30", "iops", 23397.0) in vcf
    assert all(lane in load_map(str(ROOT / "examples/study-003/roks.yaml")).lanes for lane, *_ in roks)


def test_a_compressed_table_is_one_too(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"pool,test,IOPS,p99\na,b,5,1\n"))
    from fairlane.importers._walk import walk  # noqa: PLC0415

    ((file,), _) = walk([tmp_path])
    chosen = parse_map("table: {figures: [{column: IOPS, metric: iops}]}", "m.yaml")
    assert brief(list(PLUGIN.configured(chosen.options("table")).read([file.source]))) == [("", "", {"iops": 5.0})]


VMS = "VM_Name,bs,IOPS,MBps\nvm-a,4k,100,0.4\nvm-b,4k,120,0.5\n"


def test_rows_that_differ_in_a_column_that_nothing_maps_are_asked_for():
    options = "params: {bs: bs}\nfigures: [{column: IOPS, metric: iops}]\n"
    with pytest.raises(Unreadable, check=kind("column-role", "t.csv:3")) as raised:
        read(options, VMS)
    assert all(part in raised.value.message for part in ("'VM_Name'", "vm-a", "vm-b", "ignore: [VM_Name]"))
    assert [lane for lane, _, _ in brief(read("lane: VM_Name\n" + options, VMS))] == ["vm-a", "vm-b"]
    for role in ("block: VM_Name\n", "ignore: [VM_Name]\n", "labels: [VM_Name]\n", "cell: VM_Name\n"):
        assert len(read(role + options, VMS)) == 2


@pytest.mark.parametrize(
    ("column", "asked"),
    [
        (("1", "2"), True),  # the number of a machine
        (("sdb", "sdc"), True),
        (("0.4", "0.5"), False),  # figures
        (("1,204", "1,377"), False),
        (("812", "793"), False),
        (("50 ms", "51 ms"), False),
        (("x", "x"), False),
        (("x", ""), False),
    ],
)
def test_other_figures_are_not_asked_for(column, asked):
    table = "".join(f'"{other}"\t{figure}\n' for other, figure in zip(column, (100, 120), strict=True))
    options = "figures: [{column: IOPS, metric: iops}]\n"
    if asked:
        with pytest.raises(Unreadable, check=kind("column-role")):
            read(options, "other\tIOPS\n" + table)
    else:
        assert len(read(options, "other\tIOPS\n" + table)) == 2


def test_reads_and_writes_of_a_mix_are_metrics_of_their_own():
    options = """\
figures:
- {column: read IOPS, metric: iops_read}
- {column: write IOPS, metric: iops_write}
- {column: read p99, metric: lat_read_p99, unit: ms}
"""
    ((_, _, metrics),) = brief(read(options, "read IOPS,write IOPS,read p99\n700,300,1.5\n"))
    assert metrics == {"iops_read": 700.0, "iops_write": 300.0, "lat_read_p99": 1.5e6}


def test_one_metric_in_two_columns_of_a_trial_is_an_error_that_names_the_metrics_of_reads_and_writes():
    options = "figures: [{column: R, metric: iops}, {column: W, metric: iops}]\n"
    with pytest.raises(FairlaneError) as raised:
        read(options, "R,W\n700,300\n")
    assert all(part in str(raised.value) for part in ("'R'", "'W'", "iops_read", "iops_write"))
    assert len(read(options.replace("iops}]", "iops, cell: writes}]"), "R,W\n700,300\n")) == 2
