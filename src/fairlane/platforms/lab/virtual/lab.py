"""The lab's platform under the virtual clock: every block starts from the same saved state of one VM."""

import hashlib
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairlane import __version__, install, registry
from fairlane.errors import FairlaneError, RunFailed
from fairlane.lanes.base import Site, Step, Transport
from fairlane.machines import script
from fairlane.platforms.base import Notify, Opened, Platform, RawTrial
from fairlane.platforms.lab import image, loads, modelled, part, qemu, this_host
from fairlane.platforms.lab.closed import external_lanes
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.virtual import saved
from fairlane.records import Block

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_INTERFACE, _ADDRESS = "lo", "127.0.0.1"


def _apart(text: str, kind: str) -> str:
    """``text`` in a folder of its own, as a trial runs it: without ``set -e``, and with its complaints in KIND.err."""
    return f"""mkdir -p /run/prepare && cd /run/prepare
( set +e
{text.strip()}
) && code=0 || code=$?
[ $code = 0 ] || {{ tail -n 5 {kind}.err >&2; exit $code; }}
cd / && rm -rf /run/prepare"""


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
        if outside := list(external_lanes(self.study)):
            return outside
        needed = ((qemu.BINARY, "qemu-system-x86"), ("setpriv", "util-linux"))
        problems = [error for program in needed if (error := install.missing(*program))]
        wanted = part.wanted(self.study)
        built = image.cached_image() and (not wanted or part.cached(wanted))
        if not built and (error := image.builder_missing()):
            problems.append(error)
        return problems + self.unfit()

    def unfit(self) -> list[FairlaneError]:
        if outside := list(external_lanes(self.study)):
            return outside
        problems = self._of_workloads()
        for name, lane in self.study.lanes.items():
            if lane.initiator == "hypervisor":
                problems.append(
                    FairlaneError(
                        "guest-device-virtual",
                        "the virtual clock cannot time guest devices: QEMU emulates them outside its instruction count",
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
            if getattr(lane, "multipath", None):
                problems.append(
                    FairlaneError(
                        "wall-clock-only",
                        "multipath needs the wall clock: the virtual clock has only one link, inside one guest",
                        where=f"lanes.{name}.multipath",
                        hint="set platform.clock: wall, or remove multipath",
                    )
                )
        if part.wanted(self.study):
            problems += self._held_media()
            problems += self._too_long() if not problems else ()
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
                        "prefill has no effect: the modelled medium discards all writes",
                        where=f"workloads.{name}.prefill",
                        hint="set prefill: false, or platform.medium.memory_backed: true with a size that fits",
                    )
                )
            if getattr(workload, "steady", None):
                problems.append(
                    FairlaneError(
                        "steady-virtual",
                        "steady has no effect: on the virtual clock's medium every I/O takes the same time",
                        where=f"workloads.{name}.steady",
                        hint="remove steady, or set platform.clock: wall",
                    )
                )
        return problems

    def _held_media(self) -> Iterator[FairlaneError]:
        """Lanes on which no file system can be mounted: LIO claims its medium."""
        for name, lane in self.study.lanes.items():
            if registry.load("lanes", lane.transport).backing == "machine":
                yield FairlaneError(
                    "medium-held",
                    f"lane {name} is the medium itself, which the targets of other lanes hold: no file system of a "
                    "database can be mounted on it",
                    where=f"lanes.{name}.transport",
                    hint="leave the lane out",
                )

    def _too_long(self) -> Iterator[FairlaneError]:
        """Loads with scripts of their own, of which a block has one a lane: a guest receives all of them at once."""
        for cell in {cell.workload: cell for cell in self.study.cells()}.values():
            lanes = tuple(self.study.lanes)
            size = len(script.block_script(Block(cell, 0, lanes, 0), 0.0).encode())
            if size > qemu.JOB_BYTES:
                yield FairlaneError(
                    "script-size",
                    f"a block of {len(lanes)} lanes needs a script of {size} bytes; a guest receives {qemu.JOB_BYTES}",
                    where=f"workloads.{cell.workload}",
                    hint=f"use {qemu.JOB_BYTES * len(lanes) // size} lanes at most",
                )

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
            *((modelled.server_step(),) if part.wanted(self.study) else ()),
            load,
            *(modelled.medium_step(self.spec.medium, n) for n in range(max(self._media().values()) + 1)),
            modelled.link_step(self.spec.link, _INTERFACE),
        )

    def _prepare(self) -> list[str]:
        """The prefill of every workload, once per medium, through the first lane on it."""
        first = {number: name for name, number in reversed(self._media().items())}
        texts = []
        for number in sorted(first):
            for cell in self.study.cells():
                workload = registry.load("workloads", cell.kind)
                text = workload.prepare(cell, script.device(first[number]))
                texts.append(_apart(text, cell.kind) if text and workload.part else text)
        return [text for text in dict.fromkeys(texts) if text]

    def setup_script(self) -> str:
        """The whole set-up as the guest runs it."""
        return script.setup_script(self._platform_steps(), self._lanes().values(), self._prepare())

    async def open(self, notify: Notify) -> Opened:
        built = await image.build(notify, self._held)
        if wanted := part.wanted(self.study):
            built = replace(built, part=await part.build(wanted, notify, self._held))
        self.saved = await saved.state(built, self.spec, self.setup_script(), notify, self._held)
        described = {name.removesuffix(".tsv"): script.rows(text) for name, text in self.saved.described().items()}
        self._check(described)
        lanes = {name: {"path": list(transport.path()), **described[name]} for name, transport in self._lanes().items()}
        manifest = built.manifest
        further = part.manifest(built.part) if built.part else {"packages": {}, "sha256": {}}
        return Opened(
            description={"lanes": lanes, "platform": {"clock": "virtual", **described["platform"]}},
            fingerprint={
                "qemu": qemu.version(),
                "host": this_host.facts(),
                "kernel": manifest["kernel_release"],
                "fairlane": __version__,
                "fio": manifest["packages"].get("fio", "unknown"),
                "image": built.key,
                "image_sha256": manifest["sha256"] | {f"part_{k}": v for k, v in further["sha256"].items()},
                "state": self.saved.key,
                "state_sha256": self.saved.identity,
                "packages": manifest["packages"] | further["packages"],
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
            raise RunFailed("lane-state", "the lanes differ from the study:\n" + "\n".join(wrong))

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        guest = saved.VirtualGuest(self.saved, f"while it ran block {block.key}")
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
                "result-missing", f"the guest returned no result for {', '.join(sorted(missing))} of {block.key}"
            )
