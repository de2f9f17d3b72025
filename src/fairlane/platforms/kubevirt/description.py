"""The run's description: the cluster, its nodes, each lane and its machines, read from the API and the guests."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairlane import registry
from fairlane.errors import RunFailed
from fairlane.lanes.base import Site
from fairlane.machines import script
from fairlane.platforms.kubevirt import kinds, readback
from fairlane.platforms.kubevirt.api import SENT
from fairlane.platforms.kubevirt.guests import TRAITS, traits
from fairlane.platforms.kubevirt.kinds import Kind
from fairlane.platforms.kubevirt.virtual_machines import Fleet, Lane

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api

_CHANGES = 40
"""Most server defaults listed per machine."""
_OWN = ("firmware.uuid", "firmware.serial", "macAddress")
"""Defaults that are unique to each machine."""
_SITE = Site(medium="", address="", interface="", index=0, secret="")
"""A placeholder: the cluster makes the volumes of lanes by name."""

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Description:
    """Result of ``open``, and whether guests are emulated."""

    lanes: Mapping[str, Mapping[str, Any]]
    platform: Mapping[str, Any]
    fingerprint: Mapping[str, Any]
    emulated: bool

    @classmethod
    async def read(
        cls, api: "Api", fleet: Fleet, nodes: Sequence[Object], clones: Sequence[Mapping[str, str]] = ()
    ) -> "Description":
        """The description of running machines. ``nodes``: their nodes; ``clones``: traits of cloned guests. Raises
        RunFailed."""
        cluster = await _Cluster.read(api)
        lanes = {lane.name: await _lane(api, fleet, lane, nodes, cluster) for lane in fleet.lanes.values()}
        fingerprint, emulated = _traits([*await _guests(fleet), *clones])
        settings = (cluster.kubevirt or {}).get("spec", {}).get("configuration", {}).get("developerConfiguration", {})
        platform = {
            "kind": "kubevirt",
            "namespace": fleet.manifests.namespace,
            "cluster": cluster.identity,
            "nodes": {str(node["metadata"]["name"]): readback.node(node) for node in nodes},
            "reach": fleet.way,
            "uids": {  # of the boots and claims that are measured: other ones in each provisioning
                lane.name: {"machines": dict(lane.boots), "volumes": dict(lane.volumes)}
                for lane in fleet.lanes.values()
            },
            "boot_seconds": {name: round(seconds, 2) for name, seconds in fleet.boot_seconds.items()},
            "api": {
                "requests": {" ".join(key): n for key, n in sorted(api.counts.items())},
                "retried": dict(api.retried),
                "waited_s": round(api.waited, 3),
            },
        }
        versions = {
            "kubernetes": cluster.version,
            "kubevirt": _observed(cluster.kubevirt, "observedKubeVirtVersion"),
            "cdi": _observed(cluster.cdi, "observedVersion"),
            "image": fleet.spec.image,
        }
        return cls(lanes, platform, versions | fingerprint, emulated or bool(settings.get("useEmulation")))


@dataclass(frozen=True)
class _Cluster:
    version: str
    identity: str
    """Uid of the namespace kube-system, the cluster's identity; empty: not readable."""
    kubevirt: Object | None
    cdi: Object | None

    @classmethod
    async def read(cls, api: "Api") -> "_Cluster":
        version = await api.call("GET", "/version")
        system = await _may(api, kinds.NAMESPACE, "kube-system")
        kubevirts = await api.list(kinds.KUBEVIRT)
        cdis = await api.list(kinds.CDI)
        uid = str(system["metadata"]["uid"]) if system else ""
        git = str(version.get("gitVersion", "unknown"))
        return cls(git, uid, kubevirts[0] if kubevirts else None, cdis[0] if cdis else None)


async def _may(api: "Api", kind: Kind, name: str, namespace: str = "") -> Object | None:
    """An optional object of the description; None: it does not exist or is not readable."""
    with suppress(RunFailed):
        return await api.get(kind, name, namespace) if name else None
    return None


async def _lane(api: "Api", fleet: Fleet, lane: Lane, nodes: Sequence[Object], cluster: _Cluster) -> dict[str, Any]:
    spec: Any = fleet.study.lanes[lane.name]
    where = fleet.manifests.namespace
    storage_class = await api.get(kinds.STORAGE_CLASS, spec.storage_class) or {}
    if wrong := readback.misnamed(lane.name, spec, storage_class):
        raise RunFailed("clone-way", wrong)
    profile = await _may(api, kinds.STORAGE_PROFILE, spec.storage_class)
    driver = await _may(api, kinds.CSI_DRIVER, str(storage_class.get("provisioner") or ""))
    transport = registry.load("lanes", spec.transport)(lane.name, spec, _SITE)
    rows: dict[str, Any] = {
        "path": list(transport.path()),
        **readback.storage(storage_class, profile, driver),
    }
    claim: Object | None = None
    vmi: Object | None = None
    if lane.machines:
        first = lane.machines[0]
        vmi = fleet.vmis.items.get(first.name)
        claim = await api.get(kinds.PVC, lane.disks[0].claim, where)
        volume = str((claim or {}).get("spec", {}).get("volumeName") or "")
        rows |= readback.volume(claim or {}, await _may(api, kinds.PV, volume))
        rows |= readback.machine(vmi or {})
        rows |= script.rows(await _device(lane)) | lane.devices.description(lane.disks)
        rows["machines"] = {
            m.name: str(fleet.vmis.items.get(m.name, {}).get("status", {}).get("nodeName", "")) for m in lane.machines
        }
        rows |= _server_defaults(lane.name, fleet.sent[first.name], fleet.stored[first.name], vmi or {})
    rows["conditions"] = readback.conditions(
        spec, storage_class, claim, vmi, nodes=nodes, kubevirt=cluster.kubevirt,
        stated={*spec.conditions, *fleet.study.conditions},
    )  # fmt: skip
    return rows


def _server_defaults(lane: str, sent: Object, stored: Object, vmi: Object) -> dict[str, list[str]]:
    """The server's defaults in a machine. Raises RunFailed if the server changed a value of the study."""
    differences = [c for c in readback.changes(sent, stored) if not c.path.endswith(SENT)]
    template = sent["spec"]["template"]["spec"]["domain"]
    actual = vmi.get("spec", {}).get("domain", {})
    differences += readback.changes({"instance.domain": template}, {"instance.domain": actual})
    changed = [str(change) for change in differences if not change.added]
    if changed:
        raise RunFailed(
            "machine-changed",
            f"lane {lane}: the cluster changed the requested machine: {'; '.join(changed[:_CHANGES])[:900]}",
            hint="an admission webhook, a preference or an instance type overrides the study: request its values",
        )
    return {"server_defaults": [str(change) for change in differences if not change.path.endswith(_OWN)][:_CHANGES]}


async def _device(lane: Lane) -> str:
    text = script.IDENTITY.format(device=script.device(lane.disks[0].name))
    return (await lane.guests[0].ask(f"{{\n{text}\n}} > rows"))["rows"].decode(errors="replace")


_GUEST = f"""
{{ {TRAITS}
  echo "fio $(fio --version)"
}} > traits 2> /dev/null
"""


async def _guests(fleet: Fleet) -> list[Mapping[str, str]]:
    """Traits of the running guests."""
    guests = [guest for lane in fleet.lanes.values() for guest in lane.guests]
    outputs = await asyncio.gather(*(guest.ask(_GUEST) for guest in guests))
    return [traits(files["traits"].decode(errors="replace")) for files in outputs]


def _traits(guests: Sequence[Mapping[str, str]]) -> tuple[dict[str, str], bool]:
    """Traits of all guests together, and whether one of them is emulated."""
    merged = {name: ", ".join(sorted({g[name] for g in guests if g.get(name)})) for name in ("kernel", "system", "fio")}
    return {name: value for name, value in merged.items() if value}, any("emulated" in guest for guest in guests)


def _observed(of: Object | None, key: str) -> str:
    return str((of or {}).get("status", {}).get(key) or "unknown")
