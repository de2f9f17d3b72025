"""What lies behind the lanes' paths, looked up and measured once, before the first trial."""

from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import Any

from fairlane.errors import RunFailed, several
from fairlane.fleet.build import TIMEOUT, shell
from fairlane.lanes.base import Step
from fairlane.living.machine import Machine
from fairlane.machines.behind import Behind, look, probe, problems
from fairlane.machines.concurrency import together
from fairlane.platforms._living.spec import LivingSpec
from fairlane.platforms._living.volumes import Volume

_SECONDS = 1.0
"""Load in each direction, for each volume."""


async def beneath(
    machines: Mapping[str, Machine],
    lanes: Mapping[str, Sequence[Volume]],
    notify: Callable[[str], None],
) -> dict[str, dict[str, Any]]:
    """Lane -> ``behind`` and ``probed`` for its description; of a lane on several machines by machine. Only files that
    the run made are written. A machine that cannot tell is passed over with a note."""
    found = await together(*(_one(m, lanes, notify) for m in machines.values()))
    result: dict[str, dict[str, Any]] = {}
    for lane, own in lanes.items():
        names = [v.machine for v in own]
        for key in ("behind", "probed"):
            each = {name: one[lane, key] for name, one in zip(machines, found, strict=True) if (lane, key) in one}
            if each:
                result.setdefault(lane, {})[key] = each if len(names) > 1 else next(iter(each.values()))
    return result


def without(begin: str) -> str:
    """Shell that removes the files whose names go on with a dot after ``begin`` (``mktemp``)."""
    return f"(set +f; rm -f {quote(begin)}.*)"


async def looked(machine: Machine, paths: Mapping[str, str]) -> dict[str, Behind]:
    """``behind.look`` on a machine with a keeper, which removes the file that direct I/O is tried with after a kill.
    Raises RunFailed."""
    name = f".fairlane-{machine.run_id}-look"
    steps = [
        Step(f"make a file for look in {path}", "initiator", apply=":", remove=without(f"{path}/{name}"))
        for path in dict.fromkeys(paths.values())
    ]
    await machine.ask(shell(steps, notes=machine.notes), TIMEOUT)
    found = await look(machine, paths, scratch=name)
    await machine.ask(shell(steps, undo=True, notes=machine.notes), TIMEOUT)
    return found


async def judged(
    machine: Machine, own: Sequence[Volume], spec: LivingSpec, *, buffered: bool, writes: bool
) -> dict[str, Behind]:
    """Lane -> what lies behind its directory or file on ``machine``. Raises FairlaneError where a path must not be
    used: missing, the same as another one, without direct I/O or room, ..."""
    paths = {v.lane: str(v.spec.path) for v in own if hasattr(v.spec, "path") and not v.spec.copy_of}
    behinds = await looked(machine, paths) if paths else {}
    made = {v.lane: behinds[v.lane] for v in own if v.lane in behinds and v.transport.remade}
    wrong = problems(behinds, buffered=buffered, writes=writes and bool(made))
    for device in dict.fromkeys(behind.device for behind in made.values()):
        there = {lane: behind for lane, behind in made.items() if behind.device == device}
        keep = int(spec.keep_free * max(behind.total_bytes or 0 for behind in there.values()))
        found = problems(there, buffered=True, writes=True, size=spec.size, keep_free=keep)
        wrong += [problem for problem in found if problem.kind in ("no-space", "no-inodes")]
    if wrong:
        raise several(f"{len(wrong)} paths cannot be used", wrong)
    return behinds


async def _one(
    machine: Machine, lanes: Mapping[str, Sequence[Volume]], notify: Callable[[str], None]
) -> dict[tuple[str, str], dict[str, Any]]:
    own = {lane: v for lane, some in lanes.items() for v in some if v.machine == machine.name}
    devices = {lane: machine.folders.device(v.name) for lane, v in own.items()}
    paths = {lane: getattr(v.spec, "path", "") if v.transport.remade else devices[lane] for lane, v in own.items()}
    result: dict[tuple[str, str], dict[str, Any]] = {}
    try:
        behinds = await looked(machine, paths)
        result = {(lane, "behind"): behind.as_json() for lane, behind in behinds.items()}
        # where direct I/O works it names the disks, whatever the study's load does
        buffered = any(behind.direct.works is False for behind in behinds.values())
        writes = [lane for lane, v in own.items() if v.transport.remade]
        for lane, probed in (await probe(machine, devices, _SECONDS, writes=writes, buffered=buffered)).items():
            result[lane, "probed"] = probed.as_json()
    except RunFailed as error:
        notify(f"{machine.name} cannot report the disks behind its paths: {error.message}")
    return result
