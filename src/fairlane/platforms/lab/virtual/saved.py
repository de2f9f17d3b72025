"""Guests under the virtual clock: set up once, the state saved, every block started from it.

The state is cached beside the image, under a key made of all its inputs: image, QEMU version, command line, set-up
script. From one state every block gives the same figures, bit for bit, however busy the machine: blocks run under
QEMU's recording, which orders its threads. A state cannot be saved while recording. Two builds are alike because a
watchdog stops the guest in its sleep; after an instruction that stops it, QEMU skips to the next timer or does not (of
12 builds on a busy machine, one did). To be sure, each state carries an identity, which is part of the fingerprint.

QEMU can record from a state only if the count of its instructions has bit 31 clear (``recordable``). Where the set-up
ends at another count, the guest continues: it executes a fixed amount and stops again, until the count is right.
"""

import asyncio
import hashlib
import json
import shlex
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlane.errors import RunFailed, because
from fairlane.machines import frames
from fairlane.machines.base import Guest, gist
from fairlane.platforms.base import Notify
from fairlane.platforms.lab import image, part, qemu
from fairlane.platforms.lab.cache import hold
from fairlane.platforms.lab.spec import LabSpec
from fairlane.runs.files import cache_dir

_SETUP_CPU = 7200.0
"""Seconds of CPU time for a set-up, some 10^12 instructions: in CPU time, so that a busy machine does not count as a
hung guest."""
_STALLED = 600.0
"""Seconds in which a live guest uses at least one second of CPU time, even on a busy machine."""
_NOTICE_EVERY = 60.0
"""Seconds of CPU time between two progress notes of a set-up."""
_LOOK_TIMEOUT = 600.0
_FLUSH_TIMEOUT = 60.0
_KEPT = 12
"""Saved states in the cache at once; one has 150 MB, with a database 700."""


@dataclass(frozen=True)
class State:
    """A saved guest: lanes built, no load run yet."""

    folder: Path
    key: str
    machine: tuple[str, ...]

    @property
    def memory(self) -> Path:
        return self.folder / "memory"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd"

    @property
    def identity(self) -> str:
        """SHA-256 of the guest's state. Equal identities give equal figures; equal keys alone may not."""
        return (self.folder / "identity").read_text("utf-8")

    def described(self) -> dict[str, str]:
        """The values that the set-up read back: file name -> text."""
        loaded: dict[str, str] = json.loads((self.folder / "described.json").read_text("utf-8"))
        return loaded


async def state(built: image.Image, spec: LabSpec, setup: str, notify: Notify, held: ExitStack) -> State:
    """The saved state for this set-up, built (some 15 s) if it is not cached, and locked until ``held`` is closed.

    Raises RunFailed, and FairlaneError if the cache cannot be written."""
    key = state_key(built, spec, setup, qemu.version())
    folder = cache_dir() / "states" / key

    async def make(scratch: Path) -> None:
        notify("booting the lab VM and building the lanes (once)")
        await _make(scratch, built, spec, setup, notify)

    held.enter_context(await hold(folder, "described.json", make, keep=_KEPT))
    machine = tuple(qemu.virtual_clock(built, folder / "initrd", memory=spec.memory, preempt=spec.preempt))
    return State(folder, key, machine)


def state_key(built: image.Image, spec: LabSpec, setup: str, version: str) -> str:
    """SHA-256 over everything that decides the state's bytes."""
    machine = qemu.virtual_clock(
        image.Image(Path("image"), built.key), Path("initrd"), memory=spec.memory, preempt=spec.preempt
    )
    parts = [version, built.manifest["sha256"], machine, qemu.JOB_BYTES, setup, _BURN]
    if built.part:
        parts.append(part.manifest(built.part)["sha256"])
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


_BURN = """while :; do
  tr -d '\\0' < /sys/firmware/qemu_fw_cfg/by_name/opt/lab/job/raw > /run/next.sh
  cmp -s /run/next.sh /run/job.sh || exec sh /run/next.sh
  head -c 5242880 /dev/zero | md5sum > /dev/null
  /fairlane/stop
  sleep 3
done
"""
"""The job of the VM whose state is saved: executes some 2^28 instructions and stops, repeatedly, while the job is this
one. Once it finds another job in its place, the state has been saved, and it runs that job."""


def recordable(count: int) -> bool:
    """Whether QEMU can record from a state saved after ``count`` instructions, with 2^28 to spare.

    When recording begins, QEMU 7.2 takes the whole count for a difference, in a signed int of 32 bits, and
    aborts if that is negative (replay_advance_current_icount: Assertion `diff >= 0' failed)."""
    return count % 2**32 < 2**31 - 2**28


async def _make(folder: Path, built: image.Image, spec: LabSpec, setup: str, notify: Notify) -> None:
    initrd = folder / "initrd"
    further = (built.part / "initrd").read_bytes() if built.part else b""
    initrd.write_bytes(built.initrd.read_bytes() + further + image.as_initrd({"fairlane/setup.sh": setup}))
    machine = qemu.virtual_clock(built, initrd, memory=spec.memory, preempt=spec.preempt)
    async with qemu.Qemu(machine, job=_BURN) as vm, vm.events("STOP") as events:
        await _stopped(vm, events, notify)
        results = dict(frames.Frames().feed(vm.results.read_bytes()))
        while not recordable(await vm.instructions()):
            await _stopped(vm, events, notify)
        await _save(vm, folder / "memory")
    (folder / "identity").write_text(await _identity(State(folder, "", tuple(machine))))
    described = {name: data.decode(errors="replace") for name, data in results["setup"].items()}
    (folder / "described.json").write_text(json.dumps(described, indent=1, sort_keys=True))


async def _stopped(vm: qemu.Qemu, events: "asyncio.Queue[str]", notify: Notify) -> None:
    """Lets the guest run until it stops itself. Raises RunFailed if it ends, hangs or stalls instead.

    Only listens: any command to the running guest, a poll included, can change the saved state."""
    await vm.execute("cont")
    began = notified = moved = vm.cpu_seconds()
    deadline = time.monotonic() + _STALLED
    while True:
        with suppress(TimeoutError):
            if await asyncio.wait_for(events.get(), 1.0) == "GONE":
                raise _failed(vm)
            return
        used = vm.cpu_seconds()
        if used - moved >= 1:
            moved, deadline = used, time.monotonic() + _STALLED
        if used - notified >= _NOTICE_EVERY:
            notified = used
            notify(f"the lab VM is still being set up ({used - began:.0f} s of CPU time)")
        if used - began > _SETUP_CPU or time.monotonic() > deadline:
            endless = used - began > _SETUP_CPU
            spent = f"{used - began:.0f} s of CPU time" + ("" if endless else " and has stalled")
            raise RunFailed(
                "set-up-endless" if endless else "set-up-stalled",
                f"the lab VM did not finish its set-up in {spent}:\n{vm.last_words()}",
                hint="check whether a set-up step waits for an event that never happens",
            )


def _failed(vm: qemu.Qemu) -> RunFailed:
    """Why a guest ended during its set-up."""
    results = dict(frames.Frames().feed(vm.results.read_bytes()))
    if failed := results.get("failed"):
        stderr = frames.text(failed, "err").strip()[-600:]
        step = frames.text(failed, "step").strip()
        return RunFailed("set-up", f"set-up step {step!r} failed{because(stderr)}")
    return vm.lost("during its set-up")


async def _save(vm: qemu.Qemu, memory: Path) -> None:
    """Writes the state of a stopped guest into a file. Raises RunFailed."""
    saved = vm.folder / "saved"
    await vm.execute("migrate", uri=f"exec:cat > {shlex.quote(str(memory))} && : > {shlex.quote(str(saved))}")
    while (progress := await vm.execute("query-migrate"))["status"] not in ("completed", "failed", "cancelled"):
        await asyncio.sleep(0.02)
    # "completed" means handed to cat; killed now, cat would lose what it has not written yet.
    deadline = time.monotonic() + (_FLUSH_TIMEOUT if progress["status"] == "completed" else 0)
    while not saved.exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    if not saved.exists():
        raise RunFailed(
            "saved-state",
            f"the lab VM's state could not be saved{because(vm.complaint())}",
            hint="check for free space in the cache",
        )


_LOOK = """. /fairlane/lib.sh
mkdir /run/look
cat /proc/timer_list /proc/interrupts /proc/stat /proc/vmstat /proc/[0-9]*/schedstat > /run/look/all
send look /run/look
"""


async def _identity(saved: State) -> str:
    """SHA-256 of the guest's own view of its state: every timer, clock and thread's time, to the instruction.

    A hash of the file would differ: it holds host clocks, and its parts are ordered by the speed of writing."""
    digest = hashlib.sha256()
    async with aclosing(VirtualGuest(saved).run(_LOOK, _LOOK_TIMEOUT)) as results:
        async for name, files in results:
            for file, data in sorted(files.items()):
                digest.update(f"{name}/{file}\0".encode() + data)
    return digest.hexdigest()


class VirtualGuest(Guest):
    """A guest that starts from a saved state, runs one script, and ends."""

    def __init__(self, saved: State, during: str = "") -> None:
        """``during``: what the guest does, for errors: ``while it ran block x``; default: the script's first line."""
        self.name = "the lab VM"
        self.saved = saved
        self._during = during

    async def run(self, script: str, timeout: float) -> AsyncGenerator[tuple[str, Mapping[str, bytes]]]:
        reader = frames.Frames()
        deadline = time.monotonic() + timeout
        async with qemu.Qemu(self.saved.machine, job=script, incoming=self.saved.memory) as vm:
            await vm.loaded()
            await vm.execute("cont")
            ended: dict[str, Any] = {}
            with vm.results.open("rb") as stream:
                gone = False
                while not gone:
                    gone = vm.process.returncode is not None
                    for name, files in reader.feed(stream.read()):
                        if name == "end":
                            ended = dict(files)
                        else:
                            yield name, files
                    if not gone:
                        if time.monotonic() > deadline:
                            raise RunFailed(
                                "timeout",
                                f"the lab VM did not finish within {timeout:.0f} s:\n{vm.last_words()}",
                                hint="is this machine busy? The time limit grows with the study's run time",
                            )
                        await asyncio.sleep(0.02)
            if not ended:
                raise vm.lost(self._during or f"while it ran {gist(script)!r}")
            if frames.text(ended, "status").strip() != "0":
                raise RunFailed(
                    "script-failed", f"the guest's script failed: {frames.text(ended, 'err').strip()[-600:]}"
                )
