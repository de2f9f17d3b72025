"""Choose the node of each machine. Machine n of every lane runs on the same node, so that lanes take turns on the same
hardware; the scheduler would choose differently in every run. Each provisioning begins at the next node. Lanes do not
cross over nodes within one: every lane has a machine on each of its nodes already. Pure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairlane.errors import RunFailed
from fairlane.lanes.storage_class import StorageClassSpec
from fairlane.platforms.kubevirt.manifests import HOSTNAME, Manifests
from fairlane.platforms.kubevirt.readback import quantity

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.spec import KubevirtSpec
    from fairlane.study.spec import Study

Object = Mapping[str, Any]

_PINNING = "cpumanager"
"""KubeVirt's label for nodes with a static CPU manager, required by ``dedicated_cpus``."""
_STATIC = "set cpuManagerPolicy: static in the kubelet; KubeVirt's feature gate CPUManager labels such nodes"
_NAMED = 5
"""Most nodes named in an error."""
_PROCESSES = 25 + 100 + 25 + 40 + 30 + 8 + 32
"""MiB for virt-launcher and its monitor, virtlogd, virtqemud, QEMU, IO threads and the graphics card
(``GetMemoryOverhead`` of kubevirt/kubevirt at 142934c)."""
_VCPUS_PER_CORE = 10
"""KubeVirt's default ``cpuAllocationRatio``: a virtual CPU requests a tenth of a core."""


def chosen(nodes: Sequence[Object], study: "Study", provisioning: int = 0) -> list[Object]:
    """The nodes for a provisioning of ``study``: ``platform.nodes`` of the usable ones by name. Each provisioning
    starts at the next one, so that machines and lanes move to other nodes. Raises RunFailed with the reason for each
    unusable node."""
    spec: Any = study.platform
    every, reasons = _sorted_out(nodes, study)
    if len(every) < spec.nodes:
        named = "; ".join([f"{name} {reason}" for name, reason in sorted(reasons.items()) if reason][:_NAMED])
        raise RunFailed(
            "nodes-missing",
            f"platform.nodes: {spec.nodes}, but {len(every)} of {len(nodes)} are usable{f': {named}' if named else ''}",
            hint=_STATIC if _PINNING in named else "use fewer nodes or another node_selector, or repair the nodes",
        )
    first = provisioning % len(every)
    return (every[first:] + every[:first])[: spec.nodes]


def usable(nodes: Sequence[Object], study: "Study") -> list[str]:
    """Names of the nodes that provisionings of ``study`` may use."""
    return [str(node["metadata"]["name"]) for node in _sorted_out(nodes, study)[0]]


def _sorted_out(nodes: Sequence[Object], study: "Study") -> tuple[list[Object], dict[str, str]]:
    """The usable nodes by name; for each node why it is not usable, empty: it is."""
    labels = _labels(study)
    reasons = {str(node["metadata"]["name"]): _why_not(node, labels) for node in nodes}
    ordered = sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
    return [node for node in ordered if not reasons[node["metadata"]["name"]]], reasons


def _labels(study: "Study") -> dict[str, str]:
    """Labels that nodes need: those of ``node_selector``, and KubeVirt's for pinned processors if a lane has them."""
    spec: Any = study.platform
    pinned = any(lane.dedicated_cpus for lane in _lanes(study))
    return {**spec.node_selector, **({_PINNING: "true"} if pinned else {})}


def _lanes(study: "Study") -> list[StorageClassSpec]:
    return [lane for lane in study.lanes.values() if isinstance(lane, StorageClassSpec)]


def _why_not(node: Object, required: Mapping[str, str]) -> str:
    """Why ``node`` cannot run machines; empty: it can."""
    labels = node["metadata"].get("labels") or {}
    spec = node.get("spec") or {}
    conditions = (node.get("status") or {}).get("conditions") or []
    if missing := [key for key, value in required.items() if labels.get(key) != value]:
        return f"lacks the label {missing[0]}={required[missing[0]]}"
    if not any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return "is not ready"
    if spec.get("unschedulable"):
        return "is cordoned"
    if taints := [t for t in spec.get("taints") or [] if t.get("effect") in ("NoSchedule", "NoExecute")]:
        return f"has the taint {taints[0].get('key')}"
    if labels.get("kubevirt.io/schedulable") != "true":
        return "has no KubeVirt agent (label kubevirt.io/schedulable=true)"
    return ""


def hosts(nodes: Sequence[Object]) -> dict[str, str]:
    """Node name -> its hostname for nodeSelectors."""
    names = ((str(node["metadata"]["name"]), node["metadata"].get("labels") or {}) for node in nodes)
    return {name: str(labels.get(HOSTNAME, name)) for name, labels in names}


def dealt(count: int, nodes: Sequence[str], fits: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """Nodes of machines 0 to ``count`` - 1: in turn; or with ``fits`` (machines that fit on each node), node after node
    (``spread: packed``). Raises RunFailed if they do not fit."""
    if fits is None:
        return tuple(nodes[number % len(nodes)] for number in range(count))
    placed = [node for node in nodes for _ in range(fits.get(node, 0))]
    if len(placed) < count:
        raise RunFailed(
            "nodes-full",
            f"{len(nodes)} node{'s have' if len(nodes) > 1 else ' has'} room for {len(placed)} of {count} machines",
            hint="use more nodes, or fewer or smaller machines; spread: even may overcommit nodes",
        )
    return tuple(placed[:count])


# --- spread: packed


def fits(study: "Study", node: Object, pods: Sequence[Object]) -> int:
    """Machines of every lane that fit on ``node`` beside ``pods`` (of any node). An estimate: the scheduler decides,
    and a machine that it cannot place stays Pending."""
    manifests = Manifests(study, "", "")
    each = [_requests(manifests.spec, lane) for lane in _lanes(study)]
    storm = any(cell.kind == "clone" for cell in study.cells())  # one lane at a time
    machines = [*(each if manifests.fleet else []), *([max(each)] if storm else [])]
    running = [
        pod
        for pod in pods
        if (pod.get("spec") or {}).get("nodeName") == node["metadata"]["name"]
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]
    total = (node.get("status") or {}).get("allocatable") or {}
    free = {
        name: quantity(total.get(name, 0)) - sum(_requested(p, name) for p in running) for name in ("memory", "cpu")
    }
    counts = [
        int(free["memory"] // sum(memory for memory, _ in machines)),
        int(free["cpu"] // sum(c for _, c in machines)),
    ]
    return max(0, min(*counts, int((quantity(total.get("pods", 0)) - len(running)) // len(machines))))


def _requests(spec: "KubevirtSpec", lane: StorageClassSpec) -> tuple[float, float]:
    """Bytes and cores that the pod of one machine requests."""
    cores = spec.cpus if lane.dedicated_cpus else spec.cpus / _VCPUS_PER_CORE
    overhead = spec.memory // 512 + (_PROCESSES + 8 * spec.cpus + 100 * lane.dedicated_cpus) * 2**20
    return spec.memory + overhead, cores + (lane.io_threads or 0) + lane.isolate_emulator_thread


def _requested(pod: Object, resource: str) -> float:
    """Requests of ``pod`` as the scheduler counts them, without sidecars (restartable init containers)."""

    def of(container: Object) -> float:
        return quantity(((container.get("resources") or {}).get("requests") or {}).get(resource, 0))

    spec = pod.get("spec") or {}
    begin = max((of(c) for c in spec.get("initContainers") or []), default=0.0)
    overhead = quantity((spec.get("overhead") or {}).get(resource, 0))
    return max(begin, sum(of(c) for c in spec.get("containers") or [])) + overhead
