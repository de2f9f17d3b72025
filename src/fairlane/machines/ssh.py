"""Run scripts on a guest with the system's OpenSSH: one class for the lab, clusters and plain hosts.

One master connection per guest (``ControlMaster``), so that a command takes a round trip and no handshake; a key
generated for the run, host keys pinned. The master is a child process and ends with Fairlane.
"""

import asyncio
import os
import shlex
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairlane.errors import RunFailed, Unfinished
from fairlane.machines import child, device_guard, frames
from fairlane.machines.base import Guest

_CONNECT = 10
"""Seconds for one attempt to connect, at first: an idle emulated guest takes one."""
_CHUNK = 1 << 16
_TAIL = 600
_ENDED = "fairlane-ended"
"""Name of the frame with a script's exit status: without it the connection was lost."""

LIBRARY = "/fairlane/lib.sh"
"""Path of the shell functions on machines built from the lab's image."""
_WRAPPED = """d=$(mktemp -d /run/fairlane.XXXXXX) || exit 1
STEP=$d/step
{{
  ( eval {script} ) 2> $d/err < /dev/null
  s=$?
  mkdir $d/end
  echo $s > $d/end/status
  tail -c 4000 $d/err > $d/end/err
  cat $STEP > $d/end/step 2> /dev/null
  send {ended} $d/end
  rm -rf $d
}} | cat
"""


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


class SshGuest(Guest):
    """A machine behind sshd. ``open`` before use, ``close`` after it."""

    def __init__(self, name: str, login: Login, scratch: Path, library: str = LIBRARY) -> None:
        """``scratch``: an existing folder for the control socket; its path must be short (sockets have 100 bytes).
        ``library``: path on the guest of the functions that scripts call."""
        self.name = name
        self.login = login
        self._library = library
        self._socket = scratch / f"{name}.ssh"
        self._log = scratch / f"{name}.ssh.log"
        self._master: asyncio.subprocess.Process | None = None
        self._idle: list[asyncio.subprocess.Process] = []
        """Shells that wait for their next script."""

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
                    f"{self.name} was not reached over SSH within {timeout:.0f} s: {log_end or 'no answer'}",
                )
            if time.monotonic() - tried >= connect:  # it may be there, and only slow: each try with more patience
                connect *= 2
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Ends the master connection and its shells; never raises."""
        for shell in self._idle:
            await child.end(shell)
        self._idle.clear()
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
            raise RunFailed("connection-lost", f"the connection to {self.name} is lost")
        return await asyncio.create_subprocess_exec(
            *self._command("-o", "ControlMaster=no", "-T"), "--", *words,
            stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True,
        )  # fmt: skip

    async def run(self, script: str, timeout: float) -> AsyncGenerator[tuple[str, Mapping[str, bytes]]]:
        """As ``Guest.run``; ``lib.sh`` is loaded before the script. Raises RunFailed, with stderr if the script fails,
        or if the connection is lost, and Unfinished after ``timeout``."""
        # Through cat, because sshd's standard output may be a socket, which /dev/stdout cannot open; and whole before
        # it runs, so that nothing in it can eat the rest.
        whole = _WRAPPED.format(script=shlex.quote(script), ended=_ENDED)
        shell = await self._shell()
        assert shell.stdin and shell.stdout and shell.stderr  # noqa: S101, PT018 - opened as pipes
        reader, ended = frames.Frames(), False
        deadline = time.monotonic() + timeout
        try:
            with suppress(ConnectionError):
                shell.stdin.write(whole.encode())
                await shell.stdin.drain()
            while not ended:
                remaining = deadline - time.monotonic()
                try:
                    data = await asyncio.wait_for(shell.stdout.read(_CHUNK), max(remaining, 0.01))
                except TimeoutError:
                    raise Unfinished(
                        "timeout", f"{self.name} did not finish its script within {timeout:.0f} s"
                    ) from None
                for name, files in reader.feed(data):
                    if name == _ENDED:
                        ended = True
                        self._idle.append(shell)
                        self._judge(files)
                    else:
                        yield name, files
                if not data and not ended:
                    stderr = (await shell.stderr.read()).decode(errors="replace").strip()[-_TAIL:]
                    raise RunFailed(
                        "connection-lost", f"the connection to {self.name} was lost: {stderr or 'no message'}"
                    )
        finally:
            if not ended:
                await child.end(shell)

    async def _shell(self) -> asyncio.subprocess.Process:
        """A shell on the guest with ``lib.sh`` loaded: an idle one, or a new one. Starting one takes an emulated guest
        longer than most scripts."""
        while self._idle:
            shell = self._idle.pop()
            if self.alive and shell.returncode is None:
                return shell
            await child.end(shell)
        shell = await self.start(("sh", "-s"))
        assert shell.stdin  # noqa: S101 - opened as pipe
        shell.stdin.write(f". {self._library}\n".encode())
        return shell

    def _judge(self, files: Mapping[str, bytes]) -> None:
        status = frames.text(files, "status").strip()
        if status != "0":
            if refused := device_guard.refusal(frames.text(files, "err"), self.name):
                raise refused
            stderr = frames.text(files, "err").strip()[-_TAIL:]
            step = frames.text(files, "step").strip()
            at = f" in step {step!r}" if step else ""
            raise RunFailed(
                "script-failed", f"a script failed on {self.name}{at} (exit {status}): {stderr or 'no message'}"
            )
