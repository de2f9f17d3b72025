"""Lanes by the name of a storage class or on datastores: what they say of themselves, and what cannot be."""

from typing import Any

import pytest
from pydantic import ValidationError

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.guard.parameters import parameter
from fairlane.lanes.base import Site
from fairlane.lanes.datastore import DatastoreSpec
from fairlane.lanes.storage_class import StorageClass, StorageClassSpec

SITE = Site("medium", "target", "link", 0, "")


def claim(**keys: Any) -> StorageClassSpec:
    return StorageClassSpec.model_validate({"transport": "storage_class", "storage_class": "gold", **keys})


def disk(**keys: Any) -> DatastoreSpec:
    return DatastoreSpec.model_validate({"transport": "datastore", "protocol": "iscsi", **keys})


@pytest.mark.parametrize(
    ("keys", "threads"),
    [
        ({}, 0),
        ({"dedicated_io_thread": True}, "per-disk"),
        ({"io_threads_policy": "shared"}, "shared"),
        ({"io_threads_policy": "auto", "dedicated_io_thread": True}, "auto, per-disk"),
        ({"io_threads_policy": "supplementalPool", "io_threads": 8}, "pool of 8"),
        ({"dedicated_cpus": True, "isolate_emulator_thread": True}, "0, QEMU's own apart"),
    ],
)
def test_io_threads_as_the_guard_compares_them(keys: dict[str, Any], threads: str | int) -> None:
    assert claim(**keys).known()["io_threads"] == threads


def test_a_claim_speaks_the_words_of_other_platforms() -> None:
    known = claim(block_multi_queue=True, protocol="rbd", dedicated_cpus=True).known()
    told = {key: known[key] for key in ("transport", "initiator", "bus", "queues", "aio", "cpu_pinning", "volume_mode")}
    assert told == {
        "transport": "rbd", "initiator": "hypervisor", "bus": "virtio-blk", "queues": "one per CPU", "aio": "native",
        "cpu_pinning": True, "volume_mode": "Block",
    }  # fmt: skip
    assert claim().known()["transport"] == "storage_class", "a protocol that is not said is not guessed"
    queues = [claim(bus=bus).known()["queues"] for bus in ("virtio", "scsi", "sata")]
    assert queues == ["QEMU's default", "QEMU's default", 1], "nor a number that QEMU's versions choose"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"io_threads": 8}, "give both or neither"),
        ({"io_threads_policy": "supplementalPool"}, "give both or neither"),
        ({"io_threads_policy": "auto", "io_threads": 2}, "give both or neither"),
        ({"io_threads_policy": "supplementalPool", "io_threads": 2, "dedicated_io_thread": True}, "the whole pool"),
        ({"cache": "writeback"}, "native I/O needs cache: none"),
        ({"bus": "sata", "block_multi_queue": True}, "to virtio disks alone, not sata"),
        ({"bus": "scsi", "block_multi_queue": True}, "to virtio disks alone, not scsi"),
        ({"bus": "scsi", "dedicated_io_thread": True}, "to virtio disks alone, not scsi"),
        ({"bus": "scsi", "io_threads_policy": "shared"}, "to virtio disks alone, not scsi"),
        ({"isolate_emulator_thread": True}, "needs dedicated_cpus"),
        ({"device": {}}, "its own keys"),
        ({"initiator": "guest"}, "runs in the hypervisor only"),
        ({"storage_class": ""}, "at least 1 character"),
    ],
)
def test_what_no_claim_can_be(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        claim(**keys)


def test_a_datastore_has_no_device_of_its_own() -> None:
    with pytest.raises(ValidationError, match="its own keys"):
        disk(device={})


@pytest.mark.parametrize("spec", [claim(), claim(volume_mode="Filesystem"), disk()])
def test_every_value_is_one_that_the_registry_reads(spec: StorageClassSpec | DatastoreSpec) -> None:
    for name, value in spec.known().items():
        assert parameter(name).read(value) == value


@pytest.mark.parametrize("spec", [claim(protocol="nvme_tcp"), disk()])
def test_no_shell_builds_such_a_lane(spec: StorageClassSpec | DatastoreSpec) -> None:
    transport = registry.load("lanes", spec.transport)("x", spec, SITE)
    for shell in (transport.steps, transport.find):
        with pytest.raises(FairlaneError, match="lane x: the platform"):
            shell()


def test_its_protocol_is_drawn_as_the_study_says_it() -> None:
    path = registry.load("lanes", "storage_class")("x", claim(protocol="nvme_tcp"), SITE).path()
    assert path[0] == "fio"
    assert any("NVMe/TCP, says the study" in hop for hop in path)


def test_a_path_tells_threads_queues_and_who_says_what_the_link_is() -> None:
    spec = claim(protocol="iscsi", block_multi_queue=True, io_threads_policy="supplementalPool", io_threads=4)
    assert StorageClass("x", spec, SITE).path() == (
        "fio", "virtio-blk disk, a queue per CPU", "QEMU, IO threads: pool of 4", "block device of the node",
        "TCP: iSCSI, says the study", "storage class gold",
    )  # fmt: skip
    storm = StorageClass("x", claim(clone="copy", volume_mode="Filesystem"), SITE).path()
    assert storm == (
        "clone", "virtio-blk disk", "QEMU", "disk.img in a file system of the node", "storage class gold"
    )  # fmt: skip


def test_ways_of_cloning_are_matched_like_everything_else() -> None:
    assert claim(clone="csi-clone").known()["provisioning"] == "csi-clone"
    assert "provisioning" not in claim().known()
