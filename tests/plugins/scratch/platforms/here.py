"""This machine itself: every lane is a file in a temporary folder, which the workload's script loads for real."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Literal

from fairlane import registry
from fairlane.platforms.base import Notify, Opened, Platform, RawTrial
from fairlane.records import Block
from fairlane.study.base import PlatformSpec
from fairlane.units import Size


class HereSpec(PlatformSpec):
    """Files of this machine."""

    kind: Literal["here"]
    """This machine."""
    size: Size = 2 * 1024**2
    """Size of a lane's file."""
    transports = ("local",)


class Here(Platform):
    Spec = HereSpec

    async def open(self, notify: Notify) -> Opened:
        self.folder = Path(tempfile.mkdtemp(prefix="fairlane-here-"))
        notify(f"files lie in {self.folder}")
        spec = self.study.platform
        assert isinstance(spec, HereSpec)
        for lane in self.study.lanes:
            (self.folder / lane).write_bytes(bytes(spec.size))
        lanes = {lane: {"transport": "local", "device": lane} for lane in self.study.lanes}
        return Opened({"lanes": lanes, "platform": {"kind": "here"}}, {"platform": "here"})

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        workload = registry.load("workloads", block.cell.kind)
        probes = [(name, probe) for name, probe in registry.every("probes") if probe.place == "guest"]
        for lane in block.order:
            work = self.folder / f"trial-{lane}"
            work.mkdir()
            captured = {
                when: "".join(f"( {probe.capture}\n) > probe.{name}.{when} 2>> probe.err\n" for name, probe in probes)
                for when in ("before", "after")
            }
            load = workload.script(block.cell, (str(self.folder / lane),), block.seed)
            script = f"{captured['before']}( {load} )\necho $? > status\n{captured['after']}"
            shell = await asyncio.create_subprocess_exec("sh", "-c", script, cwd=work, env={"PATH": "/usr/bin:/bin"})
            await shell.wait()
            yield RawTrial(lane, {path.name: path.read_bytes() for path in sorted(work.iterdir())})
            shutil.rmtree(work)

    async def close(self) -> None:
        shutil.rmtree(self.folder)


PLUGIN = Here
