"""Trials read by several processes are those read by one, damaged ones left out."""

import threading

import pytest

from fairlane.checks.base import run_all
from fairlane.cli.main import run
from fairlane.runs import index, many, units
from fairlane.runs.read import load_run
from fairlane.stats.histogram import count, mean
from fairlane.stats.judge import judge
from fairlane.web import reading

STUDY = """
name: many
platform: {kind: fake}
baseline: iscsi
lanes: {iscsi: {transport: iscsi}, nvme: {transport: nvme_tcp}}
workloads: {main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1, 8], runtime: 1s}}
design: {looks: [6]}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    assert run(["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "run")]) == 0
    (tmp_path / "run" / "raw" / "main.4k-randread-qd8.b003.nvme.tar.gz").write_bytes(b"not what was journaled")
    return tmp_path / "run"


def test_several_processes_read_what_one_reads(folder, monkeypatch):
    alone = load_run(folder)
    monkeypatch.setattr(many, "ENOUGH", 1)
    monkeypatch.setattr(many, "_CHUNK", 5)
    assert load_run(folder) == alone
    assert len(alone.observations) == 23
    assert [e["trial"] for e in alone.events if e["type"] == "damaged"] == ["main.4k-randread-qd8.b003.nvme"]


def test_a_process_with_threads_is_not_forked(folder, monkeypatch):
    monkeypatch.setattr(many, "ENOUGH", 1)
    monkeypatch.setattr(many, "ProcessPoolExecutor", None)  # would fail if it were asked
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert len(load_run(folder).observations) == 23
    finally:
        stop.set()
        thread.join()


def test_a_large_run_of_our_own_is_indexed_and_its_archives_are_still_verified(folder, monkeypatch):
    alone = load_run(folder)
    assert not (folder / index.NAME).exists()
    monkeypatch.setattr(many, "ENOUGH", 1)
    assert load_run(folder) == alone
    made = (folder / index.NAME).read_bytes()
    monkeypatch.setattr(units, "observe", None)  # would fail if it were asked
    assert [o.metrics for o in load_run(folder).observations] == [o.metrics for o in alone.observations]
    assert [o.metrics for o in reading.load(folder).observations] == [o.metrics for o in alone.observations]
    for ours, theirs in zip(load_run(folder).observations, alone.observations, strict=True):
        for name, bins in theirs.histograms.items():  # also of those whose bins are in the raw file alone
            assert (count(ours.histograms[name]), mean(ours.histograms[name])) == (count(bins), mean(bins))
    (folder / "raw" / "main.4k-randread-qd1.b000.iscsi.tar.gz").unlink()
    (folder / "raw" / "main.4k-randread-qd1.b001.iscsi.tar.gz").write_bytes(b"not it")
    without = load_run(folder)
    assert len(without.observations) == 21
    assert not without.complete
    assert (folder / index.NAME).read_bytes() == made


def test_a_run_that_goes_on_keeps_no_index(folder, monkeypatch):
    monkeypatch.setattr(many, "ENOUGH", 1)
    lines = (folder / "journal.jsonl").read_text().splitlines(keepends=True)
    (folder / "journal.jsonl").write_text("".join(line for line in lines if '"end"' not in line))
    assert len(load_run(folder).observations) == 23
    assert not (folder / index.NAME).exists()


def test_more_trials_than_are_held_are_the_same(folder, monkeypatch):
    evidence = load_run(folder)
    findings = run_all(evidence)
    monkeypatch.setattr(many, "ENOUGH", 1)
    monkeypatch.setattr(index, "_HELD", 3)
    again = load_run(folder)
    assert again == evidence
    assert run_all(again) == findings
    assert judge(again, findings) == judge(evidence, findings)
