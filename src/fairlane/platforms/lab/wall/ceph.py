"""A Ceph cluster on this machine, for the lanes that need one: a monitor, a manager, OSDs, and for CephFS an MDS and a
mount. All processes are children of Fairlane, on loopback, in one folder, with their own keys; nothing outlives the
run.

All copies are on one machine, so the failure domain is the OSD: the cluster shows the cost of Ceph's
software without that of several machines and their network.
"""

import asyncio
import base64
import os
import secrets
import shutil
import signal
import struct
import time
import uuid
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress
from json import loads
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fairlane import install
from fairlane.errors import FairlaneError, RunFailed, because
from fairlane.lanes._ceph import METADATA_COPIES, CephSpec
from fairlane.machines.child import WITH_US, signal_group
from fairlane.machines.concurrency import finish_all
from fairlane.machines.ports import number, reserve_port
from fairlane.platforms.lab import qemu
from fairlane.platforms.lab.spec import Ceph
from fairlane.platforms.lab.wall import qemu_probe
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.study.base import LaneSpec

PROGRAMS: Mapping[str, str] = {
    "ceph-mon": "ceph-mon", "ceph-osd": "ceph-osd", "ceph-mgr": "ceph-mgr", "ceph": "ceph-common",
    "rbd": "ceph-common", "rados": "ceph-common", "monmaptool": "ceph-base",
}  # fmt: skip
FILESYSTEM: Mapping[str, str] = {"ceph-mds": "ceph-mds", "ceph-fuse": "ceph-fuse"}
"""Program -> Debian package; the second for CephFS."""

OSD_OVERHEAD = 320 * 2**20
"""Bytes of an OSD that BlueStore keeps for itself; an empty OSD had 290 MiB."""
_FULL = 0.8
"""Share of an OSD that may be used: Ceph warns at 0.85, and images are spread unevenly."""
_HEALTHY = 300.0
"""Seconds until the cluster must be healthy: about 10 on an idle machine."""
_TIMEOUT = 300.0
"""Seconds for one command."""
_TAIL = 600

_CAPS: Mapping[str, Mapping[str, str]] = {
    "mon.": {"mon": "allow *"},
    "client.admin": {"mon": "allow *", "osd": "allow *", "mds": "allow *", "mgr": "allow *"},
    "mgr.a": {"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"},
    "mds.a": {"mon": "allow profile mds", "osd": "allow rw tag cephfs *=*", "mds": "allow", "mgr": "allow profile mds"},
}
_UNUSED = (
    "alerts,cephadm,cli_api,dashboard,diskprediction_local,hello,influx,insights,iostat,k8sevents,localpool,"
    "mds_autoscaler,mirroring,nfs,osd_perf_query,osd_support,prometheus,restful,rook,selftest,snap_schedule,stats,"
    "telegraf,test_orchestrator,zabbix"
)
"""Modules of the manager that nothing here uses: it loads each one, at a second apiece on a busy machine."""
_OSD_CAPS = {"mon": "allow profile osd", "osd": "allow *", "mgr": "allow profile osd"}


class Cluster:
    """One cluster in ``folder``, which must not exist and whose path must be short (sockets have 100 bytes). Clients
    use ``folder/ceph.conf``; CephFS is mounted on ``folder/fs``. Either ``async with``, or ``start`` and ``stop``."""

    def __init__(self, folder: Path, spec: Ceph, *, filesystem: bool = False) -> None:
        self.folder, self.spec, self.filesystem = folder, spec, filesystem
        self.start_seconds = 0.0
        """From nothing to all placement groups active and clean."""
        self._daemons: dict[str, asyncio.subprocess.Process] = {}
        self._reserved = reserve_port()

    @property
    def mount(self) -> Path:
        """Mount point of CephFS."""
        return self.folder / "fs"

    async def start(self) -> None:
        """Makes the cluster and waits until it is healthy. Raises RunFailed with the failed daemon's stderr."""
        began = time.monotonic()
        self._write()
        osds = {str(i): str(uuid.uuid4()) for i in range(self.spec.osds)}
        port = number(self._reserved)
        monmap = ("monmaptool", "--create", "--fsid", self._fsid, "--addv", "a", f"[v2:127.0.0.1:{port}]", "monmap")
        await self._run(*monmap)
        await self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", "monmap", "--keyring", "keyring")
        await self._daemon("mon.a")
        await self._daemon("mgr.a")
        # without the monitors' configuration, OSDs can be formatted while the monitor starts
        format_ = [
            self._run("ceph-osd", "--no-mon-config", "--mkfs", "-i", i, "--osd-uuid", u) for i, u in osds.items()
        ]
        register = self.ask(stdin="".join(f"osd new {u} {i}\n" for i, u in osds.items()))
        await finish_all(register, *format_)
        for i in osds:
            await self._daemon(f"osd.{i}")
        if self.filesystem:
            await self._daemon("mds.a")
            await self.ask(stdin="osd pool create cephfs.meta 16\nosd pool create cephfs.data 16\n"
                                 "fs new cephfs cephfs.meta cephfs.data\n")  # fmt: skip
        await self._healthy()
        if self.filesystem:
            await self._mount()
        self.start_seconds = time.monotonic() - began

    def _write(self) -> None:
        """Folders, configuration and keys."""
        self.folder.mkdir(mode=0o700)
        self._fsid = str(uuid.uuid4())
        names = ["mon.a", "mgr.a", *(f"osd.{i}" for i in range(self.spec.osds)), *(["mds.a"] * self.filesystem)]
        for name in (*names, "log"):
            (self.folder / name).mkdir()
        (self.folder / "ceph.conf").write_text(
            configuration(self.folder, self._fsid, number(self._reserved), self.spec)
        )
        caps = {**_CAPS, **{f"osd.{i}": _OSD_CAPS for i in range(self.spec.osds)}}
        handle = os.open(self.folder / "keyring", os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(handle, "w") as file:
            for name, grants in caps.items():
                file.write(f"[{name}]\nkey = {_key()}\n" + "".join(f'caps {k} = "{v}"\n' for k, v in grants.items()))

    async def _daemon(self, name: str) -> None:
        kind, _, ident = name.partition(".")
        await self._child(name, f"ceph-{kind}", "-f", "-i", ident)

    async def _child(self, name: str, *words: str) -> None:
        command = [*WITH_US, str(os.getpid()), words[0], "-c", "ceph.conf", *words[1:]]
        with (self.folder / "log" / f"{name}.err").open("wb") as log:
            self._daemons[name] = await asyncio.create_subprocess_exec(
                *command, stdin=DEVNULL, stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
                env=_environment(),
            )  # fmt: skip

    async def _healthy(self) -> None:
        """Waits until every OSD is up, every placement group is active and clean and the file system has its MDS."""
        deadline = time.monotonic() + _HEALTHY
        while missing := self._missing(loads(await self.ask("-s", "-f", "json"))):
            if time.monotonic() > deadline:
                raise RunFailed(
                    "ceph-health", f"the Ceph cluster did not become healthy within {_HEALTHY:.0f} s: {missing}"
                )
            await asyncio.sleep(0.2)

    def _missing(self, status: Mapping[str, Any]) -> str:
        """The part that is not ready yet; empty: the cluster is healthy."""
        states = {s["state_name"] for s in status["pgmap"].get("pgs_by_state", ())}
        up = status["osdmap"]["num_up_osds"]
        if up < self.spec.osds:
            return f"{up} of {self.spec.osds} OSDs are up"
        if not status["mgrmap"]["available"]:
            return "no manager is active"
        if not states or states != {"active+clean"}:
            return f"placement groups are {', '.join(sorted(states)) or 'missing'}"
        if self.filesystem and not any("active" in r["status"] for r in status["fsmap"]["by_rank"]):
            return "the MDS is not active"
        return ""

    async def _mount(self) -> None:
        """Mounts CephFS with ceph-fuse, which serves the mount for as long as it lives."""
        self.mount.mkdir()
        await self._child("ceph-fuse", "ceph-fuse", "-f", str(self.mount))
        deadline = time.monotonic() + _TIMEOUT
        while not self.mount.is_mount():
            self._complain()
            if time.monotonic() > deadline:
                raise RunFailed(
                    "ceph-mount",
                    f"ceph-fuse did not mount CephFS within {_TIMEOUT:.0f} s: {self._log_end('ceph-fuse')}",
                )
            await asyncio.sleep(0.1)

    async def ask(self, *words: str, stdin: str = "") -> str:
        """The stdout of ``ceph WORDS``, or of commands on its stdin, one a line. Raises RunFailed if it fails; a failed
        command on stdin does not raise."""
        return await self._run("ceph", *words, stdin=stdin)

    async def _run(self, program: str, *words: str, stdin: str = "") -> str:
        """Runs one command in the cluster's folder. Kills it if a daemon dies: it would wait for the daemon."""
        process = await asyncio.create_subprocess_exec(
            *WITH_US, str(os.getpid()), program, "-c", "ceph.conf", *words, cwd=self.folder, start_new_session=True,
            stdin=PIPE, stdout=PIPE, stderr=PIPE, env=_environment(),
        )  # fmt: skip
        ended = asyncio.ensure_future(process.communicate(stdin.encode()))
        dead = [asyncio.ensure_future(daemon.wait()) for daemon in self._daemons.values()]
        try:
            await asyncio.wait([ended, *dead], timeout=_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._complain()
                raise RunFailed("timeout", f"{program} {' '.join(words)} did not end within {_TIMEOUT:.0f} s")
            out, err = ended.result()
        finally:
            if process.returncode is None:
                signal_group(process.pid, signal.SIGKILL)
            for task in dead:
                task.cancel()
            await asyncio.gather(ended, *dead, return_exceptions=True)
        if process.returncode:
            raise RunFailed(
                "ceph-command", f"{program} {' '.join(words)} failed: {err.decode(errors='replace').strip()[-_TAIL:]}"
            )
        return out.decode(errors="replace")

    def _complain(self) -> None:
        """Raises RunFailed if a daemon has ended."""
        for name, process in self._daemons.items():
            if process.returncode is not None:
                raise RunFailed(
                    "ceph-ended", f"Ceph's {name} has ended (exit {process.returncode}){because(self._log_end(name))}"
                )

    def _log_end(self, name: str) -> str:
        with suppress(OSError):
            return (self.folder / "log" / f"{name}.err").read_text(errors="replace").strip()[-_TAIL:]
        return ""

    async def version(self) -> str:
        """Version of Ceph. Raises RunFailed."""
        words = (await self._run("ceph", "--version")).split()
        return words[2] if len(words) > 2 else "unknown"

    async def describe(self) -> dict[str, str]:
        """Description of the cluster: version, health, store, start time. Raises RunFailed."""
        status = loads(await self.ask("-s", "-f", "json"))
        checks = ", ".join(sorted(status["health"]["checks"]))
        store = "memory (memstore)" if self.spec.memstore else "files of this machine (BlueStore)"
        return {
            "ceph.version": await self.version(),
            "ceph.health": status["health"]["status"] + (f" ({checks})" if checks else ""),
            "ceph.osds": f"{status['osdmap']['num_up_osds']} up, {status['osdmap']['num_in_osds']} in, on one machine",
            "ceph.store": store,
            "ceph.pgs": str(status["pgmap"]["num_pgs"]),
            "ceph.used": f"{status['pgmap']['bytes_used']} of {status['pgmap']['bytes_total']} bytes",
            "ceph.failure_domain": "osd",
            "ceph.start_seconds": f"{self.start_seconds:.1f}",
        }

    async def stop(self) -> None:
        """Unmounts, ends every process and removes the folder. Never raises. The data is discarded: there is nothing to
        flush. Clients must have ended before: their I/O would wait for ever."""
        if self.filesystem:
            with suppress(OSError):
                lazy = await asyncio.create_subprocess_exec(
                    "umount", "--lazy", str(self.mount), stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
                )
                await lazy.wait()
        for process in self._daemons.values():
            if process.returncode is None:
                signal_group(process.pid, signal.SIGKILL)
        await asyncio.gather(*(process.wait() for process in self._daemons.values()), return_exceptions=True)
        self._daemons.clear()
        self._reserved.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def configuration(folder: Path, fsid: str, port: int, spec: Ceph) -> str:
    """``ceph.conf`` for daemons and clients: pure. All bind to loopback; OSDs, manager and MDS choose free ports."""
    store = "memstore" if spec.memstore else "bluestore"
    return f"""[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{port}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr1 = false
keyring = {folder}/keyring
run dir = {folder}
log file = {folder}/log/$name.log
mon data = {folder}/$name
mgr data = {folder}/$name
osd data = {folder}/$name
mds data = {folder}/$name
# one machine: copies go to different OSDs
osd crush chooseleaf type = 0
# what a pool is made of does not change while it is measured
osd pool default pg autoscale mode = off
osd pool default size = {min(3, spec.osds)}
mon allow pool size one = true
mon max pg per osd = 1000
mon allow pool delete = true
mon warn on pool no redundancy = false
auth allow insecure global id reclaim = false
# how full the disk under the scratch folder is, is none of Ceph's business
mon data avail warn = 1
mon data avail crit = 1
osd objectstore = {store}
bluestore block size = {spec.osd_size}
memstore device bytes = {spec.osd_size}
bluestore cache autotune = false
bluestore cache size = {spec.osd_cache}
osd memory target = {max(spec.osd_cache + 2**29, 896 * 2**20)}
mgr initial modules =
mgr disabled modules = {_UNUSED}
[mon]
admin socket = {folder}/$name.asok
[mgr]
admin socket = {folder}/$name.asok
mgr/devicehealth/enable_monitoring = false
[osd]
admin socket = {folder}/$name.asok
[mds]
admin socket = {folder}/$name.asok
"""


def problems(spec: Ceph, volumes: Sequence[Volume]) -> list[FairlaneError]:
    """Missing parts of the cluster for ``volumes``: programs, OSDs, room."""
    own = [v for v in volumes if v.needs_ceph]
    if not own:
        return []
    filesystem = any(v.transport.backing == "cephfs" for v in own)
    wanted = {**PROGRAMS, **(FILESYSTEM if filesystem else {})}
    missing = {package for program, package in wanted.items() if not shutil.which(program)}
    drivers = [v.transport.driver for v in own if v.transport.driver]
    if drivers and shutil.which(qemu.BINARY) and not all(map(qemu_probe.has_driver, drivers)):
        missing.add("qemu-block-extra")
    problems = []
    if missing:
        problems.append(
            FairlaneError(
                "package-missing",
                f"Ceph lanes need packages that are not installed: {', '.join(sorted(missing))}",
                hint="run: scripts/setup.sh ceph"
                if install.checkout()
                else f"run: {install.packages(*sorted(missing))}",
            )
        )
    if filesystem and os.geteuid() != 0:
        problems.append(FairlaneError("root-needed", "mounting CephFS on this machine needs root", hint="run as root"))
    return [*problems, *_room(spec, own)]


def _room(spec: Ceph, volumes: Sequence[Volume]) -> list[FairlaneError]:
    problems = []
    widest = max(volumes, key=lambda v: _width(v.spec))
    if _width(widest.spec) > spec.osds:
        problems.append(
            FairlaneError(
                "ceph-osds",
                f"lanes.{widest.lane}: its pools need {_width(widest.spec)} OSDs, but ceph.osds is {spec.osds}",
                where="platform.ceph",
                hint=f"set platform.ceph.osds: {_width(widest.spec)}",
            )
        )
    needed = sum(v.medium_size for v in volumes)
    room = int(spec.osds * (_FULL * spec.osd_size - (0 if spec.memstore else OSD_OVERHEAD)))
    if needed > room:
        problems.append(
            FairlaneError(
                "ceph-space",
                f"the volumes and their copies need {needed / 2**30:.1f} GiB, but {spec.osds} OSDs of "
                f"{spec.osd_size / 2**30:.1f} GiB hold only {max(room, 0) / 2**30:.1f} GiB before they are nearly full",
                where="platform.ceph",
                hint="lower platform.medium.size, or raise platform.ceph.osd_size",
            )
        )
    return problems


def _width(spec: LaneSpec) -> int:
    """OSDs that the pools of a lane need."""
    if not isinstance(spec, CephSpec):
        return 1
    return max(spec.width, METADATA_COPIES) if spec.chunks else spec.width


def _environment() -> dict[str, str]:
    """Fairlane's environment without settings for the user's own cluster (CEPH_CONF, CEPH_ARGS, CEPH_KEYRING)."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CEPH_")}


def _key() -> str:
    """A new cephx secret: type 1 (AES), time, length, 16 bytes (Ceph: src/auth/Crypto.cc)."""
    return base64.b64encode(struct.pack("<hiih", 1, int(time.time()), 0, 16) + secrets.token_bytes(16)).decode()
