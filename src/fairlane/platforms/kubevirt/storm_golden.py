"""Prepare a lane's golden volumes (import the image, boot, write known data, stop, perhaps snapshot), and verify clones
by their first I/O and data.

Commands in guests run in a plain bash session that defines all functions: nothing is copied to a clone before its first
I/O.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlane.errors import RunFailed
from fairlane.lanes.storage_class import StorageClassSpec
from fairlane.machines.keys import Keys
from fairlane.machines.session import Session
from fairlane.machines.ssh import SshGuest
from fairlane.platforms.base import Notify
from fairlane.platforms.kubevirt import diagnose, guests, kinds, tunnel
from fairlane.platforms.kubevirt.api_errors import plain
from fairlane.platforms.kubevirt.guests import Reach, address_of
from fairlane.platforms.kubevirt.kinds import Kind
from fairlane.platforms.kubevirt.labels import LANE, RUN
from fairlane.platforms.kubevirt.manifests import Golden, Manifests
from fairlane.platforms.kubevirt.tunnel import Tunnel
from fairlane.platforms.kubevirt.watching import Watcher

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api

Object = Mapping[str, Any]

_DEFAULT_CLASS = "snapshot.storage.kubernetes.io/is-default-class"
_PAUSE = 1.0
"""Seconds between two attempts to get the banner of a golden machine."""
_ATTEMPT = 5.0
GOLDEN = "golden"
"""First word in the golden volume of the block that every clone overwrites."""
_SSHD = 22
_REACHED = 120.0
"""Seconds to log in to a guest whose sshd has answered."""
_ANSWERED = 120.0
_FILLED = 3600.0

_FUNCTIONS = """
d=/var/lib/fairlane
# One block that begins with $1. The rest is random, so that no file system can keep it compressed beside its inode.
block() { { printf '%s ' "$1"; head -c 4096 /dev/urandom; } | head -c 4096; }
word() { dd if=$d/own bs=4k count=1 iflag=direct | { read -r -d ' ' w; echo "${w//[^a-zA-Z0-9.-]/}"; }; }
stamp() { dd if=$d/stamp bs=64k count=1 iflag=direct | sha256sum | cut -d ' ' -f 1; }
fill() {
  mkdir -p $d && block golden > $d/own && head -c 65536 /dev/urandom > $d/stamp &&
    head -c "$1" /dev/urandom > $d/data && sync && stamp
}
first() {
  local found
  block "$1" > /run/fairlane.own && found=$(word) &&
    dd if=/run/fairlane.own of=$d/own bs=4k count=1 oflag=direct conv=notrunc,fsync && echo "done $found"
}
check() { echo "$(word) $(stamp)"; }
@TRAITS@
""".replace("@TRAITS@", f"traits() {{ {guests.TRAITS}}}")
"""Shell functions; O_DIRECT, so that the volume answers and not the guest's memory."""


# --- guests


@dataclass(frozen=True)
class GuestAccess:
    """Connections to guests."""

    api: "Api"
    namespace: str
    reach: Reach
    keys: Keys
    scratch: Path
    """A short path for SSH's sockets."""

    async def banner(self, name: str, address: str, timeout: float) -> bool:
        """Whether the sshd of machine ``name`` sends its banner, in one attempt."""
        if self.reach == "portforward":
            line = await tunnel.banner(self.api, self.namespace, name, timeout)
        else:
            line = await _direct(address, timeout)
        return bool(line and line.startswith(b"SSH-"))

    @asynccontextmanager
    async def session(self, name: str, address: str, timeout: float = _REACHED) -> AsyncIterator[Session]:
        """A shell on machine ``name`` that knows ``fill``, ``first`` and ``check``. Raises RunFailed."""
        hole = await Tunnel.open(self.api, self.namespace, name, _SSHD) if self.reach == "portforward" else None
        try:
            login = self.keys.login(hole.port) if hole else self.keys.login(_SSHD, address)
            guest = SshGuest(_short(name), login, self.scratch)
            try:
                await guest.open(timeout)
                session = await Session.open(guest, _FUNCTIONS)
                try:
                    yield session
                finally:
                    await session.close()
            finally:
                await guest.close()
        finally:
            if hole:
                await hole.close()


async def fill(session: Session, size: int) -> str:
    """Writes ``size`` bytes of random data into the golden volume, and a stamp that every clone must have. Returns the
    stamp's SHA-256. Raises RunFailed."""
    stamp = (await session.ask(f"fill {size:d}", _FILLED)).strip()
    if len(stamp) != hashlib.sha256().digest_size * 2:
        raise RunFailed(
            "golden-volume",
            f"{session.name} could not write {size} bytes of data into the golden volume",
            hint="platform.root_size must have room for the image and the workload's data",
        )
    return stamp


async def traits(session: Session) -> dict[str, str]:
    """The guest's kernel and system. Raises RunFailed."""
    return guests.traits(await session.ask("traits", _ANSWERED))


async def first(session: Session, name: str) -> str:
    """The first I/O of clone ``name``: reads the golden volume's block and overwrites it with the clone's name,
    flushed. Returns the block's former word. Raises RunFailed."""
    words = (await session.ask(f"first {name}", _ANSWERED)).split()
    if words[:1] != ["done"]:
        raise RunFailed("golden-volume", f"{name}: reading and writing its volume failed (O_DIRECT, 4 KiB)")
    return " ".join(words[1:])


async def check(session: Session) -> tuple[str, str]:
    """The word in the clone's own block, and the SHA-256 of its stamp. Raises RunFailed."""
    word, _, stamp = (await session.ask("check", _ANSWERED)).strip().partition(" ")
    return word, stamp


def _short(name: str) -> str:
    """Part of a control socket's path, which is limited to 100 bytes; long names would share their beginning."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


async def _direct(host: str, timeout: float) -> bytes | None:
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, _SSHD)
            try:
                return await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return None


# --- golden volumes


@dataclass(frozen=True)
class Filled:
    """A golden volume that is ready to be cloned."""

    golden: Golden
    node: str
    """Node on which it was filled; a local volume stays there."""
    stamp: str
    """SHA-256 of the data that every clone must have."""
    traits: Mapping[str, str]
    """Traits of its guest: kernel, system; emulated, if it is."""


async def prepare(
    access: GuestAccess, manifests: Manifests, lane: str, nodes: Sequence[str], *, size: int, notify: Notify
) -> list[Filled]:
    """The golden volumes of ``lane`` (one, or one for each node), each with ``size`` bytes of random data beside the
    image. Raises RunFailed."""
    goldens = manifests.goldens(lane, len(nodes))
    notify(f"lane {lane}: creating {'its golden volume' if len(goldens) == 1 else f'{len(goldens)} golden volumes'}")
    snapshot_class = ""
    spec = manifests.study.lanes[lane]
    if isinstance(spec, StorageClassSpec) and spec.clone == "snapshot":
        snapshot_class = await _snapshot_class(access, spec.storage_class)
    made = (_Making(access, manifests, golden, nodes[golden.number]) for golden in goldens)
    return list(await asyncio.gather(*(making.make(size, snapshot_class) for making in made)))


def of_lane(manifests: Manifests, lane: str) -> str:
    """Label selector of the run's objects of ``lane``, by Fairlane's own labels: CDI overwrites
    app.kubernetes.io/managed-by of claims."""
    return f"{RUN}={manifests.run_id},{LANE}={manifests.slugs[lane]}"


async def _snapshot_class(access: GuestAccess, storage_class: str) -> str:
    """Snapshot class of the driver behind ``storage_class``; of several, the default one."""
    driver = str((await access.api.get(kinds.STORAGE_CLASS, storage_class) or {}).get("provisioner", ""))
    fitting = [item for item in await access.api.list(kinds.SNAPSHOT_CLASS) if item.get("driver") == driver]
    if not fitting:
        raise RunFailed(
            "snapshot-class",
            f"no VolumeSnapshotClass for {plain(driver) or 'the driver'} of storage class {plain(storage_class)}",
            hint="set clone: csi-clone or copy, or create a VolumeSnapshotClass",
        )

    def rank(item: Object) -> tuple[bool, str]:
        meta = item["metadata"]
        return (meta.get("annotations") or {}).get(_DEFAULT_CLASS) != "true", str(meta["name"])

    return str(min(fitting, key=rank)["metadata"]["name"])


@dataclass
class _Making:
    """Makes one golden volume."""

    access: GuestAccess
    manifests: Manifests
    golden: Golden
    node: str

    def __post_init__(self) -> None:
        self._patience = self.manifests.spec.boot_timeout / 1e9

    async def make(self, size: int, snapshot_class: str) -> Filled:
        api, space, name = self.access.api, self.access.namespace, self.golden.name
        await api.create(kinds.DATA_VOLUME, self.manifests.golden_volume(self.golden), space)
        await api.create(kinds.VM, self.manifests.base_vm(self.golden, self.node), space)
        async with self._watcher(kinds.VMI) as instances:
            stamp, traits = await self._fill(instances, size)
            await api.patch(kinds.VM, name, {"spec": {"runStrategy": "Halted"}}, space)
            await instances.until(
                lambda items: None if name in items else True, self._patience, f"{name} does not stop"
            )
        if snapshot_class:
            await api.create(kinds.SNAPSHOT, self.manifests.snapshot(self.golden, snapshot_class), space)
            async with self._watcher(kinds.SNAPSHOT) as snapshots:
                await snapshots.until(self._ready, self._patience, f"snapshot {name} is not ready")
        await api.create(kinds.DATA_SOURCE, self.manifests.data_source(self.golden), space)
        async with self._watcher(kinds.DATA_SOURCE) as sources:
            await sources.until(self._usable, self._patience, f"DataSource {name} is not ready")
        return Filled(self.golden, self.node, stamp, traits)

    def _watcher(self, kind: Kind) -> Watcher:
        return Watcher(self.access.api, kind, self.access.namespace, of_lane(self.manifests, self.golden.lane))

    async def _fill(self, instances: Watcher, size: int) -> tuple[str, Mapping[str, str]]:
        name = self.golden.name
        try:
            vmi = await instances.until(self._running, self._patience, f"{name} does not run")
        except RunFailed as error:
            vm = await self.access.api.get(kinds.VM, name, self.access.namespace)
            why = await diagnose.why(self.access.api, self.access.namespace, name, vm, instances.items.get(name))
            raise RunFailed(error.kind, f"{error.message}: {why}", hint=error.hint) from error
        address = address_of(vmi)
        try:
            async with asyncio.timeout(self._patience):
                while not await self.access.banner(name, address, _ATTEMPT):
                    await asyncio.sleep(_PAUSE)
        except TimeoutError:
            raise RunFailed(
                "unreachable",
                f"{name} runs, but its sshd did not answer within {self._patience:.0f} s",
                hint="the image needs cloud-init and sshd; if it only boots slowly, raise platform.boot_timeout",
            ) from None
        async with self.access.session(name, address) as session:
            return await fill(session, size), await traits(session)

    def _running(self, items: Mapping[str, Object]) -> Object | None:
        vmi = items.get(self.golden.name) or {}
        there = (vmi.get("status") or {}).get("phase") == "Running"
        return vmi if there and (self.access.reach == "portforward" or address_of(vmi)) else None

    def _ready(self, items: Mapping[str, Object]) -> bool | None:
        status = (items.get(self.golden.name) or {}).get("status") or {}
        if message := (status.get("error") or {}).get("message"):
            raise RunFailed("snapshot-failed", f"snapshot {self.golden.name}: {plain(str(message))}")
        return True if status.get("readyToUse") else None

    def _usable(self, items: Mapping[str, Object]) -> bool | None:
        """Whether the DataSource is ready: CDI sets its condition Ready once its volume or snapshot exists."""
        conditions = ((items.get(self.golden.name) or {}).get("status") or {}).get("conditions") or []
        return True if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions) else None
