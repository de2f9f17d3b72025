"""Guests under the virtual clock: set up once, save the state, start every block from it.

The state is cached beside the image. Its key covers everything that decides its bytes: image, QEMU version, command
line and set-up script. A run under the same key gives the same figures, bit for bit, on any machine.
"""

import asyncio
import hashlib
import json
import shlex
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlane.errors import RunFailed
from fairlane.platforms.base import Guest, Notify
from fairlane.platforms.lab import frames, image, qemu
from fairlane.platforms.lab.cache import cache_dir, locked, making, prune
from fairlane.platforms.lab.spec import LabSpec

_SETUP_TIMEOUT = 600.0
_KEPT = 12
"""Saved states in the cache at once; one has 150 MB."""


@dataclass(frozen=True)
class State:
    """A saved guest: lanes built, nothing run yet."""

    folder: Path
    key: str
    machine: tuple[str, ...]

    @property
    def memory(self) -> Path:
        return self.folder / "memory"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd"

    def described(self) -> dict[str, str]:
        """What the set-up read back: file name -> text."""
        loaded: dict[str, str] = json.loads((self.folder / "described.json").read_text("utf-8"))
        return loaded


async def state(built: image.Image, spec: LabSpec, setup: str, notify: Notify) -> State:
    """The saved state for this set-up, from the cache or made now (some 15 s). Raises RunFailed."""
    version = qemu.version()
    key = state_key(built, spec, setup, version)
    folder = cache_dir() / "states" / key
    machine = tuple(qemu.virtual_clock(built, folder / "initrd", memory=spec.memory, preempt=spec.preempt))
    described = folder / "described.json"
    if not described.exists():
        async with locked(folder):
            if not described.exists():
                notify("booting the lab VM and building the lanes (once)")
                with making(folder) as scratch:
                    await _make(scratch, built, spec, setup)
    prune("states", keep=_KEPT)
    return State(folder, key, machine)


def state_key(built: image.Image, spec: LabSpec, setup: str, version: str) -> str:
    """SHA-256 over everything that decides the state's bytes."""
    machine = qemu.virtual_clock(
        image.Image(Path("image"), built.key), Path("initrd"), memory=spec.memory, preempt=spec.preempt
    )
    parts = [version, built.manifest["sha256"], machine, qemu.JOB_BYTES, setup]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


async def _make(folder: Path, built: image.Image, spec: LabSpec, setup: str) -> None:
    initrd = folder / "initrd"
    initrd.write_bytes(built.initrd.read_bytes() + image.as_initrd({"fairlane/setup.sh": setup}))
    machine = qemu.virtual_clock(built, initrd, memory=spec.memory, preempt=spec.preempt)
    async with qemu.Qemu(machine) as vm, vm.events("STOP", "GUEST_PANICKED") as events:
        await vm.execute("cont")
        try:
            # Listen only: any command to the running guest, a poll included, can change what is saved.
            while (event := await asyncio.wait_for(events.get(), _SETUP_TIMEOUT)) not in ("STOP", "GONE"):
                pass
        except TimeoutError:
            raise RunFailed(
                f"the lab VM did not finish its set-up in {_SETUP_TIMEOUT:.0f} s:\n{vm.last_words()}"
            ) from None
        results = dict(frames.Frames().feed(vm.results.read_bytes()))
        if failed := results.get("failed"):
            said = frames.text(failed, "err").strip()[-600:]
            raise RunFailed(f"set-up step {frames.text(failed, 'step').strip()!r} failed: {said or 'no message'}")
        if event == "GONE" or "setup" not in results:
            raise RunFailed(f"the lab VM died during its set-up:\n{vm.last_words() or vm.complaint()}")
        await vm.execute("migrate", uri=f"exec:cat > {shlex.quote(str(folder / 'memory'))}")
        while (progress := await vm.execute("query-migrate"))["status"] not in ("completed", "failed", "cancelled"):
            await asyncio.sleep(0.02)
        if progress["status"] != "completed":
            raise RunFailed(
                f"the lab VM's state could not be saved: {vm.complaint()}", hint="is the cache's disk full?"
            )
    described = {name: data.decode(errors="replace") for name, data in results["setup"].items()}
    (folder / "described.json").write_text(json.dumps(described, indent=1, sort_keys=True))


class VirtualGuest(Guest):
    """A guest that starts from a saved state, runs one script, and is gone."""

    def __init__(self, saved: State) -> None:
        self.saved = saved

    async def run(self, script: str, timeout: float) -> AsyncIterator[tuple[str, Mapping[str, bytes]]]:
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
                                f"the lab VM did not finish within {timeout:.0f} s:\n{vm.last_words()}",
                                hint="a busy machine? The time allowed grows with the study's run time",
                            )
                        await asyncio.sleep(0.02)
            if not ended:
                code = vm.process.returncode
                raise RunFailed(f"the lab VM ended early (QEMU exit {code}):\n{vm.last_words() or vm.complaint()}")
            if frames.text(ended, "status").strip() != "0":
                raise RunFailed(f"the guest's script failed: {frames.text(ended, 'err').strip()[-600:]}")
