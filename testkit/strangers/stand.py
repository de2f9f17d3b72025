"""Strangers' machines for tests of the platform ``hosts``: a context manager that boots them, and does to them what
goes wrong in machine rooms."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from testkit.strangers import faults, ingredients, overlay, saved, wishes
from testkit.strangers.client import Client
from testkit.strangers.machine import STUCK, Machine
from testkit.strangers.wishes import Array, Host

HOSTS = (Host("alpha"), Host("beta"))
STORAGE = Array()


class Stand(faults.Faults):
    """``with Stand() as stand``: the machines are up, and ``stand.environment()`` reaches them by name with ``ssh``."""

    def __init__(self, hosts: Sequence[Host] = HOSTS, array: Array = STORAGE) -> None:
        self.hosts = (array, *hosts)
        """The array first: a machine's number is its place."""
        self.machines: dict[str, Machine] = {}
        self._held = ExitStack()

    def __enter__(self) -> "Stand":
        try:
            self.folder = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="strangers-")))
            asyncio.run(self._wake())
            saved.together(self.machines.values(), Machine.save)
            self._set_clocks()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the machines and removes what they had."""
        for one in self.machines.values():
            one.close()
        self._held.close()

    def dead(self) -> str:
        """Which machines have ended."""
        return ", ".join(name for name, one in self.machines.items() if one.process.poll() is not None)

    def restore(self) -> None:
        """Brings all machines, with disks, memory and sessions, back to where they were when the stand began: a
        second's work, whatever a test has done to them. SSH connections do not outlive it."""
        saved.together(self.machines.values(), Machine.load)
        for host in self.hosts:
            for path in range(wishes.PATHS):
                self.cut(host.name, path, up=True)
        self.client.forget_rotations()
        self._set_clocks()

    async def _wake(self) -> None:
        made = await ingredients.gather(self._held)
        state = await saved.state(self.hosts, made, self._held)
        self.client = Client(self.folder / "client", like=state)
        for one in saved.wake(self.hosts, made, state, self.folder):
            self.machines[one.name] = one
        for one in self.machines.values():
            one.arrived()
        self.client.write({name: one.port() for name, one in self.machines.items()}, self.hosts)

    def _set_clocks(self) -> None:
        for host in self.hosts:
            self.set_clock(host.name, host.clock)

    def environment(self) -> dict[str, str]:
        """The environment in which ``ssh NAME`` reaches the machines: a PATH whose ``ssh`` reads ``client.config``."""
        return {**os.environ, "PATH": f"{self.client.bin}:{os.environ['PATH']}"}

    def ssh(self, name: str, command: str, *options: str, **how: Any) -> "subprocess.CompletedProcess[str]":
        """The user's ``ssh NAME COMMAND``, run to its end."""
        return subprocess.run(
            ["ssh", *options, name, command], env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False, timeout=how.pop("timeout", STUCK), **how,
        )  # fmt: skip

    def sh(self, host: str, script: str, timeout: float = STUCK) -> str:
        """Output of ``script``, run as root beside SSH with ``set -e``. Raises AssertionError if it fails."""
        return self.machines[host].sh(script, timeout)

    def inventory(self, host: str) -> str:
        """What is on the machine, a fact per line, sorted: equal before and after, if nothing was left."""
        return self.machines[host].sh(overlay.guest("inventory.sh"))

    def settled(self, host: str, wanted: str) -> str:
        """The inventory as soon as it is ``wanted``, or after several tries: daemons end some things late."""
        for _ in range(8):
            if (now := self.inventory(host)) == wanted:
                break
            time.sleep(0.5)
        return now

    def boot_seconds(self) -> dict[str, float]:
        """How long each machine's last boot took, from the start or the reset."""
        return {name: round(one.boot_seconds, 1) for name, one in self.machines.items()}


def available() -> str:
    """Why the stand cannot run here; empty: it can."""
    lacking = [name for name in (ingredients.QEMU, "qemu-img", "mke2fs", "ssh", "setpriv") if not shutil.which(name)]
    return f"{', '.join(lacking)} not installed: run make setup" if lacking else ""
