"""Lanes by the name of a storage class or on datastores: what they say of themselves, and what cannot be."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.guard.parameters import parameter
from fairlane.lanes.base import Site
from fairlane.lanes.datastore import DatastoreSpec
from fairlane.lanes.storage_class import StorageClass, StorageClassSpec
from tests.words import kind

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
    ("keys", "told"),
    [
        ({"io_threads": 8}, "io_threads: .*supplementalPool"),
        ({"io_threads_policy": "supplementalPool"}, "io_threads: .*supplementalPool"),
        ({"io_threads_policy": "auto", "io_threads": 2}, "io_threads: .*supplementalPool"),
        (
            {"io_threads_policy": "supplementalPool", "io_threads": 2, "dedicated_io_thread": True},
            "dedicated_io_thread: .*supplementalPool",
        ),
        ({"cache": "writeback"}, r"io: .*native\b.*\bcache: none"),
        ({"bus": "sata", "block_multi_queue": True}, r"bus: .*virtio\b.*\bsata"),
        ({"bus": "scsi", "block_multi_queue": True}, r"bus: .*virtio\b.*\bscsi"),
        ({"bus": "scsi", "dedicated_io_thread": True}, r"bus: .*virtio\b.*\bscsi"),
        ({"bus": "scsi", "io_threads_policy": "shared"}, r"bus: .*virtio\b.*\bscsi"),
        ({"isolate_emulator_thread": True}, "isolate_emulator_thread: .*dedicated_cpus: true"),
        ({"device": {}}, "device: .*storage_class"),
        ({"initiator": "guest"}, "initiator: .*storage_class"),
    ],
)
def test_what_no_claim_can_be(keys: dict[str, Any], told: str) -> None:
    assert re.fullmatch(f"{told}.*", refusal(lambda: claim(**keys)))


def refusal(make: Callable[[], object]) -> str:
    """The one error of what is no lane: the key, a colon, and what is wrong."""
    with pytest.raises(ValidationError) as refused:
        make()
    (error,) = refused.value.errors()
    assert (error["type"], error["loc"]) == ("value_error", ())
    return str(error["ctx"]["error"])


def test_a_storage_class_has_a_name() -> None:
    with pytest.raises(ValidationError) as refused:
        claim(storage_class="")
    assert [(error["type"], error["loc"]) for error in refused.value.errors()] == [
        ("string_too_short", ("storage_class",))
    ]


def test_a_datastore_has_no_device_of_its_own() -> None:
    assert re.match(r"device: .*\bdatastore\b", refusal(lambda: disk(device={})))


@pytest.mark.parametrize("spec", [claim(), claim(volume_mode="Filesystem"), disk()])
def test_every_value_is_one_that_the_registry_reads(spec: StorageClassSpec | DatastoreSpec) -> None:
    for name, value in spec.known().items():
        assert parameter(name).read(value) == value


@pytest.mark.parametrize("spec", [claim(protocol="nvme_tcp"), disk()])
def test_no_shell_builds_such_a_lane(spec: StorageClassSpec | DatastoreSpec) -> None:
    transport = registry.load("lanes", spec.transport)("x", spec, SITE)
    for shell in (transport.steps, transport.find):
        with pytest.raises(FairlaneError, match=r"\bx\b", check=kind("volumes-of-platform")):
            shell()


def test_its_protocol_is_drawn_as_the_study_says_it() -> None:
    path = registry.load("lanes", "storage_class")("x", claim(protocol="nvme_tcp"), SITE).path()
    assert path[0] == "fio"
    assert [hop for hop in path if "NVMe/TCP" in hop] == [path[-2]]


def test_a_path_tells_threads_queues_and_who_says_what_the_link_is() -> None:
    spec = claim(protocol="iscsi", block_multi_queue=True, io_threads_policy="supplementalPool", io_threads=4)
    path = StorageClass("x", spec, SITE).path()
    hops = zip(("fio", "virtio-blk .*CPU", r"QEMU\b.* 4", "block", "iSCSI", "gold"), path, strict=True)
    assert [bool(re.search(token, hop)) for token, hop in hops] == [True] * 6, path
    storm = StorageClass("x", claim(clone="copy", volume_mode="Filesystem"), SITE).path()
    hops = zip(("clone", "virtio-blk", "QEMU$", r"disk\.img", "gold"), storm, strict=True)
    assert [bool(re.search(token, hop)) for token, hop in hops] == [True] * 5, storm
    assert "CPU" not in storm[1]


def test_ways_of_cloning_are_matched_like_everything_else() -> None:
    assert claim(clone="csi-clone").known()["provisioning"] == "csi-clone"
    assert "provisioning" not in claim().known()
