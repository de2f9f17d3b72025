"""Check that this machine has the memory, cores and disk for a study. Pure except for ``capacity``."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairlane.errors import FairlaneError
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.units import format_size

OVERHEAD = 120 * 2**20
"""Bytes that QEMU itself takes for a machine, without caches of its disks."""
_SYSTEM = 256 * 2**20
"""Bytes that a guest's kernel and programs take."""

_LONGEST = 60
"""Most characters of the temporary folder's name: a socket's name has 107 bytes (unix(7)); the scratch folder adds 18
and OpenSSH's names in it up to 29."""


@dataclass(frozen=True)
class Capacity:
    """Resources of this machine."""

    memory: int
    """Bytes available."""
    cores: int
    disk: int
    """Bytes free in the temporary folder."""


def capacity() -> Capacity:
    """This machine's available memory, cores and disk space."""
    memory = 0
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            memory = int(line.split()[1]) * 1024
    with suppress(OSError, ValueError):  # a container's limit, if it has one
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{n}").read_text()) for n in ("max", "current"))
        memory = min(memory, limit - used)
    return Capacity(memory, len(os.sched_getaffinity(0)), shutil.disk_usage(tempfile.gettempdir()).free)


def problems(spec: LabSpec, volumes: Sequence[Volume], machine: Capacity) -> list[FairlaneError]:
    """Resources that the study exceeds, each with its sum."""
    array = any(v.needs_array for v in volumes)
    guests = f"{spec.fleet} guest{'s' * (spec.fleet > 1)}"
    problems = []
    ceph = any(v.needs_ceph for v in volumes) * spec.ceph.memory
    needed = spec.fleet * (spec.memory + OVERHEAD) + array * (spec.array.memory + OVERHEAD) + ceph
    if needed > machine.memory:
        with_array = f" + an array of {format_size(spec.array.memory)}" if array else ""
        with_array += f" + a Ceph cluster of {_size(ceph)}" if ceph else ""
        problems.append(
            FairlaneError(
                "memory",
                f"{guests} of {format_size(spec.memory)}{with_array} + {format_size(OVERHEAD)} for each QEMU = "
                f"{_size(needed)}, but only {_size(machine.memory)} of memory are available",
                where="platform",
                hint="lower platform.fleet, platform.memory or platform.array.memory",
            )
        )
    cpus = spec.fleet * spec.cpus + array * spec.array.cpus
    if cpus > machine.cores * spec.overcommit:
        with_array = f" + an array of {spec.array.cpus}" if array else ""
        problems.append(
            FairlaneError(
                "cpus",
                f"{guests} of {spec.cpus} CPU{'s' * (spec.cpus > 1)}{with_array} = {cpus} virtual CPUs on "
                f"{machine.cores} cores, but platform.overcommit is {spec.overcommit:g}",
                where="platform",
                hint="lower platform.fleet or cpus; a higher overcommit makes guests wait for CPUs, not for I/O",
            )
        )
    if len(tempfile.gettempdir()) > _LONGEST:
        problems.append(
            FairlaneError(
                "folder-name",
                f"the path of the temporary folder has more than {_LONGEST} characters, too long for Unix sockets",
                where=tempfile.gettempdir(),
                hint="set TMPDIR to a shorter path, such as /tmp",
            )
        )
    return problems + _media(spec, volumes, machine)


def _media(spec: LabSpec, volumes: Sequence[Volume], machine: Capacity) -> list[FairlaneError]:
    """Media that keep what is written must fit where they are kept."""
    problems = []
    if spec.medium.memory_backed:
        media = {"array": [v.medium_size for v in volumes if v.needs_array]}
        for volume in volumes:
            if volume.transport.backing == "machine" and not volume.emulated:
                media.setdefault(f"guest {volume.guest}", []).append(volume.medium_size)
        for where, sizes in media.items():
            key = "array.memory" if where == "array" else "memory"
            memory = spec.array.memory if where == "array" else spec.memory
            if sum(sizes) + _SYSTEM > memory:
                problems.append(
                    FairlaneError(
                        "memory",
                        f"{len(sizes)} memory-backed media, {_size(sum(sizes))}, + {format_size(_SYSTEM)} for the "
                        f"system = {_size(sum(sizes) + _SYSTEM)}, but the {where} has {format_size(memory)}",
                        where="platform.medium",
                        hint=f"lower platform.medium.size, or raise platform.{key}",
                    )
                )
    stored = [v for v in volumes if (not spec.ceph.memstore if v.needs_ceph else spec.medium.file)]
    needed = sum(v.medium_size for v in stored)
    if needed > machine.disk:
        copies = " with their copies" if any(v.needs_ceph for v in stored) else ""
        problems.append(
            FairlaneError(
                "disk-space",
                f"{len(stored)} volumes of {format_size(spec.medium.size)} take {_size(needed)}{copies}, but only "
                f"{_size(machine.disk)} are free in {tempfile.gettempdir()}",
                where="platform.medium",
                hint="lower platform.medium.size, or set TMPDIR to a folder on another disk",
            )
        )
    return problems


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
