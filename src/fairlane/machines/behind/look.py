"""Look up what lies behind paths of a machine: two or three short scripts, which change nothing but a scratch file."""

from collections.abc import Iterable, Mapping
from shlex import quote

from fairlane.errors import RunFailed
from fairlane.machines import library
from fairlane.machines.base import Guest
from fairlane.machines.behind import facts as reading
from fairlane.machines.behind.facts import Machine, PathFacts
from fairlane.machines.behind.records import Behind
from fairlane.machines.behind.stack import resolve

_TIMEOUT = 120.0
_ROUNDS = 12
"""Most scripts: one for each loop device on a file on a loop device ..."""


async def look(guest: Guest, paths: Mapping[str, str], *, scratch: str = "") -> dict[str, Behind]:
    """What lies behind ``paths`` (name -> directory, file or block device on the machine), by name.

    Needs no root; facts that the user may not read are missing. Tries direct I/O: in a directory with a file of 4 KiB
    that is removed at once, else by a read. ``scratch``: prefix of that file's name, before a dot and letters, so that
    a caller can remove the file after a kill. Raises RunFailed if the machine does not answer."""
    machine, facts = await gather(guest, paths.values(), scratch)
    return {name: resolve(machine, path, facts)[0] for name, path in paths.items()}


async def gather(guest: Guest, paths: Iterable[str], scratch: str = "") -> tuple[Machine, dict[str, PathFacts]]:
    """The facts of the machine and of ``paths``, and of all files and directories below them. Raises RunFailed."""
    wished = list(dict.fromkeys(paths))
    files = await _ask(guest, wished, f"LOOK_NAME={quote(scratch)}\nbehind_machine\n", " try")
    if "blocks" not in files:
        raise RunFailed("look", f"{guest.name} returned no list of its disks")
    machine = reading.machine(guest.name, files)
    facts = _facts(files, wished)
    for _ in range(_ROUNDS):
        wanted = sorted(set().union(*(resolve(machine, path, facts)[1] for path in wished)) - facts.keys())
        if not wanted:
            break
        facts |= _facts(await _ask(guest, wanted, "", ""), wanted)
    return machine, facts


async def _ask(guest: Guest, paths: list[str], before: str, flag: str) -> Mapping[str, bytes]:
    each = "".join(f"behind_path {quote(path)}{flag} > path.{number}\n" for number, path in enumerate(paths))
    return await guest.ask(f"{library.part('behind.sh')}{before}{each}", _TIMEOUT)


def _facts(files: Mapping[str, bytes], paths: list[str]) -> dict[str, PathFacts]:
    return {
        path: reading.path_facts(files.get(f"path.{number}", b"").decode(errors="replace"))
        for number, path in enumerate(paths)
    }
