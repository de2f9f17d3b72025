"""The words of imports, held by one snapshot: what is wrong with maps and files, and what is left out."""

import gzip
from collections.abc import Callable
from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from fairlane.checks.base import run_all
from fairlane.errors import FairlaneError
from fairlane.importers._map import parse_map
from fairlane.importers.base import Unreadable
from fairlane.runs.read import load_run
from tests.importers import test_fio_json, test_import_map, test_import_runs, test_table, test_tools
from tests.importers.importer_oracle import folder


def told(call: Callable[[], object]) -> tuple[str, str]:
    """Message and hint of the error."""
    try:
        call()
    except FairlaneError as error:
        return str(error), error.hint
    raise AssertionError("no error")


def test_what_is_wrong_in_maps_and_tables(snapshot: SnapshotAssertion) -> None:
    maps = [case[0] for case in test_import_map.WRONG]
    tables = [case[0] for case in test_table.WRONG if len(case[0]) < 1000]
    assert snapshot == [
        *(told(lambda text=text: parse_map(text, "m.yaml")) for text in maps),  # type: ignore[misc]
        *(told(lambda data=data: test_table.read(test_table.WIDE, data)) for data in tables),  # type: ignore[misc]
    ]


def test_files_that_are_cut_off_or_of_another_kind(snapshot: SnapshotAssertion) -> None:
    log = folder("sysbench", "oltp_rw.txt")["sysbench/oltp_rw.txt"]
    flat = folder("vdbench", "output")["vdbench/output/flatfile.html"]
    results = folder("elbencho", "results.csv")["elbencho/results.csv"]
    found: list[Unreadable] = [
        test_tools.refused("sysbench", "a.txt", log[: log.index(b"avg:")]),
        test_tools.refused("sysbench", "cpu.txt", folder("sysbench", "cpu.txt")["sysbench/cpu.txt"]),
        test_tools.refused("vdbench", "flatfile.html", flat[: flat.index(b"avg_2-2")]),
        test_tools.refused("elbencho", "results.csv", results[:-60]),
        test_tools.refused("pgbench", "pgbench_log.7", b"0 1 500 0 1795307919 92214\n0 2 5x0 0 1795307919 92999\n"),
        test_tools.refused("fio_json", "terse.txt", test_fio_json.content("terse.txt")),
    ]
    assert [(str(error), error.hint) for error in found] == snapshot


def test_what_an_import_leaves_out(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    place = tmp_path / "in" / "a"
    for block in range(3):
        test_import_runs.table(place / f"{block}.csv", f"{block},,4k,1,60,1{block}")
    test_import_runs.table(place / "bad.csv", "3,,4k,1,60,1.0.0")
    test_import_runs.table(place / "same.csv", "2,,4k,1,60,12")
    (place / "cut.csv.gz").write_bytes(gzip.compress(b"run,start\n" * 1000)[:-20])
    summary = test_import_runs.done(tmp_path, tmp_path / "in")
    findings = [f.message for f in run_all(load_run(tmp_path / "out"))]
    assert [[(gone.where, gone.reason) for gone in summary.left_out], findings] == snapshot
