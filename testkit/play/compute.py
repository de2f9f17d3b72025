"""The half of KubeVirt's virt-controller that turns VirtualMachines into VMIs; ``launch`` runs those.

What it does to objects follows KubeVirt's documented behaviour.
"""

import copy

from testkit.play.kinds import (
    CLUSTER_INSTANCE_TYPE,
    DATA_VOLUME,
    INSTANCE_TYPE,
    PVC,
    VM,
    VMI,
    Object,
    condition,
    deleting,
    key,
    owner,
    phase,
    uid,
    volumes,
)
from testkit.play.world import World

KEEPS = "kubevirt.io/virtualMachineControllerFinalize"
_FILLED = ("Succeeded", "WaitForFirstConsumer", "PendingPopulation")
"""Phases of a DataVolume with which a VM continues: the last two wait for a consumer, which is its VMI."""
_RETRY = 10.0
"""Seconds until KubeVirt restarts a machine that failed before it ran: its first back-off."""
_RESTARTS = {"Always": ("Succeeded", "Failed"), "RerunOnFailure": ("Failed",)}
"""Run strategy -> phases of an ended VMI that is replaced; otherwise the ended one stays."""
FINAL = ("Succeeded", "Failed")


def strategy(vm: Object) -> str:
    """``runStrategy``, or its older form ``running``."""
    spec = vm["spec"]
    return str(spec.get("runStrategy") or ("Always" if spec.get("running") else "Halted"))


async def virtual_machine(world: World, vm: Object) -> None:
    """Advances a VirtualMachine one step."""
    who = key(VM, vm)
    vmi = world.look(who, VMI, *who[1:])
    if vmi and not _owned(vmi, vm):  # of an earlier machine of that name: deleted with its owner
        return
    if deleting(vm):
        if not vmi:
            await world.release(VM, vm, KEEPS)
        elif not deleting(vmi):
            await world.delete(VMI, vmi)
        return
    if KEEPS not in (vm["metadata"].get("finalizers") or ()):
        finalizers = [*(vm["metadata"].get("finalizers") or ()), KEEPS]
        vm = await world.patch(VM, vm, {"metadata": {"finalizers": finalizers}})
    filled, failed = await _data_volumes(world, vm)
    wanted, before = strategy(vm), vm.get("status") or {}
    status: Object = {}
    if vmi:
        status |= await _follow(world, vm, vmi, wanted)
        shown = _shown(world, vmi, wanted)
    elif failed:
        shown = "DataVolumeError"
    elif not filled:
        shown = "Provisioning"
    elif wanted in ("Halted", "Manual"):
        shown = "Stopped"
    elif (failure := before.get("startFailure")) and not world.due(
        VM, vm, f"try {failure['consecutiveFailCount']}", _RETRY
    ):
        shown = "CrashLoopBackOff"
    else:
        vmi = await world.create(VMI, await _instance(world, vm), who[1])
        shown = "Starting"
    ready = phase(vmi) == "Running" and bool(vmi and not deleting(vmi))
    status |= {"created": bool(vmi), "ready": ready, "printableStatus": shown, "runStrategy": wanted}
    status["observedGeneration"] = status["desiredGeneration"] = vm["metadata"].get("generation", 1)
    if not any(c["type"] == "Ready" and (c["status"] == "True") is ready for c in before.get("conditions") or ()):
        reason = "" if ready else ("GuestNotRunning" if vmi else "VMINotExists")
        status["conditions"] = [condition("Ready", true=ready, reason=reason)]
    await world.status(VM, vm, status, step=shown)


def _owned(vmi: Object, vm: Object) -> bool:
    return any(reference["uid"] == uid(vm) for reference in vmi["metadata"].get("ownerReferences") or ())


async def _data_volumes(world: World, vm: Object) -> tuple[bool, bool]:
    """Creates the DataVolumes of the templates; returns whether all are usable, and whether any failed."""
    who = key(VM, vm)
    phases = []
    for template in vm["spec"].get("dataVolumeTemplates") or ():
        meta = template["metadata"]
        volume = world.look(who, DATA_VOLUME, who[1], meta["name"])
        if not volume:
            volume = await world.create(DATA_VOLUME, {
                "metadata": {
                    "name": meta["name"], "annotations": meta.get("annotations") or {},
                    "labels": {**(meta.get("labels") or {}), "kubevirt.io/created-by": uid(vm)},
                    "ownerReferences": owner(VM, vm),
                },
                "spec": template["spec"],
            }, who[1])  # fmt: skip
        phases.append(phase(volume))
    return all(p in _FILLED for p in phases), "Failed" in phases


async def _follow(world: World, vm: Object, vmi: Object, wanted: str) -> Object:
    """Ends a VMI that should not exist or must be replaced; returns the VM's status."""
    if deleting(vmi):
        return {}
    failure = (vm.get("status") or {}).get("startFailure")
    if wanted == "Halted":
        await world.delete(VMI, vmi)
    elif phase(vmi) in _RESTARTS.get(wanted, ()):
        ran = any(t["phase"] == "Running" for t in vmi["status"].get("phaseTransitionTimestamps") or ())
        await world.delete(VMI, vmi)
        if not ran:
            count = (failure or {}).get("consecutiveFailCount", 0) + 1
            return {"startFailure": {"consecutiveFailCount": count, "lastFailedVMIUID": uid(vmi)}}
    elif phase(vmi) == "Running" and failure:
        return {"startFailure": None}
    return {}


def _shown(world: World, vmi: Object, wanted: str) -> str:
    """``printableStatus``."""
    now = phase(vmi)
    if now in FINAL:
        return "Stopped" if now == "Succeeded" or wanted not in _RESTARTS else "CrashLoopBackOff"
    if deleting(vmi):
        return "Stopping"
    return "Running" if now == "Running" else _hindered(world, vmi) or "Starting"


def _hindered(world: World, vmi: Object) -> str:
    """Why a VMI does not run yet, if it waits for more than time."""
    for state in vmi.get("status", {}).get("conditions") or ():
        if state["reason"] == "Unschedulable":
            return "ErrorUnschedulable"
        if state["type"] == "Synchronized" and state["status"] == "False":
            return str(state["reason"])
    space = vmi["metadata"]["namespace"]
    claims = [world.get(PVC, space, claim) for _, claim in volumes(vmi)]
    return "" if all(phase(claim) == "Bound" for claim in claims) else "WaitingForVolumeBinding"


async def _instance(world: World, vm: Object) -> Object:
    """The VMI of a VM: its template with instance type and KubeVirt's defaults applied."""
    template, meta = vm["spec"]["template"], vm["metadata"]
    own = template.get("metadata") or {}
    spec = copy.deepcopy(template["spec"])
    domain = spec.setdefault("domain", {})
    if kind := vm["spec"].get("instancetype"):
        namespaced = kind.get("kind", "").lower() == "virtualmachineinstancetype"
        of = INSTANCE_TYPE if namespaced else CLUSTER_INSTANCE_TYPE
        instancetype = await world.client.request("GET", of.path(meta["namespace"], kind["name"]))
        domain["cpu"] = {
            "sockets": instancetype["spec"]["cpu"]["guest"],
            "cores": 1,
            "threads": 1,
            **domain.get("cpu", {}),
        }
        domain["memory"] = {"guest": instancetype["spec"]["memory"]["guest"]}
    domain["cpu"] = {"cores": 1, "sockets": 1, "threads": 1, "model": "host-model", **domain.get("cpu", {})}
    domain.setdefault("machine", {"type": "q35"})
    domain.setdefault("firmware", {}).setdefault("uuid", uid(vm))
    domain.setdefault("devices", {})
    return {
        "metadata": {
            "name": meta["name"], "labels": {**(own.get("labels") or {})},
            "annotations": {**(own.get("annotations") or {}), "kubevirt.io/vm-generation": str(meta["generation"])},
            "ownerReferences": owner(VM, vm), "finalizers": [KEEPS, "foregroundDeleteVirtualMachine"],
        },
        "spec": spec,
    }  # fmt: skip
