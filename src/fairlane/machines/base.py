"""The interface of a machine: it runs a script and returns the files that the script wrote."""

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from fairlane.errors import RunFailed, because

_SHORT = 60
"""Characters of a script in a message."""
_SETS_UP = re.compile(r"(set -\w+|export \S+|d=\$\(mktemp -d\)|cd \S+|cd \$\(mktemp -d\)|\. \S+|:|)$")
"""Lines with which scripts begin before they do what they are for."""
_STEP = re.compile(r"echo (.+) > (?:\$STEP|\S*/step)$")
"""``script.run_step`` notes the step's name first."""


def gist(script: str) -> str:
    """What ``script`` does, for messages: the first line that does something, shortened. A comment or the name of a
    step counts as such a line. No more than one line, because those of steps may hold secrets."""
    lines = (line.strip().lstrip("{( ") for line in script.splitlines())
    first = next((line for line in lines if not _SETS_UP.match(line)), "")
    if step := _STEP.match(first):
        first = f"step {step[1]}"
    first = first.removeprefix("# ")
    return first if len(first) <= _SHORT else f"{first[: _SHORT - 3]}..."


class Guest(ABC):
    """A machine that runs scripts and returns the folders they send."""

    name: str
    """Name for messages."""

    @abstractmethod
    def run(self, script: str, timeout: float) -> AsyncGenerator[tuple[str, Mapping[str, bytes]]]:
        """Run ``script``; yield (name, files) for each result it sends, as it comes. Raises RunFailed.

        Wrap the generator in ``aclosing``: otherwise, after an early exit, the machine stays busy until garbage
        collection."""

    async def lost(self, script: str, stderr: str = "") -> RunFailed:
        """The error of a connection that broke while ``script`` ran; a machine that knows its own end says more.
        ``stderr``: of the connection."""
        at = f" while it ran {doing!r}" if (doing := gist(script)) else ""
        return RunFailed("connection-lost", f"the connection to {self.name} was lost{at}{because(stderr)}")

    async def ask(self, script: str, timeout: float = 60) -> dict[str, bytes]:
        """Run ``script`` in an empty folder of its own and return the files left in it. Raises RunFailed."""
        whole = f"set -eu\nd=$(mktemp -d)\ncd $d\n( {script}\n)\ncd /\nsend asked $d\nrm -r $d\n"
        outputs: dict[str, bytes] = {}
        async with aclosing(self.run(whole, timeout)) as results:
            async for name, files in results:
                if name == "asked":
                    outputs = dict(files)
        return outputs
