"""Trials read by several processes are those read by one, damaged ones left out."""

import threading

import pytest

from fairlane.cli.main import run
from fairlane.runs import many
from fairlane.runs.read import load_run

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
