"""The interface of a machine: it runs a script and returns the files that the script wrote."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing


class Guest(ABC):
    """A machine that runs scripts and returns the folders they send."""

    name: str
    """Name for messages."""

    @abstractmethod
    def run(self, script: str, timeout: float) -> AsyncGenerator[tuple[str, Mapping[str, bytes]]]:
        """Run ``script``; yield (name, files) for each result it sends, as it comes. Raises RunFailed.

        Wrap the generator in ``aclosing``: otherwise, after an early exit, the machine stays busy until garbage
        collection."""

    async def ask(self, script: str, timeout: float = 60) -> dict[str, bytes]:
        """Run ``script`` in an empty folder of its own and return the files left in it. Raises RunFailed."""
        whole = f"set -eu\nd=$(mktemp -d)\ncd $d\n( {script}\n)\ncd /\nsend asked $d\nrm -r $d\n"
        outputs: dict[str, bytes] = {}
        async with aclosing(self.run(whole, timeout)) as results:
            async for name, files in results:
                if name == "asked":
                    outputs = dict(files)
        return outputs
