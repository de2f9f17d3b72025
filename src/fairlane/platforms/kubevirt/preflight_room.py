"""Whether a study's machines fit: the namespace, its quotas and limits, and the nodes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairlane.errors import RunFailed
from fairlane.platforms._examined import Line
from fairlane.platforms.kubevirt import capacity, kinds, placement
from fairlane.platforms.kubevirt.api_errors import plain
from fairlane.platforms.kubevirt.cached_reader import Reading

if TYPE_CHECKING:
    from fairlane.study.spec import Study

Object = Mapping[str, Any]

_STATIC = "kubelet: cpuManagerPolicy: static; KubeVirt: feature gate CPUManager, which labels such nodes"


async def examine(see: Reading, study: "Study", configuration: Object, namespace: str = "") -> list[Line]:
    """The namespace and the nodes that ``study`` would use. ``configuration``: of the KubeVirt object."""
    spec: Any = study.platform
    lines, size = await _sized(see, spec.instance_type) if spec.instance_type else ([], None)
    wanted = capacity.demand(study, configuration, size)
    if getattr(spec, "use_existing", False):
        lines += await _namespace(see, namespace or spec.namespace, wanted)
    else:
        lines.append(
            Line("quota", "ok", "the run's own namespace begins without, unless a policy of the cluster adds one")
        )
    return [*lines, *await _nodes(see, study, wanted, configuration)]


async def _sized(see: Reading, name: str) -> tuple[list[Line], capacity.Size | None]:
    """The instance type, and what it gives a machine."""
    found = await see.get(kinds.CLUSTER_INSTANCE_TYPE, name)
    if found is None and see.refused(kinds.CLUSTER_INSTANCE_TYPE):
        return [Line("instance type", "warn", f"{name} may not be read: the room for it is guessed")], None
    if found is None:
        fix = "kubectl get virtualmachineclusterinstancetypes"
        return [Line("instance type", "missing", f"there is no {name}", fix)], None
    spec = found.get("spec") or {}
    cpus, memory = int(spec["cpu"]["guest"]), int(capacity.quantity(spec["memory"]["guest"]))
    told = f"{name}: {cpus} virtual CPUs, {capacity.sized(memory)}"
    return [Line("instance type", "ok", told)], capacity.Size(cpus, memory)


# --- namespace


async def _namespace(see: Reading, name: str, wanted: capacity.Demand) -> list[Line]:
    there = await see.get(kinds.NAMESPACE, name)
    if there is None:
        if see.refused(kinds.NAMESPACE):
            return [Line("namespace", "warn", f"{name} may not be read")]
        fix = f"kubectl create namespace {name}; or use_existing: false, for one per run"
        return [Line("namespace", "missing", f"there is no namespace {name}", fix)]
    if there["metadata"].get("deletionTimestamp"):
        return [Line("namespace", "missing", f"{name} is being removed", "wait until it is gone, or take another")]
    lines = [Line("namespace", "ok", name)]
    quotas = await see.list(kinds.QUOTA, name)
    over = [(plain(str(q["metadata"]["name"])), *one) for q in quotas or () for one in capacity.exceeded(q, wanted)]
    for quota, key, need, left in over:
        told = f"{quota}: {amount(key, need)} of {key} are needed, {amount(key, left)} are left"
        lines.append(Line("quota", "missing", plain(told), "raise it, or take fewer machines or smaller disks"))
    if quotas is not None and not over:
        lines.append(Line("quota", "ok", f"{len(quotas)} of {name} leave room" if quotas else f"{name} has none"))
    for limits in await see.list(kinds.LIMIT_RANGE, name) or ():
        lines += _limits(limits, wanted)
    return lines


def amount(key: str, value: float) -> str:
    """A figure of a quota as people write it."""
    if key.endswith(("memory", "requests.storage")):
        return capacity.sized(max(0, int(value)))
    return f"{value:.10g}"


def _limits(limits: Object, wanted: capacity.Demand) -> list[Line]:
    """What a LimitRange refuses, and the limit it would silently put on a machine's CPUs."""
    name = plain(str(limits["metadata"]["name"]))
    if not wanted.machines:
        return []
    lines = []
    biggest = max(wanted.machines, key=lambda one: one.memory)
    sizes = [size for one in wanted.machines for _, size in one.storage]
    for item in (limits.get("spec") or {}).get("limits") or []:
        kind, most, least = item.get("type"), item.get("max") or {}, item.get("min") or {}
        if kind == "PersistentVolumeClaim" and "storage" in most and max(sizes) > capacity.quantity(most["storage"]):
            told = f"{name}: a claim may have {most['storage']}, the largest here has {capacity.sized(max(sizes))}"
            lines.append(Line("limits", "missing", plain(told), "raise it, or a smaller disk_size and root_size"))
        if kind == "PersistentVolumeClaim" and "storage" in least and min(sizes) < capacity.quantity(least["storage"]):
            told = f"{name}: a claim must have {least['storage']}, the smallest here has {capacity.sized(min(sizes))}"
            lines.append(Line("limits", "missing", plain(told), "lower it, or a larger disk_size and root_size"))
        if kind in ("Container", "Pod") and "memory" in most and biggest.memory > capacity.quantity(most["memory"]):
            told = (
                f"{name}: a {kind.lower()} may have {most['memory']}, a machine needs {capacity.sized(biggest.memory)}"
            )
            lines.append(Line("limits", "missing", plain(told), "raise it, or less platform.memory"))
        if kind in ("Container", "Pod") and "cpu" in most and biggest.cpu_request > capacity.quantity(most["cpu"]):
            told = f"{name}: a {kind.lower()} may have {most['cpu']} CPUs, a machine requests {biggest.cpu_request:g}"
            lines.append(Line("limits", "missing", plain(told), "raise it, or fewer platform.cpus"))
        if kind == "Container" and "cpu" in (item.get("default") or {}):
            told = f"{name}: every container gets a limit of {item['default']['cpu']} CPUs: machines would be throttled"
            lines.append(Line("limits", "warn", plain(told), "a namespace without a default limit of CPUs"))
    return lines


# --- nodes


async def _nodes(see: Reading, study: "Study", wanted: capacity.Demand, configuration: Object) -> list[Line]:
    spec: Any = study.platform
    found = await see.list(kinds.NODE)
    if found is None:
        return [Line("nodes", "warn", "may not be read")]
    selector = dict(spec.node_selector)
    pinned = any(one.dedicated for one in wanted.machines)
    usable = capacity.usable(found, selector)
    if pinned:
        able = [node for node in usable if node["metadata"]["labels"].get(capacity.PINNING) == "true"]
        if len(able) < wanted.nodes <= len(usable):
            told = f"dedicated_cpus: {len(able)} of {len(usable)} usable nodes pin CPUs (label cpumanager=true)"
            return [Line("nodes", "missing", told, _STATIC)]
        usable = able
    if len(usable) < wanted.nodes:
        return [Line("nodes", "missing", *_too_few(found, selector, len(usable), wanted.nodes))]
    pods = await see.list(kinds.POD)
    rooms = {room.name: room for room in (capacity.room(node, pods or ()) for node in usable[: wanted.nodes])}
    lines = [Line("nodes", "ok", plain(f"{len(usable)} of {len(found)} are usable; machines go to {', '.join(rooms)}"))]
    emulated = (configuration.get("developerConfiguration") or {}).get("useEmulation")
    if without := [name for name, room in rooms.items() if not room.kvm]:
        told = plain(f"{', '.join(without)}: no KVM (devices.kubevirt.io/kvm)")
        fix = "nodes with hardware virtualization, by node_selector"
        lines.append(Line("KVM", "warn" if emulated else "missing", told, fix))
    count = max((one.number + 1 for one in wanted.machines), default=0)
    row = [one for one in wanted.machines if one.number == 0]
    packed = {room.name: placement.fits(room, row) for room in rooms.values()} if spec.spread == "packed" else None
    try:
        where = placement.dealt(count, list(rooms), packed)
    except RunFailed as error:
        return [*lines, Line("room", "missing", plain(error.message), error.hint)]
    short = []
    for name, machines in capacity.placed(wanted, where).items():
        short += _short(rooms[name], machines)
    lines += short
    if not short:
        known = "" if pods is not None else "; what other pods request may not be read, and is not counted"
        told = f"{len(wanted.machines)} machines of {wanted.lanes} lanes fit: {wanted.cpu_request:g} cores, "
        lines.append(Line("room", "ok", f"{told}{capacity.sized(wanted.memory)} of memory{known}"))
    return [*lines, *_crowded(wanted, rooms, where)]


def _too_few(found: Sequence[Object], selector: Mapping[str, str], usable: int, wanted: int) -> tuple[str, str]:
    why = {str(node["metadata"]["name"]): capacity.why_not(node, selector) for node in found}
    reasons = "; ".join(f"{name} {reason}" for name, reason in list(why.items())[:5] if reason)
    told = f"{wanted} are asked for, {usable} of {len(found)} can be used" + (f": {reasons}" if reasons else "")
    return plain(told), "fewer nodes, another node_selector, or mend them"


def _short(room: capacity.Room, machines: Sequence[capacity.Footprint]) -> list[Line]:
    """What a node lacks for the machines that go to it."""
    cpu, memory = sum(one.cpu_request for one in machines), sum(one.memory for one in machines)
    lines = []
    for what, need, left in (
        ("cores", f"{cpu:g}", f"{max(0.0, room.cpu):g}") if cpu > room.cpu else ("", "", ""),
        ("memory", capacity.sized(memory), capacity.sized(max(0, int(room.memory))))
        if memory > room.memory
        else ("", "", ""),
        ("pods", f"{len(machines)}", f"{max(0.0, room.pods):g}") if len(machines) > room.pods else ("", "", ""),
    ):
        if what:
            told = f"{room.name}: its {len(machines)} machines request {need} of {what}, {left} are left"
            fix = "more nodes, fewer machines, or smaller ones: the fleets of all lanes stand side by side"
            lines.append(Line("room", "missing", plain(told), fix))
    return lines


def _crowded(wanted: capacity.Demand, rooms: Mapping[str, capacity.Room], where: Sequence[str]) -> list[Line]:
    """More virtual CPUs under load at one moment than a node has: machines wait for cores, not for storage."""
    each = max((one.cpus for one in wanted.machines), default=0)
    loaded = Counter(where[: wanted.under_load])
    crowded = [
        f"{name} has {rooms[name].cpus:g} cores for {count * each} virtual CPUs of a lane under load"
        for name, count in loaded.items()
        if count * each > rooms[name].cpus
    ]
    if not crowded:
        return []
    told = f"machines would wait for cores, not for storage: {', '.join(crowded)}"
    return [Line("CPUs", "warn", plain(told), "more nodes, or fewer platform.cpus")]
