"""Pin the virtual CPUs and IO threads of every machine to cores of their own (``sched_setaffinity(2)``).

Lanes take turns, so the first IO thread of one lane shares its core with the first of every other lane.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fairlane.errors import FairlaneError, RunFailed
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall import disks
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.platforms.lab.wall.vm import Vm

REST = "others"
"""QEMU's main loop and helpers: they share the remaining cores, or all cores if none remain."""


@dataclass(frozen=True)
class Thread:
    """A thread of QEMU that gets a core."""

    machine: str
    name: str
    """``vcpu0``, or the id of an IO thread: ``io.LANE.0``."""
    id: int

    @property
    def seat(self) -> tuple[str, str]:
        """Threads with the same seat share a core: they never work at the same time."""
        number = self.name.rpartition(".")[2]
        return self.machine, self.name if number == self.name else f"io{number}"


def problems(spec: LabSpec, lanes: Mapping[str, Sequence[Volume]], cores: int) -> list[FairlaneError]:
    """An error, with the sum, if the pinned threads need more than ``cores`` cores."""
    if not spec.pinning:
        return []
    array = spec.array.cpus if any(v.needs_array for volumes in lanes.values() for v in volumes) else 0
    threads = max(
        (len(disks.io_threads(lane, disks.device(v[0]), spec.disks)) for lane, v in lanes.items() if v[0].emulated),
        default=0,
    )
    wanted = array + spec.fleet * (spec.cpus + threads)
    if wanted <= cores:
        return []
    parts = [f"{array} for the array"] * bool(array) + [f"{spec.fleet} x {spec.cpus} for guests"]
    parts += [f"{spec.fleet} x {threads} IO threads"] * bool(threads)
    return [
        FairlaneError(
            "cpus",
            f"pinning needs {wanted} cores ({' + '.join(parts)}), but this machine has {cores}",
            where="platform.pinning",
            hint="set pinning: false, or fewer CPUs, machines or IO threads",
        )
    ]


def seats(threads: Sequence[Thread], cores: Collection[int]) -> dict[Thread, int]:
    """A core for each thread: cores in ascending order, seats in the order of ``threads``. Raises RunFailed."""
    free = iter(sorted(cores))
    core_of: dict[tuple[str, str], int] = {}
    for thread in threads:
        if thread.seat not in core_of:
            core = next(free, None)
            if core is None:
                raise RunFailed("cpus", f"no core is left to pin {thread.name} of {thread.machine} to")
            core_of[thread.seat] = core
    return {thread: core_of[thread.seat] for thread in threads}


async def pin(machines: Sequence[Vm]) -> dict[str, dict[str, str]]:
    """Pins the threads of ``machines`` and reads it back: machine -> thread -> its cores. Raises RunFailed."""
    virtual: list[Thread] = []
    io: list[Thread] = []
    for vm in machines:
        for cpu in await vm.execute("query-cpus-fast"):
            virtual.append(Thread(vm.name, f"vcpu{cpu['cpu-index']}", cpu["thread-id"]))
        io += [Thread(vm.name, item["id"], item["thread-id"]) for item in await vm.execute("query-iothreads")]
    cores = os.sched_getaffinity(0)
    placed = seats([*virtual, *io], cores)
    rest = cores - set(placed.values()) or cores
    pinned: dict[str, dict[str, str]] = {}
    for vm in machines:
        own = {thread.id: thread.name for thread in placed if thread.machine == vm.name}
        for helper in vm.threads().keys() - own.keys():
            _set(helper, rest, f"{vm.name}: {REST}")
        pinned[vm.name] = {REST: _core_list(rest)}
    for thread, core in placed.items():
        _set(thread.id, {core}, f"{thread.machine}: {thread.name}")
        pinned[thread.machine][thread.name] = _core_list(os.sched_getaffinity(thread.id))
    return pinned


def _set(thread: int, cores: Collection[int], name: str) -> None:
    try:
        os.sched_setaffinity(thread, cores)
        actual = os.sched_getaffinity(thread)
    except ProcessLookupError:
        return  # a helper that has ended meanwhile
    except OSError as error:
        raise RunFailed("pinning", f"{name} cannot be pinned: {error.strerror}") from error
    if actual != set(cores):
        raise RunFailed("pinning", f"{name} was pinned to cores {_core_list(cores)}, but runs on {_core_list(actual)}")


def _core_list(cores: Collection[int]) -> str:
    return ",".join(map(str, sorted(cores)))
