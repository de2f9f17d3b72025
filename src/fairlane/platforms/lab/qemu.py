"""QEMU as a child process: it ends with Fairlane, is controlled over QMP, and writes its serial ports to files."""

import asyncio
import os
import shlex
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fairlane import install
from fairlane.errors import FairlaneError, MachineLost, RunFailed, because
from fairlane.machines.child import WITH_US, end, ends, uninterrupted
from fairlane.machines.scratch import scratch
from fairlane.platforms.lab.compose import QUIT_PORT
from fairlane.platforms.lab.image import Image
from fairlane.platforms.lab.obituary import DYING, Obituary

BINARY = "qemu-system-x86_64"
JOB_BYTES = 64 * 1024
"""Size of the job in fw_cfg: fixed, because the guest learns it before the state is saved."""

_START_TIMEOUT = 180.0
"""Seconds until QEMU answers: half a second on an idle machine; a failed QEMU ends earlier."""
_LOAD_TIMEOUT = 300.0
"""Seconds to load a saved state: one or two on an idle machine."""
_KERNEL = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr norandmaps"


def version() -> str:
    """QEMU's version with the distribution's suffix. Raises FairlaneError if QEMU is missing."""
    if missing := install.missing(BINARY, "qemu-system-x86"):
        raise missing
    out = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout
    return out.splitlines()[0].removeprefix("QEMU emulator version ")


def virtual_clock(image: Image, initrd: Path, *, memory: int, preempt: str) -> list[str]:
    """The machine of the virtual clock: one instruction is one nanosecond, idle time is skipped, nothing else is used.

    Every word changes a guest's figures, so the command is part of the saved state's key."""
    return [
        BINARY, "-M", "q35", "-nodefaults", "-no-user-config", "-accel", "tcg,thread=single", "-cpu", "max",
        "-smp", "1", "-m", f"{memory // 2**20}M", "-nic", "none", "-display", "none", "-no-reboot",
        "-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "7",
        "-device", "ib700", "-action", "watchdog=pause", "-device", f"isa-debug-exit,iobase={QUIT_PORT:#x}",
        "-kernel", str(image.kernel), "-initrd", str(initrd), "-append", f"{_KERNEL} preempt={preempt}",
    ]  # fmt: skip


class Qemu:
    """One running QEMU; used as ``async with``. Console and results are files, which QEMU can always write:
    with a pipe the guest's serial port would wait for its reader and tie the virtual clock to wall time."""

    def __init__(self, machine: Sequence[str], *, job: str = "", incoming: Path | None = None) -> None:
        self.machine = list(machine)
        self.job = job
        self.incoming = incoming

    async def __aenter__(self) -> Self:
        self._scratch = ExitStack()
        self.folder = self._scratch.enter_context(scratch())
        self.console, self.results = self.folder / "console", self.folder / "results"
        data = self.job.encode()
        if len(data) > JOB_BYTES:
            raise FairlaneError(
                "script-size", f"a block's script has {len(data)} bytes; a guest can receive at most {JOB_BYTES}"
            )
        try:
            (self.folder / "job").write_bytes(data.ljust(JOB_BYTES, b"\0"))
        except OSError as error:
            self._scratch.close()
            raise RunFailed(
                "scratch",
                f"cannot write a VM's scratch files: {error.strerror}",
                where=str(self.folder.parent),
                hint="make room there, or set TMPDIR to a folder on another disk",
            ) from error
        own_end, qemu_end = socket.socketpair()
        # Names relative to the scratch folder and an inherited socket: no path can be too long or hold a comma.
        command = [
            *WITH_US, str(os.getpid()), *self.machine, "-serial", "file:console", "-serial", "file:results",
            "-fw_cfg", "name=opt/lab/job,file=job", "-chardev", f"socket,id=qmp,fd={qemu_end.fileno()}",
            "-mon", "chardev=qmp,mode=control", "-S",
        ]  # fmt: skip
        if self.incoming:
            command += ["-incoming", f"exec:cat {shlex.quote(str(self.incoming))}"]
            # When the guest halts, QEMU's main thread may skip the idle time before the vCPU thread has counted what it
            # ran last; then the clock is some instructions ahead. Observed once in some 200 blocks, and in one of six
            # when QEMU is woken all the time. Recording (to /dev/null) makes the two threads take turns. States are
            # saved without it: QEMU 7.2 aborts when it migrates while recording.
            command += ["-icount", "rr=record,rrfile=/dev/null"]
        self._errors = (self.folder / "errors").open("wb")
        with qemu_end:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=subprocess.DEVNULL, stdout=self._errors, stderr=self._errors, cwd=self.folder,
                start_new_session=True, pass_fds=[qemu_end.fileno()],
            )  # fmt: skip
        from qemu.qmp import QMPClient, QMPError  # noqa: PLC0415 - 0.04 s, which no command needs that reads runs

        self.qmp = QMPClient("fairlane")
        self.qmp.logger.setLevel("CRITICAL")  # a guest that ends itself is expected
        try:
            await asyncio.wait_for(self.qmp.connect(own_end), _START_TIMEOUT)
        except (OSError, QMPError, TimeoutError) as error:
            await ends(self.process, DYING)
            why = self.obituary("before it had started").start_error()
            await self.__aexit__(None, None, None)
            raise why from error
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    def complaint(self) -> str:
        """The end of QEMU's stderr; empty if it wrote nothing."""
        return self.obituary().complaint

    def last_words(self) -> str:
        """The end of the guest's console, for error messages."""
        return "\n".join(self.obituary().console_end())

    def obituary(self, during: str = "") -> Obituary:
        """Why guest and QEMU have ended. ``during``: what the guest did then."""
        return Obituary.read("the lab VM", self.process.returncode, self.console, self.folder / "errors", during)

    def lost(self, during: str) -> MachineLost:
        """The error of a guest that has ended ``during`` something."""
        return self.obituary(during).error(self.advice())

    def advice(self) -> str:
        """A hint after an abort of QEMU: it repeats each time, because nothing in the guest is random."""
        if not self._aborted():
            return ""
        return (
            f"QEMU {version()} aborted on an internal assertion, and would do so again: report these lines; until "
            "it is fixed, change a lane or the platform of the study, or install another version of QEMU"
        )

    def _aborted(self) -> bool:
        return "assertion" in self.complaint().lower()

    def cpu_seconds(self) -> float:
        """CPU time that QEMU has used so far; 0 once it is gone. Does not disturb the guest."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def instructions(self) -> int:
        """Instructions that the guest has executed since it was switched on. Only while it is stopped."""
        return int((await self.execute("query-replay"))["icount"])

    async def execute(self, command: str, **arguments: Any) -> Any:
        """One QMP command. Only while the guest is stopped: a command to a running guest changes its figures."""
        from qemu.qmp import ExecuteError, QMPError  # noqa: PLC0415 - as above

        try:
            return await self.qmp.execute(command, arguments or None)
        except QMPError as error:
            if not isinstance(error, ExecuteError) and await ends(self.process, DYING):
                raise self.lost(f"while QEMU carried out {command}") from error
            raise RunFailed(
                "qemu-command", f"QEMU's {command} failed: {error}{because(self.complaint(), ';')}", hint=self.advice()
            ) from error

    @asynccontextmanager
    async def events(self, *names: str) -> AsyncIterator["asyncio.Queue[str]"]:
        """A queue that receives the names of QMP events as they come, and ``"GONE"`` when QEMU ends."""
        queue: asyncio.Queue[str] = asyncio.Queue()

        async def listen() -> None:
            with self.qmp.listener(names) as listener:
                ready.set()
                async for event in listener:
                    queue.put_nowait(str(event["event"]))

        async def wait() -> None:
            await self.process.wait()
            queue.put_nowait("GONE")

        ready = asyncio.Event()
        tasks = [asyncio.create_task(listen()), asyncio.create_task(wait())]
        await ready.wait()
        try:
            yield queue
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def loaded(self) -> None:
        """Waits until an incoming state is in memory (the guest is still stopped)."""
        deadline = time.monotonic() + _LOAD_TIMEOUT
        while (await self.execute("query-status"))["status"] in ("inmigrate", "postmigrate"):
            if time.monotonic() > deadline:
                raise RunFailed(
                    "saved-state",
                    f"the saved state did not load within {_LOAD_TIMEOUT:.0f} s",
                    hint="delete the saved states: `fairlane lab clean --states`",
                )
            await asyncio.sleep(0.01)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await uninterrupted(self._close())

    async def _close(self) -> None:
        await end(self.process)
        with suppress(Exception):  # QEMU has ended: errors of the client do not matter
            await self.qmp.disconnect()
        self._errors.close()
        self._scratch.close()
