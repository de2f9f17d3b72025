"""A machine of one's own, for tests that put devices into states in which nothing may be written."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairlane.machines.keys import Keys
from fairlane.platforms.lab import qemu
from fairlane.platforms.lab.wall import rootfs
from fairlane.platforms.lab.wall.command import Machine
from fairlane.platforms.lab.wall.vm import Vm

MIB = 2**20
_UDEVADM = 'udevadm() { command udevadm "$@" || { sleep 1; command udevadm "$@"; }; }'
"""On an emulated machine under load, udev's daemon drops a request now and then (a broken pipe)."""


@dataclass(frozen=True)
class OneMachine:
    """A machine that is up."""

    vm: Vm
    runner: asyncio.Runner
    folder: Path

    def dead(self) -> str:
        self.runner.run(asyncio.sleep(0))  # between two tests nobody hears of a process that ends
        return "" if self.vm.alive else str(self.vm.obituary())

    def sh(self, script: str) -> str:
        """What ``script`` prints, run as root with the functions of a guest. Raises as a run would."""
        out = self.runner.run(self.vm.guest.ask(f"{{ set -eu\n{_UDEVADM}\n{script}\n}} > out", 300))
        return out["out"].decode().strip()


@contextmanager
def one_machine(name: str, modules: str, *devices: dict[str, Any]) -> Iterator[OneMachine]:
    """The machine, with kernel ``modules`` loaded and further ``devices`` (QEMU's arguments)."""
    if not shutil.which(qemu.BINARY):
        pytest.skip(f"{qemu.BINARY} is not installed: run make setup")
    with ExitStack() as held, asyncio.Runner() as runner:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix=f"fairlane-{name}-")))
        (folder / "keys").mkdir()
        root = runner.run(rootfs.build(print, held))
        vm = Vm(Machine(name, 1, 640 * MIB, "tcg", devices=devices), root, Keys.make(folder / "keys"), folder)
        try:
            runner.run(vm.start())
            made = OneMachine(vm, runner, folder)
            # udev's rules would assemble the arrays that tests take apart
            made.sh(f"modprobe -a {modules}; mkdir -p /etc/mdadm\necho 'AUTO -all' > /etc/mdadm/mdadm.conf")
            yield made
        finally:
            runner.run(vm.stop())
