"""What an administrator has put into a cluster: nodes, storage classes, KubeVirt, CDI, an image."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from fairlane.study.load import parse_study
from fairlane.study.spec import Study
from testkit.control_plane import ControlPlane

NODES = ("worker-0", "worker-1")
IMAGES = "images"
GIB = 2**30

STUDY = """
name: example
platform:
  kind: kubevirt
  namespace: bench
  image: datasource:images/fedora
  nodes: 2
  fleet: 2
  cpus: 2
  memory: 1GiB
  disk_size: 10GiB
  root_size: 5GiB
lanes:
  fast: { transport: storage_class, storage_class: fast, clone: snapshot }
  slow: { transport: storage_class, storage_class: slow, clone: snapshot }
baseline: slow
workloads:
  disk: { kind: fio, rw: [randread], bs: [4k], runtime: 10s }
"""
STORM = """
  storm: { kind: clone, counts: [2] }
"""


def study(changes: str = "", *, storm: bool = False, **platform: Any) -> Study:
    """The example; ``changes`` are lines "old -> new" of its text, ``platform`` more keys of that part."""
    text = STUDY + (STORM if storm else "")
    for line in filter(None, changes.splitlines()):
        old, _, new = line.partition(" -> ")
        assert old in text, old
        text = text.replace(old, new)
    more = "".join(f"  {key}: {value}\n" for key, value in platform.items())
    return parse_study(text.replace("lanes:\n", f"{more}lanes:\n"), "study.yaml")


def node(name: str, **more: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "kubevirt.io/schedulable": "true", "cpumanager": "true"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, **more}


def allocatable(cpu: str = "8", memory: str = "16Gi", pods: str = "110", kvm: str = "1k") -> dict[str, Any]:
    has = {"cpu": cpu, "memory": memory, "pods": pods, "devices.kubevirt.io/kvm": kvm}
    return {
        "allocatable": has,
        "capacity": has,
        "conditions": [{"type": "Ready", "status": "True"}],
        "images": [{"names": ["quay.io/containerdisks/fedora:41"], "sizeBytes": 1}],
    }


def storage_class(name: str, provisioner: str = "csi.example.com", **more: Any) -> dict[str, Any]:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**kind, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer", **more}


def objects() -> list[dict[str, Any]]:
    cdi, kubevirt = "cdi.kubevirt.io/v1beta1", "kubevirt.io/v1"
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in ("kubevirt", IMAGES, "bench")),
        *(node(name) for name in NODES),
        storage_class("fast"),
        storage_class("slow"),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": "csi.example.com"},
            "spec": {},
        },
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": {"name": "snaps"},
            "driver": "csi.example.com",
            "deletionPolicy": "Delete",
        },
        {
            "apiVersion": kubevirt,
            "kind": "KubeVirt",
            "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
            "spec": {},
        },
        {"apiVersion": cdi, "kind": "CDI", "metadata": {"name": "cdi"}, "spec": {}},
        *(
            {"apiVersion": cdi, "kind": "StorageProfile", "metadata": {"name": name}, "spec": {}}
            for name in ("fast", "slow")
        ),
        {
            "apiVersion": cdi,
            "kind": "DataSource",
            "metadata": {"name": "fedora", "namespace": IMAGES},
            "spec": {"source": {"pvc": {"name": "fedora", "namespace": IMAGES}}},
        },
    ]


DEPLOYED = {"phase": "Deployed"}
PROFILE = {
    "claimPropertySets": [{"accessModes": ["ReadWriteOnce", "ReadWriteMany"], "volumeMode": "Block"}],
    "cloneStrategy": "csi-clone",
    "provisioner": "csi.example.com",
}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
_STATUS: Mapping[str, Mapping[str, Any]] = {
    "KubeVirt": {**DEPLOYED, "observedKubeVirtVersion": "v1.7.0"},
    "CDI": {**DEPLOYED, "observedVersion": "v1.63.0"},
    "StorageProfile": PROFILE,
    "DataSource": READY,
}


def furnish(plane: ControlPlane) -> None:
    """Puts everything in, statuses too."""
    for made in [_put(plane, thing) for thing in objects()]:
        status = allocatable() if made["kind"] == "Node" else _STATUS.get(made["kind"])
        if status:
            set_status(plane, made, status)


def _put(plane: ControlPlane, thing: Mapping[str, Any]) -> Any:
    """A new node has the taint that it is not ready, until somebody who is not there takes it away."""
    (made,) = plane.apply([thing])
    if made["kind"] == "Node":
        taints = (thing.get("spec") or {}).get("taints")
        made = plane.call("PATCH", plane.path(made), {"spec": {"taints": taints}}, kind="application/merge-patch+json")
    return made


def set_status(plane: ControlPlane, thing: Mapping[str, Any], status: Mapping[str, Any]) -> None:
    """Writes a status, whether or not its kind keeps it as a subresource."""
    path = plane.path(thing)
    found = plane.call("GET", path)
    subresource = thing["kind"] in ("Node", "ResourceQuota") or plane.answers(f"{path}/status")
    plane.call("PUT", f"{path}/status" if subresource else path, {**found, "status": dict(status)})


def in_force(plane: ControlPlane, roles: Sequence[Mapping[str, Any]]) -> None:
    """Applies roles and their bindings, and returns once the API server goes by all of them: its authorizer learns of
    them from watches, later than whoever wrote them. Each role gets a rule that nobody needs, to be asked about."""
    marked = [copy.deepcopy(dict(one)) for one in roles]
    for one in marked:
        if "rules" in one:
            one["rules"] = [*one["rules"], {**_MARK, "resources": [_marked(one["kind"], one["metadata"]["name"])]}]
    plane.apply(marked)
    for one in marked:
        if "roleRef" in one:
            mark = {**_MARK, "resources": [_marked(one["roleRef"]["kind"], one["roleRef"]["name"])]}
            for subject in one["subjects"]:
                may = partial(plane.allows, _user(subject), one["metadata"].get("namespace", ""), mark)
                plane.wait(may, "the roles to be in force")


_MARK: Mapping[str, Any] = {"apiGroups": ["tests.example.com"], "verbs": ["get"]}


def _marked(kind: str, name: str) -> str:
    return f"{kind.lower()}-{name}"


def _user(subject: Mapping[str, Any]) -> str:
    account = subject["kind"] == "ServiceAccount"
    return f"system:serviceaccount:{subject['namespace']}:{subject['name']}" if account else str(subject["name"])


NO_CONFIG_MAPS = {"count/configmaps": "0"}
"""For what a quota allows: by this it is seen whether the quota is in force."""


def quota_in_force(plane: ControlPlane, namespace: str) -> None:
    """Returns once admission goes by a quota that has ``NO_CONFIG_MAPS`` too: until the server's own watch has told it
    of the quota and of its status, it lets everything pass, or refuses it because the status is unknown."""

    path, probe = f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"generateName": "probe-"}}
    plane.wait(lambda: plane.refuses(path, probe, "exceeded quota"), "the quota to be in force")


@contextmanager
def changed(plane: ControlPlane, *things: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    """While this lasts the objects are there, or are as these say; then they are as they were. Statuses count."""
    paths = [plane.path(thing) for thing in things]
    before = [plane.call("GET", path) if plane.answers(path) else None for path in paths]
    made = []
    try:
        for thing in things:
            bare = {key: value for key, value in thing.items() if key != "status"}
            made.append(_put(plane, bare))
            if "status" in thing:
                set_status(plane, thing, thing["status"])
        yield made
    finally:
        for path, old in zip(paths, before, strict=True):
            plane.call("DELETE", f"{path}?gracePeriodSeconds=0")  # no kubelet ends pods
            if old is None:
                continue
            fresh = copy.deepcopy(old)
            for key in ("resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"):
                fresh["metadata"].pop(key, None)
            plane.call("POST", path.rpartition("/")[0], fresh)
            if old["kind"] == "Node":
                _put(
                    plane,
                    {key: old[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": old["metadata"]["name"]}},
                )
            if "status" in old:
                set_status(plane, old, old["status"])
