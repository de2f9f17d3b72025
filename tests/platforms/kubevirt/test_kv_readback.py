"""What the cluster made of what it was sent, and what is told of it: only what an object says."""

import copy
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlane.guard.parameters import parameter
from fairlane.lanes.storage_class import StorageClassSpec
from fairlane.platforms.kubevirt import readback
from fairlane.platforms.kubevirt.manifests import Manifests
from fairlane.platforms.kubevirt.readback import changes, quantity
from fairlane.study.load import load_study

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
OBJECT = st.dictionaries(st.text(max_size=8), JSON, max_size=4)


def lane(**keys: Any) -> StorageClassSpec:
    return StorageClassSpec.model_validate({"transport": "storage_class", "storage_class": "gold", **keys})


def sent() -> dict[str, Any]:
    made = Manifests(load_study("study-000-fio")[0], "0123456789", "n")
    return made.vm(made.machines("lvms-nvme")[0], "node-a")


def paths(a: Any, b: Any) -> dict[str, tuple[Any, Any]]:
    return {c.path: (c.sent, c.stored) for c in changes(a, b)}


# --- sent and stored


@given(OBJECT)
@example({"guest": False})
def test_an_object_is_no_change_of_itself(thing: dict[str, Any]) -> None:
    assert changes(thing, copy.deepcopy(thing)) == ()


@given(OBJECT, OBJECT)
def test_every_difference_has_one_path_and_can_be_said(a: dict[str, Any], b: dict[str, Any]) -> None:
    found = changes(a, b)
    assert all(str(change) for change in found)
    assert [c.path for c in found] == sorted(c.path for c in found)


def test_a_default_is_told_and_is_no_change_of_what_was_asked() -> None:
    stored = copy.deepcopy(sent())
    domain = stored["spec"]["template"]["spec"]["domain"]
    domain["machine"] = {"type": "pc-q35-rhel9.6.0"}
    domain["features"] = {"acpi": {"enabled": True}}
    domain["devices"]["disks"].insert(0, {"name": "more", "disk": {"bus": "sata"}})
    found = changes(sent(), stored)
    assert all(change.added for change in found)
    assert [(change.path.removeprefix("spec.template.spec.domain."), change.stored) for change in found] == [
        ("devices.disks.more.disk.bus", "sata"),
        ("devices.disks.more.name", "more"),
        ("features.acpi.enabled", True),
        ("machine.type", "pc-q35-rhel9.6.0"),
    ]
    assert all(f"{change.path}: {change.stored}" in str(change) for change in found)


def test_what_is_not_as_it_was_asked_is_told_with_both() -> None:
    stored = copy.deepcopy(sent())
    domain = stored["spec"]["template"]["spec"]["domain"]
    (under_test,) = [d for d in domain["devices"]["disks"] if d["name"] == "disk0"]
    under_test["cache"] = "writeback"
    del domain["ioThreads"]
    domain["devices"]["disks"].reverse()
    found = changes(sent(), stored)
    assert not any(change.added for change in found)
    assert [
        (change.path.removeprefix("spec.template.spec.domain."), change.stored, change.sent) for change in found
    ] == [
        ("devices.disks.disk0.cache", "writeback", "none"),
        ("ioThreads", None, {"supplementalPoolThreadCount": 8}),
    ]
    assert all(str(value) in str(change) for change in found for value in (change.path, change.stored, change.sent))


def test_bookkeeping_is_no_change() -> None:
    stored = copy.deepcopy(sent())
    stored["metadata"] |= {"uid": "x", "resourceVersion": "1", "managedFields": [{}], "annotations": {"theirs": "1"}}
    stored["metadata"]["labels"] |= {"theirs": "1"}
    stored["spec"]["dataVolumeTemplates"][0]["metadata"]["creationTimestamp"] = None
    stored["spec"]["template"]["metadata"]["creationTimestamp"] = None
    stored["status"] = {"ready": True}
    assert changes(sent(), stored) == ()
    del stored["metadata"]["labels"]["fairlane.io/run"]
    assert paths(sent(), stored) == {"metadata.labels.fairlane.io/run": ("0123456789", None)}


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [("50Gi", "53687091200", True), ("8Gi", 8 * 2**30, True), ("1G", "1Gi", False), ("8Gi", None, False)],
)
def test_amounts_are_compared_as_amounts(a: str, b: str | int | None, same: bool) -> None:
    for where in ("storage", "guest", "memory"):
        assert (changes({"x": {where: a}}, {"x": {where: b}}) == ()) is same
    assert changes({"name": "50Gi"}, {"name": "53687091200"}), "a name is no amount"


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", 0.5), ("8Gi", 8 * 2**30), ("1e3", 1000.0), ("12", 12.0), ("1k", 1000.0), (5, 5.0)],
)
def test_quantities_are_numbers(text: object, number: float) -> None:
    assert quantity(text) == number


@given(JSON)
@example("")
@example("Gi")
@example(None)
def test_what_is_no_quantity_is_no_number(thing: Any) -> None:
    assert isinstance(quantity(thing), float)
    assert quantity("x") != quantity("x")


# --- rows


STORAGE_CLASS = {
    "metadata": {"name": "gold"},
    "provisioner": "openshift-storage.rbd.csi.ceph.com",
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
    "allowVolumeExpansion": True,
    "mountOptions": ["discard", "nodelalloc"],
    "parameters": {
        "pool": "replicapool",
        "csi.storage.k8s.io/node-stage-secret-name": "rook-csi-rbd-node",
        "csi.storage.k8s.io/node-stage-secret-namespace": "openshift-storage",
        "restuserkey": "hunter2",
        "adminPassword": "hunter3",
        "accessToken": "hunter4",
    },
}


def test_a_class_is_told_with_its_parameters_and_without_its_secrets() -> None:
    profile = {
        "status": {
            "cloneStrategy": "csi-clone",
            "dataImportCronSourceFormat": "snapshot",
            "claimPropertySets": [
                {"accessModes": ["ReadWriteMany"], "volumeMode": "Block"},
                {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
            ],
        }
    }
    rows = readback.storage(STORAGE_CLASS, profile, {"spec": {"attachRequired": True, "fsGroupPolicy": "File"}})
    assert rows["storageClass.provisioner"] == "openshift-storage.rbd.csi.ceph.com"
    assert rows["storageClass.allowVolumeExpansion"] is True
    assert rows["storageClass.mountOptions"] == "discard, nodelalloc"
    assert rows["storageClass.parameters.pool"] == "replicapool"
    assert rows["storageClass.parameters.csi.storage.k8s.io/node-stage-secret-name"] == "rook-csi-rbd-node"
    assert rows["storageProfile.cloneStrategy"] == "csi-clone"
    claims = re.findall(r"(\w+): (\w+)", str(rows["storageProfile.claimPropertySets"]))
    assert claims == [("Block", "ReadWriteMany"), ("Filesystem", "ReadWriteOnce")]
    assert rows["csiDriver.attachRequired"] is True
    assert "hunter" not in str(rows)
    assert [key for key, value in rows.items() if value == "(withheld)"] == [
        "storageClass.parameters.accessToken", "storageClass.parameters.adminPassword",
        "storageClass.parameters.restuserkey",
    ]  # fmt: skip


def test_a_class_that_nobody_may_read_has_no_rows() -> None:
    assert readback.storage({}) == {}
    assert readback.volume({}) == {}
    assert readback.machine({}) == {}
    assert readback.node({}) == {}


CLAIM = {
    "metadata": {"name": "a-0-disk0", "annotations": {"cdi.kubevirt.io/cloneType": "copy"}},
    "spec": {
        "accessModes": ["ReadWriteOnce"], "volumeMode": "Block", "storageClassName": "gold", "volumeName": "pv1",
        "resources": {"requests": {"storage": "50Gi"}}, "dataSource": {"kind": "VolumeCloneSource", "name": "x"},
    },
    "status": {"capacity": {"storage": "51Gi"}},
}  # fmt: skip
PV = {
    "spec": {
        "persistentVolumeReclaimPolicy": "Delete",
        "csi": {
            "driver": "topolvm.io", "volumeHandle": "abc", "fsType": "xfs",
            "volumeAttributes": {"imageName": "csi-vol", "secretToken": "hunter2"},
        },
        "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "topology.topolvm.io/node", "operator": "In", "values": ["node-a"]}]}
        ]}},
    }
}  # fmt: skip


def test_a_volume_is_told_with_what_it_got_and_where_it_is_tied_to() -> None:
    rows = readback.volume(CLAIM, PV)
    assert (rows["claim.requested"], rows["claim.capacity"], rows["claim.clone"]) == ("50Gi", "51Gi", "copy")
    assert (rows["volume.driver"], rows["volume.nodes"]) == ("topolvm.io", "node-a")
    assert rows["volume.attributes.imageName"] == "csi-vol"
    assert "hunter" not in str(rows)
    assert readback.nodes_of(PV) == ["node-a"]
    assert readback.nodes_of({"spec": {"csi": {}}}) == []


@pytest.mark.parametrize(
    ("claim", "way"),
    [
        (CLAIM, "copy"),
        ({"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}}}, "csi-clone"),
        ({"spec": {"dataSourceRef": {"kind": "VolumeSnapshot", "name": "x"}}}, "snapshot"),
        ({"spec": {"dataSourceRef": {"kind": "VolumeCloneSource", "name": "x"}}}, ""),
        ({"spec": {}}, ""),
    ],
)
def test_a_claim_tells_how_it_was_cloned_or_nothing(claim: dict[str, Any], way: str) -> None:
    assert readback.cloned_by(claim) == way


VMI = {
    "spec": {
        "domain": {
            "cpu": {"cores": 4, "sockets": 2, "threads": 1, "model": "host-model"},
            "memory": {"guest": "8Gi"},
            "machine": {"type": "q35"},
        }
    },
    "status": {
        "nodeName": "node-a", "machine": {"type": "pc-q35-rhel9.6.0"}, "qosClass": "Burstable",
        "activePods": {"uid": "node-a"}, "guestOSInfo": {"prettyName": "Fedora 41", "kernelRelease": "6.11"},
    },
}  # fmt: skip


def test_a_machine_is_told_as_it_runs() -> None:
    assert readback.machine(VMI) == {
        "machine.node": "node-a", "machine.type": "pc-q35-rhel9.6.0", "machine.cpu_model": "host-model",
        "machine.qos": "Burstable", "machine.pods": 1, "guest.prettyName": "Fedora 41", "guest.kernelRelease": "6.11",
    }  # fmt: skip


NFD = "feature.node.kubernetes.io/cpu-model"


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        ({"cpu-vendor.node.kubevirt.io/Intel": "true", "host-model-cpu.node.kubevirt.io/SapphireRapids": "true",
          "cpu-model.node.kubevirt.io/Haswell": "true", f"{NFD}.vendor_id": "Intel"}, "Intel SapphireRapids"),
        ({f"{NFD}.vendor_id": "Intel", f"{NFD}.family": "6", f"{NFD}.id": "143"}, "Intel family 6 model 143"),
        ({f"{NFD}.family": "6"}, "family 6"),
        ({"kubernetes.io/arch": "amd64"}, ""),
    ],
)  # fmt: skip
def test_a_node_s_processor_is_what_its_labels_say(labels: dict[str, str], model: str) -> None:
    of = {
        "metadata": {"name": "n", "labels": {**labels, "topology.kubernetes.io/zone": "z"}},
        "status": {"nodeInfo": {"kernelVersion": "5.14", "osImage": "RHCOS"}, "capacity": {"cpu": "64"}},
    }
    rows = readback.node(of)
    assert rows.get("cpu_model", "") == readback.cpu_model(of) == model
    assert (rows["name"], rows["kernelVersion"], rows["capacity.cpu"], rows["zone"]) == ("n", "5.14", "64", "z")


def test_no_text_from_a_cluster_makes_a_description_long() -> None:
    rows = readback.storage({"provisioner": "x" * 10_000, "parameters": {"a": "y" * 10_000}})
    assert max(len(str(value)) for value in rows.values()) <= 300


# --- for the guard


@pytest.mark.parametrize(
    ("provisioner", "parameters", "transport", "copies"),
    [
        ("openshift-storage.rbd.csi.ceph.com", {"pool": "rep3"}, "rbd", None),
        ("rbd.csi.ceph.com", {}, "rbd", None),
        ("openshift-storage.cephfs.csi.ceph.com", {}, "cephfs", None),
        ("vpc.file.csi.ibm.io", {}, "nfs", None),
        ("nfs.csi.k8s.io", {}, "nfs", None),
        ("evilrbd.csi.ceph.com", {}, None, None),
        ("topolvm.io", {"repl": "3"}, None, None),
        ("pxd.portworx.com", {"repl": "3"}, None, 3),
        ("driver.longhorn.io", {"numberOfReplicas": "2"}, None, 2),
        ("driver.longhorn.io", {"numberOfReplicas": "=1+1"}, None, None),
        ("linstor.csi.linbit.com", {"linstor.csi.linbit.com/placementCount": "2"}, None, 2),
    ],
)
def test_a_class_tells_a_protocol_and_copies_only_where_its_driver_says_so(
    provisioner: str, parameters: dict[str, str], transport: str | None, copies: int | None
) -> None:
    told = readback.conditions(lane(), {"provisioner": provisioner, "parameters": parameters})
    assert (told.get("transport"), told.get("copies")) == (transport, copies)
    assert [word for word in ("gold", provisioner) if word not in str(told["backend"])] == []


@pytest.mark.parametrize(
    ("says", "provisioner", "wrong"),
    [
        ("rbd", "rbd.csi.ceph.com", False),
        (None, "rbd.csi.ceph.com", False),
        ("iscsi", "topolvm.io", False),
        ("nfs", "rbd.csi.ceph.com", True),
        ("rbd", "openshift-storage.cephfs.csi.ceph.com", True),
    ],
)
def test_a_protocol_that_the_class_contradicts_is_told(says: str | None, provisioner: str, wrong: bool) -> None:
    told = readback.misnamed("a", lane(protocol=says), {"provisioner": provisioner})
    assert bool(told) is wrong
    if wrong:
        assert [word for word in (str(says), "gold", provisioner) if word not in told] == []


def test_the_guard_gets_what_runs_and_not_what_was_asked() -> None:
    node = {"metadata": {"labels": {"host-model-cpu.node.kubevirt.io/Genoa": "true"}}}
    kubevirt = {"status": {"observedKubeVirtVersion": "v1.5.2"}}
    told = readback.conditions(lane(), STORAGE_CLASS, CLAIM, VMI, nodes=[node, node], kubevirt=kubevirt)
    assert told == {
        "backend": told["backend"], "transport": "rbd",
        "volume_mode": "Block", "vm_cpus": 8, "vm_memory": 8 * 2**30, "cpu_pinning": "none",
        "hypervisor": "KubeVirt v1.5.2", "host_cpu": "Genoa",
    }  # fmt: skip
    assert "openshift-storage.rbd.csi.ceph.com" in str(told["backend"])
    for name, value in told.items():
        assert parameter(name).read(value) == value
    said = readback.conditions(lane(), {}, nodes=[node], kubevirt=kubevirt, stated=["host_cpu", "hypervisor"])
    assert said == {}, "what a user says of the host is better than a name of libvirt's"


def test_pinned_is_what_the_running_machine_says() -> None:
    pinned = copy.deepcopy(VMI)
    pinned["spec"]["domain"]["cpu"]["dedicatedCpuPlacement"] = True  # type: ignore[index]
    assert readback.conditions(lane(), {}, None, pinned)["cpu_pinning"] is True
    assert readback.conditions(lane(dedicated_cpus=True), {}, None, VMI)["cpu_pinning"] == "none"
