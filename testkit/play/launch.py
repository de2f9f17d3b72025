"""The half of KubeVirt's virt-controller and virt-handler that runs VMIs, and the scheduler's choice of a node.

Each phase has the stamp of its writer's clock: up to Scheduled virt-controller's, from Running on virt-handler's, which
is the node's.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from testkit.play.client import Refused
from testkit.play.compute import FINAL, KEEPS
from testkit.play.kinds import (
    DATA_VOLUME,
    NODE,
    POD,
    PV,
    PVC,
    STORAGE_CLASS,
    VMI,
    Object,
    annotation,
    condition,
    deleting,
    key,
    owner,
    phase,
    quantity,
    stamp,
    volumes,
)
from testkit.play.machines import Disk, Machines
from testkit.play.world import World

NODE_LABEL = "kubevirt.io/nodeName"
SELECTED = "volume.kubernetes.io/selected-node"


@dataclass
class Launch:
    """Starts VMIs on ``machines``."""

    machines: Machines

    async def instance(self, world: World, vmi: Object) -> None:
        """Advances a VMI one step."""
        if deleting(vmi):
            return await self._end(world, vmi)
        now = phase(vmi)
        if not now:
            await _enter(world, vmi, "Pending")
        elif now == "Pending":
            if await _bound(world, vmi):
                await _enter(world, vmi, "Scheduling")
        elif now == "Scheduling":
            await self._schedule(world, vmi)
        elif now == "Scheduled":
            await self._start(world, vmi)
        elif now == "Running":
            await self._agent(world, vmi)
        return None

    async def _schedule(self, world: World, vmi: Object) -> None:
        fault = world.behaviour.fail_vm.get(vmi["metadata"]["name"], "")
        node = "" if fault == "ErrorUnschedulable" else _node(world, vmi)
        if not node:
            none = f"0/{len(world.all(NODE))} nodes are available"
            message = f"{none}: no node fits the nodeSelector or has room. preemption: {none}."
            if not _has(vmi, "PodScheduled", "False"):
                conditions = [condition("PodScheduled", true=False, reason="Unschedulable", message=message)]
                await world.status(VMI, vmi, {"conditions": conditions}, step="Unschedulable")
            world.later(key(VMI, vmi), 1.0)  # a node may come
        elif fault in ("ErrImagePull", "ImagePullBackOff"):
            if not _has(vmi, "Synchronized", "False"):
                message = "failed to pull image: manifest unknown"
                conditions = [condition("Synchronized", true=False, reason=fault, message=message)]
                await world.status(VMI, vmi, {"conditions": conditions}, step=fault)
        elif world.due(VMI, vmi, "schedule", world.behaviour.schedule):
            if world.behaviour.pods:
                await _pod(world, vmi, node)
            if _has(vmi, "PodScheduled", "False"):
                vmi = await world.status(VMI, vmi, {"conditions": []})
            vmi = await world.patch(VMI, vmi, {"metadata": {"labels": {NODE_LABEL: node}}})
            await _enter(world, vmi, "Scheduled", nodeName=node)

    async def _start(self, world: World, vmi: Object) -> None:
        if not world.due(VMI, vmi, "start", world.behaviour.start):
            return
        if world.behaviour.fail_vm.get(vmi["metadata"]["name"]) == "CrashLoopBackOff":
            await _enter(world, vmi, "Failed", reason="the played guest fails before it runs")
            return
        try:
            await self.machines.start(world.client, vmi, _disks(world, vmi))
        except Exception as error:
            await world.event(VMI, vmi, "SyncFailed", f"{type(error).__name__}: {error}"[:1000], "Warning")
            await _enter(world, vmi, "Failed", reason="the machine did not start")
            return
        skew = world.behaviour.skew.get(vmi["status"]["nodeName"], 0.0)
        conditions = [
            condition("Ready", true=True, skew=skew),
            condition("LiveMigratable", true=False, reason="DisksNotLiveMigratable", skew=skew),
        ]
        await _enter(
            world, vmi, "Running", skew, interfaces=[_interface(vmi)], conditions=conditions,
            volumeStatus=_volume_status(world, vmi), qosClass="Burstable", migrationTransport="Unix",
            machine={"type": "pc-q35-rhel9.6.0"},
        )  # fmt: skip

    async def _agent(self, world: World, vmi: Object) -> None:
        wait = world.behaviour.agent
        if wait is None or _has(vmi, "AgentConnected", "True") or not world.due(VMI, vmi, "agent", wait):
            return
        skew = world.behaviour.skew.get(vmi["status"].get("nodeName", ""), 0.0)
        conditions = [*(vmi["status"].get("conditions") or ()), condition("AgentConnected", true=True, skew=skew)]
        await world.status(VMI, vmi, {"conditions": conditions}, step="AgentConnected")

    async def _end(self, world: World, vmi: Object) -> None:
        if not world.due(VMI, vmi, "stop", world.behaviour.stop):
            return
        meta = vmi["metadata"]
        await self.machines.stop(meta["namespace"], meta["name"])
        if phase(vmi) not in FINAL:
            vmi = await _enter(world, vmi, "Succeeded")
        await world.release(VMI, vmi, KEEPS, "foregroundDeleteVirtualMachine", "foregroundDeletion")

    async def fail(
        self, world: World, vmi: Object, reason: str, message: str = "the virt-launcher pod was ended"
    ) -> None:
        """Kills its machine, like an eviction without live migration. ``message``: of the event."""
        meta = vmi["metadata"]
        await self.machines.stop(meta["namespace"], meta["name"])
        await world.event(VMI, vmi, reason, message[:1000], "Warning")
        try:
            await _enter(world, vmi, "Failed", reason=reason)
        except Refused as refused:
            if refused.status != 404:  # its owner lost the machine first, and deleted it
                raise


def _interface(vmi: Object) -> Object:
    """An address in the pod network without a listener: guests are reached through the API server only."""
    number = int(vmi["metadata"]["uid"][:6], 16)
    address = f"10.{128 + number % 64}.{number // 64 % 256}.{1 + number // 16384 % 254}"
    mac = ":".join(f"{number:06x}"[i : i + 2] for i in (0, 2, 4))
    return {"name": "default", "ipAddress": address, "ipAddresses": [address], "podInterfaceName": "eth0",
            "infoSource": "domain", "mac": f"52:54:00:{mac}", "queueCount": 1}  # fmt: skip


async def _enter(world: World, vmi: Object, new: str, skew: float = 0.0, **status: Any) -> Object:
    entered = {"phase": new, "phaseTransitionTimestamp": stamp(skew)}
    passed = [*((vmi.get("status") or {}).get("phaseTransitionTimestamps") or ()), entered]
    if new in FINAL:
        status["conditions"] = [condition("Ready", true=False, reason="PodTerminating")]
    return await world.status(VMI, vmi, {**status, "phase": new, "phaseTransitionTimestamps": passed}, step=new)


def _has(vmi: Object, name: str, status: str) -> bool:
    conditions = (vmi.get("status") or {}).get("conditions") or ()
    return any(c["type"] == name and c["status"] == status for c in conditions)


async def _bound(world: World, vmi: Object) -> bool:
    """Whether all volumes are bound. Volumes that wait for their first consumer get its node."""
    who, done = key(VMI, vmi), True
    for _, name in volumes(vmi):
        claim = world.look(who, PVC, who[1], name)
        filled = world.look(who, DATA_VOLUME, who[1], name)
        if phase(claim) == "Bound" and (not filled or phase(filled) == "Succeeded"):
            continue
        done = False
        undecided = claim and phase(claim) == "Pending" and not annotation(claim, SELECTED)
        if claim and undecided and waits(world, claim) and (node := _node(world, vmi)):
            body = {"metadata": {"annotations": {SELECTED: node}}}
            await world.patch(PVC, claim, body, step="consumer scheduled")
    return done


def waits(world: World, claim: Object) -> bool:
    """Whether a claim's class binds it only once its consumer's node is known."""
    class_ = world.get(STORAGE_CLASS, "", claim["spec"].get("storageClassName", ""))
    return class_ is not None and class_.get("volumeBindingMode") == "WaitForFirstConsumer"


def _node(world: World, vmi: Object) -> str:
    """The ready node with the fewest VMIs among those allowed by nodeSelector and volumes; empty: none. Ignores
    affinity and capacity."""
    wanted = dict(vmi["spec"].get("nodeSelector") or {})
    for _, name in volumes(vmi):
        claim = world.get(PVC, vmi["metadata"]["namespace"], name)
        if claim and (node := annotation(claim, SELECTED)):
            wanted.setdefault("kubernetes.io/hostname", node)
    fit = []
    for one in world.all(NODE):
        labels = one["metadata"].get("labels") or {}
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"].get("conditions") or ())
        if ready and not one["spec"].get("unschedulable") and all(labels.get(k) == v for k, v in wanted.items()):
            fit.append(str(one["metadata"]["name"]))
    if len(fit) < 2:
        return fit[0] if fit else ""
    taken = Counter(str((other.get("status") or {}).get("nodeName")) for other in world.all(VMI))
    return min(fit, key=lambda name: (taken[name], name))


def _disks(world: World, vmi: Object) -> list[Disk]:
    """The VMI's disks on claims, in its order."""
    claims = dict(volumes(vmi))
    result = []
    for disk in vmi["spec"]["domain"]["devices"].get("disks") or ():
        if disk["name"] not in claims:
            continue
        claim = world.get(PVC, vmi["metadata"]["namespace"], claims[disk["name"]])
        assert claim  # it is bound
        kind = world.get(STORAGE_CLASS, "", claim["spec"].get("storageClassName", "")) or {}
        result.append(Disk(
            name=disk["name"], volume=claim["spec"]["volumeName"], serial=disk.get("serial", ""),
            bus=(disk.get("disk") or {}).get("bus", "virtio"), parameters=kind.get("parameters") or {},
            own_thread=bool(disk.get("dedicatedIOThread")), cache=disk.get("cache", "none"),
        ))  # fmt: skip
    return result


def _volume_status(world: World, vmi: Object) -> list[Object]:
    statuses: list[Object] = []
    claims = dict(volumes(vmi))
    for number, disk in enumerate(vmi["spec"]["domain"]["devices"].get("disks") or ()):
        letter = chr(ord("a") + number % 26)
        bus = (disk.get("disk") or disk.get("cdrom") or {}).get("bus", "virtio")
        volume_status: Object = {"name": disk["name"], "target": ("vd" if bus == "virtio" else "sd") + letter}
        claim = world.get(PVC, vmi["metadata"]["namespace"], claims.get(disk["name"], ""))
        if claim:
            volume_status["persistentVolumeClaimInfo"] = {
                "claimName": claim["metadata"]["name"], "accessModes": claim["spec"].get("accessModes"),
                "volumeMode": claim["spec"].get("volumeMode"), "capacity": claim["status"].get("capacity"),
                "requests": claim["spec"]["resources"]["requests"],
            }  # fmt: skip
            volume = world.get(PV, "", claim["spec"]["volumeName"])
            volume_status["size"] = quantity(volume["spec"]["capacity"]["storage"]) if volume else 0
        statuses.append(volume_status)
    return statuses


async def _pod(world: World, vmi: Object, node: str) -> None:
    """A running virt-launcher Pod as clients see it, without content."""
    meta = vmi["metadata"]
    name = f"virt-launcher-{meta['name'][:40]}-{meta['uid'][:5]}"
    if world.get(POD, meta["namespace"], name):
        return
    labels = {**(meta.get("labels") or {}), "kubevirt.io": "virt-launcher", "kubevirt.io/created-by": meta["uid"],
              "vm.kubevirt.io/name": meta["name"]}  # fmt: skip
    container = {"name": "compute", "image": "registry.example/kubevirt/virt-launcher:played"}
    pod = await world.create(POD, {
        "metadata": {"name": name, "labels": labels, "ownerReferences": owner(VMI, vmi)},
        "spec": {"containers": [container], "nodeName": node, "terminationGracePeriodSeconds": 0},
    }, meta["namespace"])  # fmt: skip
    state = {"phase": "Running", "conditions": [condition("Ready", true=True)], "startTime": stamp()}
    await world.status(POD, pod, state, step="Running")
