"""Two provisionings of two lanes on real machines: everything is new in the second, and lanes change slots."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlane.cli.main import run
from fairlane.machines import scratch
from fairlane.platforms.lab.wall import layout
from fairlane.runs.read import load_run
from fairlane.study.load import parse_study

STUDY = """
name: anew
platform:
  {kind: lab, clock: wall, accel: tcg, memory: 384m, array: {memory: 512m}, hugepages: 0, settle: 0s,
   capabilities: false, medium: {size: 16m, memory_backed: true}}
baseline: iscsi
lanes:
  iscsi: {transport: iscsi}
  nvme-tcp: {transport: nvme_tcp}
workloads:
  main: {kind: fio, rw: [randread], bs: [4k], runtime: 1s, prefill: true, steady: {round: 300ms, limit: 3s}}
design: {provisionings: 2}
"""
SIZE = 16 * 2**20


def test_lanes_change_their_numbers_from_provisioning_to_provisioning() -> None:
    study = parse_study(STUDY, "study.yaml")
    numbers = []
    for provisioning in range(4):
        volumes = layout.volumes(study, study.platform, provisioning)  # type: ignore[arg-type]
        assert [v.site.index for v in volumes] == [0, 1]
        assert len({v.transport.port for v in volumes}) == 2
        numbers.append({v.lane: v.site.index for v in volumes})
    assert numbers == [{"iscsi": 0, "nvme-tcp": 1}, {"nvme-tcp": 0, "iscsi": 1}] * 2


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    temporary = Path(tempfile.mkdtemp(prefix="flp", dir="/tmp"))  # short: sockets are in it
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    yield tmp_path
    assert scratch.abandoned() == []
    temporary.rmdir()  # is empty


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_machines_and_volumes_of_the_second_are_new_filled_and_loaded_until_steady(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "s.yaml").write_text(STUDY)
    folder = here / "run"
    assert run(["run", str(here / "s.yaml"), "--out", str(folder)]) == 0, capsys.readouterr().err
    events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    steps = [(e["type"], e.get("provisioning", e.get("block"))) for e in events if e["type"] != "end"]
    trials = [[("trial", number)] * 2 for number in range(4)]
    assert steps == [
        ("start", 0), *trials[0], *trials[1], ("provision", 1), *trials[2], *trials[3], ("look", None),
    ]  # fmt: skip
    first, second = (_described(folder / e["description"]) for e in events if "description" in e)
    for one in (first, second):
        assert set(one["platform"]["boot_ids"]) == {"array", "guest0"}
        for lane in one["lanes"].values():
            assert lane["prefill.bytes_written"] >= SIZE
            assert lane["steady"]["rounds"] >= 5
    old, new = (one["platform"]["boot_ids"] for one in (first, second))
    assert all(old[machine] != new[machine] for machine in old)
    # the kernel of the array makes the namespace's UUID up when it makes the namespace
    assert first["lanes"]["nvme-tcp"]["device.identity"] != second["lanes"]["nvme-tcp"]["device.identity"]
    assert first["lanes"]["iscsi"]["device.identity"] != second["lanes"]["iscsi"]["device.identity"]
    evidence = load_run(folder)
    assert evidence.complete
    assert not [o for o in evidence.observations if o.failed]


def _described(path: Path) -> Any:
    return json.loads(path.read_text())
