"""The kinds of API objects that Fairlane uses, and their paths."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True)
class Kind:
    """A kind of object: its group and version, its name in addresses (``plural``) and in objects (``kind``)."""

    group: str
    """Empty: the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    stored: bool = True
    """Whether the server stores objects; a review (SelfSubjectAccessReview) is only answered."""

    @property
    def api_version(self) -> str:
        """``kubevirt.io/v1``, as in an object."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", sub: str = "") -> str:
        """Path of all objects of this kind, of those in ``namespace``, of the object ``name``, or of its subresource
        ``sub`` (``status``, ``portforward/22/tcp``)."""
        if namespace and not self.namespaced:
            raise ValueError(f"{self.kind} has no namespace")
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if sub:
            parts.append(quote(sub, safe="/"))
        return "/".join(parts)


_KUBEVIRT = "kubevirt.io"
_CDI = "cdi.kubevirt.io"
_SNAPSHOT = "snapshot.storage.k8s.io"
_SUBRESOURCES = "subresources.kubevirt.io"
_STORAGE = "storage.k8s.io"

NAMESPACE = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
NODE = Kind("", "v1", "nodes", "Node", namespaced=False)
PV = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PVC = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
POD = Kind("", "v1", "pods", "Pod")
SECRET = Kind("", "v1", "secrets", "Secret")
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount")
EVENT = Kind("", "v1", "events", "Event")
QUOTA = Kind("", "v1", "resourcequotas", "ResourceQuota")

DAEMON_SET = Kind("apps", "v1", "daemonsets", "DaemonSet")
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")

STORAGE_CLASS = Kind(_STORAGE, "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_DRIVER = Kind(_STORAGE, "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_CAPACITY = Kind(_STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity")

SNAPSHOT = Kind(_SNAPSHOT, "v1", "volumesnapshots", "VolumeSnapshot")
SNAPSHOT_CLASS = Kind(_SNAPSHOT, "v1", "volumesnapshotclasses", "VolumeSnapshotClass", namespaced=False)

KUBEVIRT = Kind(_KUBEVIRT, "v1", "kubevirts", "KubeVirt")
VM = Kind(_KUBEVIRT, "v1", "virtualmachines", "VirtualMachine")
VMI = Kind(_KUBEVIRT, "v1", "virtualmachineinstances", "VirtualMachineInstance")
VMI_ACTION = Kind(_SUBRESOURCES, "v1", "virtualmachineinstances", "VirtualMachineInstance")
"""Subresources of a running machine: ``portforward/PORT/tcp`` and others."""

CDI = Kind(_CDI, "v1beta1", "cdis", "CDI", namespaced=False)
DATA_VOLUME = Kind(_CDI, "v1beta1", "datavolumes", "DataVolume")
DATA_SOURCE = Kind(_CDI, "v1beta1", "datasources", "DataSource")
STORAGE_PROFILE = Kind(_CDI, "v1beta1", "storageprofiles", "StorageProfile", namespaced=False)

API_SERVICE = Kind("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
ACCESS_REVIEW = Kind(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False, stored=False
)
"""Asks whether the caller has a permission."""
WHO_AM_I = Kind(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False, stored=False
)
