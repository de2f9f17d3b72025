"""Load of others on a machine before a run: how busy disks and links are without our load."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fairlane.errors import RunFailed
from fairlane.machines.base import Guest

_SECONDS = 1.0
_TIMEOUT = 30.0
_SNAPSHOT = "cat /proc/uptime; grep . /proc/diskstats; grep : /proc/net/dev"
_DISK = re.compile(r"^ *\d+ +\d+ (\S+)((?: \d+){11,})$", re.MULTILINE)
_TICKS = 9
"""Of the numbers behind a disk's name: ms with I/O in flight (kernel: admin-guide/iostats.rst, field 10)."""
_NIC = re.compile(r"^ *(\S+): *(\d+)(?: +\d+){7} +(\d+) ", re.MULTILINE)
_UPTIME = re.compile(r"^([0-9.]+) [0-9.]+$", re.MULTILINE)


@dataclass(frozen=True)
class Idle:
    """A machine without load of ours."""

    disks: Mapping[str, float] = field(default_factory=dict)
    """Disk -> share of the time with I/O in flight."""
    nics: Mapping[str, float] = field(default_factory=dict)
    """Interface -> bytes per second, of the busier direction."""


async def watch(guest: Guest) -> Idle:
    """Watches the machine for a second. Raises RunFailed."""
    files = await guest.ask(f"{{ {_SNAPSHOT}; }} > before\nsleep {_SECONDS:g}\n{{ {_SNAPSHOT}; }} > after", _TIMEOUT)
    return between(*(files[name].decode(errors="replace") for name in ("before", "after")))


def between(before: str, after: str) -> Idle:
    """What happened between two snapshots. Pure."""
    times = [float(match[1]) for text in (before, after) if (match := _UPTIME.search(text))]
    if len(times) < 2 or times[1] <= times[0]:
        return Idle()
    seconds = times[1] - times[0]
    ticks = [{name: int(numbers.split()[_TICKS]) for name, numbers in _DISK.findall(t)} for t in (before, after)]
    bytes_ = [{name: (int(rx), int(tx)) for name, rx, tx in _NIC.findall(t)} for t in (before, after)]
    return Idle(
        {n: min(1.0, max(0, v - ticks[0][n]) / 1e3 / seconds) for n, v in ticks[1].items() if n in ticks[0]},
        {n: max(b - a for a, b in zip(bytes_[0][n], v, strict=True)) / seconds
         for n, v in bytes_[1].items() if n in bytes_[0]},
    )  # fmt: skip


def refuse_busy(
    idle: Idle, disks: Iterable[str], links: Mapping[str, int], *, lane: str, machine: str, limit: float
) -> None:
    """Raises RunFailed where a disk of ``lane``, or a link of it (interface -> Mbit/s), was busier than ``limit``."""
    for disk in disks:
        if idle.disks.get(disk, 0.0) > limit:
            raise RunFailed(
                "disk-busy",
                f"disk {disk} of machine {machine} was {idle.disks[disk]:.0%} busy before the run: another load "
                f"uses it, and would distort lane {lane}",
                hint=f"stop that load (iostat -x 1 shows it), or raise platform.max_busy (now {limit:.0%})",
            )
    for link, speed in links.items():
        share = idle.nics.get(link, 0.0) * 8 / (speed * 1e6)
        if share > limit:
            raise RunFailed(
                "link-busy",
                f"interface {link} of machine {machine} carried {share:.0%} of its {speed} Mbit/s before the run: "
                f"another load uses it, and would distort lane {lane}",
                hint=f"stop that load, or raise platform.max_busy (now {limit:.0%})",
            )
