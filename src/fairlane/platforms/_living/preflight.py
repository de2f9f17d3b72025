"""Examine the machines of a study before anything is made: login, root, programs, fio, paths. Writes nothing, unless
``tried``: then one small file in each directory, or in /var/tmp, written by fio and removed."""

import asyncio
import re
from collections.abc import Sequence
from shlex import quote

from fairlane.errors import FairlaneError, RunFailed
from fairlane.living.machine import SHARED, Machine
from fairlane.machines import script
from fairlane.machines.scratch import scratch
from fairlane.platforms._examined import Line
from fairlane.platforms._living.needs import Need, install_hint, needs
from fairlane.platforms._living.spec import LivingSpec
from fairlane.platforms._living.volumes import Volume, volumes
from fairlane.study.spec import Study
from fairlane.units import format_size

OLDEST_FIO = (3, 1)
"""json+ with nanoseconds, and ``exec_prerun`` of which the exit code counts."""
_TRY = 30.0


async def examine(study: Study, *, tried: bool) -> list[Line]:
    """One line per machine and thing; state ``missing`` keeps the study from running."""
    spec = study.platform
    assert isinstance(spec, LivingSpec)  # noqa: S101 - the study's kind chose this platform
    with scratch(short=True) as folder:
        wanted = needs(study).values()
        answer = spec.connect_timeout / 1e9
        machines = [Machine(need.machine, spec.reached[need.machine], "0" * 10, folder, answer) for need in wanted]
        own = volumes(study, "0" * 10)
        parts = await asyncio.gather(*(_one(m, n, own, tried) for m, n in zip(machines, wanted, strict=True)))
    return [line for lines in parts for line in lines]


async def _one(machine: Machine, need: Need, own: Sequence[Volume], tried: bool) -> list[Line]:
    try:
        await machine.connect()
    except FairlaneError as error:
        return [_failed(machine.name, error)]
    lines = []
    try:
        lines.append(await _login(machine))
        if need.root:
            lines.append(await _root(machine, need))
        lines.append(await programs(machine, [*need.programs], [*need.folders]))
        if all(line.state != "missing" for line in lines):
            lines += [line for v in own if v.machine == machine.name for line in await _volume(machine, v, tried)]
            lines += await _examined(machine, own)
            if tried and "fio" in need.programs and not any(_directory(v) for v in own if v.machine == machine.name):
                lines.append(await _tried(machine, f"{machine.name}: fio", SHARED, direct=False))
    except RunFailed as error:
        lines.append(_failed(machine.name, error))
    finally:
        await machine.close()
    return lines


def _failed(name: str, error: FairlaneError) -> Line:
    return Line(name, "missing", error.message, error.hint, error.kind)


async def _examined(machine: Machine, own: Sequence[Volume]) -> list[Line]:
    """What the volumes ask of a machine, each question once."""
    lines = []
    questions = {v.examination()[machine.name]: v.lane for v in reversed(own) if machine.name in v.examination()}
    for question, lane in questions.items():
        _, out, err = await machine.plain('row() { printf \'%s\\t%s\\n\' "$1" "$2"; }\n' + question)
        rows = script.rows(out)
        if wrong := rows.get("missing") or err.strip():
            lines.append(Line(f"{lane} on {machine.name}", "missing", wrong, rows.get("hint", ""), "not-there"))
    return lines


async def _login(machine: Machine) -> Line:
    text = 'echo "$(id -un)"; uname -r; ( . /etc/os-release && echo "$PRETTY_NAME" ); grep -c ^processor /proc/cpuinfo'
    _, out, _ = await machine.plain(text)
    user, kernel, system, cpus = (out.splitlines() + [""] * 4)[:4]
    machine.facts = {"system": system}
    return Line(machine.name, "ok", f"login as {user}: {system}, kernel {kernel}, {cpus} CPUs")


async def _root(machine: Machine, need: Need) -> Line:
    name = f"{machine.name}: root"
    try:
        await machine.become_root()
    except FairlaneError as error:
        return Line(name, "missing", f"{error.message} (needed for {', '.join(need.root)})", error.hint, error.kind)
    return Line(name, "ok", f"for {', '.join(need.root)}")


async def programs(machine: Machine, needed: Sequence[str], folders: Sequence[str] = ()) -> Line:
    """Whether ``needed``, and what scripts call, is installed (in PATH or ``folders``), and fio new enough. Raises
    RunFailed."""
    name = f"{machine.name}: programs"
    if lacking := await machine.lacks(needed, folders):
        return Line(
            name,
            "missing",
            f"not installed: {', '.join(lacking)}",
            install_hint(lacking, machine.facts),
            "program-missing",
        )
    _, out, _ = await machine.plain("fio --version 2> /dev/null; bash -c 'echo $BASH_VERSION'")
    fio, bash = [*out.splitlines(), "", ""][:2]
    version = re.search(r"(\d+)\.(\d+)", fio)
    if "fio" in needed and (not version or (int(version[1]), int(version[2])) < OLDEST_FIO):
        oldest = ".".join(map(str, OLDEST_FIO))
        hint = f"{install_hint(['fio'], machine.facts)} (version {oldest} or newer)"
        return Line(name, "missing", f"{fio or 'fio'} is too old", hint, "fio-old")
    return Line(name, "ok", f"{fio}, bash {bash}")


async def _volume(machine: Machine, volume: Volume, tried: bool) -> list[Line]:
    """A lane's path on its machine: what is there, and, if ``tried``, one write and one fio."""
    path, name = getattr(volume.spec, "path", ""), f"{volume.lane} on {machine.name}"
    if _directory(volume):
        text = f"""
p={quote(path)}
[ -d "$p" ] || {{ row missing "$p is not a directory on this machine"; exit; }}
[ -w "$p" ] || {{ row missing "$p is not writable for $(id -un)"; exit; }}
row free "$(df -kP "$p" | awk 'NR == 2 {{ printf "%.0f", $4 * 1024 }}')"
row total "$(df -kP "$p" | awk 'NR == 2 {{ printf "%.0f", $2 * 1024 }}')"
"""
    elif volume.spec.transport == "file":
        text = f"""
p={quote(path)}
[ -f "$p" ] || {{ row missing "$p is not a file on this machine"; exit; }}
[ -r "$p" ] || {{ row missing "$p is not readable for $(id -un)"; exit; }}
row bytes "$(stat -L -c %s "$p")"
"""
    else:
        return []
    _, out, _ = await machine.plain('row() { printf \'%s\\t%s\\n\' "$1" "$2"; }\n' + text)
    rows = script.rows(out)
    if "missing" in rows:
        return [Line(name, "missing", rows["missing"], "name an existing directory or file", "path-missing")]
    if _directory(volume):
        room = int(rows.get("free", "0")), int(rows.get("total", "0"))
        if problem := _room(volume, *room):
            return [Line(name, "missing", *problem, "no-room")]
        if tried:
            return [await _tried(machine, name, path, direct=True)]
    return [Line(name, "ok", path)]


def _directory(volume: Volume) -> bool:
    return volume.spec.transport == "directory"


def _room(volume: Volume, free: int, total: int) -> tuple[str, str] | None:
    if free - volume.site.size >= 0.02 * total and free > volume.site.size:
        return None
    text = f"{format_size(volume.site.size)} does not fit: the file system has {free // 2**20} MiB free"
    return text, "lower platform.size, or make room"


async def _tried(machine: Machine, name: str, path: str, *, direct: bool) -> Line:
    """Writes one small file with fio, and removes it."""
    text = f"""
cd {quote(path)} || exit
f=$(mktemp -p . .fairlane-XXXXXXXXXX) || exit
trap 'rm -f "$f"' EXIT
fio --name=try --filename="$f" --rw=write --bs=4k --size=1m --direct={int(direct)} --ioengine=psync --output=/dev/null
"""
    code, out, err = await machine.plain(text, _TRY)
    if not code:
        return Line(name, "ok", f"{path}: one write with fio succeeded")
    failed = (err or out).strip()[-200:] or "fio failed without a message"
    hint = "run fio there by hand to see its full output"
    return Line(name, "missing", f"fio cannot write to {path}: {failed}", hint, "fio-fails")
