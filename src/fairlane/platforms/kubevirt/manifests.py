"""The objects that a run sends to the cluster, made from the study alone. Pure and deterministic.

Every setting of a lane is sent, so that no storage profile, preference or default of the cluster decides it. The
handling of each setting was checked in the sources of KubeVirt and CDI (kubevirt/kubevirt and
kubevirt/containerized-data-importer, main branches of August 2026).
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairlane.errors import FairlaneError
from fairlane.lanes.storage_class import StorageClassSpec
from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.cloudinit import user_data
from fairlane.platforms.kubevirt.kinds import Kind
from fairlane.platforms.kubevirt.labels import labels

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.spec import KubevirtSpec
    from fairlane.study.spec import Study

Object = dict[str, Any]

CLOUD_INIT = "cloud-init"
"""Name of the Secret with the first boot's data for all machines."""
HOSTNAME = "kubernetes.io/hostname"
_SERIAL = 20
"""Characters of a serial that virtio-blk can hold."""
_CLEAN_STOP = 120
"""Seconds for a golden machine to shut down cleanly before its volume is cloned."""
_LEGACY = {"cdi.kubevirt.io/storage.usePopulator": "false"}
"""CDI's older method, a copy from pod to pod whatever the storage supports."""


@dataclass(frozen=True)
class Disk:
    """A volume under test of a machine."""

    number: int
    name: str
    """Name of its DataVolume and of its claim."""
    serial: str
    """Serial by which the guest finds the disk; unique in the run."""
    size: int
    """Bytes."""


@dataclass(frozen=True)
class Machine:
    """One machine of a lane."""

    lane: str
    number: int
    name: str
    """Name of the VirtualMachine, its VirtualMachineInstance and the guest."""
    disks: tuple[Disk, ...]
    root: str
    """DataVolume of its root; empty: a container disk, not a volume of the cluster."""
    storm: str = ""
    """The machine's clone storm; empty: it runs during the whole run."""


@dataclass(frozen=True)
class Golden:
    """The source of a lane's clones. DataVolume, claim, snapshot, DataSource and the machine that boots from the volume
    all have its ``name``."""

    lane: str
    number: int
    name: str
    size: str = ""
    """Size of its bound claim, as a Kubernetes quantity: drivers round up, and refuse smaller clones. Empty: not
    known."""


def slugs(lanes: Iterable[str]) -> dict[str, str]:
    """A unique DNS label for each lane, without a final dash; double dashes are reserved for Fairlane's separators."""
    unique: dict[str, str] = {}
    for lane in lanes:
        word = re.sub("-+", "-", lane).strip("-") or "lane"
        tries = (word, *(f"{word}-{n}" for n in range(2, len(unique) + 3)))
        unique[lane] = next(slug for slug in tries if slug not in unique.values())
    return unique


def unspecified_clones(study: "Study") -> list[FairlaneError]:
    """Lanes without ``clone`` in a study with clone storms."""
    if all(workload.kind != "clone" for workload in study.workloads.values()):
        return []
    return [
        FairlaneError(
            "clone-unspecified",
            f"lane {name}: clone is not set. Each driver's storage profile would choose a way of cloning, and the "
            "study would compare these ways instead of the storage",
            where=f"lanes.{name}",
            hint="clone: snapshot, csi-clone or copy (fairlane doctor --platform kubevirt shows what a class supports)",
        )
        for name, lane in study.lanes.items()
        if isinstance(lane, StorageClassSpec) and lane.clone is None
    ]


def quantity(size: int) -> str:
    """Bytes as a Kubernetes quantity: ``50Gi``."""
    for unit, bits in (("Gi", 30), ("Mi", 20), ("Ki", 10)):
        if size and size % (1 << bits) == 0:
            return f"{size >> bits}{unit}"
    return str(size)


@dataclass(frozen=True)
class Manifests:
    """The objects of one run, in its namespace."""

    study: "Study"
    run_id: str
    namespace: str
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Node name -> its label kubernetes.io/hostname, which may differ (AWS names include a domain)."""

    # --- inventory

    @property
    def spec(self) -> "KubevirtSpec":
        spec: Any = self.study.platform
        return spec  # type: ignore[no-any-return]

    @cached_property
    def slugs(self) -> Mapping[str, str]:
        return slugs(self.study.lanes)

    @cached_property
    def fleet(self) -> int:
        """Permanent machines of a lane: the number that the largest cell needs."""
        cells = [cell for cell in self.study.cells() if cell.kind != "clone"]
        return max((int(cell.params.get("fleet") or self.spec.machines) for cell in cells), default=0)

    @cached_property
    def disk_size(self) -> int:
        """Bytes of a volume under test: the size that the largest cell needs."""
        sizes = (int(cell.params.get("disk_size") or 0) for cell in self.study.cells())
        return max(self.spec.disk_size, *sizes)

    def machines(self, lane: str) -> tuple[Machine, ...]:
        """The fleet of ``lane``, by number."""
        stored = not self.spec.container_disk
        return tuple(
            self._machine(lane, number, f"{self.slugs[lane]}-{number}", stored) for number in range(self.fleet)
        )

    def clone(self, lane: str, storm: str, number: int) -> Machine:
        """Machine ``number`` of a storm. ``storm``: lower-case letters and digits, unique in the run."""
        return replace(self._machine(lane, number, f"{self.slugs[lane]}--{storm}-{number}", stored=True), storm=storm)

    def goldens(self, lane: str, nodes: int) -> tuple[Golden, ...]:
        """Golden volumes of ``lane``: one, or one for each of the ``nodes``."""
        name = f"{self.slugs[lane]}--golden"
        count = nodes if self._lane(lane).golden == "per-node" else 1
        return tuple(Golden(lane, number, f"{name}-{number}") for number in range(count))

    # --- objects

    def namespace_object(self) -> Object:
        return {
            "apiVersion": kinds.NAMESPACE.api_version,
            "kind": kinds.NAMESPACE.kind,
            "metadata": {"name": self.namespace, "labels": labels(self.run_id)},
        }

    def secret(self, files: Mapping[str, str], programs: Sequence[str] = ()) -> Object:
        """cloud-init's user data for all machines (see ``cloudinit.user_data``); a Secret, because it holds a private
        key and exceeds the 2048 bytes that KubeVirt allows in the machine itself."""
        text = user_data(files, programs if self.spec.install else ())
        body = {
            "type": "Opaque",
            "immutable": True,
            "data": {"userdata": base64.b64encode(text.encode()).decode()},
        }
        return {**self._named(kinds.SECRET, CLOUD_INIT), **body}

    def vm(self, machine: Machine, node: str) -> Object:
        """A permanent machine on ``node``; empty: the scheduler chooses. It owns its volumes, which are deleted with
        it."""
        templates = [self._blank(machine, disk) for disk in machine.disks]
        if machine.root:
            root: Object = {"dataVolume": {"name": machine.root}}
            lane = self._lane(machine.lane)
            storage = self._storage(lane, self.spec.root_size, self.spec.root_class)
            marks = self._marks(machine)
            templates.insert(0, self._template(machine.root, {**self._source(), "storage": storage}, marks))
        else:
            root = {"containerDisk": {"image": self.spec.container_disk}}
        return self._vm(machine, node, root, templates)

    def golden_volume(self, golden: Golden) -> Object:
        """The image, imported into the lane's storage class."""
        storage = self._storage(self._lane(golden.lane), self.spec.root_size)
        marks = {"lane": self.slugs[golden.lane]}
        return {
            **self._named(kinds.DATA_VOLUME, golden.name, **marks),
            "spec": {**self._source(), "storage": storage, "preallocation": False},
        }

    def base_vm(self, golden: Golden, node: str) -> Object:
        """The machine that boots from the golden volume before cloning, as its first consumer: a class that waits for
        one creates the volume on its ``node``. Stop it (runStrategy Halted) before cloning."""
        machine = Machine(golden.lane, golden.number, golden.name, (), golden.name)
        made = self._vm(machine, node, {"dataVolume": {"name": golden.name}}, [])
        made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = _CLEAN_STOP
        return made

    def snapshot(self, golden: Golden, snapshot_class: str) -> Object:
        """The snapshot to restore clones from, for lanes with ``clone: snapshot``."""
        return {
            **self._named(kinds.SNAPSHOT, golden.name, lane=self.slugs[golden.lane]),
            "spec": {
                "volumeSnapshotClassName": snapshot_class,
                "source": {"persistentVolumeClaimName": golden.name},
            },
        }

    def data_source(self, golden: Golden) -> Object:
        """The DataSource of clones: the snapshot, or the golden volume."""
        what = "snapshot" if self._lane(golden.lane).clone == "snapshot" else "pvc"
        return {
            **self._named(kinds.DATA_SOURCE, golden.name, lane=self.slugs[golden.lane]),
            "spec": {"source": {what: {"namespace": self.namespace, "name": golden.name}}},
        }

    def clone_vm(self, machine: Machine, node: str, golden: Golden) -> Object:
        """A machine whose root is a clone of ``golden``, made in the way of the lane only:

        * snapshot: CDI restores a DataSource that is a snapshot, and asks no storage profile.
        * csi-clone: Kubernetes hands the claim's ``dataSource`` to the driver; CDI has nothing to choose.
        * copy: CDI's way without populators, which is always a copy from pod to pod.
        """
        lane = self._lane(machine.lane)
        claim = self._storage(lane, self.spec.root_size)
        notes: dict[str, str] = {}
        body: Object = {"storage": claim}
        if golden.size:  # the same size, without extra space for a file system
            claim["resources"] = {"requests": {"storage": golden.size}}
            body = {"pvc": claim}
        if lane.clone == "csi-clone":
            claim["dataSource"] = {"kind": kinds.PVC.kind, "name": golden.name}
        else:
            body["sourceRef"] = {"kind": kinds.DATA_SOURCE.kind, "namespace": self.namespace, "name": golden.name}
            notes = _LEGACY if lane.clone == "copy" else {}
        marks = self._marks(machine)
        root = self._template(machine.root, body, marks, notes)
        templates = [root, *(self._blank(machine, disk) for disk in machine.disks)]
        return self._vm(machine, node, {"dataVolume": {"name": machine.root}}, templates)

    # --- parts

    def _lane(self, lane: str) -> StorageClassSpec:
        spec = self.study.lanes[lane]
        assert isinstance(spec, StorageClassSpec)  # noqa: S101 - other transports are refused before
        return spec

    def _machine(self, lane: str, number: int, name: str, stored: bool) -> Machine:
        disks = tuple(Disk(n, f"{name}-disk{n}", self._serial(name, n), self.disk_size) for n in range(self.spec.disks))
        return Machine(lane, number, name, disks, f"{name}-root" if stored else "")

    def _marks(self, machine: Machine) -> dict[str, str]:
        """Values of a machine's labels."""
        marks = {"lane": self.slugs[machine.lane], "machine": str(machine.number)}
        return {**marks, "storm": machine.storm} if machine.storm else marks

    def _serial(self, name: str, disk: int) -> str:
        digest = hashlib.sha256(f"{self.run_id}/{name}/{disk}".encode()).hexdigest()
        return f"fl-{digest}"[:_SERIAL]

    def _named(self, kind: Kind, name: str, **marks: str) -> Object:
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels(self.run_id, **marks)},
        }

    def _storage(self, lane: StorageClassSpec, size: int, storage_class: str = "") -> Object:
        """A claim with every field set, which the storage profile would decide otherwise. For a file system CDI
        enlarges the claim so that the disk in it has ``size``."""
        return {
            "accessModes": [lane.access_mode],
            "resources": {"requests": {"storage": quantity(size)}},
            "storageClassName": storage_class or lane.storage_class,
            "volumeMode": lane.volume_mode,
        }

    def _source(self) -> Object:
        """The source of the image. Nodes pull container images, with the cluster's mirrors and pull secrets."""
        image = self.spec.image
        if image.startswith("datasource:"):
            namespace, _, name = image.removeprefix("datasource:").partition("/")
            return {"sourceRef": {"kind": kinds.DATA_SOURCE.kind, "namespace": namespace, "name": name}}
        if image.startswith("docker:"):
            return {"source": {"registry": {"url": image, "pullMethod": "node"}}}
        return {"source": {"http": {"url": image}}}

    def _template(
        self, name: str, spec: Object, marks: Mapping[str, str], notes: Mapping[str, str] | None = None
    ) -> Object:
        """A DataVolume in the machine's template, without preallocation, whatever the cluster's default."""
        metadata: Object = {"name": name, "labels": labels(self.run_id, **marks)}
        if notes:
            metadata["annotations"] = dict(notes)
        return {"metadata": metadata, "spec": {"preallocation": False, **spec}}

    def _blank(self, machine: Machine, disk: Disk) -> Object:
        storage = self._storage(self._lane(machine.lane), disk.size)
        marks = self._marks(machine)
        return self._template(disk.name, {"source": {"blank": {}}, "storage": storage}, marks)

    def _vm(self, machine: Machine, node: str, root: Object, templates: Sequence[Object]) -> Object:
        marks = self._marks(machine)
        lane = self._lane(machine.lane)
        volumes: list[Object] = [{"name": "root", **root}]
        volumes += [{"name": f"disk{d.number}", "dataVolume": {"name": d.name}} for d in machine.disks]
        volumes += [{"name": CLOUD_INIT, "cloudInitNoCloud": {"secretRef": {"name": CLOUD_INIT}}}]
        template: Object = {
            "domain": self._domain(lane, machine),
            # migration would spoil a measurement: draining a node ends the machine, and the run detects it
            "evictionStrategy": "None",
            "networks": [{"name": "default", "pod": {}}],
            "terminationGracePeriodSeconds": 0,
            "volumes": volumes,
        }
        if selector := {**self.spec.node_selector, **({HOSTNAME: self.hosts.get(node, node)} if node else {})}:
            template["nodeSelector"] = selector
        spec: Object = {
            "runStrategy": "Always",
            "template": {"metadata": {"labels": labels(self.run_id, **marks)}, "spec": template},
        }
        if templates:
            spec["dataVolumeTemplates"] = list(templates)
        for key, name, kind in (
            ("instancetype", self.spec.instance_type, "VirtualMachineClusterInstancetype"),
            ("preference", self.spec.preference, "VirtualMachineClusterPreference"),
        ):
            if name:
                spec[key] = {"kind": kind, "name": name}
        return {**self._named(kinds.VM, machine.name, **marks), "spec": spec}

    def _domain(self, lane: StorageClassSpec, machine: Machine) -> Object:
        cpu: Object = {}
        if not self.spec.instance_type:  # must be unique
            # no sockets to plug in later: the guest would see processors that do not exist
            cpu = {"cores": self.spec.cpus, "sockets": 1, "threads": 1, "maxSockets": 1}
        if lane.dedicated_cpus:
            cpu["dedicatedCpuPlacement"] = True
            if lane.isolate_emulator_thread:  # KubeVirt's webhook removes a false
                cpu["isolateEmulatorThread"] = True
        disks: list[Object] = [{"name": "root", "bootOrder": 1, "disk": {"bus": "virtio"}}]
        disks += [_disk(lane, disk) for disk in machine.disks]
        disks += [{"name": CLOUD_INIT, "disk": {"bus": "virtio"}}]
        domain: Object = {
            "devices": {
                "blockMultiQueue": lane.block_multi_queue,
                "disks": disks,
                "interfaces": [{"name": "default", "masquerade": {}, "model": "virtio"}],
                "rng": {},
            },
        }
        if cpu:
            domain["cpu"] = cpu
        if not self.spec.instance_type:
            domain["memory"] = {"guest": quantity(self.spec.memory)}
        if lane.io_threads_policy:
            domain["ioThreadsPolicy"] = lane.io_threads_policy
        if lane.io_threads:
            domain["ioThreads"] = {"supplementalPoolThreadCount": lane.io_threads}
        return domain


def _disk(lane: StorageClassSpec, disk: Disk) -> Object:
    """A disk under test. ``io: default`` is omitted: KubeVirt refuses the word."""
    device: Object = {
        "name": f"disk{disk.number}",
        "cache": lane.cache,
        "dedicatedIOThread": lane.dedicated_io_thread,
        "disk": {"bus": lane.bus},
        "serial": disk.serial,
    }
    return device if lane.io == "default" else {**device, "io": lane.io}
