"""Start loads on several machines at one instant: measure the clocks' offsets, and hold each load at a gate.

A load reports that it is ready and waits at the gate (``waiting``), as late as it can: fio does so when all is set up
and only the I/O is left. Once every machine's load is ready, each machine gets the instant in its own clock, and its
shell opens the gate then.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fairlane.errors import RunFailed
from fairlane.machines.session import Session

FOLDER = "/run/fairlane.gate"
"""Folder in a guest for the gate."""

FUNCTIONS = f"""
exec 6<> <(:) # nobody writes here: to sleep without starting a program
now() {{ echo $EPOCHREALTIME; }}
rm -rf {FOLDER}; mkdir {FOLDER}; mkfifo {FOLDER}/ready {FOLDER}/open
exec 7<> {FOLDER}/ready 8<> {FOLDER}/open
# Takes out what the load before left.
gate() {{
  local n
  for n in 7 8; do while read -r -t 0 -u $n; do read -r -u $n; done; done
}}
# Until as many have told that they are ready as the first of them says; 0: the load has ended, nobody else will come.
ready() {{
  local told=0 n some
  read -r -u 7 n
  while [ $((told += 1)) -lt "$n" ]; do read -r -u 7 some; [ "$some" = 0 ] && break; done
  echo "$n"
}}
# Opens the gate for $2 at $1 us of this machine's clock, and tells when it did.
open() {{
  local left=$(($1 - ${{EPOCHREALTIME/./}} - 3000)) i some
  printf -v some %d.%06d $((left / 1000000)) $((left % 1000000))
  [ $left -gt 0 ] && read -r -t $some -u 6 i
  while [ ${{EPOCHREALTIME/./}} -lt "$1" ]; do :; done
  echo $EPOCHREALTIME
  for ((i = 0; i < $2; i++)); do echo; done >&8
}}
"""
"""Shell functions for a machine's ``Session``."""

GIVE_UP = f"echo 0 > {FOLDER}/ready"
"""Shell to run after a load: ends the wait for a load that never reached the gate."""

_ROUNDS = 5
_LEAD = 0.02
"""Seconds beyond three round trips: a busy machine may receive the instant that much later."""


def waiting(jobs: int = 1) -> str:
    """One line of shell that reports one of ``jobs`` as ready and waits for the gate. Free of ``;`` and ``#``, where
    fio's job files cut lines."""
    return f"echo {jobs} > {FOLDER}/ready && read never <> {FOLDER}/open"


@dataclass(frozen=True)
class Offset:
    """Offset of a machine's clock from the host's, s."""

    ahead: float
    """The machine's clock minus the host's."""
    within: float
    """Largest error of ``ahead``."""


async def measure(session: Session) -> Offset:
    """Reads the machine's clock several times and returns the offset with the narrowest error (half the round trip;
    Mills, RFC 5905, section 8). Raises RunFailed."""
    offsets = []
    for _ in range(_ROUNDS):
        sent = time.time()
        answer = await session.ask("now")
        received = time.time()
        try:
            machine_time = float(answer)
        except ValueError:
            raise RunFailed("clock", f"{session.name} does not tell its time") from None
        offsets.append(Offset(machine_time - (sent + received) / 2, (received - sent) / 2))
    return min(offsets, key=lambda offset: offset.within)


def lead(offsets: Sequence[Offset]) -> float:
    """Seconds to send the instant to every machine."""
    return _LEAD + 6 * max(offset.within for offset in offsets)
