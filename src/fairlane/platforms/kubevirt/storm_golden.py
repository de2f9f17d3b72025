"""What a lane's clones are made of: the image imported once, booted once, given its data, stopped, perhaps snapshot."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlane.errors import RunFailed
from fairlane.lanes.storage_class import StorageClassSpec
from fairlane.platforms.base import Notify
from fairlane.platforms.kubevirt import diagnose, kinds, storm_guest
from fairlane.platforms.kubevirt.api_errors import plain
from fairlane.platforms.kubevirt.guests import address_of
from fairlane.platforms.kubevirt.kinds import Kind
from fairlane.platforms.kubevirt.labels import LANE, RUN
from fairlane.platforms.kubevirt.manifests import Golden, Manifests
from fairlane.platforms.kubevirt.storm_guest import Way
from fairlane.platforms.kubevirt.watching import Watcher

_DEFAULT_CLASS = "snapshot.storage.kubernetes.io/is-default-class"
_PAUSE = 1.0
"""Seconds between two attempts to hear the sshd of a golden machine."""
_ATTEMPT = 5.0

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Filled:
    """A golden volume that is ready to be cloned."""

    golden: Golden
    node: str
    """Where it was filled; a volume that stays at its node stays there."""
    stamp: str
    """SHA-256 of the data in it that every clone must have."""
    traits: Mapping[str, str]
    """What its guest says of itself: kernel, system, and emulated where it is."""


async def prepare(
    way: Way, manifests: Manifests, lane: str, nodes: Sequence[str], *, size: int, notify: Notify
) -> list[Filled]:
    """The golden volumes of ``lane`` (one, or one for each node), each with ``size`` bytes of random data beside the
    image. Raises RunFailed."""
    goldens = manifests.goldens(lane, len(nodes))
    notify(f"lane {lane}: making {'its golden volume' if len(goldens) == 1 else f'{len(goldens)} golden volumes'}")
    snapshot_class = ""
    spec = manifests.study.lanes[lane]
    if isinstance(spec, StorageClassSpec) and spec.clone == "snapshot":
        snapshot_class = await _snapshot_class(way, spec.storage_class)
    made = (_Making(way, manifests, golden, nodes[golden.number]) for golden in goldens)
    return list(await asyncio.gather(*(one.make(size, snapshot_class) for one in made)))


def of_lane(manifests: Manifests, lane: str) -> str:
    """Label selector of what the run has of ``lane``. By our own labels alone: CDI puts its name over ours in
    app.kubernetes.io/managed-by of claims."""
    return f"{RUN}={manifests.run_id},{LANE}={manifests.slugs[lane]}"


async def _snapshot_class(way: Way, storage_class: str) -> str:
    """The snapshot class of the driver behind ``storage_class``: the default one if there are several."""
    found = await way.api.get(kinds.STORAGE_CLASS, storage_class)
    driver = str((found or {}).get("provisioner", ""))
    fitting = [one for one in await way.api.list(kinds.SNAPSHOT_CLASS) if one.get("driver") == driver]
    if not fitting:
        raise RunFailed(
            f"no VolumeSnapshotClass is of {plain(driver) or 'the driver'}, as storage class {plain(storage_class)} is",
            hint="clone: csi-clone or copy; or have one made",
        )

    def rank(one: Object) -> tuple[bool, str]:
        return (one["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) != "true", str(one["metadata"]["name"])

    return str(min(fitting, key=rank)["metadata"]["name"])


@dataclass
class _Making:
    """One golden volume while it is made."""

    way: Way
    manifests: Manifests
    golden: Golden
    node: str

    def __post_init__(self) -> None:
        self._patience = self.manifests.spec.boot_timeout / 1e9

    async def make(self, size: int, snapshot_class: str) -> Filled:
        api, space, name = self.way.api, self.way.namespace, self.golden.name
        await api.create(kinds.DATA_VOLUME, self.manifests.golden_volume(self.golden), space)
        await api.create(kinds.VM, self.manifests.base_vm(self.golden, self.node), space)
        async with self._one(kinds.VMI) as instances:
            stamp, traits = await self._fill(instances, size)
            await api.patch(kinds.VM, name, {"spec": {"runStrategy": "Halted"}}, space)
            await instances.until(
                lambda items: None if name in items else True, self._patience, f"{name} does not stop"
            )
        if snapshot_class:
            await api.create(kinds.SNAPSHOT, self.manifests.snapshot(self.golden, snapshot_class), space)
            async with self._one(kinds.SNAPSHOT) as snapshots:
                await snapshots.until(self._ready, self._patience, f"snapshot {name} is not ready")
        await api.create(kinds.DATA_SOURCE, self.manifests.data_source(self.golden), space)
        async with self._one(kinds.DATA_SOURCE) as sources:
            await sources.until(self._usable, self._patience, f"DataSource {name} is not ready")
        return Filled(self.golden, self.node, stamp, traits)

    def _one(self, kind: Kind) -> Watcher:
        return Watcher(self.way.api, kind, self.way.namespace, of_lane(self.manifests, self.golden.lane))

    async def _fill(self, instances: Watcher, size: int) -> tuple[str, Mapping[str, str]]:
        name = self.golden.name
        try:
            vmi = await instances.until(self._running, self._patience, f"{name} does not run")
        except RunFailed as error:
            vm = await self.way.api.get(kinds.VM, name, self.way.namespace)
            why = await diagnose.why(self.way.api, self.way.namespace, name, vm, instances.items.get(name))
            raise RunFailed(f"{error.message}: {why}", hint=error.hint) from error
        address = address_of(vmi)
        try:
            async with asyncio.timeout(self._patience):
                while not await self.way.banner(name, address, _ATTEMPT):
                    await asyncio.sleep(_PAUSE)
        except TimeoutError:
            raise RunFailed(
                f"{name} runs, and its sshd did not answer within {self._patience:.0f} s",
                hint="the image needs cloud-init and sshd; platform.boot_timeout says how long that may take",
            ) from None
        async with self.way.session(name, address) as session:
            return await storm_guest.fill(session, size), await storm_guest.traits(session)

    def _running(self, items: Mapping[str, Object]) -> Object | None:
        vmi = items.get(self.golden.name) or {}
        there = (vmi.get("status") or {}).get("phase") == "Running"
        return vmi if there and (self.way.way == "portforward" or address_of(vmi)) else None

    def _ready(self, items: Mapping[str, Object]) -> bool | None:
        status = (items.get(self.golden.name) or {}).get("status") or {}
        if message := (status.get("error") or {}).get("message"):
            raise RunFailed(f"snapshot {self.golden.name}: {plain(str(message))}")
        return True if status.get("readyToUse") else None

    def _usable(self, items: Mapping[str, Object]) -> bool | None:
        """CDI says of each DataSource whether what it stands for is there."""
        conditions = ((items.get(self.golden.name) or {}).get("status") or {}).get("conditions") or []
        return True if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions) else None
