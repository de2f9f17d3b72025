"""The lab's platform under the virtual clock: every block starts from the same saved state of one VM."""

import hashlib
import shutil
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, aclosing
from typing import TYPE_CHECKING, Any

from fairlane import __version__, registry
from fairlane.errors import FairlaneError, RunFailed
from fairlane.lanes.base import Site, Step, Transport
from fairlane.machines import script
from fairlane.platforms.base import Notify, Opened, Platform, RawTrial
from fairlane.platforms.lab import image, loads, modelled, qemu
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.virtual import saved
from fairlane.records import Block

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_INTERFACE, _ADDRESS = "lo", "127.0.0.1"
_LIVE = {
    "multipath": "under the virtual clock there is one link, inside one guest",
    "external": "under the virtual clock a guest talks to nobody",
}
"""Keys of lanes that need live machines -> reason."""


class VirtualLab(Platform):
    """One VM per block under the virtual clock; target and initiator inside it, over loopback."""

    Spec = LabSpec
    modelled = True
    repeats_exactly = True

    def __init__(self, study: "Study") -> None:
        super().__init__(study)
        assert isinstance(study.platform, LabSpec)  # noqa: S101 - the registry pairs them
        self.spec: LabSpec = study.platform
        self._held = ExitStack()

    def problems(self) -> list[FairlaneError]:
        problems = []
        for program, package in ((qemu.BINARY, "qemu-system-x86"), ("setpriv", "util-linux")):
            if not shutil.which(program):
                problems.append(
                    FairlaneError(
                        "program-missing", f"{program} is not installed", hint=f"run: make setup (package {package})"
                    )
                )
        if not image.cached_image() and not shutil.which("mmdebstrap"):
            problems.append(
                FairlaneError(
                    "program-missing",
                    "mmdebstrap is not installed: the lab image cannot be built",
                    hint="run: make setup",
                )
            )
        return problems + self.unfit()

    def unfit(self) -> list[FairlaneError]:
        problems = self._of_workloads()
        for name, lane in self.study.lanes.items():
            if lane.initiator == "hypervisor":
                problems.append(
                    FairlaneError(
                        "guest-device-virtual",
                        "guest devices are emulated outside of the virtual clock's instruction count",
                        where=f"lanes.{name}.{'device' if lane.device else 'initiator'}",
                        hint="set platform.clock: wall",
                    )
                )
            if getattr(lane, "queues", 1) > 1:
                problems.append(
                    FairlaneError(
                        "queues-virtual",
                        "the virtual clock models one core, and the kernel makes at most one I/O queue per core",
                        where=f"lanes.{name}.queues",
                        hint="set queues: 1",
                    )
                )
            for key, reason in _LIVE.items():
                if getattr(lane, key, None):
                    problems.append(
                        FairlaneError(
                            "wall-clock-only",
                            f"{key} is for the wall clock: {reason}",
                            where=f"lanes.{name}.{key}",
                            hint=f"set platform.clock: wall, or leave {key} away",
                        )
                    )
        media = len(set(self._media().values()))
        if self.spec.medium.memory_backed and media * self.spec.medium.size > self.spec.memory // 2:
            problems.append(
                FairlaneError(
                    "memory",
                    f"{'a memory-backed medium' if media == 1 else f'{media} memory-backed media'} must fit in half of "
                    "the guest's memory",
                    where="platform.medium.size",
                    hint="lower platform.medium.size or raise platform.memory",
                )
            )
        return problems

    def _of_workloads(self) -> list[FairlaneError]:
        """Workload settings that one guest with a modelled medium does not support."""
        problems = loads.unfit(self.study, self.spec, own=True)
        for name, workload in self.study.workloads.items():
            if getattr(workload, "prefill", False) and not self.spec.medium.memory_backed:
                problems.append(
                    FairlaneError(
                        "prefill",
                        "prefill has no effect: the modelled medium discards what is written",
                        where=f"workloads.{name}.prefill",
                        hint="set prefill: false, or platform.medium.memory_backed: true with a size that fits",
                    )
                )
            if getattr(workload, "steady", None):
                problems.append(
                    FairlaneError(
                        "steady-virtual",
                        "the virtual clock's medium is steady by itself: every I/O takes the same time",
                        where=f"workloads.{name}.steady",
                        hint="leave steady away, or set platform.clock: wall",
                    )
                )
        return problems

    def _media(self) -> dict[str, int]:
        """Lane -> number of its medium. All share the first, except further lanes of a transport whose target claims
        the medium exclusively: each of those has an identical one of its own."""
        numbers, count = {}, 0
        for name, lane in self.study.lanes.items():
            alone = registry.load("lanes", lane.transport).exclusive
            numbers[name] = count if alone else 0
            count += alone
        return numbers

    def _lanes(self) -> dict[str, Transport[Any]]:
        out = {}
        media = self._media()
        for index, (name, lane) in enumerate(self.study.lanes.items()):
            # The guest has no network: a fixed secret keeps the state's bytes the same wherever it is built.
            secret = hashlib.sha256(f"fairlane lab {name}".encode()).hexdigest()[:16]
            site = Site(f"{modelled.MEDIUM}{media[name]}", _ADDRESS, _INTERFACE, index, secret)
            out[name] = registry.load("lanes", lane.transport)(name, lane, site)
        return out

    def _platform_steps(self) -> tuple[Step, ...]:
        modules = sorted({m for transport in self._lanes().values() for m in transport.modules})
        load = Step("load kernel modules", "target", apply=f"modprobe -a {' '.join(modules)}" if modules else ":")
        return (
            modelled.hugepages_step(self.spec.hugepages),
            load,
            *(modelled.medium_step(self.spec.medium, n) for n in range(max(self._media().values()) + 1)),
            modelled.link_step(self.spec.link, _INTERFACE),
        )

    def _prepare(self) -> list[str]:
        """The prefill of every workload, once per medium, through the first lane on it."""
        first = {number: name for name, number in reversed(self._media().items())}
        texts = (
            registry.load("workloads", cell.kind).prepare(cell, script.device(first[number]))
            for number in sorted(first)
            for cell in self.study.cells()
        )
        return [text for text in dict.fromkeys(texts) if text]

    def setup_script(self) -> str:
        """The whole set-up as the guest runs it."""
        return script.setup_script(self._platform_steps(), self._lanes().values(), self._prepare())

    async def open(self, notify: Notify) -> Opened:
        built = await image.build(notify, self._held)
        self.saved = await saved.state(built, self.spec, self.setup_script(), notify, self._held)
        described = {name.removesuffix(".tsv"): script.rows(text) for name, text in self.saved.described().items()}
        self._check(described)
        lanes = {name: {"path": list(transport.path()), **described[name]} for name, transport in self._lanes().items()}
        manifest = built.manifest
        return Opened(
            description={"lanes": lanes, "platform": {"clock": "virtual", **described["platform"]}},
            fingerprint={
                "qemu": qemu.version(),
                "kernel": manifest["kernel_release"],
                "fairlane": __version__,
                "fio": manifest["packages"].get("fio", "unknown"),
                "image": built.key,
                "image_sha256": manifest["sha256"],
                "state": self.saved.key,
                "state_sha256": self.saved.identity,
                "packages": manifest["packages"],
            },
        )

    async def close(self) -> None:
        self._held.close()

    def _check(self, described: Mapping[str, Mapping[str, str]]) -> None:
        """Raises RunFailed if the read-back values differ from the study's."""
        wrong = script.differences(self._platform_steps(), described["platform"])
        for name, transport in self._lanes().items():
            wrong += [f"lane {name}: {text}" for text in script.differences(transport.steps(), described[name])]
        if wrong:
            raise RunFailed("lane-state", "the lanes are not what the study asks for:\n" + "\n".join(wrong))

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        guest = saved.VirtualGuest(self.saved)
        text = script.block_script(block, self.spec.settle / 1e9)
        loaded = self.study.workloads[block.cell.workload].trial_seconds(block.cell) * len(block.order)
        missing = set(block.order)
        began = ended = 0.0
        # 40 times the usual wall time: a guest that needs more is hung, not slow.
        timeout = 120 + 40 * self.spec.wall_seconds(loaded)
        async with aclosing(guest.run(text, timeout)) as results:
            async for name, outputs in results:
                if name == script.LOAD_BEGINS:
                    began = time.monotonic()
                elif name == script.LOAD_ENDS:
                    ended = time.monotonic()
                else:
                    missing.discard(name)
                    yield RawTrial(name, outputs, load_seconds=ended - began)
        if missing:
            raise RunFailed(
                "result-missing", f"the guest sent no result for {', '.join(sorted(missing))} of {block.key}"
            )
