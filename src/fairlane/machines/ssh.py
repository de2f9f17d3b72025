"""Run scripts on a guest with the system's OpenSSH: one class for the lab, clusters and plain hosts.

One master connection per guest (``ControlMaster``), so that a command takes a round trip and no handshake; a key
generated for the run, host keys pinned. The master is a child process and ends with Fairlane.
"""

import asyncio
import os
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairlane.errors import RunFailed
from fairlane.machines import child
from fairlane.machines.shell import Fate, ShellGuest, unknown

_CONNECT = 10
"""Seconds for one attempt to connect, at first: an idle emulated guest takes one."""
_TAIL = 600

LIBRARY = "/fairlane/lib.sh"
"""Path of the shell functions on machines built from the lab's image."""


@dataclass(frozen=True)
class Login:
    """Address, user and keys of a guest."""

    host: str
    port: int
    user: str
    key: Path
    known_hosts: Path
    alias: str
    """Name under which the host key is pinned in ``known_hosts``."""


class SshGuest(ShellGuest):
    """A machine behind sshd. ``open`` before use, ``close`` after it."""

    def __init__(self, name: str, login: Login, scratch: Path, library: str = LIBRARY, fate: Fate = unknown) -> None:
        """``scratch``: an existing folder for the control socket; its path must be short (sockets have 100 bytes).
        ``library``: path on the guest of the functions that scripts call. ``fate``: why the machine has ended."""
        super().__init__(name, library, fate)
        self.login = login
        self._socket = scratch / f"{name}.ssh"
        self._log = scratch / f"{name}.ssh.log"
        self._master: asyncio.subprocess.Process | None = None

    def _command(self, *words: str, connect: int = _CONNECT) -> list[str]:
        login = self.login
        options = (
            "BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=yes", "LogLevel=ERROR",
            f"ConnectTimeout={connect}",
            "ServerAliveInterval=5", "ServerAliveCountMax=6", f"IdentityFile={login.key}",
            f"HostKeyAlias={login.alias}", f"UserKnownHostsFile={login.known_hosts}", f"ControlPath={self._socket}",
        )  # fmt: skip
        return [
            "ssh", "-F", "none", "-p", str(login.port), *(w for o in options for w in ("-o", o)), *words,
            f"{login.user}@{login.host}",
        ]  # fmt: skip

    async def open(self, timeout: float) -> float:
        """Connects, trying again until the guest's sshd answers. Returns the seconds it took. Raises RunFailed."""
        began, connect = time.monotonic(), _CONNECT
        while True:
            tried = time.monotonic()
            words = self._command("-M", "-N", "-o", "ControlPersist=no", connect=connect)
            command = [*child.WITH_US, str(os.getpid()), *words]
            with self._log.open("wb") as log:
                self._master = await asyncio.create_subprocess_exec(
                    *command, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            while self._master.returncode is None and time.monotonic() - began < timeout:
                if self._socket.exists():
                    return time.monotonic() - began
                await asyncio.sleep(0.02)
            if time.monotonic() - began >= timeout:
                log_end = self._log.read_text(errors="replace").strip()[-_TAIL:]
                await self.close()
                raise RunFailed(
                    "unreachable",
                    f"{self.name} did not accept an SSH connection within {timeout:.0f} s: {log_end or 'no answer'}",
                )
            if time.monotonic() - tried >= connect:  # it may be there, and only slow: each try with more patience
                connect *= 2
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Ends the master connection and its shells; never raises."""
        await self.release()
        if self._master:
            await child.end(self._master)
        with suppress(OSError):
            self._socket.unlink()

    @property
    def alive(self) -> bool:
        """Whether the master connection is open."""
        return self._master is not None and self._master.returncode is None

    async def start(self, words: Sequence[str]) -> asyncio.subprocess.Process:
        """A command on the guest with pipes; the caller waits for it and ends it."""
        if not self.alive:
            raise await self.lost("")
        return await asyncio.create_subprocess_exec(
            *self._command("-o", "ControlMaster=no", "-T"), "--", *words,
            stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True,
        )  # fmt: skip
