"""A machine that runs scripts in shells started on it, over SSH or here: results come as frames while a script runs."""

import asyncio
import shlex
import time
from abc import abstractmethod
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from fairlane.errors import RunFailed, Unfinished, because
from fairlane.machines import child, device_guard, frames
from fairlane.machines.base import Guest, gist

_CHUNK = 1 << 16
_TAIL = 600
_ENDED = "fairlane-ended"
"""Name of the last frame of a script, without which the connection was lost: a mark, or how it failed. Few programs:
on an emulated guest each takes a tenth of a second."""

_WRAPPED = """d=$(mktemp -d ${{FRAMES:-/run}}/fairlane.XXXXXX) || exit 1
STEP=$d/step
{{
  ( eval {script} ) 2> $d/err < /dev/null
  s=$?
  if [ $s = 0 ]; then
    rm -rf $d
    mark {ended}
  else
    mkdir $d/end
    echo $s > $d/end/status
    tail -c 4000 $d/err > $d/end/err
    cat $STEP > $d/end/step 2> /dev/null
    send {ended} $d/end
    rm -rf $d
  fi
}} | cat
"""


Fate = Callable[[str], Awaitable[RunFailed | None]]
"""Why a machine whose connection broke has ended, or None while it runs. It waits for the end, because a connection
breaks some time before the machine's process ends. The argument says what the machine did: ``while it ran 'x'``."""


async def unknown(_: str) -> RunFailed | None:
    """The fate of a machine of which only the connection is known."""
    return None


class ShellGuest(Guest):
    """Derived classes start commands on the machine."""

    def __init__(self, name: str, library: str, fate: Fate = unknown) -> None:
        """``library``: path on the machine of the functions that scripts call."""
        self.name = name
        self.running: list[str] = []
        """The scripts that run there now, in short."""
        self._library = library
        self._fate = fate
        self._idle: list[Process] = []
        """Shells that wait for their next script."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether commands can be started."""

    @abstractmethod
    async def start(self, words: Sequence[str]) -> Process:
        """A command on the machine with pipes, its words joined for a shell; the caller waits for it and ends it."""

    async def release(self) -> None:
        """Ends the idle shells; never raises."""
        for shell in self._idle:
            await child.end(shell)
        self._idle.clear()

    async def run(self, script: str, timeout: float) -> AsyncGenerator[tuple[str, Mapping[str, bytes]]]:
        """As ``Guest.run``; ``lib.sh`` is loaded before the script. Raises RunFailed, with stderr if the script fails,
        or if the connection is lost, and Unfinished after ``timeout``."""
        # Through cat, because sshd's standard output may be a socket, which /dev/stdout cannot open; and whole before
        # it runs, so that nothing in it can eat the rest.
        whole = _WRAPPED.format(script=shlex.quote(script), ended=_ENDED)
        shell = await self._shell(script)
        assert shell.stdin and shell.stdout and shell.stderr  # noqa: S101, PT018 - opened as pipes
        reader, ended = frames.Frames(), False
        deadline = time.monotonic() + timeout
        self.running.append(doing := gist(script))
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
                    raise await self.lost(script, stderr)
        finally:
            self.running.remove(doing)
            if not ended:
                await child.end(shell)

    async def lost(self, script: str, stderr: str = "") -> RunFailed:
        doing = gist(script)
        return await self._fate(f"while it ran {doing!r}" if doing else "") or await super().lost(script, stderr)

    async def _shell(self, script: str) -> asyncio.subprocess.Process:
        """A shell on the guest with ``lib.sh`` loaded: an idle one, or a new one. Starting one takes an emulated guest
        longer than most scripts."""
        while self._idle:
            shell = self._idle.pop()
            if self.alive and shell.returncode is None:
                return shell
            await child.end(shell)
        if not self.alive:
            raise await self.lost(script)
        shell = await self.start(("sh", "-s"))
        assert shell.stdin  # noqa: S101 - opened as pipe
        shell.stdin.write(f". {self._library}\n".encode())
        return shell

    def _judge(self, files: Mapping[str, bytes]) -> None:
        if not files:
            return
        status = frames.text(files, "status").strip()
        if refused := device_guard.refusal(frames.text(files, "err"), self.name):
            raise refused
        stderr = frames.text(files, "err").strip()[-_TAIL:]
        step = frames.text(files, "step").strip()
        at = f" in step {step!r}" if step else ""
        raise RunFailed("script-failed", f"{self.name}: a script failed{at} (exit {status}){because(stderr)}")
