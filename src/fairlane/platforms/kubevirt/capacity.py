"""What a study needs of a cluster, and what the cluster has: arithmetic on plain objects, nothing is asked here."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from fairlane.lanes.storage_class import StorageClassSpec
from fairlane.platforms.kubevirt.manifests import Manifests

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_SUFFIX = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_MIB = 2**20
_PROCESSES = 25 + 100 + 25 + 40 + 30 + 8 + 32
"""MiB for virt-launcher and its monitor, virtlogd, virtqemud, QEMU, IO threads and the graphics card."""
_RATIO = 10.0
"""``cpuAllocationRatio`` where the KubeVirt object does not say it: a virtual CPU requests a tenth of a core."""

Object = Mapping[str, Any]


def quantity(text: object) -> float:
    """A Kubernetes quantity (``500m``, ``8Gi``, ``1e3``) as a number; NaN for what is none."""
    word = str(text)
    try:
        if word[-2:] in _BINARY:
            return float(Decimal(word[:-2]) * 1024 ** _BINARY[word[-2:]])
        if word[-1:] in _SUFFIX:
            return float(Decimal(word[:-1]).scaleb(_SUFFIX[word[-1:]]))
        return float(Decimal(word))
    except (ArithmeticError, ValueError):
        return float("nan")


def sized(count: float) -> str:
    """Bytes, for people: ``35 GiB``, ``32 MiB``."""
    return f"{count / 2**30:.4g} GiB" if count >= 2**30 else f"{count / 2**20:.4g} MiB"


@dataclass(frozen=True)
class Size:
    """Of every machine of a study."""

    cpus: int
    """Virtual."""
    memory: int
    """Bytes, the guest's."""


@dataclass(frozen=True)
class Footprint:
    """What one machine of a lane takes. Requests are those of its virt-launcher pod."""

    lane: str
    number: int
    cpus: int
    """Virtual."""
    cpu_request: float
    """Cores, as far as the scheduler counts them."""
    memory: int
    """Bytes that the pod requests: the guest's and what is around it."""
    dedicated: bool
    storage: tuple[tuple[str, int], ...]
    """(storage class, bytes) of each claim."""


@dataclass(frozen=True)
class Demand:
    """Everything of a study that stands at one moment: the fleets of all lanes, and one lane's storm."""

    fleets: tuple[Footprint, ...]
    """Of all lanes, their number within the lane from 0."""
    storms: tuple[tuple[Footprint, ...], ...]
    """The largest of each lane that has any, one at a time."""
    golden: tuple[tuple[str, int], ...]
    """(storage class, bytes) of the claims that clones are made of."""
    lanes: int
    nodes: int
    under_load: int
    """Machines of a lane that are loaded together."""

    @property
    def machines(self) -> tuple[Footprint, ...]:
        """The fleets, and the storm whose machines are largest."""
        storm = max(self.storms, key=lambda one: (one[0].memory, one[0].cpu_request), default=())
        return self.fleets + storm

    @property
    def storage(self) -> Mapping[str, int]:
        """Storage class -> bytes at most."""
        return {name: max(sum(one[name]) for one in self._moments()) for name in self._classes()}

    @property
    def claims(self) -> Mapping[str, int]:
        """Storage class -> claims (PVC) at most."""
        return {name: max(len(one[name]) for one in self._moments()) for name in self._classes()}

    @property
    def all_storage(self) -> int:
        """Bytes of all classes at most."""
        return max(sum(map(sum, one.values())) for one in self._moments())

    @property
    def all_claims(self) -> int:
        return max(sum(map(len, one.values())) for one in self._moments())

    @property
    def cpu_request(self) -> float:
        return sum(one.cpu_request for one in self.machines)

    @property
    def memory(self) -> int:
        return sum(one.memory for one in self.machines)

    def _classes(self) -> list[str]:
        return list(dict.fromkeys(name for one in self._moments() for name in one))

    def _moments(self) -> Iterator[Mapping[str, list[int]]]:
        """Storage class -> bytes of each claim, while each lane has its storm."""
        for storm in self.storms or ((),):
            out: defaultdict[str, list[int]] = defaultdict(list)
            for name, size in (*self.golden, *(claim for one in (*self.fleets, *storm) for claim in one.storage)):
                out[name].append(size)
            yield out


def demand(study: "Study", configuration: Object | None = None, size: Size | None = None) -> Demand:
    """What ``study`` needs: the fleets of all lanes stand during the whole run, a storm is of one lane at a time.
    ``configuration``: of the KubeVirt object (``spec.configuration``). ``size``: of its instance type, if any."""
    manifests = Manifests(study, "0" * 10, "")
    spec = manifests.spec
    size = size or Size(spec.cpus, int(spec.memory))
    lanes = {name: lane for name, lane in study.lanes.items() if isinstance(lane, StorageClassSpec)}
    fleets: list[Footprint] = []
    golden: list[tuple[str, int]] = []
    storms: list[tuple[Footprint, ...]] = []
    storm = max((int(cell.params["count"]) for cell in study.cells() if cell.kind == "clone"), default=0)
    for name, lane in lanes.items():
        takes = _pod(size, lane, configuration or {})
        disks = ((lane.storage_class, manifests.disk_size),) * spec.disks
        root = (spec.root_class or lane.storage_class, int(spec.root_size))
        kept = disks if spec.container_disk else (root, *disks)
        fleets += [Footprint(name, n, size.cpus, *takes, lane.dedicated_cpus, kept) for n in range(manifests.fleet)]
        if storm:
            image = (lane.storage_class, int(spec.root_size))  # of the lane, whatever root_class says
            golden += [image] * len(manifests.goldens(name, spec.nodes))
            whole = (image, *disks)
            one = (Footprint(name, n, size.cpus, *takes, lane.dedicated_cpus, whole) for n in range(storm))
            storms.append(tuple(one))
    most = max(manifests.fleet, storm)
    return Demand(tuple(fleets), tuple(storms), tuple(golden), len(lanes), spec.nodes, most)


def _pod(size: Size, lane: StorageClassSpec, configuration: Object) -> tuple[float, int]:
    """Cores and bytes that the pod of a machine requests, as KubeVirt works it out: a virtual CPU is a tenth of a core
    unless cpuAllocationRatio says otherwise, or a whole one if it is pinned; memory by ``GetMemoryOverhead`` (both in
    pkg/hypervisor/kvm of kubevirt/kubevirt, read at 142934c). The threads of a pool get cores of their own."""
    ratio = float((configuration.get("developerConfiguration") or {}).get("cpuAllocationRatio") or _RATIO)
    cores = size.cpus if lane.dedicated_cpus else size.cpus / ratio
    cores += (lane.io_threads or 0) + lane.isolate_emulator_thread
    around = size.memory // 512 + (_PROCESSES + 8 * size.cpus + 100 * lane.dedicated_cpus) * _MIB
    return cores, size.memory + int(around * float(configuration.get("additionalGuestMemoryOverheadRatio") or 1))


# --- nodes

PINNING = "cpumanager"
"""Label of nodes whose kubelet has a static CPU manager, which KubeVirt demands for pinned processors."""


@dataclass(frozen=True)
class Room:
    """What a node has left for machines."""

    name: str
    cpus: float
    """Allocatable cores."""
    cpu: float
    """Cores that no pod requests."""
    memory: float
    """Bytes that no pod requests."""
    pods: float
    labels: Mapping[str, str]
    kvm: bool


def usable(nodes: Sequence[Object], selector: Mapping[str, str]) -> list[Object]:
    """Nodes that machines may be placed on, by name: ready, not cordoned, with KubeVirt's agent (label
    kubevirt.io/schedulable), without a taint that keeps pods away, and with the labels of ``selector``."""
    return sorted(
        (node for node in nodes if not why_not(node, selector)), key=lambda node: str(node["metadata"]["name"])
    )


def labels_of(study: "Study") -> dict[str, str]:
    """Labels that nodes must have to carry the study's machines: what it asks for, and KubeVirt's own word for a node
    that pins processors, where a lane wants that."""
    spec: Any = study.platform
    pinned = any(isinstance(lane, StorageClassSpec) and lane.dedicated_cpus for lane in study.lanes.values())
    return {**spec.node_selector, **({PINNING: "true"} if pinned else {})}


def why_not(node: Object, selector: Mapping[str, str]) -> str:
    """Why no machine is placed on ``node``; empty: it may be."""
    labels = node["metadata"].get("labels") or {}
    spec = node.get("spec") or {}
    conditions = (node.get("status") or {}).get("conditions") or []
    if lacking := [key for key, value in selector.items() if labels.get(key) != value]:
        return f"has not the label {lacking[0]}={selector[lacking[0]]}"
    if not any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return "is not ready"
    if spec.get("unschedulable"):
        return "is cordoned"
    if taints := [t for t in spec.get("taints") or [] if t.get("effect") in ("NoSchedule", "NoExecute")]:
        return f"has the taint {taints[0].get('key')}"
    if labels.get("kubevirt.io/schedulable") != "true":
        return "has no KubeVirt agent (label kubevirt.io/schedulable=true)"
    return ""


def room(node: Object, pods: Sequence[Object]) -> Room:
    """What ``node`` has left beside ``pods`` (of any node); without any, all that is allocatable."""
    name = str(node["metadata"]["name"])
    has = (node.get("status") or {}).get("allocatable") or {}
    mine = [
        pod
        for pod in pods
        if (pod.get("spec") or {}).get("nodeName") == name
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]
    cpus = quantity(has.get("cpu", 0))
    return Room(
        name,
        cpus,
        cpus - sum(_requested(pod, "cpu") for pod in mine),
        quantity(has.get("memory", 0)) - sum(_requested(pod, "memory") for pod in mine),
        quantity(has.get("pods", 0)) - len(mine),
        node["metadata"].get("labels") or {},
        quantity(has.get("devices.kubevirt.io/kvm", 0)) > 0,
    )


def _requested(pod: Object, resource: str) -> float:
    """As the scheduler counts it, without sidecars that are init containers."""

    def of(container: Object) -> float:
        return quantity(((container.get("resources") or {}).get("requests") or {}).get(resource, 0))

    spec = pod.get("spec") or {}
    begin = max((of(c) for c in spec.get("initContainers") or []), default=0.0)
    overhead = quantity((spec.get("overhead") or {}).get(resource, 0))
    return max(begin, sum(of(c) for c in spec.get("containers") or [])) + overhead


def placed(needs: Demand, where: Sequence[str]) -> dict[str, list[Footprint]]:
    """Machines by node. ``where``: the node of machine n of every lane."""
    out: dict[str, list[Footprint]] = {name: [] for name in where}
    for one in needs.machines:
        out[where[one.number]].append(one)
    return out


# --- quota

_COUNTED = ("count/virtualmachines.kubevirt.io", "count/virtualmachineinstances.kubevirt.io")


def asked(needs: Demand) -> dict[str, float]:
    """What a ResourceQuota would count of ``needs``: its key -> amount."""
    pods = len(needs.machines)
    claims, memory, cores = needs.all_claims, needs.memory, needs.cpu_request
    found: dict[str, float] = {
        **dict.fromkeys(("pods", "count/pods", *_COUNTED), pods),
        **dict.fromkeys(("persistentvolumeclaims", "count/persistentvolumeclaims"), claims),
        **{"requests.cpu": cores, "cpu": cores, "requests.memory": memory, "memory": memory},
        "requests.storage": needs.all_storage,
    }
    for name, size in needs.storage.items():
        found[f"{name}.storageclass.storage.k8s.io/requests.storage"] = size
        found[f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims"] = needs.claims[name]
    return found


def exceeded(quota: Object, needs: Demand) -> list[tuple[str, float, float]]:
    """Of a ResourceQuota: (key, what is needed, what is left) for each that does not suffice."""
    status = quota.get("status") or {}
    hard = status.get("hard") or (quota.get("spec") or {}).get("hard") or {}
    used = status.get("used") or {}
    wanted = asked(needs)
    left = {key: quantity(most) - quantity(used.get(key, 0)) for key, most in hard.items() if key in wanted}
    return [(key, wanted[key], left[key]) for key in left if wanted[key] > left[key]]
