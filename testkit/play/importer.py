"""CDI: DataVolumes and their claims, DataSources, and the StorageProfile of each storage class.

Claims of DataVolumes are filled before they are bound, like CDI's volume populators do; the populators' ``prime``
claims are omitted.
"""

import math

from testkit.play.client import Refused
from testkit.play.kinds import (
    CDI,
    DATA_SOURCE,
    DATA_VOLUME,
    PROFILE,
    PVC,
    SNAPSHOT,
    STORAGE_CLASS,
    Object,
    annotation,
    condition,
    deleting,
    key,
    owner,
    phase,
    quantity,
    stamp,
)
from testkit.play.launch import SELECTED, waits
from testkit.play.storage import CLONE_TYPE, FILLED_BY, POPULATES, SOURCE
from testkit.play.world import World

OVERHEAD = 0.06
"""Share of a Filesystem volume that CDI adds for the file system (its default filesystemOverhead)."""
_UNDER_WAY = {"import": "ImportInProgress", "blank": "ImportInProgress", "csi-clone": "CSICloneInProgress",
              "snapshot": "SnapshotForSmartCloneInProgress", "from-snapshot": "CloneFromSnapshotSourceInProgress",
              "copy": "CloneInProgress"}  # fmt: skip
_DEFAULTS = ("storageclass.kubevirt.io/is-default-virt-class", "storageclass.kubernetes.io/is-default-class")


async def data_volume(world: World, volume: Object) -> None:
    """Advances a DataVolume one step: its claim, and the phases of filling it."""
    who = key(DATA_VOLUME, volume)
    if deleting(volume) or phase(volume) in ("Succeeded", "Failed"):
        return
    claim = world.look(who, PVC, who[1], who[2])
    if not claim:
        try:
            claim = await _claim(world, volume)
        except Refused as refused:
            if "exceeded quota" in str(refused):
                await _phase(world, volume, "Pending")
                await world.event(DATA_VOLUME, volume, "ErrExceededQuota", str(refused), "Warning")
            raise
        if not claim:
            await _phase(world, volume, "Pending")
            return
    way = annotation(claim, FILLED_BY)
    kind = annotation(claim, CLONE_TYPE)
    if kind and annotation(volume, CLONE_TYPE) != kind:
        volume = await world.patch(DATA_VOLUME, volume, {"metadata": {"annotations": {CLONE_TYPE: kind}}})
    await _phase(world, volume, _next(world, volume, claim, way), claim)


def _next(world: World, volume: Object, claim: Object, way: str) -> str:
    """The next phase of a DataVolume with a claim."""
    older = annotation(claim, POPULATES) == "false"
    if phase(claim) == "Bound":
        if not older:
            return "Succeeded"
        pace = world.behaviour.paces.get(claim["spec"]["storageClassName"], world.behaviour.pace)
        if world.due(DATA_VOLUME, volume, "fill", pace.of(way)):
            return "Succeeded"
    elif waits(world, claim) and not annotation(claim, SELECTED):
        return "WaitForFirstConsumer" if older else "PendingPopulation"
    if not way:  # Kubernetes fills it, not CDI
        return "Pending"
    if phase(volume) in ("", "Pending", "PendingPopulation", "WaitForFirstConsumer"):
        return "ImportScheduled" if way in ("import", "blank") else "CloneScheduled"
    return _UNDER_WAY[way]


async def _phase(world: World, volume: Object, new: str, claim: Object | None = None) -> Object:
    if phase(volume) == new:
        return volume
    bound, done = phase(claim) == "Bound", new == "Succeeded"
    status: Object = {
        "phase": new, "progress": "100.0%" if done else "N/A",
        "conditions": [
            condition("Bound", true=bound, reason="Bound" if bound else "Pending"),
            condition("Ready", true=done, reason="" if done else "TransferRunning"),
            condition("Running", true=new.endswith("InProgress"), reason="Completed" if done else ""),
        ],
    }  # fmt: skip
    if claim:
        status["claimName"] = claim["metadata"]["name"]
    return await world.status(DATA_VOLUME, volume, status, step=new)


async def _claim(world: World, volume: Object) -> Object | None:
    """Creates the claim of a DataVolume; None: its source is missing."""
    who, spec = key(DATA_VOLUME, volume), volume["spec"]
    wanted = dict(spec.get("pvc") or spec.get("storage") or {})
    wanted.setdefault("storageClassName", _default(world))
    profile = world.look(who, PROFILE, "", wanted["storageClassName"])
    way, space, name = _source(world, volume)
    if way == "missing":
        return None
    if way == "clone":
        source = world.look(who, PVC, space, name)
        if not source:
            return None
        older = annotation(volume, POPULATES) == "false"
        way = "copy" if older else _strategy(world, source, wanted, profile)
        request = wanted.get("resources", {}).get("requests", {}).get("storage")
        wanted["resources"] = {"requests": {"storage": request or source["spec"]["resources"]["requests"]["storage"]}}
    elif way == "from-snapshot" and not wanted.get("resources"):
        source = world.look(who, SNAPSHOT, space, name)
        if not source or not (source.get("status") or {}).get("readyToUse"):
            return None
        wanted["resources"] = {"requests": {"storage": source["status"]["restoreSize"]}}
    if "storage" in spec:
        _infer(wanted, profile)
    meta = volume["metadata"]
    marks = {POPULATES: "true", **(meta.get("annotations") or {}), FILLED_BY: way,
             "cdi.kubevirt.io/storage.contentType": spec.get("contentType", "kubevirt")}  # fmt: skip
    if name:
        marks |= {SOURCE: f"{space}/{name}", CLONE_TYPE: "snapshot" if way == "from-snapshot" else way}
    labels = {**(meta.get("labels") or {}), "app": "containerized-data-importer",
              "alerts.k8s.io/KubePersistentVolumeFillingUp": "disabled", "app.kubernetes.io/component": "storage",
              "app.kubernetes.io/managed-by": "cdi-controller"}  # fmt: skip
    return await world.create(PVC, {
        "metadata": {"name": who[2], "labels": labels, "annotations": marks,
                     "ownerReferences": owner(DATA_VOLUME, volume)},
        "spec": wanted,
    }, who[1])  # fmt: skip


def _default(world: World) -> str:
    for mark in _DEFAULTS:
        for class_ in world.all(STORAGE_CLASS):
            if annotation(class_, mark) == "true":
                return str(class_["metadata"]["name"])
    return ""


def _source(world: World, volume: Object) -> tuple[str, str, str]:
    """Way of filling a DataVolume, and the source claim or snapshot; empty way: Kubernetes fills it, from the claim
    spec's ``dataSource``; ``missing``: the source does not exist."""
    who, spec = key(DATA_VOLUME, volume), volume["spec"]
    source = spec.get("source") or {}
    if reference := spec.get("sourceRef"):
        named = world.look(who, DATA_SOURCE, reference.get("namespace") or who[1], reference["name"])
        if not named:
            return "missing", "", ""
        source = named["spec"]["source"]
    if not source:
        return "", "", ""
    for kind, way in (("pvc", "clone"), ("snapshot", "from-snapshot")):
        if kind in source:
            return way, source[kind].get("namespace") or who[1], source[kind]["name"]
    return ("blank" if "blank" in source else "import"), "", ""


def _strategy(world: World, source: Object, wanted: Object, profile: Object | None) -> str:
    """CDI's choice: the cluster's override, else the profile's; copy if the driver cannot do that (another class or
    volume mode, no snapshot class)."""
    forced = next((c["spec"].get("cloneStrategyOverride") for c in world.all(CDI) if c.get("spec")), None)
    status = (profile or {}).get("status") or {}
    chosen = forced or status.get("cloneStrategy") or "copy"
    sets = status.get("claimPropertySets") or [{}]
    mode = wanted.get("volumeMode") or sets[0].get("volumeMode", "Filesystem")
    alike = source["spec"].get("storageClassName") == wanted["storageClassName"]
    if not alike or source["spec"].get("volumeMode", "Filesystem") != mode:
        return "copy"
    return "copy" if chosen == "snapshot" and not status.get("snapshotClass") else str(chosen)


def _infer(wanted: Object, profile: Object | None) -> None:
    """Completes ``spec.storage`` from the profile; a file system gets extra room beside the image."""
    status = (profile or {}).get("status") or {}
    sets = status.get("claimPropertySets") or [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]
    fits = [s for s in sets if s.get("volumeMode") == wanted.get("volumeMode", s.get("volumeMode"))] or sets
    wanted.setdefault("volumeMode", fits[0].get("volumeMode", "Filesystem"))
    wanted.setdefault("accessModes", fits[0]["accessModes"])
    if wanted["volumeMode"] == "Filesystem":
        size = quantity(wanted["resources"]["requests"]["storage"])
        wanted["resources"] = {"requests": {"storage": str(math.ceil(size / (1 - OVERHEAD)))}}


async def data_source(world: World, source: Object) -> None:
    """Advances a DataSource one step: whether its source exists."""
    who, named = key(DATA_SOURCE, source), source["spec"]["source"]
    ready = False
    if "pvc" in named:
        claim = world.look(who, PVC, named["pvc"].get("namespace") or who[1], named["pvc"]["name"])
        volume = world.look(who, DATA_VOLUME, named["pvc"].get("namespace") or who[1], named["pvc"]["name"])
        ready = bool(claim) and (not volume or phase(volume) == "Succeeded")
    elif "snapshot" in named:
        kept = world.look(who, SNAPSHOT, named["snapshot"].get("namespace") or who[1], named["snapshot"]["name"])
        ready = bool(((kept or {}).get("status") or {}).get("readyToUse"))
    before = (source.get("status") or {}).get("conditions") or ()
    if not any(c["type"] == "Ready" and (c["status"] == "True") is ready for c in before):
        ready_condition = condition("Ready", true=ready, reason="Ready" if ready else "NotFound")
        ready_condition["lastHeartbeatTime"] = stamp()
        await world.status(
            DATA_SOURCE, source, {"source": named, "conditions": [ready_condition]}, step="Ready" if ready else ""
        )


async def storage_class(world: World, class_: Object) -> None:
    """Creates the StorageProfile of a storage class: from ``site``'s annotations, else CDI's defaults."""
    name = class_["metadata"]["name"]
    profile = world.get(PROFILE, "", name) or await world.create(PROFILE, {"metadata": {"name": name}, "spec": {}})
    spec = profile.get("spec") or {}
    modes = (annotation(class_, "fairlane.test/modes") or "RWX/Block RWO/Block RWO/Filesystem").split()
    access = {"RWX": "ReadWriteMany", "RWO": "ReadWriteOnce"}
    status = {
        "storageClass": name, "provisioner": class_["provisioner"],
        "cloneStrategy": spec.get("cloneStrategy") or annotation(class_, "fairlane.test/clone") or "csi-clone",
        "claimPropertySets": spec.get("claimPropertySets") or [
            {"accessModes": [access[one.split("/")[0]]], "volumeMode": one.split("/")[1]} for one in modes
        ],
    }  # fmt: skip
    if kept := annotation(class_, "fairlane.test/snapshot-class"):
        status["snapshotClass"] = kept
    await world.status(PROFILE, profile, status)


async def profile(world: World, profile: Object) -> None:
    """Applies an administrator's changes in the profile's spec."""
    if class_ := world.look(key(PROFILE, profile), STORAGE_CLASS, "", profile["metadata"]["name"]):
        await storage_class(world, class_)
