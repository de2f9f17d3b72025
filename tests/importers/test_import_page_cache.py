"""Imported figures whose file says that the load went through the page cache have no headline."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairlane.checks.base import run_all
from fairlane.guard.accept import accepting
from fairlane.importers._map import parse_map
from fairlane.importers._run import import_files
from fairlane.records import Evidence
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge


def fio(iops: int, way: str = "read", **options: str) -> bytes:
    """fio 3.33's json of 30 s, its keys as far as they are read (stat.c, show_thread_status_json)."""
    ios = iops * 30
    lat = {"min": 10_000, "max": 900_000, "mean": 1e9 / iops, "stddev": 1.0, "N": ios}
    side = {"io_bytes": ios * 4096, "total_ios": ios, "runtime": 30_000, "iops": iops, "short_ios": 0, "drop_ios": 0,
            "lat_ns": lat, "clat_ns": lat, "slat_ns": {"min": 0, "max": 0, "mean": 0, "stddev": 0, "N": 0}}  # fmt: skip
    given = {"rw": f"rand{way}", "bs": "4k", "ioengine": "libaio", **options}
    job = {"jobname": "j", "groupid": 0, "error": 0, "job options": given, way: side, "usr_cpu": 1.0, "sys_cpu": 1.0}
    return json.dumps({"fio version": "fio-3.33", "jobs": [job]}).encode()


def imported(tmp_path: Path, chosen: str = "", **options: Any) -> Evidence:
    for lane, level in (("iscsi", 1000), ("nvme", 1300)):
        for block in range(6):
            place = tmp_path / "in" / lane / f"{block}.json"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(fio(level + 7 * (block * 5 % 6), **options))
    import_files([tmp_path / "in"], tmp_path / "out", parse_map("paired: true\n" + chosen, "map.yaml"))
    return load_run(tmp_path / "out")


def told(evidence: Evidence) -> set[tuple[str, str]]:
    return {(f.kind, f.severity) for f in run_all(evidence) if f.check == "cache_served"}


def headline(evidence: Evidence) -> bool:
    (verdict,) = (v for v in judge(evidence, run_all(evidence)) if v.metric == "iops" and v.lane == "nvme")
    assert verdict.verdict == "faster"
    return verdict.headline


ACCEPT = """
accept:
  tool_version: the same on both
  direct: the database reads through the cache too
"""


@pytest.mark.parametrize("options", [{}, {"direct": "0"}, {"buffered": "1"}])
def test_buffered_reads_are_critical_and_have_no_headline(tmp_path: Path, options: dict[str, str]) -> None:
    """fio's default is buffered: a file without ``direct`` says so too."""
    evidence = imported(tmp_path, **options)
    assert told(evidence) == {("indirect", "critical")}
    assert not headline(evidence)


def test_direct_reads_have_one(tmp_path: Path) -> None:
    evidence = imported(tmp_path, direct="1")
    assert told(evidence) == set()
    assert headline(evidence)


def test_a_reason_makes_it_a_warning(tmp_path: Path) -> None:
    evidence = imported(tmp_path, ACCEPT)
    assert told(evidence) == {("indirect", "warning")}
    assert headline(evidence)
    in_vain = [f.message for f in run_all(evidence) if f.kind == "accepted-in-vain"]
    assert not [message for message in in_vain if "direct I/O" in message]


def test_a_reason_on_the_command_line_too(tmp_path: Path) -> None:
    evidence = accepting(imported(tmp_path), {"direct": "the database reads through the cache too"})
    assert told(evidence) == {("indirect", "warning")}


@pytest.mark.parametrize(
    ("options", "severity"),
    [
        ({"way": "write"}, "critical"),
        ({"way": "write", "fdatasync": "1"}, "warning"),  # etcd's test of its disk
        ({"way": "write", "sync": "1"}, "warning"),
        ({"way": "write", "sync": "none"}, "critical"),
        ({"fdatasync": "1"}, "critical"),
        ({"ioengine": "rbd"}, ""),  # no page cache on its way
    ],
)
def test_what_reaches_the_device_nevertheless(tmp_path: Path, options: dict[str, str], severity: str) -> None:
    assert told(imported(tmp_path, **options)) == ({("indirect", severity)} if severity else set())
