"""Device safety, the Python side: the recorded identity of a volume, the shell that calls the guard, its refusal.

The guard itself is shell (guest/guard.sh): it runs on the machine that has the device, in the same script as the
commands that use the device.
"""

import re
from dataclasses import dataclass
from shlex import quote

from fairlane.errors import Refused

_REFUSAL = re.compile(r"^@@REFUSED ([a-z-]*) (.*)\n@@HINT (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Recorded:
    """Identity and size of a volume when the lane was built."""

    identity: str
    """``kind:value``, unique on its machine."""
    size: str
    """``BYTES/BLOCK``: capacity and logical block size in bytes; ``-``: not compared."""


def guard(device: str, recorded: Recorded, destroy: str = "") -> str:
    """Shell that fails, with the reason, unless ``device`` may be written. Put it right before the commands that write.

    ``destroy``: the study's key; for a volume that this run made, its recorded identity."""
    return f"guard {quote(device)} {quote(recorded.identity)} {quote(recorded.size)} {quote(destroy)} || exit 77\n"


def read_guard(device: str, recorded: Recorded) -> str:
    """Shell that fails, with the reason, unless ``device`` is the recorded volume. For commands that read."""
    return f"meant {quote(device)} {quote(recorded.identity)} {quote(recorded.size)} || exit 77\n"


def refusal(stderr: str, machine: str) -> Refused | None:
    """The guard's refusal in ``stderr`` of a script on ``machine``; None: the script failed for another reason."""
    match = _REFUSAL.search(stderr)
    return Refused(match[1] or "device-refused", f"{machine}: {match[2]}", hint=match[3]) if match else None
