"""Read a lane back from the cluster's objects: storage class, volumes, machines, nodes. Pure.

Rows go into a run's description: ``part.field`` -> scalar. ``conditions`` go to the guard (``guard.parameters``): only
values that an object states, nothing inferred from names. ``changes`` compares an object as sent with the object as
stored: a changed value means another lane; a value that was not sent is a default and goes into the description.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlane.guard.values import NONE
from fairlane.lanes.storage_class import StorageClassSpec

Object = Mapping[str, Any]
Rows = dict[str, str | int | float | bool]

_WITHHELD = re.compile(r"(?i)(passw|token|credential|secret|api-?key|access-?key|user-?key|private-?key)")
_REFERENCE = re.compile(r"(?i)(name|namespace|ref)$")


def quantity(text: object) -> float:
    """A Kubernetes quantity (``500m``, ``8Gi``, ``1e3``) as a number; NaN for anything else."""
    from kubernetes.utils import parse_quantity  # noqa: PLC0415 - 1 s, as all of the client

    try:
        return float(parse_quantity(text))  # type: ignore[no-untyped-call]
    except ValueError:
        return float("nan")


# --- rows of the description


def storage(storage_class: Object, profile: Object | None = None, driver: Object | None = None) -> Rows:
    """Rows of a lane's class, its StorageProfile and its CSIDriver."""
    rows: Rows = {}
    for key in ("provisioner", "reclaimPolicy", "volumeBindingMode", "allowVolumeExpansion", "mountOptions"):
        _put(rows, f"storageClass.{key}", storage_class.get(key))
    for key, value in sorted((storage_class.get("parameters") or {}).items()):
        _put(rows, f"storageClass.parameters.{key}", _open(key, value))
    status = (profile or {}).get("status") or {}
    for key in ("cloneStrategy", "dataImportCronSourceFormat", "snapshotClass"):
        _put(rows, f"storageProfile.{key}", status.get(key))
    sets = _list(status, "claimPropertySets")
    offers = [f"{item.get('volumeMode')}: {', '.join(item.get('accessModes', []))}" for item in sets]
    _put(rows, "storageProfile.claimPropertySets", offers)
    own = (driver or {}).get("spec") or {}
    for key in ("attachRequired", "fsGroupPolicy", "storageCapacity", "volumeLifecycleModes"):
        _put(rows, f"csiDriver.{key}", own.get(key))
    return rows


def volume(claim: Object, pv: Object | None = None) -> Rows:
    """Rows of a claim and its bound volume."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    rows: Rows = {}
    _put(rows, "claim.requested", _path(spec, "resources", "requests", "storage"))
    _put(rows, "claim.capacity", _path(status, "capacity", "storage"))
    for key in ("accessModes", "volumeMode", "storageClassName"):
        _put(rows, f"claim.{key}", spec.get(key))
    _put(rows, "claim.clone", cloned_by(claim))
    own = (pv or {}).get("spec") or {}
    for key in ("persistentVolumeReclaimPolicy", "mountOptions"):
        _put(rows, f"volume.{key}", own.get(key))
    csi = own.get("csi") or {}
    for key in ("driver", "volumeHandle", "fsType"):
        _put(rows, f"volume.{key}", csi.get(key))
    for key, value in sorted((csi.get("volumeAttributes") or {}).items()):
        _put(rows, f"volume.attributes.{key}", _open(key, value))
    _put(rows, "volume.nodes", nodes_of(pv))
    return rows


def nodes_of(pv: Object | None) -> list[str]:
    """Values of the node labels that a volume requires; empty: it can be attached anywhere."""
    terms = _list(_path((pv or {}).get("spec") or {}, "nodeAffinity", "required") or {}, "nodeSelectorTerms")
    return sorted({str(v) for t in terms for e in _list(t, "matchExpressions") for v in e.get("values") or []})


def machine(vmi: Object) -> Rows:
    """Rows of a running machine: its node, type, size, guest agent's facts."""
    domain, status = _path(vmi, "spec", "domain") or {}, vmi.get("status") or {}
    rows: Rows = {}
    _put(rows, "machine.node", status.get("nodeName"))
    _put(rows, "machine.type", _path(status, "machine", "type") or _path(domain, "machine", "type"))
    _put(rows, "machine.cpu_model", _path(domain, "cpu", "model"))
    _put(rows, "machine.qos", status.get("qosClass"))
    _put(rows, "machine.pods", len(status.get("activePods") or {}) or None)
    _put(rows, "machine.launcher", status.get("launcherContainerImageVersion"))
    for key in ("prettyName", "kernelRelease"):
        _put(rows, f"guest.{key}", _path(status, "guestOSInfo", key))
    return rows


def node(of: Object) -> Rows:
    """Rows of a node: system, size, and processor by labels."""
    metadata, status = of.get("metadata") or {}, of.get("status") or {}
    rows: Rows = {}
    _put(rows, "name", metadata.get("name"))
    info = status.get("nodeInfo") or {}
    for key in ("kernelVersion", "osImage", "architecture", "containerRuntimeVersion", "kubeletVersion"):
        _put(rows, key, info.get(key))
    for key in ("cpu", "memory", "pods"):
        _put(rows, f"capacity.{key}", _path(status, "capacity", key))
    _put(rows, "cpu_model", cpu_model(of))
    _put(rows, "zone", (metadata.get("labels") or {}).get("topology.kubernetes.io/zone"))
    return rows


def cpu_model(of: Object) -> str:
    """A node's processor by labels: KubeVirt's (``host-model-cpu.node.kubevirt.io/NAME``, libvirt's name), else Node
    Feature Discovery's vendor, family and model number; empty: no such labels."""
    labels = _path(of, "metadata", "labels") or {}
    model = {}
    for key in sorted(labels):
        prefix, _, name = key.rpartition("/")
        if prefix in ("host-model-cpu.node.kubevirt.io", "cpu-vendor.node.kubevirt.io"):
            model[prefix.partition(".")[0]] = name
    if "host-model-cpu" in model:
        return " ".join(model[key] for key in ("cpu-vendor", "host-model-cpu") if key in model)
    words = (("vendor_id", ""), ("family", "family "), ("id", "model "))
    nfd = ((word, labels.get(f"feature.node.kubernetes.io/cpu-model.{key}")) for key, word in words)
    return " ".join(f"{word}{value}" for word, value in nfd if value)


# --- clones


def cloned_by(claim: Object) -> str:
    """Way in which the claim was cloned: CDI's annotation (csi-clone, snapshot, copy), else by its data source; empty:
    no clone, or not known yet."""
    notes = _path(claim, "metadata", "annotations") or {}
    if way := notes.get("cdi.kubevirt.io/cloneType"):
        return str(way)
    kind = _path(claim, "spec", "dataSource", "kind") or _path(claim, "spec", "dataSourceRef", "kind")
    return {"PersistentVolumeClaim": "csi-clone", "VolumeSnapshot": "snapshot"}.get(str(kind), "")


# --- for the guard

_PROTOCOLS = (
    ("rbd.csi.ceph.com", "rbd"),
    ("cephfs.csi.ceph.com", "cephfs"),
    ("nfs.csi.ceph.com", "nfs"),
    ("nfs.csi.k8s.io", "nfs"),
    ("vpc.file.csi.ibm.io", "nfs"),
)
"""Suffix of a provisioner -> its only protocol. Drivers of arrays use the host's."""

_COPIES = (
    ("pxd.portworx.com", "repl"),
    ("driver.longhorn.io", "numberOfReplicas"),
    ("io.openebs.csi-mayastor", "repl"),
    ("linstor.csi.linbit.com", "linstor.csi.linbit.com/placementCount"),
)
"""Suffix of a provisioner -> class parameter with the number of copies. Ceph's class names a pool, whose size only Ceph
knows."""


def protocol(storage_class: Object) -> str:
    """Protocol of a class's provisioner; empty: several, or not known here."""
    name = str(storage_class.get("provisioner") or "")
    return next((word for end, word in _PROTOCOLS if name == end or name.endswith(f".{end}")), "")


def misnamed(lane: str, spec: StorageClassSpec, storage_class: Object) -> str:
    """Why the stated protocol of ``lane`` is impossible; empty: it is possible."""
    actual = protocol(storage_class)
    if not actual or spec.protocol in (None, actual):
        return ""
    by = shown(storage_class.get("provisioner"))
    return f"lane {lane} says protocol {spec.protocol}, but storage class {spec.storage_class} ({by}) uses {actual}"


def copies(storage_class: Object) -> str:
    """Copies of the data by the class's parameters; empty: no such parameter."""
    name, parameters = str(storage_class.get("provisioner") or ""), storage_class.get("parameters") or {}
    values = (str(parameters.get(key, "")) for owner, key in _COPIES if name == owner)
    return next((value for value in values if value.isdigit()), "")


def conditions(
    spec: StorageClassSpec,
    storage_class: Object,
    claim: Object | None = None,
    vmi: Object | None = None,
    *,
    nodes: Sequence[Object] = (),
    kubevirt: Object | None = None,
    stated: Collection[str] = (),
) -> dict[str, str | int | bool]:
    """Parameters of a lane, read from the cluster. They override the study's, except host_cpu and hypervisor if they
    are in ``stated``, the names in the study's conditions."""
    values: dict[str, str | int | bool] = {}
    if provisioner := storage_class.get("provisioner"):
        values["backend"] = shown(f"storage class {spec.storage_class} of {provisioner}")
    if word := protocol(storage_class):
        values["transport"] = word
    if count := copies(storage_class):
        values["copies"] = int(count)
    if mode := _path(claim or {}, "spec", "volumeMode"):
        values["volume_mode"] = str(mode)
    values |= _of_machine(vmi or {})
    context = {
        "hypervisor": _version(kubevirt),
        "host_cpu": ", ".join(sorted({m for n in nodes if (m := cpu_model(n))})),
    }
    return values | {name: value for name, value in context.items() if value and name not in stated}


def _of_machine(vmi: Object) -> dict[str, str | int | bool]:
    domain = _path(vmi, "spec", "domain") or {}
    values: dict[str, str | int | bool] = {}
    cpu = domain.get("cpu") or {}
    topology = [cpu.get(key) for key in ("cores", "sockets", "threads")]
    if any(isinstance(count, int) for count in topology):
        cores, sockets, threads = (count or 1 for count in topology)
        values["vm_cpus"] = cores * sockets * threads
        values["cpu_pinning"] = bool(cpu.get("dedicatedCpuPlacement")) or NONE
    if (memory := _path(domain, "memory", "guest")) and (size := quantity(memory)) > 0:
        values["vm_memory"] = int(size)
    return values


def _version(kubevirt: Object | None) -> str:
    version = _path(kubevirt or {}, "status", "observedKubeVirtVersion")
    return f"KubeVirt {version}" if version else ""


# --- parts


def _path(of: Object, *keys: str) -> Any:
    value: Any = of
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _list(of: Object, key: str) -> list[Any]:
    value = of.get(key)
    return value if isinstance(value, list) else []


def _open(key: str, value: Any) -> Any:
    """Value of a parameter; omitted if it may be a secret (names of secrets are not)."""
    return "(withheld)" if _WITHHELD.search(key) and not _REFERENCE.search(key) else value


def _put(rows: Rows, key: str, value: Any) -> None:
    """Add a row unless the value is empty."""
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if value is None or value == "":
        return
    rows[key] = value if isinstance(value, bool | int | float) else shown(value)


# --- sent and stored

_OURS = ("name", "namespace", "labels", "annotations")
"""Compared metadata; the rest is the server's bookkeeping."""
_SHARED = ("labels", "annotations")
"""Metadata to which other controllers add entries."""
_AMOUNT = re.compile(r"(^|\.)(storage|memory|guest)$")
_LONGEST = 300


@dataclass(frozen=True)
class Change:
    """A value that differs from the one sent. ``sent`` None: the server's default; ``stored`` None: it was removed."""

    path: str
    sent: Any
    stored: Any

    @property
    def added(self) -> bool:
        """Whether the server added the value, as a default."""
        return self.sent is None

    def __str__(self) -> str:
        if self.added:
            return f"{self.path}: {shown(self.stored)} (default)"
        return f"{self.path}: {shown(self.stored)} in place of {shown(self.sent)}"


def changes(sent: Object, stored: Object) -> tuple[Change, ...]:
    """Differences of ``stored`` from ``sent``, by path. Ignores bookkeeping, ``status``, and labels and annotations of
    others. Compares lists of named things by name, and quantities by amount."""
    return tuple(sorted(_differences("", sent, stored), key=lambda change: change.path))


def _differences(path: str, sent: Any, stored: Any) -> Iterator[Change]:
    if isinstance(sent, Mapping) and isinstance(stored, Mapping):
        for key in sorted({*sent, *stored}):
            here = f"{path}.{key}" if path else key
            if not _bookkeeping(path, key, sent):
                yield from _differences(here, sent.get(key), stored.get(key))
    elif isinstance(sent, list) and isinstance(stored, list):
        yield from _differences(path, _keyed(sent), _keyed(stored))
    elif sent is None and isinstance(stored, Mapping | list):
        for key, value in (stored if isinstance(stored, Mapping) else _keyed(stored)).items():
            yield from _differences(f"{path}.{key}" if path else key, None, value)
    elif not _same(path, sent, stored):
        yield Change(path, sent, stored)


def _bookkeeping(path: str, key: str, sent: Object) -> bool:
    if not path:
        return key == "status"
    above, _, last = path.rpartition(".")
    if last == "metadata":
        return key not in _OURS or (key in _SHARED and key not in sent)
    return last in _SHARED and above.endswith("metadata") and key not in sent


def _keyed(items: Sequence[Any]) -> Object:
    """A list as a mapping: by name if names are unique, else by position."""
    names = [_name_of(item) for item in items]
    own = all(names) and len(set(names)) == len(names)
    return dict(zip(names if own else map(str, range(len(items))), items, strict=True))


def _name_of(item: Any) -> str:
    named = item.get("metadata", item) if isinstance(item, Mapping) else {}
    return str(named.get("name") or "") if isinstance(named, Mapping) else ""


def _same(path: str, sent: Any, stored: Any) -> bool:
    return bool(sent == stored or (_AMOUNT.search(path) and quantity(sent) == quantity(stored)))


def shown(value: Any) -> str:
    """Text of an external value, at most this long."""
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
