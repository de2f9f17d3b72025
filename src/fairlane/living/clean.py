"""Leftovers of killed runs on machines: find their folders, end their loads, undo their steps, and nothing else."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fairlane.errors import FairlaneError
from fairlane.living import leftovers
from fairlane.living.machine import SHARED, Machine
from fairlane.machines.scratch import scratch

_RUN = re.compile(r"[0-9a-f]{10}")
_FRESH = 60
"""Seconds that a run may take from its folder to its keeper."""
_ENDING = 30
"""Seconds for all keepers that end what killed runs do."""
_LIST = f"""
alive() {{
  [ -f "$1/keeper" ] && [ ! -L "$1/keeper" ] && read -r pid when who 2> /dev/null < "$1/keeper" || return 1
  case $pid in '' | *[!0-9]*) return 1 ;; esac
  read -r s 2> /dev/null < "/proc/$pid/stat" || return 1
  set -f; set -- ${{s##*) }}; set +f
  [ "${{1:-Z}}" != Z ] && [ "${{20:-}}" = "$when" ]
}}
i=0
for d in {SHARED}/fairlane-*; do
  [ -d "$d" ] && [ ! -L "$d" ] || continue
  while alive "$d" && [ -e "$d/ending" ] && [ $i -lt {_ENDING} ]; do sleep 1; i=$((i + 1)); done
  [ -d "$d" ] || continue
  state=ended
  if alive "$d"; then state=running
  elif [ -e "$d/starting" ] && [ $(($(date +%s) - $(stat -c %Y "$d/starting"))) -lt {_FRESH} ]; then
    state=running # about to start its keeper
  fi
  echo "${{d##*/fairlane-}} $state $(stat -c %u "$d")"
done
id -u
"""


@dataclass(frozen=True)
class Remains:
    """A run's folder on a machine."""

    machine: str
    run: str
    running: bool
    own: bool
    """Whether it belongs to the user who logs in."""
    foreign: bool
    """Whether it belongs to neither that user nor root: its list may say anything."""


async def clean(
    machines: Mapping[str, str], run: str, notify: Callable[[str], None], *, dry: bool = False
) -> list[str]:
    """Removes what ended runs left on ``machines`` (name -> destination), of ``run`` alone if given; ``dry`` only lists
    it. Returns what could not be removed."""
    stays: list[str] = []
    with scratch(short=True) as folder:
        for name, destination in machines.items():
            try:
                stays += await _machine(name, destination, run, notify, folder, dry=dry)
            except FairlaneError as error:
                stays.append(error.message)
    return stays


async def _machine(
    name: str, destination: str, run: str, notify: Callable[[str], None], scratch_folder: Path, *, dry: bool
) -> list[str]:
    scout = Machine(name, destination, "0" * 10, scratch_folder)
    await scout.connect()
    try:
        _, out, _ = await scout.plain(_LIST)
    finally:
        await scout.close()
    stays, count = [], 0
    for remains in _remains(name, out):
        if run and remains.run != run:
            continue
        count += 1
        if remains.foreign:
            notify(f"{name}: run {remains.run} belongs to another user; only that user can clean it")
            continue
        if remains.running:
            notify(f"{name}: run {remains.run} is still running; kept")
            continue
        if dry:
            notify(f"{name}: run {remains.run} has ended; its leftovers are in {scout.folder_of(remains.run)}")
        else:
            notify(f"{name}: cleaning up after run {remains.run}")
            try:
                stays += await _undo(Machine(name, destination, remains.run, scratch_folder), remains)
            except FairlaneError as error:
                stays.append(error.message)
    if not count:
        notify(f"{name}: no leftovers of {f'run {run}' if run else 'any run'}")
    return stays


def _remains(name: str, text: str) -> Iterator[Remains]:
    *lines, user = text.splitlines() or [""]
    for line in lines:
        run, state, owner = [*line.split(), "", "", ""][:3]
        if _RUN.fullmatch(run):
            yield Remains(name, run, state == "running", owner == user.strip(), owner not in ("0", user.strip()))


async def _undo(machine: Machine, remains: Remains) -> list[str]:
    await machine.connect()
    try:
        if not remains.own:
            await machine.become_root()
        await machine.install()  # a kill may have come before that was done
        await machine.keep(alone=False, title="clean")
        await machine.end_keeper()  # which ends the run's loads
        left = [str(item) for item in await leftovers.undo(machine)]
    finally:
        await machine.close(remove=True)
    return left
