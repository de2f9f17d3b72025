"""Prepare a study's clone storms: check that they fit, make the golden image, provide a file system for the files."""

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from fairlane.errors import FairlaneError
from fairlane.lanes._clones import Cloning
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall import golden, store
from fairlane.platforms.lab.wall.disks import Parts
from fairlane.platforms.lab.wall.golden import Golden
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.platforms.lab.wall.resources import OVERHEAD, Capacity
from fairlane.platforms.lab.wall.rootfs import Root
from fairlane.study.spec import Study
from fairlane.units import format_size

_KIND = "clone"
_WRITES = 48 * 2**20
"""Most bytes that a clone writes while it boots."""
_GOLDEN_SERIAL = "golden"


@dataclass(frozen=True)
class Demand:
    """The most that a storm of the study needs."""

    machines: int
    data: int
    """Bytes of data in the golden image."""


def demand(study: Study) -> Demand | None:
    """The largest demand of the study's storms; None: it has none."""
    cells = [cell.params for cell in study.cells() if cell.kind == _KIND]
    return Demand(max(c["count"] for c in cells), max(c["data"] for c in cells)) if cells else None


def problems(study: Study, spec: LabSpec, volumes: Sequence[Volume], machine: Capacity) -> list[FairlaneError]:
    """Why this machine cannot run the study's storms or its cloning lanes; each with a remedy."""
    problems = [*_too_much(study, spec, volumes, machine)]
    return problems + (store.problems(Path(tempfile.gettempdir())) if _reflinks(volumes) else [])


def _reflinks(volumes: Iterable[Volume]) -> bool:
    return any(isinstance(v.transport, Cloning) and v.transport.reflinks for v in volumes)


def unfit(study: Study, spec: LabSpec, volumes: Sequence[Volume]) -> list[FairlaneError]:
    """Why no machine can run them; from the study alone."""
    return [*_mixed(study, spec, volumes), *_too_small(study, spec)]


def _mixed(study: Study, spec: LabSpec, volumes: Sequence[Volume]) -> Iterable[FairlaneError]:
    storms = demand(study)
    for volume in volumes:
        if isinstance(volume.transport, Cloning) and any(cell.kind != _KIND for cell in study.cells()):
            yield FairlaneError(
                "clones-other-workloads",
                f"{volume.spec.transport} creates its volumes during each measurement, so other workloads have no "
                "volume to load",
                where=f"lanes.{volume.lane}.transport",
                hint="use only workloads of kind: clone, or another transport",
            )
        if storms and not isinstance(volume.transport, Cloning):
            yield FairlaneError(
                "clones-unsupported",
                f"{volume.spec.transport} cannot make clones, but a workload is a clone storm",
                where=f"lanes.{volume.lane}.transport",
                hint="set transport: clone_copy, clone_overlay, clone_reflink, clone_lvm_thin, ...",
            )
    if storms and (spec.fleet > 1 or spec.disks > 1):
        yield FairlaneError(
            "clones-machines",
            "clone storms create their own machines, with one disk each",
            where="platform.fleet" if spec.fleet > 1 else "platform.disks",
            hint="remove fleet and disks; the workload's counts set the number of machines",
        )
    if storms and spec.pinning:
        yield FairlaneError(
            "clones-pinned",
            "pinning does not apply to the machines of clone storms",
            where="platform.pinning",
            hint="remove pinning",
        )
    if len({cell.params["data"] for cell in study.cells() if cell.kind == _KIND}) > 1:
        yield FairlaneError(
            "clones-golden",
            "the clone storms of a study share one golden image, so their data must be equal",
            where="workloads",
            hint="set the same data in all of them",
        )


def _too_small(study: Study, spec: LabSpec) -> Iterable[FairlaneError]:
    storms = demand(study)
    if storms and (least := golden.least(storms.data)) > spec.medium.size:
        yield FairlaneError(
            "disk-space",
            f"the golden image with {format_size(storms.data)} of data takes {_size(least)}, but a volume has "
            f"{format_size(spec.medium.size)}",
            where="platform.medium.size",
            hint="raise platform.medium.size, or lower the workload's data",
        )


def _too_much(study: Study, spec: LabSpec, volumes: Sequence[Volume], machine: Capacity) -> Iterable[FairlaneError]:
    storms = demand(study)
    if not storms:
        return
    array = any(v.needs_array for v in volumes)
    count, each = storms.machines, spec.memory + OVERHEAD
    plus = f" + an array of {format_size(spec.array.memory + OVERHEAD)}" if array else ""
    if (needed := count * each + array * (spec.array.memory + OVERHEAD)) > machine.memory:
        yield FairlaneError(
            "memory",
            f"a storm of {count} machines of {format_size(spec.memory)} + {format_size(OVERHEAD)} for each QEMU{plus} "
            f"= {_size(needed)}, but only {_size(machine.memory)} of memory are available",
            where="workloads",
            hint="lower the workload's counts, or platform.memory (192m boots)",
        )
    plus = f" + an array of {spec.array.cpus}" if array else ""
    if (cpus := count * spec.cpus + array * spec.array.cpus) > machine.cores * spec.overcommit:
        yield FairlaneError(
            "cpus",
            f"a storm of {count} machines of {spec.cpus} CPU{'s' * (spec.cpus > 1)}{plus} = {cpus} virtual CPUs on "
            f"{machine.cores} cores, but platform.overcommit is {spec.overcommit:g}",
            where="workloads",
            hint="lower the workload's counts, or raise platform.overcommit (machines will then wait for each other)",
        )
    if (files := _files(storms)) > machine.disk:
        yield FairlaneError(
            "disk-space",
            f"the golden image and {count} copies take {_size(files)}, but only {_size(machine.disk)} are free in "
            f"{tempfile.gettempdir()}",
            where="workloads",
            hint="lower the workload's counts or data, or set TMPDIR to a folder on another disk",
        )


def _files(storms: Demand) -> int:
    """Bytes of the golden image, of the folder it is made from, and of whole copies."""
    return (storms.machines + 2) * (golden.least(storms.data) + _WRITES)


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


async def prepare(
    storms: Demand, volumes: Sequence[Volume], root: Root, scratch: Path, held: ExitStack
) -> tuple[Golden, list[Volume]]:
    """The golden image, as large as the volumes, and the volumes with its path. Raises RunFailed.

    Files of all lanes are on one file system, so that only the methods differ."""
    place = scratch / "store"
    if _reflinks(volumes) and not store.shares(scratch):
        place = store.sharing(scratch, _files(storms) + _files(storms) // 8, held)
    else:
        place.mkdir()
    image = await golden.make(root, place, volumes[0].site.size, storms.data)
    device = f"/dev/disk/by-id/virtio-{_GOLDEN_SERIAL}"
    own = {"golden": str(image.file), "medium": str(place)}
    return image, [v.at(golden=device) if v.needs_array else v.at(**own) for v in volumes]


def disk(image: Golden) -> Parts:
    """The golden image as a disk of the array, for its steps to read."""
    node = {"driver": "file", "filename": str(image.file), "node-name": "golden", "read-only": True}
    return Parts((), (node,), ({"driver": "virtio-blk-pci", "drive": "golden", "serial": _GOLDEN_SERIAL},))
