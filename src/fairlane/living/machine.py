"""One machine: this one, or one that the user's ssh reaches; its folder, its keeper, what it is."""

import asyncio
import hashlib
import os
import re
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from shlex import quote

from fairlane.errors import FairlaneError, RunFailed
from fairlane.living.destination import LOCAL
from fairlane.machines import child, library, script
from fairlane.machines.folders import Folders
from fairlane.machines.shell import ShellGuest

ANSWER = 30.0
"""Seconds that a machine may take to answer ssh: one that is busy takes many times what an idle one does."""
_PAUSE = 1.0
_TAIL = 600
_TIMEOUT = 60.0
SHARED = "/var/tmp"  # noqa: S108 - folders in it have names of their own, and their owner is checked
"""Folder of the runs' folders."""
NEEDED = ("bash", "tar", "gzip", "sha256sum", "stat", "mktemp", "awk", "fallocate")
"""Programs that scripts call on every machine, besides those of workloads."""


class Machine(ShellGuest):
    """A machine of the study. ``connect`` before use, ``close`` after it."""

    def __init__(self, name: str, destination: str, run: str, scratch: Path, answer: float = ANSWER) -> None:
        """``scratch``: a folder here for the control socket; its path must be short. ``answer``: seconds that the
        machine may take to answer ssh."""
        self.folder = self.folder_of(run)
        super().__init__(name, f"{self.folder}/lib.sh")
        self.destination = destination
        self.run_id = run
        self.answer = answer
        self.folders = Folders(f"{self.folder}/lane", f"{self.folder}/run")
        self.notes = f"{self.folder}/undo"
        self.root = False
        """Whether scripts run as root."""
        self.facts: dict[str, str] = {}
        self._become = ""
        self._socket = scratch / f"{hashlib.sha256(name.encode()).hexdigest()[:8]}.ssh"
        self._log = self._socket.with_suffix(".log")
        self._master: Process | None = None
        self._keeper: Process | None = None
        self._open = False

    @staticmethod
    def folder_of(run: str) -> str:
        """Folder of a run on every machine; it survives a reboot, and so does the list of what is to be undone."""
        return f"{SHARED}/fairlane-{run}"

    @property
    def local(self) -> bool:
        """Whether it is this machine."""
        return self.destination == LOCAL

    @property
    def alive(self) -> bool:
        return self._open and (self.local or (self._master is not None and self._master.returncode is None))

    # --- connection

    def _ssh(self, *words: str) -> list[str]:
        """The user's own ssh: configuration, agent and jump hosts hold. What would get in the way is switched off: a
        terminal, forwarded ports, questions; and the host's key is checked whatever the configuration says."""
        options = (
            "BatchMode=yes", "StrictHostKeyChecking=yes", "LogLevel=ERROR",
            f"ConnectTimeout={max(1, round(self.answer))}",
            "ServerAliveInterval=5", "ServerAliveCountMax=6", "ClearAllForwardings=yes", "RequestTTY=no",
            "RemoteCommand=none", "PermitLocalCommand=no", f"ControlPath={self._socket}",
        )  # fmt: skip
        return ["ssh", *(w for o in options for w in ("-o", o)), *words, self.destination]

    async def connect(self, patience: float = 0.0) -> None:
        """Connects; tries again for ``patience`` seconds if nobody answers. Raises RunFailed: no answer, wrong host
        key, no right to log in."""
        await self.close()
        if not self.local:
            await self._connect(time.monotonic() + patience)
        self._open = True

    async def _connect(self, ends: float) -> None:
        while True:
            with self._log.open("wb") as log:
                self._master = await asyncio.create_subprocess_exec(
                    *child.WITH_US, str(os.getpid()), *self._ssh("-M", "-N", "-o", "ControlPersist=no"),
                    stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
            deadline = time.monotonic() + 3 * self.answer
            while self._master.returncode is None and time.monotonic() < deadline:
                if self._socket.exists():
                    return
                await asyncio.sleep(0.02)
            await child.end(self._master)
            error = unreachable(self.name, self.destination, self._log.read_text(errors="replace"))
            if error.kind != "unreachable" or time.monotonic() > ends:
                raise error
            await asyncio.sleep(_PAUSE)

    async def start(self, words: Sequence[str]) -> Process:
        # the mark is in the environment of every shell: those that hang are found after a kill
        return await self._start(("env", f"FAIRLANE_RUN={self.run_id}", *words))

    async def _start(self, words: Sequence[str]) -> Process:
        if not self.alive:
            raise RunFailed("connection-lost", f"the connection to {self.name} is lost")
        command = " ".join(words)
        if self.local:
            argv = [*child.WITH_US, str(os.getpid()), "sh", "-c", f"exec {self._become}{command}"]
        else:
            argv = [*self._ssh("-o", "ControlMaster=no", "-T"), "--", f"{self._become}{command}"]
        return await asyncio.create_subprocess_exec(*argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True)

    async def plain(self, text: str, timeout: float = _TIMEOUT) -> tuple[int, str, str]:
        """Runs ``text`` in a shell without the library: exit code, stdout, stderr. Raises RunFailed."""
        return await self._plain(text, self.start, timeout)

    async def _plain(
        self, text: str, start: Callable[[Sequence[str]], Awaitable[Process]], timeout: float
    ) -> tuple[int, str, str]:
        process = await start(("sh", "-s"))
        try:
            out, err = await asyncio.wait_for(process.communicate(text.encode()), timeout)
        except TimeoutError:
            raise RunFailed("timeout", f"{self.name} did not answer within {timeout:.0f} s") from None
        finally:
            await child.end(process)
        code = process.returncode or 0
        if code == 255 and not self.local:
            raise RunFailed("connection-lost", f"the connection to {self.name} was lost: {_last(err)}")
        return code, out.decode(errors="replace"), err.decode(errors="replace")

    # --- what is needed there

    async def earlier_keeper(self) -> None:
        """Waits until the keeper of a connection that broke has ended: it ends all shells with the run's mark, and
        removes the run's folder. Raises RunFailed."""
        await self._plain(f"{_resource('alive.sh')}\nended {self.folder}", self._start, _TIMEOUT)

    async def become_root(self) -> None:
        """From now on scripts run as root: the login is root's, or ``sudo -n`` works. Raises FairlaneError."""
        self._become = ""
        code, out, _ = await self.plain("id -u")
        self.root = code == 0 and out.strip() == "0"
        if self.root:
            return
        user = (await self.plain("id -un"))[1].strip()
        code, _, err = await self.plain("sudo -n true")
        if code:
            raise FairlaneError(
                "no-root",
                f"machine {self.name}: {user} cannot become root: {_last(err.encode()) or 'sudo -n failed'}",
                where=f"platform.machines.{self.name}",
                hint=f"log in as root, or allow sudo: echo '{user} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/fairlane",
            )
        self._become, self.root = "sudo -n ", True

    async def install(self) -> None:
        """Makes the run's folder with the library. Raises RunFailed."""
        folder, run = self.folder, self.folders.run
        settings = f"FRAMES={run}\nNOTES={self.notes}\nexport TMPDIR={run}\n"
        text = f"""
set -eu
export LC_ALL=C
umask 022
if ! mkdir -m 711 {folder} 2> /dev/null; then
  [ -d {folder} ] && [ ! -L {folder} ] && [ -O {folder} ] || {{ echo "{folder} belongs to somebody else" >&2; exit 1; }}
fi
mkdir -p -m 700 {folder}/undo {folder}/lane {run}
: > {folder}/programs
: > {folder}/starting
cat > {folder}/lib.sh <<'END-OF-LIBRARY'
{library.text(settings, f"{folder}/programs")}
END-OF-LIBRARY
"""
        code, _, err = await self.plain(text)
        if code:
            raise RunFailed("work-folder", f"machine {self.name}: {_last(err.encode())}", where=folder)

    async def look(self) -> Mapping[str, str]:
        """Reads what the machine is (``facts``). Raises RunFailed."""
        text = _resource("facts.sh")
        files = await self.ask(f"export LC_ALL=C\n{{ {text}\n}} > rows", _TIMEOUT)
        self.facts = script.rows(files["rows"].decode(errors="replace"))
        return self.facts

    async def lacks(self, programs: Sequence[str], folders: Sequence[str] = ()) -> list[str]:
        """Missing ones among ``programs`` and those that every machine needs. ``folders``: where they may be, beside
        PATH; with wildcards. Raises RunFailed."""
        every = " ".join(quote(program) for program in dict.fromkeys((*NEEDED, *programs)))
        more = f"for d in {' '.join(folders)}; do PATH=$PATH:$d; done" if folders else ""
        path = f"PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin\n{more}"
        _, out, _ = await self.plain(f'{path}\nfor p in {every}; do command -v "$p" > /dev/null || echo "$p"; done')
        return out.split()

    async def keep(self, *, alone: bool, title: str) -> None:
        """Starts the keeper. Raises RunFailed if another run uses the machine."""
        text = _resource("alive.sh") + _resource("keeper.sh")
        code, _, err = await self.plain(f"cat > {self.folder}/keeper.sh <<'END-OF-KEEPER'\n{text}END-OF-KEEPER\n")
        if code:
            raise RunFailed("work-folder", f"machine {self.name}: {_last(err.encode())}", where=self.folder)
        words = ("sh", f"{self.folder}/keeper.sh", self.folder, self.run_id, str(int(alone)), quote(title))
        if self.local:  # not bound to this program's life, as everything else is
            self._keeper = await asyncio.create_subprocess_exec(
                "sh", "-c", f"exec {self._become}{' '.join(words)}", stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        else:
            self._keeper = await self._start(words)
        assert self._keeper.stdout  # noqa: S101 - opened as pipe
        try:
            answer = await asyncio.wait_for(self._keeper.stdout.readline(), _TIMEOUT)
        except TimeoutError:
            answer = b""
        word, _, rest = answer.decode(errors="replace").strip().partition(" ")
        if word == "ready":
            return
        await self.end_keeper()
        if word == "busy":
            raise RunFailed(
                "machine-busy",
                f"machine {self.name} is in use by another run ({rest.partition(' ')[2]}, process "
                f"{rest.partition(' ')[0]} there)",
                hint="wait for it or stop it; to run beside it, set alone: false under platform",
            )
        raise RunFailed("keeper", f"machine {self.name}: the run's keeper did not start")

    async def end_keeper(self) -> None:
        """Ends the keeper, which first ends loads and removes files; never raises."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        if keeper.stdin:
            keeper.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(keeper.wait(), _TIMEOUT)  # what it ends is in the way of what is undone next
        await child.end(keeper)

    async def close(self, *, remove: bool = False) -> None:
        """Ends keeper, shells and connection; never raises. ``remove``: the run's folder goes too, if nothing is left
        to be undone."""
        await self.release()
        await self.end_keeper()
        if remove and self.alive:
            with suppress(RunFailed):
                await self.plain(f"rmdir {self.notes} 2> /dev/null && rm -rf {self.folder}")
        self._open = False
        if self._master:
            await child.end(self._master)
            self._master = None
        with suppress(OSError):
            self._socket.unlink()


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath("guest", name).read_text("utf-8")


def _last(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][-_TAIL:] if lines else ""


_REASONS = (
    (re.compile(r"REMOTE HOST IDENTIFICATION HAS CHANGED"), "host-key",
     "its host key differs from your known_hosts: another machine may be answering",
     "find out why, then remove the old key: ssh-keygen -R HOST"),
    (re.compile(r"Host key verification failed|host key is known for"), "host-key",
     "its host key is not in your known_hosts", "run `ssh {to}` once by hand, compare the fingerprint, and accept it"),
    (re.compile(r"Permission denied|Too many authentication failures"), "ssh-denied",
     "it refused the login", "try `ssh -o BatchMode=yes {to} true`: load a key into the agent, or name one in "
     "~/.ssh/config"),
    (re.compile(r"Could not resolve hostname|Name or service not known"), "host-unknown",
     "its name does not resolve", "use a name that ssh accepts: a host in ~/.ssh/config, user@host, or an address"),
    (re.compile(r"Bad configuration option|no argument after keyword|bad option"), "ssh-config",
     "ssh cannot read its configuration", "try `ssh {to} true` and fix the option it reports"),
)  # fmt: skip


def unreachable(name: str, destination: str, stderr: str) -> RunFailed:
    """The error for ssh's ``stderr`` after a failed login; kind ``unreachable`` may go away by itself."""
    output = " ".join(stderr.split())[-_TAIL:] or "no answer"
    for pattern, kind, text, hint in _REASONS:
        if pattern.search(stderr):
            last = stderr.strip().splitlines()[-1][-_TAIL:]
            return RunFailed(kind, f"machine {name}: {text}: {last}", hint=hint.format(to=destination))
    return RunFailed(
        "unreachable", f"machine {name} cannot be reached over ssh: {output}", hint=f"try `ssh {destination} true`"
    )
