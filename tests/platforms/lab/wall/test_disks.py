"""Disks as QEMU's words: what is dealt out to what, and what is refused before anything is made."""

import asyncio
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlane.errors import FairlaneError, RunFailed
from fairlane.fleet.volumes import by_lane
from fairlane.platforms.lab import Lab, qemu
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall import command as machine
from fairlane.platforms.lab.wall import disks, hypervisor, layout, pinning, qemu_probe
from fairlane.platforms.lab.wall.command import Machine
from fairlane.platforms.lab.wall.pinning import Thread
from fairlane.study.guest_device import CACHE_MODES, CacheMode
from fairlane.study.load import parse_study
from tests.words import kind


def volumes(device: str, count: int = 8, more: str = "", lane: str = "{transport: local, device: DEVICE}") -> Any:
    """A study's platform and its volumes by lane: ``disk`` with ``device``, and ``other``."""
    study = parse_study(
        f"""
name: disks
platform: {{kind: lab, clock: wall, disks: {count}{more}}}
baseline: disk
lanes:
  disk: {lane.replace("DEVICE", device)}
  other: {{transport: local, device: {{bus: virtio-blk}}}}
workloads:
  main: {{kind: fio, prefill: false}}
""",
        "study.yaml",
    )
    assert isinstance(study.platform, LabSpec)
    return study.platform, by_lane(layout.volumes(study, study.platform))


def parts(device: str, count: int = 8, more: str = "") -> disks.Parts:
    _, lanes = volumes(device, count, more)
    return disks.parts(v.at(medium="") for v in lanes["disk"])


def refused(device: str, count: int = 8, more: str = "") -> list[FairlaneError]:
    spec, lanes = volumes(device, count, more)
    return qemu_probe.problems(lanes, spec)


def test_io_threads_are_dealt_out_to_disks() -> None:
    made = parts("{bus: virtio-blk, io_threads: 4}", 9)
    assert [o["id"] for o in made.objects] == ["io.disk.0", "io.disk.1", "io.disk.2", "io.disk.3"]
    assert Counter(d["iothread"] for d in made.devices) == {
        "io.disk.0": 3,
        "io.disk.1": 2,
        "io.disk.2": 2,
        "io.disk.3": 2,
    }


def test_one_io_thread_is_shared_and_none_is_the_main_loop() -> None:
    assert {d["iothread"] for d in parts("{io_threads: 1}").devices} == {"io.disk.0"}
    assert not any("iothread" in d for d in parts("{io_threads: 0}").devices)
    assert len({d["iothread"] for d in parts("{io_threads: per-disk}").devices}) == 8


def test_scsi_disks_are_spread_over_controllers_with_the_io_threads() -> None:
    made = parts("{bus: virtio-scsi, controllers: 4, io_threads: 2, queues: 1}")
    controllers = [d for d in made.devices if d["driver"] == "virtio-scsi-pci"]
    assert [c["iothread"] for c in controllers] == ["io.disk.0", "io.disk.1", "io.disk.0", "io.disk.1"]
    drives = [(d["bus"], d["scsi-id"]) for d in made.devices if d["driver"] == "scsi-hd"]
    assert Counter(bus for bus, _ in drives) == {f"c-disk-{n}.0": 2 for n in range(4)}
    assert len(set(drives)) == 8


def test_nvme_has_a_controller_per_disk_with_its_queues() -> None:
    made = parts("{bus: nvme, queues: 2}", 2, ", cpus: 2")
    assert [d["driver"] for d in made.devices] == ["nvme", "nvme-ns"] * 2
    assert {d["max_ioqpairs"] for d in made.devices if d["driver"] == "nvme"} == {2}


def test_queues_are_mapped_to_every_io_thread() -> None:
    made = parts("{io_threads: 2, queues: 2, vq_mapping: true}", 1, ", cpus: 2")
    assert made.devices[0]["iothread-vq-mapping"] == [{"iothread": "io.disk.0"}, {"iothread": "io.disk.1"}]


@pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi", "nvme"])
def test_serials_are_unique_and_fit_every_bus(bus: str) -> None:
    serials = [d["serial"] for d in parts(f"{{bus: {bus}}}", 32).devices if "serial" in d]
    assert len(set(serials)) == 32
    assert max(map(len, serials)) <= 20


def test_files_have_aio_and_cache_and_modelled_media_none() -> None:
    _, lanes = volumes("{aio: io_uring, cache: writeback, format: qcow2}", 1, ", medium: {file: true}")
    below, image = disks.parts(v.at(medium="/scratch/medium0") for v in lanes["disk"]).blockdevs
    assert below["aio"] == "io_uring"
    assert below["cache"] == {"direct": False, "no-flush": False}
    assert image == {"driver": "qcow2", "file": below["node-name"], "cache": below["cache"], "discard": "unmap",
                     "node-name": "v0"}  # fmt: skip
    assert "aio" not in parts("{aio: native}").blockdevs[0]


@pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi"])
@pytest.mark.parametrize("mode", CACHE_MODES)
def test_cache_modes(bus: str, mode: CacheMode) -> None:
    flags = CACHE_MODES[mode]
    made = parts(f"{{bus: {bus}, cache: {mode}}}", 1)
    assert made.blockdevs[0]["cache"] == {"direct": flags.direct, "no-flush": flags.no_flush}
    assert made.devices[-1].get("write-cache", "on") == ("on" if flags.writeback else "off")
    _, lanes = volumes(f"{{bus: {bus}, cache: {mode}}}", 1)
    for other, (_, direct, no_flush) in CACHE_MODES.items():
        found = disks.disk_state(lanes["disk"][0], answers(direct=direct, no_flush=no_flush), [], "")
        same = (direct, no_flush) == (flags.direct, flags.no_flush)
        assert bool(found.wrong) != same, other


def test_options_of_virtio() -> None:
    words = "queue_size: 512, packed: true, block_size: 4096, discard: ignore, detect_zeroes: on"
    made = parts(f"{{bus: virtio-blk, {words}}}", 1)
    assert made.devices[0].items() >= {
        "queue-size": 512, "packed": True, "logical_block_size": 4096, "physical_block_size": 4096
    }.items()  # fmt: skip
    assert made.blockdevs[0].items() >= {"discard": "ignore", "detect-zeroes": "on"}.items()
    controller, disk = parts(f"{{bus: virtio-scsi, {words}}}", 1).devices
    assert controller.items() >= {"virtqueue_size": 512, "packed": True}.items()
    assert disk["logical_block_size"] == 4096


@pytest.mark.parametrize(
    ("device", "least", "most"),
    [
        ("{preallocation: falloc}", 2**23, 2**23),
        ("{format: qcow2, preallocation: full, cluster_size: 1m}", 2**23, 2**24),
        ("{format: qcow2, preallocation: metadata}", 2**16, 2**20),
    ],
)
def test_images_are_allocated_as_asked(tmp_path: Path, device: str, least: int, most: int) -> None:
    _, lanes = volumes(device, 1, ", medium: {file: true, size: 8m}")
    volume = lanes["disk"][0].at(medium=str(tmp_path / "medium"))
    asyncio.run(hypervisor.images([volume]))
    assert least <= (tmp_path / "medium").stat().st_blocks * 512 <= most


def test_a_throttled_disk_has_the_lanes_caps() -> None:
    capped = "{transport: local, cap_iops: 500, cap_mibs: 4, device: DEVICE}"
    _, lanes = volumes("{format: qcow2, throttle: true}", 2, ", medium: {file: true}", capped)
    made = disks.parts(v.at(medium="/scratch/medium") for v in lanes["disk"])
    limits = {"iops-total": 500, "bps-total": 4 * 2**20}
    assert [o for o in made.objects if o["qom-type"] == "throttle-group"] == [
        {"qom-type": "throttle-group", "id": f"limit{n}", "limits": limits} for n in range(2)
    ]
    names = [node["node-name"] for node in made.blockdevs[:3]]
    assert names == ["f0", "i0", "v0"]
    assert [node.get("file") for node in made.blockdevs[:3]] == [None, "f0", "i0"]
    assert made.blockdevs[2]["throttle-group"] == "limit0"
    ((path, name, wanted),) = disks.properties(lanes["disk"][0])
    assert (path, name) == ("/objects/limit0", "limits")
    state = disks.DiskState({}, {}, ())
    assert not disks.with_property(state, name, {**limits, "iops-read": 0}, wanted).wrong
    assert disks.with_property(state, name, {**limits, "iops-total": 0}, wanted).wrong


@pytest.mark.parametrize(
    ("device", "word"),
    [
        ("{queue_size: 300}", "power of 2"),
        ("{bus: nvme, packed: true}", "NVMe"),
        ("{bus: nvme, cache: directsync}", "NVMe"),
        ("{detect_zeroes: unmap, discard: ignore}", "discard: unmap"),
        ("{cluster_size: 64k}", "qcow2"),
        ("{format: qcow2, cluster_size: 3m}", "4k to 2m"),
        ("{throttle: true}", "cap_iops"),
        ("{aio: native, cache: unsafe}", "directsync"),
    ],
)
def test_what_cannot_be_set_together(device: str, word: str) -> None:
    with pytest.raises(FairlaneError, match=word):
        volumes(device, 1)


def test_a_secret_is_a_file_beside_the_machine_and_no_word() -> None:
    _, lanes = volumes("", 1, "", "{transport: iscsi, initiator: hypervisor, chap: true}")
    made = disks.parts(v.at(reach="127.0.0.1:4000") for v in lanes["disk"])
    secret = lanes["disk"][0].site.secret
    assert made.secrets == {"secret0": secret}
    assert made.objects == ({"qom-type": "secret", "id": "secret0", "file": "../secret0"},)
    command = machine.command(Machine("guest0", 1, 2**30, "tcg", objects=made.objects, blockdevs=made.blockdevs,
                                      devices=made.devices), Path("kernel"), Path("initrd"))  # fmt: skip
    assert secret not in " ".join(command)
    assert "127.0.0.1:4000" in " ".join(command)


def addresses(count: int) -> list[str]:
    made = parts("{bus: virtio-blk}", 32)
    devices = tuple(made.devices[n % 32] for n in range(count))
    command = machine.command(Machine("guest0", 1, 2**30, "tcg", devices=devices), Path("kernel"), Path("initrd"))
    return [word for word in command if '"addr"' in word]


def test_fifty_disks_and_more_have_room_on_the_bus() -> None:
    found = addresses(machine.FUNCTIONS)
    assert len(set(found)) == machine.FUNCTIONS
    assert '"addr": "4.0", "multifunction": true' in found[0]
    assert '"addr": "1e.7"' in found[-1]


def test_more_than_the_bus_holds_is_refused_in_words() -> None:
    with pytest.raises(FairlaneError, match=r"\bguest0\b.*\b216\b", check=kind("pci-slots")):
        addresses(machine.FUNCTIONS + 1)


REFUSED = [
    ("{queues: 2}", 1, "queues", r"\b2\b.*\b1\b"),
    ("{io_threads: 3}", 2, "io_threads", r"\b3\b.*\b2\b"),
    ("{bus: virtio-scsi, io_threads: 2}", 4, "io_threads", r"\b2\b.*\b1\b"),
    ("{bus: virtio-scsi, controllers: 4}", 2, "controllers", r"\b4\b.*\b2\b"),
    ("{bus: virtio-scsi, io_threads: per-disk}", 2, "io_threads", r"\bvirtio-scsi\b"),
    ("{format: qcow2}", 1, "format", r"\bqcow2\b"),
]


@pytest.mark.parametrize(("device", "count", "key", "told"), REFUSED)
def test_what_would_not_be_what_it_is_called_is_refused(device: str, count: int, key: str, told: str) -> None:
    (problem,) = refused(device, count)
    assert kind("qemu-device", where=f"lanes.disk.device.{key}")(problem)
    assert re.search(told, problem.message)


def test_what_qemu_lacks_is_said_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu_probe, "maps_queues", lambda _: False)
    monkeypatch.setattr(qemu_probe, "opens", lambda device: f"no {device.aio}")
    monkeypatch.setattr(qemu, "version", lambda: "7.2")
    asked = "{io_threads: 2, queues: 2, vq_mapping: true, aio: native}"
    mapping, aio, *_ = refused(asked, 2, ", cpus: 2, medium: {file: true}")
    assert kind("qemu-device", where="lanes.disk.device.vq_mapping")(mapping)
    assert re.search(r"\b7\.2\b.*\biothread-vq-mapping\b.*\bvirtio-blk\b", mapping.message)
    assert kind("qemu-device", where="lanes.disk.device.aio")(aio)
    assert re.search(r"\bnative\b.*\bnone\b.*: no native$", aio.message)


def test_nvme_tcp_in_the_hypervisor_needs_this_kernels_initiator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu_probe, "lacks_module", lambda _: True)
    spec, lanes = volumes("", 1, "", "{transport: nvme_tcp, initiator: hypervisor}")
    (problem,) = qemu_probe.problems(lanes, spec)
    assert (problem.kind, problem.message.count("nvme_tcp")) == ("qemu-device", 2)


def test_the_kernels_initiator_runs_here_and_gives_a_block_device() -> None:
    _, lanes = volumes("", 1, "", "{transport: nvme_tcp, initiator: hypervisor}")
    volume = lanes["disk"][0].at(reach="127.0.0.1:4001")
    assert [step.place for step in volume.steps()] == ["target", "hypervisor"]
    assert "nvme connect -t tcp -a 127.0.0.1 -s 4001" in volume.steps()[1].apply
    assert "10.0.2.15 > addr_traddr" in volume.steps()[0].apply
    found = replace(volume, host_device="/dev/nvme7n1")
    assert disks.parts([found]).blockdevs[0]["driver"] == "host_device"
    assert disks.parts([found]).blockdevs[0]["filename"] == "/dev/nvme7n1"


def test_forwarded_ports_are_read_from_qemus_table() -> None:
    table = """
Hub -1 (mgmt):
  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ
  TCP[ESTABLISHED]   38       127.0.0.1 36251       10.0.2.15    22     0     0
  TCP[HOST_FORWARD]  31       127.0.0.1 39201       10.0.2.15  3261     0     0
  TCP[HOST_FORWARD]  13       127.0.0.1 36251       10.0.2.15    22     0     0
"""
    assert hypervisor.forwarded(table) == {3261: 39201, 22: 36251}


def test_pinning_is_refused_with_the_sums() -> None:
    spec, lanes = volumes("{io_threads: 4}", 4, ", cpus: 2, fleet: 2, pinning: true")
    (problem,) = pinning.problems(spec, lanes, 11)
    assert (problem.kind, problem.where) == ("cpus", "platform.pinning")
    assert re.findall(r"\d+(?: x \d+)?", problem.message) == ["12", "2 x 2", "2 x 4", "11"]
    assert not pinning.problems(spec, lanes, 12)


def test_io_threads_of_lanes_that_take_turns_share_cores() -> None:
    threads = [Thread("guest0", name, n) for n, name in enumerate(["vcpu0", "vcpu1", "io.a.0", "io.a.1", "io.b.0"])]
    placed = pinning.seats(threads, {2, 3, 5, 7})
    assert [placed[t] for t in threads] == [2, 3, 5, 7, 5]
    with pytest.raises(RunFailed, match=r"\bio\.a\.1\b", check=kind("cpus")):
        pinning.seats(threads, {0, 1, 2})


def test_the_virtual_clock_has_no_guest_devices() -> None:
    study = parse_study(
        """
name: virtual
platform: {kind: lab}
baseline: disk
lanes:
  disk: {transport: local, device: {bus: virtio-blk}}
  path: {transport: iscsi, initiator: hypervisor}
workloads:
  main: {kind: fio, prefill: false}
""",
        "study.yaml",
    )
    told = [p for p in Lab.of(study).problems() if p.kind == "guest-device-virtual"]
    assert [p.where for p in told] == ["lanes.disk.device", "lanes.path.initiator"]
    assert all("platform.clock: wall" in p.hint for p in told)


def answers(*, drv: str = "file", direct: bool = True, no_flush: bool = False) -> list[dict[str, Any]]:
    return [{"node-name": f"v{n}", "drv": drv, "detect_zeroes": "off",
             "cache": {"direct": direct, "no-flush": no_flush, "writeback": True}}
            for n in range(8)]  # fmt: skip


def test_what_qemu_says_is_held_against_the_lane() -> None:
    _, lanes = volumes("{bus: virtio-scsi, controllers: 4, io_threads: 2}")
    sixth = lanes["disk"][5]
    threads = ["io.disk.0", "io.disk.1", "io.disk-two.0"]
    assert disks.qdev(sixth) == "c-disk-1"
    found = disks.disk_state(sixth, answers(), threads, "/objects/io.disk.1")
    assert found.wrong == ()
    assert found.rows["qemu.io_threads"] == "io.disk.0 io.disk.1"
    wrong = disks.disk_state(sixth, answers(direct=False), threads[:1], "/objects/io.disk.0").wrong
    assert [re.findall(r"qemu\.\w+|io\.disk\.\d|writeback|none", text) for text in wrong] == [
        ["qemu.cache", "writeback", "none"],
        ["qemu.io_thread", "io.disk.0", "io.disk.1"],
        ["qemu.io_threads", "io.disk.1"],
    ]


def test_qemus_own_drivers_have_no_aio_and_forwarded_links_their_own_mtu() -> None:
    _, lanes = volumes("", 1, "", "{transport: iscsi, initiator: hypervisor}")
    volume = lanes["disk"][0].at(reach="127.0.0.1:4000")
    assert disks.disk_state(volume, answers(drv="iscsi"), [], "").conditions == {"aio": "none", "mtu": 1500}
    _, lanes = volumes("", 1)
    assert disks.disk_state(lanes["disk"][0], answers(), [], "").conditions == {}
