"""The kinds of objects that the played controllers watch, and helpers to read objects."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Plural, namespace (empty: cluster-wide), name."""


@dataclass(frozen=True)
class Kind:
    api: str
    """Path of group and version: ``/api/v1``, ``/apis/kubevirt.io/v1``."""
    plural: str
    name: str
    namespaced: bool = True

    @property
    def version(self) -> str:
        """``apiVersion`` of its objects."""
        return self.api.removeprefix("/apis/").removeprefix("/api/")

    def path(self, namespace: str = "", name: str = "", sub: str = "") -> str:
        """Path of an object, or (no name) of the collection; no namespace: of all namespaces."""
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.api}{inside}/{self.plural}" + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")


_CORE, _KUBEVIRT, _CDI = "/api/v1", "/apis/kubevirt.io/v1", "/apis/cdi.kubevirt.io/v1beta1"
_STORAGE, _SNAPSHOT = "/apis/storage.k8s.io/v1", "/apis/snapshot.storage.k8s.io/v1"
_INSTANCE = "/apis/instancetype.kubevirt.io/v1beta1"

NAMESPACE = Kind(_CORE, "namespaces", "Namespace", namespaced=False)
NODE = Kind(_CORE, "nodes", "Node", namespaced=False)
PV = Kind(_CORE, "persistentvolumes", "PersistentVolume", namespaced=False)
PVC = Kind(_CORE, "persistentvolumeclaims", "PersistentVolumeClaim")
SECRET = Kind(_CORE, "secrets", "Secret")
CONFIG_MAP = Kind(_CORE, "configmaps", "ConfigMap")
POD = Kind(_CORE, "pods", "Pod")
EVENT = Kind(_CORE, "events", "Event")
SERVICE = Kind(_CORE, "services", "Service")
QUOTA = Kind(_CORE, "resourcequotas", "ResourceQuota")
JOB = Kind("/apis/batch/v1", "jobs", "Job")
STORAGE_CLASS = Kind(_STORAGE, "storageclasses", "StorageClass", namespaced=False)
CSI_DRIVER = Kind(_STORAGE, "csidrivers", "CSIDriver", namespaced=False)
API_SERVICE = Kind("/apis/apiregistration.k8s.io/v1", "apiservices", "APIService", namespaced=False)
VM = Kind(_KUBEVIRT, "virtualmachines", "VirtualMachine")
VMI = Kind(_KUBEVIRT, "virtualmachineinstances", "VirtualMachineInstance")
KUBEVIRT = Kind(_KUBEVIRT, "kubevirts", "KubeVirt")
INSTANCE_TYPE = Kind(_INSTANCE, "virtualmachineinstancetypes", "VirtualMachineInstancetype")
CLUSTER_INSTANCE_TYPE = Kind(
    _INSTANCE, "virtualmachineclusterinstancetypes", "VirtualMachineClusterInstancetype", namespaced=False
)
DATA_VOLUME = Kind(_CDI, "datavolumes", "DataVolume")
DATA_SOURCE = Kind(_CDI, "datasources", "DataSource")
CLONE_SOURCE = Kind(_CDI, "volumeclonesources", "VolumeCloneSource")
PROFILE = Kind(_CDI, "storageprofiles", "StorageProfile", namespaced=False)
CDI = Kind(_CDI, "cdis", "CDI", namespaced=False)
CDI_CONFIG = Kind(_CDI, "cdiconfigs", "CDIConfig", namespaced=False)
SNAPSHOT = Kind(_SNAPSHOT, "volumesnapshots", "VolumeSnapshot")
SNAPSHOT_CLASS = Kind(_SNAPSHOT, "volumesnapshotclasses", "VolumeSnapshotClass", namespaced=False)
CONTENT = Kind(_SNAPSHOT, "volumesnapshotcontents", "VolumeSnapshotContent", namespaced=False)

WATCHED = (
    NAMESPACE, NODE, STORAGE_CLASS, SNAPSHOT_CLASS, PROFILE, CDI, QUOTA, SECRET, CONFIG_MAP, POD, SERVICE, JOB,
    PV, CONTENT, SNAPSHOT, CLONE_SOURCE, DATA_SOURCE, PVC, DATA_VOLUME, VMI, VM,
)  # fmt: skip
OPTIONAL = (SNAPSHOT, SNAPSHOT_CLASS, CONTENT, CLONE_SOURCE, DATA_SOURCE, PROFILE, CDI, DATA_VOLUME, VM, VMI)
"""Kinds that a cluster may lack: their first list is not waited for."""
BY_PLURAL = {kind.plural: kind for kind in WATCHED}


def key(kind: Kind, obj: Mapping[str, Any]) -> Key:
    meta = obj["metadata"]
    return (kind.plural, meta.get("namespace", ""), meta["name"])


def uid(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"]["uid"])


def deleting(obj: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def annotation(obj: Mapping[str, Any], name: str) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(name, ""))


def phase(obj: Mapping[str, Any] | None) -> str:
    return str(((obj or {}).get("status") or {}).get("phase", ""))


def owner(kind: Kind, obj: Mapping[str, Any]) -> list[Object]:
    """``ownerReferences`` of an object that a controller creates for ``obj``."""
    return [{"apiVersion": kind.version, "kind": kind.name, "name": obj["metadata"]["name"], "uid": uid(obj),
             "controller": True, "blockOwnerDeletion": True}]  # fmt: skip


def stamp(skew: float = 0.0) -> str:
    """The current time as an API stamp, in whole seconds, of a clock ``skew`` seconds ahead."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + skew))


def condition(name: str, *, true: bool, reason: str = "", message: str = "", skew: float = 0.0) -> Object:
    return {"type": name, "status": "True" if true else "False", "reason": reason, "message": message,
            "lastTransitionTime": stamp(skew)}  # fmt: skip


_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def quantity(text: str | int) -> int:
    """Bytes (or a plain count) of a Kubernetes quantity."""
    for suffix, factor in _UNITS.items():
        if str(text).endswith(suffix):
            return int(float(str(text).removesuffix(suffix)) * factor)
    return int(float(text))


def volumes(vmi: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Volumes of a VMI that use claims: (name of the volume, name of the claim)."""
    claims = []
    for volume in vmi["spec"].get("volumes") or ():
        if "dataVolume" in volume:
            claims.append((volume["name"], volume["dataVolume"]["name"]))
        elif "persistentVolumeClaim" in volume:
            claims.append((volume["name"], volume["persistentVolumeClaim"]["claimName"]))
    return claims
