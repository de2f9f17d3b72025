"""Every object of every preset of a cluster, against a real API server that refuses what it does not know."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.kinds import Kind
from fairlane.platforms.kubevirt.manifests import Manifests
from fairlane.platforms.kubevirt.readback import changes
from fairlane.study.load import load_study, parse_study
from testkit.control_plane import ControlPlane
from testkit.plain_client import RefusedError

pytestmark = pytest.mark.cluster

PRESETS = ("study-000-clone", "study-000-fio", "study-000-oltp", "study-003-roks", "two-storage-classes")
KEYS = {"host_key": "-----BEGIN OPENSSH PRIVATE KEY-----\nnone\n", "authorized_keys": "ssh-ed25519 AAAA fairlane\n"}

LANES = (
    "{bus: virtio, cache: none, io: native}",
    "{bus: virtio, cache: writeback, io: threads, access_mode: ReadWriteMany}",
    "{bus: virtio, cache: writethrough, io: default, volume_mode: Filesystem, access_mode: ReadWriteOncePod}",
    "{bus: scsi}",
    "{bus: sata, volume_mode: Filesystem}",
    "{io_threads_policy: shared, block_multi_queue: true}",
    "{io_threads_policy: auto, dedicated_io_thread: true}",
    "{io_threads_policy: supplementalPool, io_threads: 8, block_multi_queue: true}",
    "{dedicated_io_thread: true, dedicated_cpus: true, isolate_emulator_thread: true}",
    "{clone: copy}",
    "{clone: csi-clone, golden: per-node}",
    "{clone: snapshot, golden: per-node, volume_mode: Filesystem}",
)
IMAGES = (
    '{image: "docker://quay.io/containerdisks/fedora:41"}',
    '{image: "https://example.com/fedora.qcow2", root_class: fast}',
    '{image: "datasource:openshift-virtualization-os-images/fedora", root_size: 30GiB}',
    '{image: "docker://x", instance_type: u1.medium, preference: fedora, node_selector: {a.b/c: ""}, disks: 3}',
)


def objects(manifests: Manifests) -> Iterator[tuple[Kind, Mapping[str, Any]]]:
    """All that a run would create in its namespace, the storms of all counts included, machines on three nodes."""
    study, nodes = manifests.study, ("node-a", "node-b", "node-c")
    counts = [int(cell.params["count"]) for cell in study.cells() if cell.kind == "clone"]
    yield kinds.SECRET, manifests.secret(KEYS, ("fio",))
    for lane, spec in study.lanes.items():
        for machine in manifests.machines(lane):
            yield kinds.VM, manifests.vm(machine, nodes[machine.number % 3])
        if not counts:
            continue
        goldens = manifests.goldens(lane, 3)
        for golden in goldens:
            yield kinds.DATA_VOLUME, manifests.golden_volume(golden)
            yield kinds.VM, manifests.base_vm(golden, nodes[golden.number])
            if getattr(spec, "clone", "") == "snapshot":
                yield kinds.SNAPSHOT, manifests.snapshot(golden, "some-class")
            yield kinds.DATA_SOURCE, manifests.data_source(golden)
        for number in range(max(counts)):
            machine = manifests.clone(lane, "a1b2c3", number)
            golden = replace(goldens[number % len(goldens)], size="11Gi" if number % 2 else "")
            yield kinds.VM, manifests.clone_vm(machine, nodes[number % 3], golden)


def refused(plane: ControlPlane, kind: Kind, namespace: str, body: Mapping[str, Any]) -> str:
    """What the server says against ``body``, or which of its values it would not keep; empty: neither."""
    path = f"{kind.path(namespace)}?dryRun=All&fieldValidation=Strict"
    try:
        stored = plane.call("POST", path, body)
    except RefusedError as error:
        return str(error)
    return "; ".join(str(change) for change in changes(body, stored) if not change.added)


def of(name: str, namespace: str) -> Manifests:
    return Manifests(load_study(name)[0], "0123456789", namespace)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_the_server_takes_every_object_of_a_preset_as_it_is(
    name: str, control_plane: ControlPlane, namespace: str
) -> None:
    made = list(objects(of(name, namespace)))
    counts = {"study-000-clone": 487, "study-000-fio": 31, "study-000-oltp": 28, "study-003-roks": 9,
              "two-storage-classes": 4}  # fmt: skip
    assert len(made) == counts[name]
    assert len({(kind, body["metadata"]["name"]) for kind, body in made}) == len(made)
    assert {told for kind, body in made if (told := refused(control_plane, kind, namespace, body))} == set()


@pytest.mark.parametrize("platform", IMAGES)
@pytest.mark.parametrize("lane", LANES)
def test_the_server_takes_whatever_a_lane_may_say(
    lane: str, platform: str, control_plane: ControlPlane, namespace: str
) -> None:
    text = f"""\
name: all
platform: {{kind: kubevirt, {platform[1:]}
baseline: a
lanes:
  a: {{transport: storage_class, storage_class: one, {lane[1:]}
  b: {{transport: storage_class, storage_class: two, clone: copy}}
workloads:
  disk: {{kind: fio, runtime: 1s}}
  storm: {{kind: clone, counts: [2]}}
"""
    made = objects(Manifests(parse_study(text, "s.yaml"), "0123456789", namespace))
    assert {told for kind, body in made if (told := refused(control_plane, kind, namespace, body))} == set()


def test_the_server_takes_the_namespace(control_plane: ControlPlane) -> None:
    assert refused(control_plane, kinds.NAMESPACE, "", of("study-000-fio", "fl-0123456789").namespace_object()) == ""


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        (("spec", "template", "spec", "domain", "ioThreadPolicy"), 400, "unknown field"),
        (("spec", "template", "spec", "domain", "devices", "blockMultiqueue"), 400, "unknown field"),
        (("spec", "dataVolumeTemplates", 0, "spec", "storage", "accessMode"), 400, "unknown field"),
        (("spec", "template", "spec", "domain", "cpu", "cores"), 422, "must be of type integer"),
    ],
)
def test_the_server_would_have_refused_a_slip(
    path: tuple[Any, ...], status: int, says: str, control_plane: ControlPlane, namespace: str
) -> None:
    manifests = of("study-000-fio", namespace)
    body = copy.deepcopy(manifests.vm(manifests.machines("lvms-nvme")[0], "node-a"))
    at: Any = body
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = "a slip"
    told = refused(control_plane, kinds.VM, namespace, body)
    assert told.startswith(f"{status} ")
    assert says in told
    assert str(path[-1]) in told
