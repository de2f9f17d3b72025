"""Failover: what fio is asked to do, and what is read out of it. Real fio does the verifying; the trials in ``data``
were recorded in the lab, with a path cut under load."""

import errno
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fairlane.errors import Garbage
from fairlane.records import Cell, Figures
from fairlane.workloads import _failover_read as read
from fairlane.workloads.failover import PLUGIN, FailoverSpec
from tests.words import kind, refused

needs_fio = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
RECORDED = Path(__file__).parent / "data" / "failover"


def spec(**changes: Any) -> FailoverSpec:
    given = {"kind": "failover", "before": "1s", "outage": "1s", "after": "1s", "size": "1m"}
    return FailoverSpec.model_validate(given | changes)


def cell(**changes: Any) -> Cell:
    (only,) = spec(**changes).cells("main")
    return only


def recorded(name: str) -> tuple[Cell, dict[str, bytes]]:
    folder = RECORDED / name
    outputs = {file.name: file.read_bytes() for file in folder.iterdir()}
    size = {"nvme-tcp": "16m", "iscsi": "4m"}[name]
    return cell(before="4s", outage="5s", after="9s", size=size), outputs


# --- what is asked for


IMPOSSIBLE = [
    ({"bs": ["6k"]}, "bs 4k 1m"),
    ({"bs": ["2m"]}, "bs 4k 1m"),
    ({"iodepth": [0]}, "iodepth 1024"),
    ({"size": "100k"}, "size 64k 1m"),
    ({"outage": "500ms"}, "outage 1s"),
    ({"recovered": 0}, "recovered 0"),
    ({"fault": ["power"]}, "fault.0 'link' 'port' 'state'"),
    ({"rw": ["randread"]}, "rw.0 'randwrite'"),
]
"""Keys, the one that is wrong, and what its message has."""


@pytest.mark.parametrize(("changes", "told"), IMPOSSIBLE)
def test_what_cannot_be_is_refused_in_words(changes: dict[str, Any], told: str) -> None:
    key, *tokens = told.split()
    with pytest.raises(ValidationError, check=refused("before, outage, after" if key == "outage" else key, *tokens)):
        spec(**changes)


def test_cells_are_named_by_load_and_fault() -> None:
    cells = spec(rw=["randwrite", "randrw"], fault=["link", "state"], path=1).cells("main")
    assert [c.name for c in cells] == [
        "4k randwrite qd8 link 1",
        "4k randrw 70/30 qd8 link 1",
        "4k randwrite qd8 state 1",
        "4k randrw 70/30 qd8 state 1",
    ]


def test_the_load_verifies_numbers_of_writes_and_never_stops_at_an_error() -> None:
    script = PLUGIN.script(cell(rate_iops=500), ("/dev/lane/a", "/dev/lane/b"), 0)
    options = dict(line.split("=", 1) for line in script.splitlines() if "=" in line and " " not in line.split("=")[0])
    assert "time_based" not in options  # it would switch the comparison of numbers off
    assert options["verify"] == "crc32c"
    assert options["runtime"] == "3000ms"
    assert options["continue_on_error"] == "all"
    assert options["serialize_overlap"] == "1"
    assert options["randseed"] == "1"  # 0 would give every job the same stream
    assert options["rate_iops"] == "500"
    assert "[job0]\nfilename=/dev/lane/a" in script
    assert "exec_prerun" not in options


# --- real fio: the same scripts on a file


def run(script: str, folder: Path) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    # psync: a machine that runs tests may forbid io_uring
    done = subprocess.run(["bash", "-c", script.replace("=io_uring", "=psync")], cwd=folder, check=False)
    assert done.returncode == 0
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def fault(outputs: dict[str, bytes], begins: float, ends: float) -> bytes:
    """A fault at these seconds of the load, on a machine whose clock is three seconds ahead."""
    start = int(outputs["job_iops.1.log"].split(b",")[0]) / 1000 - 0.1
    return json.dumps(
        {"kind": "link", "path": 0, "begins": start + begins - 3, "ends": start + ends - 3, "offset": 3.0,
         "within": 0.001}
    ).encode()  # fmt: skip


@needs_fio
def test_real_fio_finds_every_wrong_block_and_the_next_trial_starts_clean(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(1 << 20))
    asked = cell()
    run(PLUGIN.prepare(asked, str(disk)), tmp_path / "prefill")
    load = run(PLUGIN.script(asked, (str(disk),), 7), tmp_path / "load")
    load["fault.json"] = fault(load, 1.0, 2.0)
    clean = PLUGIN.observe(asked, load | run(PLUGIN.final(asked, (str(disk),)), tmp_path / "clean"))
    assert clean.context["data"]["wrong_blocks"] == 0
    assert clean.context["data"]["io_errors"] == 0
    assert clean.context["data"]["checked"] == 16  # all of it, 64k at a time
    assert clean.metrics["iops_before"] > 0
    assert clean.metrics["stall"] > 0
    assert abs(clean.context["fault"]["begins_ms"] - 1000) < 2
    assert sum(clean.context["load"]["series"]["iops"]) / 10 == pytest.approx(
        clean.context["load"]["ios"]["write"], rel=0.2
    )

    with disk.open("r+b") as file:  # two blocks of one 64k, one elsewhere; the second has a good header
        file.seek(4096 * 3)
        file.write(bytes(4096))
        file.seek(4096 * 5 + 2048)
        file.write(b"damaged")
        file.seek(4096 * 40)
        file.write(bytes(100))
    looked = run(PLUGIN.final(asked, (str(disk),)), tmp_path / "wrong")
    assert PLUGIN.observe(asked, load | looked).context["data"]["wrong_blocks"] == 3
    # right when read again, as over a path that was still coming back: wrong all the same
    mended = {name: b"" if name == "final.err" else data for name, data in looked.items()}
    assert PLUGIN.observe(asked, load | mended).context["data"]["wrong_blocks"] == 2  # the first of each I/O
    anew = PLUGIN.observe(asked, load | run(PLUGIN.final(asked, (str(disk),)), tmp_path / "anew"))
    assert anew.context["data"]["wrong_blocks"] == 0


# --- reading

_BAD = "verify: bad header numberio 7, wanted 9 at file /dev/a offset {}, length 4096 (requested block: offset=0, ...)"
_CRC = "crc32c: verify failed at file /dev/a offset {}, length 4096 (requested block: offset=0, length=65536, flags=8)"
_EIO = "fio: io_u error on file /dev/a: Input/output error: write offset={}, buflen=8192"


@pytest.fixture
def trial() -> tuple[Cell, dict[str, bytes]]:
    return recorded("nvme-tcp")


def told(asked: Cell, outputs: dict[str, bytes], **files: str) -> dict[str, Any]:
    changed = {name.replace("_", "."): text.encode() for name, text in files.items()}
    data: dict[str, Any] = PLUGIN.observe(asked, {**outputs, **changed}).context["data"]
    return data


def test_a_block_is_wrong_once_however_often_it_was_found(trial: tuple[Cell, dict[str, bytes]]) -> None:
    data = told(*trial, failover_err="\n".join([_BAD.format(0), _BAD.format(0)]), final_err=_CRC.format(0))
    assert (data["wrong_blocks"], data["wrong_in_run"]) == (1, 1)
    data = told(*trial, failover_err=_BAD.format(0), final_err=_CRC.format(4096))
    assert (data["wrong_blocks"], data["wrong_in_run"]) == (2, 1)


def test_a_block_whose_write_was_refused_is_an_error_and_not_a_wrong_block(
    trial: tuple[Cell, dict[str, bytes]],
) -> None:
    data = told(*trial, failover_err=_EIO.format(4096), final_err=_CRC.format(8192) + "\n" + _CRC.format(12288))
    assert data["wrong_blocks"] == 1  # 4096 and 8192 were refused
    assert data["io_errors"] == 1
    assert data["first_error"] == os.strerror(errno.EIO)


def test_errors_that_were_cut_off_are_still_counted(trial: tuple[Cell, dict[str, bytes]]) -> None:
    assert told(*trial, failover_err=_EIO.format(4096), failover_errors="90210\n")["io_errors"] == 90210


def test_blocks_that_the_last_check_could_not_read_are_errors(trial: tuple[Cell, dict[str, bytes]]) -> None:
    assert told(*trial, final_errors="3\n")["io_errors"] == 3
    assert told(*trial, whole_errors="5\n", final_errors="3\n")["io_errors"] == 5
    asked, outputs = trial
    larger = replace(asked, params={**asked.params, "size": 2 * asked.params["size"]})
    with pytest.raises(Garbage, check=kind("check-incomplete")) as raised:
        PLUGIN.observe(larger, outputs)
    size = larger.params["size"]
    assert re.findall(r"\d+", str(raised.value)) == [str(size // 2), str(size)]


MISSING = [
    ("fault.json", b"", "output-damaged fault.json"),
    ("fault.json", b'{"kind": "link"}', "output-damaged fault.json"),
    ("failover.json", b"", "output-missing failover.json"),
    ("final.json", b"", "output-missing final.json"),
    ("final.json", b"{", "cut-off final.json"),
    ("job_iops.1.log", b"", "output-missing iops"),
    ("job_lat.1.log", b"1, 2, 3\n", "columns 1 4 3"),
    ("job_lat.1.log", b"100, 5000, 1, 4096, 0\n", "log-kind job_lat.1.log"),
]
"""File, its content, and kind of the error with names and figures."""


@pytest.mark.parametrize(("name", "data", "why"), MISSING)
def test_what_is_missing_or_cannot_be_is_said(
    trial: tuple[Cell, dict[str, bytes]], name: str, data: bytes, why: str
) -> None:
    asked, outputs = trial
    expected, *tokens = why.split()
    with pytest.raises(Garbage, check=kind(expected)) as raised:
        PLUGIN.observe(asked, {**outputs, name: data})
    assert [token for token in tokens if token not in str(raised.value)] == []


def test_a_fault_outside_the_load_has_no_figures(trial: tuple[Cell, dict[str, bytes]]) -> None:
    asked, outputs = trial
    for shift in (-30.0, 30.0):
        moved = json.loads(outputs["fault.json"])
        moved["offset"] += shift
        with pytest.raises(Garbage, check=kind("fault-outside")):
            PLUGIN.observe(asked, {**outputs, "fault.json": json.dumps(moved).encode()})


def series(*iops: float) -> read.Series:
    return read.Series(0, tuple(rate / 10 for rate in iops))


def test_recovery_begins_to_count_with_the_fault_and_needs_a_fall() -> None:
    steady, gone = [100.0] * 10, [0.0] * 20
    # 0.5 s averages are good again once three of five intervals are
    assert read.recovery(series(*steady, *gone, *steady), 1000, 50) == 1800
    assert read.recovery(series(*steady, *steady, *steady), 1000, 50) == 100
    assert read.recovery(series(*steady, *gone), 1000, 50) is None
    # IOPS that fall only later: the fall counts, and what came before it does not
    assert read.recovery(series(*steady, *steady[:5], *gone, *steady), 1000, 50) == 2300


def test_machines_of_a_fleet_are_one_trial(trial: tuple[Cell, dict[str, bytes]]) -> None:
    asked, outputs = trial
    one = PLUGIN.observe(asked, outputs)
    # the other machine's load began 300 ms earlier, and it found a wrong block
    later = {**one.context["fault"], "begins_ms": one.context["fault"]["begins_ms"] + 300,
             "ends_ms": one.context["fault"]["ends_ms"] + 300}  # fmt: skip
    load = one.context["load"]
    shifted = {**load, "series": {"interval_ms": 100, "iops": [7.0, 7.0, 7.0, *load["series"]["iops"]]}}
    data = {**one.context["data"], "wrong_blocks": 1}
    context = {**one.context, "fault": later, "load": shifted, "data": data}
    other = replace(one, context=context, metrics={**one.metrics, "stall": 9e9})
    both: Figures = PLUGIN.merge(asked, {"vm0": one, "vm1": other})
    assert both.metrics["stall"] == 9e9
    assert both.metrics["iops_before"] == pytest.approx(2 * one.metrics["iops_before"])
    assert both.context["load"]["series"]["iops"] == [2 * rate for rate in load["series"]["iops"]]
    assert both.context["data"]["wrong_blocks"] == 1
    assert both.context["fault"]["begins_ms"] == one.context["fault"]["begins_ms"]
    assert both.context["load"]["ios"]["write"] == 2 * load["ios"]["write"]


@pytest.mark.parametrize(("lane", "stall"), [("nvme-tcp", 6.37e9), ("iscsi", 4.39e9)])
def test_recorded_trials_tell_when_the_path_died_and_what_of_the_data(lane: str, stall: float) -> None:
    asked, outputs = recorded(lane)
    seen = PLUGIN.observe(asked, outputs)
    fault = seen.context["fault"]
    assert seen.metrics["stall"] == pytest.approx(stall, rel=0.01)
    assert fault["carried"]["path0"]["before"] > 50_000
    assert fault["carried"]["path0"]["during"] == 0
    assert fault["recovered"]
    assert fault["iops_during"] < seen.metrics["iops_before"]
    assert seen.context["data"]["wrong_blocks"] == seen.context["data"]["io_errors"] == 0
    # the longest I/O was under way while the path was gone
    assert fault["begins_ms"] < fault["stall_ends_ms"]
    assert fault["stall_ends_ms"] - seen.metrics["stall"] / 1e6 < fault["ends_ms"]
