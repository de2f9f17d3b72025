"""Start loads on several machines at one instant: measure the clocks' offsets, and hold each load at a gate.

A load reports that it is ready and waits at the gate (``waiting``), as late as it can: fio does so when all is set up
and only the I/O is left. Once every machine's load is ready, each machine gets the instant in its own clock, and its
shell opens the gate then.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fairlane.errors import RunFailed
from fairlane.machines.folders import OWN
from fairlane.machines.session import Session


def folder(run: str) -> str:
    """Folder for the gate, in ``Folders.run``."""
    return f"{run}/fairlane.gate"


def functions(run: str = OWN.run) -> str:
    """Shell functions for a machine's ``Session``."""
    return _FUNCTIONS.replace("@GATE@", folder(run))


_FUNCTIONS = """
exec 6<> <(:) # nobody writes here: to sleep without starting a program
now() { echo $EPOCHREALTIME; }
rm -rf @GATE@; mkdir @GATE@; mkfifo @GATE@/ready @GATE@/open
exec 7<> @GATE@/ready 8<> @GATE@/open
# Takes out what the load before left.
gate() {
  local n
  for n in 7 8; do while read -r -t 0 -u $n; do read -r -u $n; done; done
}
# Until as many have told that they are ready as the first of them says; 0: the load has ended, nobody else will come.
ready() {
  local told=0 n some
  read -r -u 7 n
  while [ $((told += 1)) -lt "$n" ]; do read -r -u 7 some; [ "$some" = 0 ] && break; done
  echo "$n"
}
# Opens the gate for $2 at $1 us of this machine's clock, and tells when it did.
open() {
  local left=$(($1 - ${EPOCHREALTIME/./} - 3000)) i some
  printf -v some %d.%06d $((left / 1000000)) $((left % 1000000))
  [ $left -gt 0 ] && read -r -t $some -u 6 i
  while [ ${EPOCHREALTIME/./} -lt "$1" ]; do :; done
  echo $EPOCHREALTIME
  for ((i = 0; i < $2; i++)); do echo; done >&8
}
if [ -z "$EPOCHREALTIME" ]; then # bash before 5.0
  now() { date +%s.%N; }
  open() {
    local at=$(($1 * 1000)) left i
    left=$((at - $(date +%s%N) - 10000000))
    [ $left -gt 0 ] && sleep $(printf %d.%09d $((left / 1000000000)) $((left % 1000000000)))
    while [ $(date +%s%N) -lt $at ]; do :; done
    date +%s.%N
    for ((i = 0; i < $2; i++)); do echo; done >&8
  }
fi
"""


def give_up(run: str = OWN.run) -> str:
    """Shell to run after a load: ends the wait for a load that never reached the gate."""
    return f"echo 0 > {folder(run)}/ready"


_ROUNDS = 5
_LEAD = 0.02
"""Seconds beyond three round trips: a busy machine may receive the instant that much later."""


def waiting(jobs: int = 1, run: str = OWN.run) -> str:
    """One line of shell that reports one of ``jobs`` as ready and waits for the gate. Free of ``;`` and ``#``, where
    fio's job files cut lines."""
    return f"echo {jobs} > {folder(run)}/ready && read never <> {folder(run)}/open"


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
            raise RunFailed("clock", f"{session.name} returned no valid clock reading") from None
        offsets.append(Offset(machine_time - (sent + received) / 2, (received - sent) / 2))
    return min(offsets, key=lambda offset: offset.within)


def lead(offsets: Sequence[Offset]) -> float:
    """Seconds to send the instant to every machine."""
    return _LEAD + 6 * max(offset.within for offset in offsets)
