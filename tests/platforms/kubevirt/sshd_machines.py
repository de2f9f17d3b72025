"""Guests of a played cluster that are real as far as a storm asks them: OpenSSH's sshd, bash and dd on a file system.

Each has a mount namespace, in which the folder that stands for its root volume is /var/lib/fairlane. Cloning a volume
is copying its folder.
"""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairlane.machines import child, ports
from fairlane.machines.keys import Keys
from testkit.debian import USERS, sshd
from testkit.play import Disk, Machines
from testkit.play.client import Client

_START = """
mount --bind "$1/passwd" /etc/passwd
mount -t tmpfs tmpfs /run && mkdir /run/sshd
mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/fairlane && mount --bind "$2" /var/lib/fairlane
exec "$3" -D -f /dev/null -p "$4" -o ListenAddress=127.0.0.1 -o HostKey="$1/host" -o PidFile=none -o UsePAM=no \
  -o AuthorizedKeysFile="$1/user.pub" -o StrictModes=no -o MaxStartups=200
"""


@dataclass
class SshdMachines(Machines):
    """Machines of a Play. ``boot``: seconds until a machine's sshd listens; of some by name: ``slow``."""

    keys: Keys
    folder: Path
    boot: float = 0.0
    slow: Mapping[str, float] = field(default_factory=dict)
    """Seconds of machines whose names end so."""
    volumes: str = "copied"
    """copied; ``empty``: a clone has nothing of its source; ``shared``: all clones are one folder."""
    ports: dict[str, socket.socket] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    listening: dict[str, float] = field(default_factory=dict)
    """Machine -> loop time from which its sshd may be reached."""

    def __post_init__(self) -> None:
        if os.geteuid():
            pytest.skip("needs root: every guest has a mount namespace of its own")
        self.program, self.library = sshd()
        (self.keys.folder / "passwd").write_text(USERS)
        self.folder.mkdir(exist_ok=True)

    async def provision(self, volume: str, size: int, source: str, way: str) -> None:
        if source and self.volumes == "shared":
            (self.folder / volume).symlink_to(self.folder / source)
        elif source and self.volumes == "copied":
            await asyncio.to_thread(shutil.copytree, self.folder / source, self.folder / volume)
        else:
            (self.folder / volume).mkdir()

    async def snapshot(self, handle: str, volume: str) -> None:
        await asyncio.to_thread(shutil.copytree, self.folder / volume, self.folder / handle)

    async def remove(self, volume: str) -> None:
        if (self.folder / volume).is_symlink():
            (self.folder / volume).unlink()
        else:
            await asyncio.to_thread(shutil.rmtree, self.folder / volume, ignore_errors=True)

    async def start(self, client: Client, vmi: Mapping[str, Any], disks: Sequence[Disk]) -> None:
        name = str(vmi["metadata"]["name"])
        root = next(disk for disk in disks if disk.name == "root")
        if name not in self.ports:
            self.ports[name] = ports.reserve_port()
        words = [str(self.keys.folder), str((self.folder / root.volume).resolve()), str(self.program)]
        self.running[name] = subprocess.Popen(
            [*child.WITH_US, str(os.getpid()), "unshare", "--mount", "--pid", "--fork", "--kill-child",
             "sh", "-ec", _START, "sh", *words, str(self._port(name))],
            env={**os.environ, "LD_LIBRARY_PATH": self.library}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait = next((seconds for end, seconds in self.slow.items() if name.endswith(end)), self.boot)
        self.listening[name] = asyncio.get_running_loop().time() + wait

    async def stop(self, namespace: str, name: str) -> None:
        self.listening.pop(name, None)
        if process := self.running.pop(name, None):
            process.kill()
            await asyncio.to_thread(process.wait)

    def address(self, namespace: str, name: str, port: int) -> tuple[str, int] | None:
        since = self.listening.get(name)
        return None if since is None or asyncio.get_running_loop().time() < since else ("127.0.0.1", self._port(name))

    def _port(self, name: str) -> int:
        return ports.number(self.ports[name])

    async def close(self) -> None:
        for name in list(self.running):
            await self.stop("", name)
        for reserved in self.ports.values():
            reserved.close()
