"""Undo what a run did on a machine, from its list there: at the end of the run, after a failure, and for ``clean``."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairlane.errors import RunFailed, because
from fairlane.living.machine import Machine
from fairlane.machines import script

_STEP = 60
"""Seconds for one step; a step that takes longer counts as failed."""
_TIMEOUT = 900.0

_UNDO = """
cd {notes} 2> /dev/null || exit 0
for f in $(ls -r | grep -v '[.]new$'); do
  read -r title < $f || :
  if timeout {step} sh -c 'set -eu; . {folder}/lib.sh; STEP={run}/step; '"( . {notes}/$f
)" > {run}/undone 2>&1 < /dev/null; then
    rm -f $f
  else
    row "$title" "$(tail -n 1 {run}/undone)"
  fi
done > {run}/left
cat {run}/left
"""


@dataclass(frozen=True)
class Left:
    """A step that could not be undone."""

    machine: str
    step: str
    why: str

    def __str__(self) -> str:
        return f"{self.machine}: {self.step}{because(self.why)}"


async def undo(machine: Machine) -> list[Left]:
    """Undoes the steps in the list on ``machine``, the newest first; returns those that failed, which stay in the
    list. Raises RunFailed if the machine cannot be reached."""
    text = _UNDO.format(notes=machine.notes, step=_STEP, folder=machine.folder, run=machine.folders.run)
    code, out, err = await machine.plain(text, _TIMEOUT)
    if code:
        raise RunFailed(
            "undo", f"machine {machine.name}: {err.strip()[-300:] or 'cannot read the list of steps to undo'}"
        )
    return [Left(machine.name, title.removeprefix("# "), why) for title, why in script.rows(out).items()]


async def undo_all(machines: Sequence[Machine]) -> list[Left]:
    """``undo`` on all machines in this order: an initiator without its target would wait for it. Machines that cannot
    be reached are in the result."""
    left: list[Left] = []
    for machine in machines:
        try:
            left += await undo(machine) if machine.alive else []
        except RunFailed as error:
            left.append(Left(machine.name, "undo", error.message))
    return left
