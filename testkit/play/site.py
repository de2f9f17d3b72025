"""A plausible site as API objects: nodes, storage classes, and the objects of operators."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from testkit.play.client import Refused
from testkit.play.kinds import (
    CDI,
    CDI_CONFIG,
    CSI_DRIVER,
    DATA_SOURCE,
    DATA_VOLUME,
    KUBEVIRT,
    NAMESPACE,
    NODE,
    PROFILE,
    SNAPSHOT_CLASS,
    STORAGE_CLASS,
    Kind,
    Object,
    condition,
)
from testkit.play.world import World

WORKER = "node-role.kubernetes.io/worker"


@dataclass(frozen=True)
class Class:
    """A storage class, its driver and CDI's profile of it."""

    name: str
    provisioner: str = "openshift-storage.rbd.csi.ceph.com"
    binding: str = "Immediate"
    default: bool = False
    clone: str = "csi-clone"
    """csi-clone, snapshot, copy: the preference of its StorageProfile."""
    modes: str = "RWX/Block RWO/Block RWO/Filesystem"
    """Modes in its StorageProfile, the preferred first."""
    snapshots: bool = True
    """Whether its driver has a VolumeSnapshotClass."""
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    classes: Sequence[Class] = (Class("ceph-rbd", default=True), Class("local", "topolvm.io", "WaitForFirstConsumer"))
    nodes: int = 2
    cpus: int = 64
    memory: str = "256Gi"
    kubevirt: str = "v1.6.3"
    """Version; empty: KubeVirt is not installed, though its definitions exist. ``cdi`` likewise."""
    cdi: str = "v1.63.1"
    golden: str = "os-images/debian"
    """Namespace and name of a DataSource with a claim, in the default class; empty: none."""
    feature_gates: Sequence[str] = ("CPUManager", "Snapshot", "HotplugVolumes")


def objects(site: Site) -> list[tuple[Kind, str, Object]]:
    """(kind, namespace, object), statuses included, in an order in which they can be created."""
    result: list[tuple[Kind, str, Object]] = []
    result += [(NODE, "", _node(site, n)) for n in range(site.nodes)]
    for driver in sorted({one.provisioner for one in site.classes}):
        spec = {"attachRequired": True, "podInfoOnMount": False, "fsGroupPolicy": "File", "storageCapacity": False}
        result.append((CSI_DRIVER, "", {"metadata": {"name": driver}, "spec": spec}))
        if any(one.snapshots for one in site.classes if one.provisioner == driver):
            kept = {"metadata": {"name": _snapshots(driver)}, "driver": driver, "deletionPolicy": "Delete"}
            result.append((SNAPSHOT_CLASS, "", kept))
    result += [(STORAGE_CLASS, "", _class(one)) for one in site.classes]
    if site.kubevirt:
        result += [(NAMESPACE, "", {"metadata": {"name": "kubevirt"}}), (KUBEVIRT, "kubevirt", _kubevirt(site))]
    if site.cdi:
        ready = [condition("Available", true=True, reason="DeployCompleted")]
        status = {"phase": "Deployed", "observedVersion": site.cdi, "operatorVersion": site.cdi,
                  "targetVersion": site.cdi, "conditions": ready}  # fmt: skip
        result.append((CDI, "", {"metadata": {"name": "cdi"}, "spec": {}, "status": status}))
        overhead = {"filesystemOverhead": {"global": "0.06"}}
        result.append((CDI_CONFIG, "", {"metadata": {"name": "config"}, "spec": {}, "status": overhead}))
        if site.golden:
            result += _golden(*site.golden.split("/"))
    return result


async def build(site: Site, world: World) -> None:
    """Creates the missing objects."""
    for kind, namespace, body in objects(site):
        try:
            made = await world.create(kind, {k: v for k, v in body.items() if k != "status"}, namespace)
        except Refused as refused:
            if refused.status == 404:  # a kind that this cluster lacks
                continue
            raise
        if "status" in body:
            await world.status(kind, made, body["status"])
        if kind is NODE:  # the API server taints new nodes until a node controller registers them
            await world.patch(NODE, made, {"spec": {"taints": None}})


async def remove(site: Site, world: World) -> None:
    """Takes the site down, to make room for another; waits until its namespaces are gone."""
    spaces = []
    for kind, namespace, body in reversed(objects(site)):
        name = body["metadata"]["name"]
        await world.client.delete(kind, namespace, name)
        spaces += [name] if kind is NAMESPACE else []
    for name in site.classes:
        await world.client.delete(PROFILE, "", name.name)
    while any(world.get(NAMESPACE, "", name) for name in spaces):
        await asyncio.sleep(0.02)


def _snapshots(driver: str) -> str:
    return driver.split(".", maxsplit=1)[0] + "-snapshots"


def _class(one: Class) -> Object:
    marks = {"fairlane.test/clone": one.clone, "fairlane.test/modes": one.modes}
    if one.snapshots:
        marks["fairlane.test/snapshot-class"] = _snapshots(one.provisioner)
    if one.default:
        marks["storageclass.kubernetes.io/is-default-class"] = "true"
    return {
        "metadata": {"name": one.name, "annotations": marks}, "provisioner": one.provisioner,
        "parameters": dict(one.parameters), "reclaimPolicy": "Delete", "volumeBindingMode": one.binding,
        "allowVolumeExpansion": True,
    }  # fmt: skip


def _node(site: Site, number: int) -> Object:
    name = f"worker-{number}"
    has = {"cpu": str(site.cpus), "memory": site.memory, "pods": "250", "devices.kubevirt.io/kvm": "1k",
           "ephemeral-storage": "400Gi"}  # fmt: skip
    return {
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", WORKER: "",
            "kubevirt.io/schedulable": "true", "topology.kubernetes.io/zone": f"zone-{number % 3}",
            "cpumanager": "true", "cpu-vendor.node.kubevirt.io/Intel": "true",
            "host-model-cpu.node.kubevirt.io/Icelake-Server": "true",
        }},
        "spec": {"providerID": f"played://{name}"},
        "status": {
            "capacity": has, "allocatable": has,
            "addresses": [{"type": "InternalIP", "address": f"192.0.2.{10 + number}"},
                          {"type": "Hostname", "address": name}],
            "conditions": [{**condition("Ready", true=True, reason="KubeletReady"),
                            "message": "kubelet is posting ready status"}],
            "nodeInfo": {
                "machineID": f"{number:032x}", "systemUUID": f"{number:032x}", "bootID": f"{number:032x}",
                "kernelVersion": "5.14.0-570.60.1.el9_6.x86_64", "architecture": "amd64", "operatingSystem": "linux",
                "osImage": "Red Hat Enterprise Linux CoreOS 9.6", "kubeletVersion": "v1.32.9", "kubeProxyVersion": "",
                "containerRuntimeVersion": "cri-o://1.32.9",
            },
        },
    }  # fmt: skip


def _kubevirt(site: Site) -> Object:
    gates = {"developerConfiguration": {"featureGates": list(site.feature_gates)}}
    return {
        "metadata": {"name": "kubevirt"}, "spec": {"configuration": gates},
        "status": {
            "phase": "Deployed", "observedKubeVirtVersion": site.kubevirt, "operatorVersion": site.kubevirt,
            "targetKubeVirtVersion": site.kubevirt, "defaultArchitecture": "amd64",
            "conditions": [condition("Available", true=True, reason="AllComponentsReady")],
        },
    }  # fmt: skip


def _golden(namespace: str, name: str) -> list[tuple[Kind, str, Object]]:
    source = {"pvc": {"namespace": namespace, "name": name}}
    filled = {"source": {"registry": {"url": "docker://registry.example/containerdisks/debian:12"}},
              "storage": {"resources": {"requests": {"storage": "10Gi"}}}}  # fmt: skip
    return [
        (NAMESPACE, "", {"metadata": {"name": namespace}}),
        (DATA_VOLUME, namespace, {"metadata": {"name": name}, "spec": filled}),
        (DATA_SOURCE, namespace, {"metadata": {"name": name}, "spec": {"source": source}}),
    ]
