"""Lanes on real domains of a real libvirtd: plugged in, read back from QEMU, measured, and gone afterwards."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from testkit.libvirtd import NOBODY
from tests.capture.live import loop_device
from tests.platforms.hosts.hosts_bench import lines, until
from tests.platforms.libvirt.domains_bench import LANES, READS, Room

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.xdist_group("domains")]

MODES = [
    {"bus": "virtio-blk", "cache": "none", "aio": "native", "format": "raw"},
    {"bus": "virtio-blk", "cache": "writethrough", "aio": "threads", "format": "qcow2"},
    {"bus": "virtio-blk", "cache": "unsafe", "aio": "threads", "format": "raw"},
    {"bus": "virtio-scsi", "cache": "none", "aio": "io_uring", "format": "qcow2"},
    {"bus": "virtio-scsi", "cache": "directsync", "aio": "native", "format": "raw"},
    {"bus": "virtio-scsi", "cache": "writeback", "aio": "threads", "format": "qcow2"},
]


def test_buses_are_compared_in_two_domains(room: Room) -> None:
    described = room.start(room.study(LANES, ("vm1", "vm2")))
    assert described["blk"]["device.bus"] == "virtio-blk"
    assert described["blk"]["qemu.io_thread"] == "iothread1000"
    assert described["scsi"]["device.bus"] == "virtio-scsi"
    assert described["scsi"]["qemu.io_thread"] == "none"
    assert described["blk"]["machines"] == ["vm1", "vm2"]
    seen = [json.loads(line) for line in (room.run / "observations.jsonl").read_text().splitlines()]
    for trial in seen:
        places = trial["context"]["cpu_hypervisor"]["by_place"]
        assert {"vcpu", "main", *(["io_threads"] if trial["lane"] == "blk" else [])} <= set(places)
        assert trial["metrics"]["cpu_per_io_hypervisor"] == pytest.approx(sum(places.values()))
        assert trial["context"]["system_hypervisor"]["others"] < 1


def test_the_doctor_tries_domains_and_their_hypervisor(room: Room) -> None:
    file = room.study(LANES)
    done = room.bench.run("doctor", str(file), "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {line["name"]: line["state"] for line in json.loads(done.stdout)}
    assert {name for name, state in found.items() if state == "missing"} == set()
    assert {"vm1", "here"} <= set(found), found


def test_modes_are_what_qemu_says(room: Room) -> None:
    described = room.start(
        room.study({f"mode{n}": {"transport": "local", "device": mode} for n, mode in enumerate(MODES)})
    )
    keys = {"bus": "device.bus", "cache": "qemu.cache", "aio": "libvirt.io", "format": "qemu.format"}
    assert [{key: described[f"mode{n}"][row] for key, row in keys.items()} for n in range(len(MODES))] == MODES


OPTIONS = {
    "blk": {"queue_size": 64, "packed": True, "block_size": 4096, "discard": "ignore"},
    "qcow2": {"format": "qcow2", "cluster_size": "256k", "detect_zeroes": "on"},
    "scsi": {"bus": "virtio-scsi", "packed": True, "detect_zeroes": "unmap", "block_size": 4096},
    "capped": {"throttle": True},
}


def test_options_are_what_qemu_and_the_guest_say(room: Room) -> None:
    lanes: dict[str, dict[str, Any]] = {
        name: {"transport": "local", "device": device} for name, device in OPTIONS.items()
    }
    lanes["capped"]["cap_iops"] = 40
    described = room.start(room.study(lanes, workloads={"main": {**READS["main"], "runtime": "2s"}}))
    rows = ("qemu.queue_size", "qemu.packed", "qemu.detect_zeroes", "qemu.iops", "qemu.cluster_size",
            "device.logical_block_size")  # fmt: skip
    assert {name: [described[name][row] for row in rows] for name in lanes} == {
        "blk": ["64", "true", "off", "0", "none", "4096"],
        "qcow2": ["256", "false", "on", "0", "262144", "512"],
        "scsi": ["256", "true", "unmap", "0", "none", "4096"],
        "capped": ["256", "false", "off", "40", "none", "512"],
    }
    assert "above_cap" not in room.bench.run("check", str(room.run), "--format", "json").stdout
    observations = map(json.loads, (room.run / "observations.jsonl").read_text().splitlines())
    iops = {one["lane"]: one["metrics"]["iops"] for one in observations}
    assert iops["capped"] <= 42.5 < iops["blk"]  # saved up: a tenth of a second; and the last is in flight


def test_volumes_of_a_pool(room: Room) -> None:
    folder = room.domains.folder / "pool"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    room.domains.virsh("pool-create-as", "site", "dir", "--target", str(folder))
    lane = {"transport": "pool", "pool": "site", "device": {"format": "qcow2"}}
    described = room.start(room.study({"full": lane, "thin": {**lane, "sparse": True}}))
    assert {rows["pool.type"] for rows in described.values()} == {"dir"}
    assert list(folder.iterdir()) == []
    room.domains.virsh("pool-destroy", "site")
    done = room.bench.run("run", str(room.study({"full": lane, "other": LANES["blk"]})), "--out", str(room.run / "x"))
    assert done.returncode
    assert "site" in done.stderr


WRITES = {"main": {**READS["main"], "rw": ["randwrite"]}}


def test_the_hypervisor_guards_its_devices(room: Room, tmp_path: Path) -> None:
    files = [tmp_path / "first", tmp_path / "second"]
    identities = [f"loop:{file}" for file in files]
    with loop_device(files[0]) as first, loop_device(files[1]) as second:
        subprocess.run(["mkfs.ext4", "-q", second], check=True)
        before = [file.read_bytes() for file in files]
        for device in (first, second):
            os.chown(device, NOBODY, NOBODY)

        def refusal(*destroy: str) -> str:
            """The message of a run that may destroy these."""
            lanes = {
                f"lane{n}": {"transport": "device", "identity": identity, "device": {"bus": bus}, "destroy": named}
                for n, (identity, named, bus) in enumerate(
                    zip(identities, destroy, ("virtio-blk", "virtio-scsi"), strict=True)
                )
            }
            file = room.study(lanes, workloads=WRITES)
            done = room.bench.run("run", str(file), "--out", f"{room.run}-{destroy[1][-6:]}")
            assert "Traceback" not in done.stderr
            return done.stderr if done.returncode else ""

        assert "names another, which is another volume" in refusal(identities[0], "another")
        folder = tmp_path / "mounted"
        folder.mkdir()
        subprocess.run(["mount", "-o", "ro", second, folder], check=True)
        try:
            assert f"mounted at {folder}" in refusal(*identities)
        finally:
            subprocess.run(["umount", folder], check=True)
        assert [file.read_bytes() for file in files] == before


def test_devices_are_written_only_where_the_study_says_so(room: Room, tmp_path: Path) -> None:
    file = tmp_path / "disk"
    with loop_device(file) as device, loop_device(tmp_path / "other") as other:
        for node in (device, other):
            os.chown(node, NOBODY, NOBODY)
        lanes = {
            name: {"transport": "device", "identity": f"loop:{path}", "device": {"bus": bus}}
            for name, path, bus in (("disk", file, "virtio-blk"), ("other", tmp_path / "other", "virtio-scsi"))
        }
        described = room.start(room.study(lanes))
        assert {rows["qemu.read_only"] for rows in described.values()} == {"true"}
        assert not any(file.read_bytes())


LONG = {"main": {"kind": "fio", "rw": ["randread"], "runtime": "20s", "ramp": "0s", "size": "8m"}}


@pytest.mark.parametrize("moment", ["build", "load"])
def test_a_killed_run_is_cleaned(room: Room, moment: str) -> None:
    file = room.study(LANES, workloads=LONG)
    with room.bench.running("run", str(file), "--out", str(room.run)) as process:
        if moment == "build":
            until(lambda: [*room.images.iterdir()] or process.poll() is not None, patience=600)
        else:
            until(lambda: b'"trial"' in _journal(room) or process.poll() is not None, patience=600)
        assert process.poll() is None, room.bench.output
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = room.bench.run("hosts", "clean", str(file))
    assert done.returncode == 0, done.stderr


def test_a_daemon_that_restarts_under_load(room: Room) -> None:
    file = room.study(LANES, workloads=LONG)
    with room.bench.running("run", str(file), "--out", str(room.run)) as process:
        until(lambda: b'"trial"' in _journal(room) or process.poll() is not None, patience=600)
        assert process.poll() is None, room.bench.output
        room.domains.restart()
        process.wait()
    assert process.returncode == 0, room.bench.output
    assert b'"block-failed"' not in _journal(room)


def test_a_domain_that_is_destroyed_under_load(room: Room) -> None:
    file = room.study(LANES, machines=("vm2",), workloads=LONG)
    with room.bench.running("run", str(file), "--out", str(room.run)) as process:
        until(lambda: b'"trial"' in _journal(room) or process.poll() is not None, patience=600)
        assert process.poll() is None, room.bench.output
        room.domains.virsh("destroy", "vm2")
        room.domains.switch_on("vm2")
        process.wait()
    assert process.returncode == 0, room.bench.output
    assert [line["error"] for line in lines(room.run) if line["type"] == "block-failed"] == ["machine-lost"]
    assert len([line for line in lines(room.run) if line["type"] == "trial"]) >= 4


def _journal(room: Room) -> bytes:
    file = room.run / "journal.jsonl"
    return file.read_bytes() if file.exists() else b""


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"blk": {"transport": "local", "device": {"bus": "nvme"}}}, {}, "NVMe"),
    ({"blk": {"transport": "local"}}, {}, "device"),
    ({}, {"machines": {"vm1": {"domain": "nobody", "ssh": "vm1"}}}, "nobody"),
    ({}, {"uri": "qemu:///session"}, "libvirt"),
    ({}, {"folder": "/nowhere"}, "/nowhere"),
    ({"blk": {"transport": "pool", "pool": "nowhere"}}, {}, "nowhere"),
    ({"blk": {"transport": "pool", "pool": "-c"}}, {}, "letters"),
    ({"blk": {"transport": "local", "device": {"io_threads": 2, "queues": 2, "vq_mapping": True}}}, {}, "queues"),
]


@pytest.mark.parametrize(("lanes", "platform", "word"), WRONG)
def test_what_cannot_be_is_one_message(room: Room, lanes: Any, platform: Any, word: str) -> None:
    done = room.bench.run("run", str(room.study({**LANES, **lanes}, platform=platform)), "--out", str(room.run))
    assert done.returncode
    assert word in done.stderr
    assert "Traceback" not in done.stderr
