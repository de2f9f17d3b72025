"""The persistent-volume controller, a CSI provisioner and its snapshotter: claims, volumes, snapshots."""

from dataclasses import dataclass

from testkit.play.compute import FINAL
from testkit.play.kinds import (
    CLONE_SOURCE,
    CONTENT,
    PV,
    PVC,
    SNAPSHOT,
    SNAPSHOT_CLASS,
    STORAGE_CLASS,
    VMI,
    Object,
    annotation,
    deleting,
    key,
    phase,
    quantity,
    stamp,
    uid,
)
from testkit.play.launch import SELECTED
from testkit.play.machines import Machines
from testkit.play.world import World

PROTECTED = "kubernetes.io/pvc-protection"
CLONE_TYPE = "cdi.kubevirt.io/cloneType"
"""Annotation of DataVolume and claim: CDI's way of cloning: csi-clone, snapshot, copy."""
POPULATES = "cdi.kubevirt.io/storage.usePopulator"
"""Annotation; false: CDI's older way, which binds a claim before it fills it, and clones by copying only."""
SOURCE = "cdi.kubevirt.io/storage.sourceVolume"
"""Annotation of our own: ``namespace/name`` of the source of a DataVolume's claim."""
FILLED_BY = "cdi.kubevirt.io/storage.fill"
"""Annotation of our own: way of filling a DataVolume's claim: import, csi-clone, snapshot, copy; blank: empty."""


@dataclass
class Storage:
    """Volumes and snapshots on ``machines``."""

    machines: Machines

    async def claim(self, world: World, claim: Object) -> None:
        """Advances a claim one step: bound, or deleted with its last user."""
        who = key(PVC, claim)
        if deleting(claim):
            users = [world.get(VMI, *at[1:]) for at in world.users.get(who[1:], ())]
            if any(vmi and phase(vmi) not in FINAL for vmi in users):
                world.later(who, 0.5)
            else:
                await world.release(PVC, claim, PROTECTED)
            return
        if phase(claim) == "Bound" or claim["spec"].get("storageClassName", "") == "":
            return
        class_ = world.look(who, STORAGE_CLASS, "", claim["spec"]["storageClassName"])
        if not class_:
            message = f'storageclass.storage.k8s.io "{claim["spec"]["storageClassName"]}" not found'
            await world.event(PVC, claim, "ProvisioningFailed", message, "Warning")
            return
        if class_.get("volumeBindingMode") == "WaitForFirstConsumer" and not annotation(claim, SELECTED):
            message = "waiting for first consumer to be created before binding"
            await world.event(PVC, claim, "WaitForFirstConsumer", message)
            return
        if await self._refused(world, claim, class_):
            return
        ready, source, way = self._content(world, claim)
        if not ready:
            return
        pace = world.behaviour.paces.get(class_["metadata"]["name"], world.behaviour.pace)
        filling = 0.0 if annotation(claim, POPULATES) == "false" else pace.of(way)
        if world.due(PVC, claim, "bind", pace.bind) and world.due(PVC, claim, "fill", filling):
            await self._bind(world, claim, class_, source, way)

    async def _refused(self, world: World, claim: Object, class_: Object) -> bool:
        name, driver = class_["metadata"]["name"], class_["provisioner"]
        if name in world.behaviour.never_bind:
            text = (f"Waiting for a volume to be created either by the external provisioner '{driver}' or manually by "
                    "the system administrator. If volume creation is delayed, please verify that the provisioner is "
                    "running and correctly registered.")  # fmt: skip
            await world.event(PVC, claim, "ExternalProvisioning", text)
            return True
        if why := world.behaviour.fail_provision.get(name, ""):
            message = f'failed to provision volume with StorageClass "{name}": rpc error: code = Internal desc = {why}'
            await world.event(PVC, claim, "ProvisioningFailed", message, "Warning")
            return True
        return False

    def _content(self, world: World, claim: Object) -> tuple[bool, str, str]:
        """Content of a claim: whether it exists, its volume or snapshot, and the way (see Pace)."""
        who = key(PVC, claim)
        if way := annotation(claim, FILLED_BY):
            space, _, name = annotation(claim, SOURCE).partition("/")
            return self._volume(world, claim, space, name, way) if name else (True, "", way)
        source = claim["spec"].get("dataSourceRef") or claim["spec"].get("dataSource")
        if not source:
            return True, "", ""
        if source["kind"] == "VolumeCloneSource":
            wanted = world.look(who, CLONE_SOURCE, who[1], source["name"])
            if not wanted:
                return False, "", ""
            source = wanted["spec"]["source"]
        if source["kind"] == "VolumeSnapshot":
            return self._restored(world, claim, who[1], source["name"])
        return self._volume(world, claim, source.get("namespace") or who[1], source["name"], "csi-clone")

    def _volume(self, world: World, claim: Object, space: str, name: str, way: str) -> tuple[bool, str, str]:
        if way == "from-snapshot":
            return self._restored(world, claim, space, name)
        source = world.look(key(PVC, claim), PVC, space, name)
        if not source or phase(source) != "Bound":
            return False, "", ""
        return True, str(source["spec"]["volumeName"]), way

    def _restored(self, world: World, claim: Object, space: str, name: str) -> tuple[bool, str, str]:
        snapshot = world.look(key(PVC, claim), SNAPSHOT, space, name)
        if not snapshot or not (snapshot.get("status") or {}).get("readyToUse"):
            return False, "", ""
        return True, f"snapshot-{uid(snapshot)}", "snapshot"

    async def _bind(self, world: World, claim: Object, class_: Object, source: str, way: str) -> None:
        meta, spec = claim["metadata"], claim["spec"]
        name, size = f"pvc-{meta['uid']}", spec["resources"]["requests"]["storage"]
        await self.machines.provision(name, quantity(size), source, way)
        driver = class_["provisioner"]
        volume = world.get(PV, "", name) or await world.create(PV, {
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": driver}},
            "spec": {
                "capacity": {"storage": size}, "accessModes": spec["accessModes"],
                "volumeMode": spec.get("volumeMode", "Filesystem"), "storageClassName": spec["storageClassName"],
                "persistentVolumeReclaimPolicy": class_.get("reclaimPolicy", "Delete"),
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta["namespace"],
                             "name": meta["name"], "uid": meta["uid"]},
                "csi": {"driver": driver, "volumeHandle": name,
                        "volumeAttributes": {"storage.kubernetes.io/csiProvisionerIdentity": f"1-{driver}",
                                             **(class_.get("parameters") or {})}},
            },
        })  # fmt: skip
        await world.status(PV, volume, {"phase": "Bound"}, step="Bound")
        marks = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
                 "volume.kubernetes.io/storage-provisioner": driver}  # fmt: skip
        body = {"metadata": {"annotations": marks}, "spec": {"volumeName": name}}
        claim = await world.patch(PVC, claim, body)
        status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": {"storage": size}}
        await world.status(PVC, claim, status, step="Bound")

    async def volume(self, world: World, volume: Object) -> None:
        """Advances a volume one step: deleted after its claim."""
        claim = volume["spec"].get("claimRef") or {}
        name = volume["metadata"]["name"]
        there = world.look(key(PV, volume), PVC, claim.get("namespace", ""), claim.get("name", ""))
        if there and uid(there) == claim.get("uid"):
            return
        if deleting(volume):
            await world.release(
                PV, volume, "kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"
            )
            await self.machines.remove(name)
        elif phase(volume) == "Bound":
            if volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain":
                await world.status(PV, volume, {"phase": "Released"}, step="Released")
            else:
                await world.delete(PV, volume)

    async def snapshot(self, world: World, snapshot: Object) -> None:
        """Advances a snapshot one step: ready to use, with its content."""
        who = key(SNAPSHOT, snapshot)
        status = snapshot.get("status") or {}
        if deleting(snapshot) or status.get("readyToUse"):
            return
        claim = world.look(who, PVC, who[1], snapshot["spec"]["source"].get("persistentVolumeClaimName", ""))
        if not claim or phase(claim) != "Bound":
            return
        name = snapshot["spec"].get("volumeSnapshotClassName", "")
        snapshot_class = world.look(who, SNAPSHOT_CLASS, "", name) if name else self._default(world)
        if not snapshot_class:
            message = f'volumesnapshotclass.snapshot.storage.k8s.io "{name}" not found'
            if (status.get("error") or {}).get("message") != message:
                error = {"message": message, "time": stamp()}
                await world.status(SNAPSHOT, snapshot, {"readyToUse": False, "error": error}, step="error")
            return
        pace = world.behaviour.paces.get(claim["spec"]["storageClassName"], world.behaviour.pace)
        if not world.due(SNAPSHOT, snapshot, "snapshot", pace.snapshot):
            return
        handle = f"snapshot-{uid(snapshot)}"
        await self.machines.snapshot(handle, claim["spec"]["volumeName"])
        size, content = claim["status"]["capacity"]["storage"], f"snapcontent-{uid(snapshot)}"
        made = world.get(CONTENT, "", content) or await world.create(CONTENT, {
            "metadata": {"name": content},
            "spec": {
                "deletionPolicy": snapshot_class["deletionPolicy"], "driver": snapshot_class["driver"],
                "source": {"volumeHandle": claim["spec"]["volumeName"]},
                "volumeSnapshotClassName": snapshot_class["metadata"]["name"],
                "volumeSnapshotRef": {"apiVersion": SNAPSHOT.version, "kind": SNAPSHOT.name, "namespace": who[1],
                                      "name": who[2], "uid": uid(snapshot)},
            },
        })  # fmt: skip
        kept = {"readyToUse": True, "snapshotHandle": handle, "restoreSize": quantity(size)}
        await world.status(CONTENT, made, kept, step="ready")
        await world.status(SNAPSHOT, snapshot, {
            "readyToUse": True, "boundVolumeSnapshotContentName": content, "restoreSize": size,
            "creationTime": stamp(), "error": None,
        }, step="ready")  # fmt: skip

    @staticmethod
    def _default(world: World) -> Object | None:
        for snapshot_class in world.all(SNAPSHOT_CLASS):
            if annotation(snapshot_class, "snapshot.storage.kubernetes.io/is-default-class") == "true":
                return snapshot_class
        return None

    async def content(self, world: World, content: Object) -> None:
        """Advances a snapshot's content one step: deleted after its snapshot."""
        about = content["spec"]["volumeSnapshotRef"]
        there = world.look(key(CONTENT, content), SNAPSHOT, about["namespace"], about["name"])
        if (there and uid(there) == about["uid"]) or content["spec"]["deletionPolicy"] == "Retain":
            return
        if not deleting(content):
            await world.delete(CONTENT, content)
            await self.machines.remove(f"snapshot-{about['uid']}")
