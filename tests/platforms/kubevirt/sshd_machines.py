"""Guests of a played cluster that are real as far as a storm asks them: OpenSSH's sshd, bash and dd on a file system.

Each has a mount namespace, in which the folder that stands for its root volume is /var/lib/fairlane. Cloning a volume
is copying its folder.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairlane.machines import child
from fairlane.machines.keys import Keys
from fairlane.runs.files import cache_dir
from testkit.play import Disk, Machines
from testkit.play.client import Client

_PACKAGES = ("openssh-server", "libwrap0")
_START = """
mount --bind "$1/passwd" /etc/passwd
mount -t tmpfs tmpfs /run && mkdir /run/sshd
mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/fairlane && mount --bind "$2" /var/lib/fairlane
exec "$3" -D -f /dev/null -p "$4" -o ListenAddress=127.0.0.1 -o HostKey="$1/host" -o PidFile=none -o UsePAM=no \
  -o AuthorizedKeysFile="$1/user.pub" -o StrictModes=no -o MaxStartups=200
"""


def sshd() -> tuple[Path, str]:
    """sshd and the folder of its libraries: Debian's package, unpacked into the cache. Skips where it is not to be
    had."""
    if os.geteuid():
        pytest.skip("needs root: every guest has a mount namespace of its own")
    folder = cache_dir() / "sshd"
    program = folder / "usr/sbin/sshd"
    if not program.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="sshd-") as place:
            whole = Path(place) / "whole"
            whole.mkdir()
            try:
                subprocess.run(["apt-get", "-q", "download", *_PACKAGES], cwd=place, check=True, capture_output=True)
                for package in sorted(Path(place).glob("*.deb")):
                    subprocess.run(["dpkg", "-x", package, whole], check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"no sshd, and Debian's could not be fetched: {error}; apt-get update may help")
            # All of it or nothing is in the cache, also where this is killed or another test does the same.
            if not program.exists():
                shutil.rmtree(folder, ignore_errors=True)
                with suppress(OSError):  # another was quicker
                    whole.rename(folder)
    (library,) = {path.parent for path in folder.rglob("libwrap.so.0")}
    return program, str(library)


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
    """Reserved: bound and not listening, so that beside it only who says SO_REUSEADDR, as sshd does, gets the port."""
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    listening: dict[str, float] = field(default_factory=dict)
    """Machine -> loop time from which its sshd may be reached."""

    def __post_init__(self) -> None:
        self.program, self.library = sshd()
        rows = "root:x:0:0::/root:/bin/bash\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n"
        (self.keys.folder / "passwd").write_text(rows)
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
            self.ports[name] = socket.socket()
            self.ports[name].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.ports[name].bind(("127.0.0.1", 0))
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
        return int(self.ports[name].getsockname()[1])

    async def close(self) -> None:
        for name in list(self.running):
            await self.stop("", name)
        for reserved in self.ports.values():
            reserved.close()
