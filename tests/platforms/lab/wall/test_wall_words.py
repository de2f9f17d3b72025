"""What the lab under the wall clock refuses before anything is made, in snapshots; other tests go by kinds, figures."""

import pytest
from syrupy.assertion import SnapshotAssertion
from wall import test_ceph_lanes, test_cloning, test_disks, test_room

from fairlane.errors import FairlaneError
from fairlane.platforms.lab import qemu
from fairlane.platforms.lab.wall import ceph, pinning, qemu_probe, resources
from fairlane.platforms.lab.wall.resources import Capacity

GIB = 2**30
SMALL = Capacity(memory=2 * GIB, cores=1, disk=GIB)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine is in the texts."""
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    monkeypatch.setattr(qemu, "version", lambda: "7.2")


def listed(problems: list[FairlaneError]) -> str:
    return "\n".join(f"{problem.labelled()}\n  {problem.hint}".rstrip() for problem in problems)


def test_what_does_not_fit(snapshot: SnapshotAssertion) -> None:
    problems = [
        *test_room.told("fleet: 4, memory: 2g, medium: {file: true, size: 100g}", SMALL),
        *test_room.told("medium: {memory_backed: true, size: 512m}, array: {memory: 1g}"),
        *test_cloning.told(SMALL, platform="memory: 256m"),
        *test_cloning.told(workloads="{m: {kind: clone}, n: {kind: clone, data: 1000m}}", platform="fleet: 2"),
        *test_cloning.told(workloads="{main: {kind: fio, prefill: false}}"),
    ]
    spec, lanes = test_disks.volumes("{io_threads: 4}", 4, ", cpus: 2, fleet: 2, pinning: true")
    assert listed([*problems, *pinning.problems(spec, lanes, 11)]) == snapshot


def test_ceph(snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(qemu_probe, "has_driver", lambda _: False)
    spec, volumes = test_ceph_lanes.study()
    assert listed([*ceph.problems(spec.ceph, volumes), *resources.problems(spec, volumes, SMALL)]) == snapshot


def test_guest_devices(snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu_probe, "maps_queues", lambda _: False)
    monkeypatch.setattr(qemu_probe, "opens", lambda aio, _: f"no {aio}")
    monkeypatch.setattr(qemu_probe, "lacks_module", lambda _: True)
    problems = [problem for device, count, *_ in test_disks.REFUSED for problem in test_disks.refused(device, count)]
    problems += test_disks.refused("{io_threads: 2, queues: 2, vq_mapping: true, aio: native}", 2, ", cpus: 2")
    spec, lanes = test_disks.volumes("", 1, "", "{transport: nvme_tcp, initiator: hypervisor}")
    assert listed([*problems, *qemu_probe.problems(lanes, spec)]) == snapshot
