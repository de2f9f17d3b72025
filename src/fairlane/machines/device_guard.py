"""Device safety, the Python side: what was recorded of a volume, the call of the guard, and how a refusal is read.

The guard itself is shell (guest/guard.sh), so that it runs on the machine whose device it is, in the same
script as what is to be done to it.
"""

import re
from dataclasses import dataclass
from shlex import quote

from fairlane.errors import Refused

_REFUSAL = re.compile(r"^@@REFUSED (.*)\n@@HINT (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Recorded:
    """What a volume was when the lane was built."""

    identity: str
    """``kind:value``, unique on its machine."""
    size: str
    """``BYTES/BLOCK``: capacity and logical block size in bytes; ``-``: not compared."""


def guard(device: str, recorded: Recorded, destroy: str = "") -> str:
    """Shell that fails, with the reason, unless ``device`` may be written. To stand right before what writes.

    ``destroy``: what the study says, or, of a volume that this run made, its recorded identity."""
    return f"guard {quote(device)} {quote(recorded.identity)} {quote(recorded.size)} {quote(destroy)} || exit 77\n"


def read_guard(device: str, recorded: Recorded) -> str:
    """Shell that fails, with the reason, unless ``device`` still is the volume recorded. Before what reads."""
    return f"meant {quote(device)} {quote(recorded.identity)} {quote(recorded.size)} || exit 77\n"


def refusal(stderr: str, machine: str) -> Refused | None:
    """The guard's refusal in what a script on ``machine`` said on stderr; None: it failed for another reason."""
    match = _REFUSAL.search(stderr)
    return Refused(f"{machine}: {match[1]}", hint=match[2]) if match else None
