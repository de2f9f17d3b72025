"""This machine as a guest: the hypervisor's steps run here, with the same shell functions as in a guest."""

import asyncio
import os
import shlex
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fairlane.errors import RunFailed
from fairlane.machines import device_guard, frames, library
from fairlane.machines.base import Guest
from fairlane.machines.child import WITH_US, end

_TAIL = 600


class LocalGuest(Guest):
    """Runs scripts as the user who runs Fairlane. ``folder``: an existing one, for the functions and for notes."""

    def __init__(self, folder: Path) -> None:
        self.name = "this machine"
        self._folder = folder
        self._environment = {**os.environ, "LC_ALL": "C"}
        programs = folder / "programs"
        programs.write_text("")
        self._library = folder / "lib.sh"
        self._library.write_text(library.text(f"FRAMES={shlex.quote(str(folder))}\n", str(programs)))

    async def start(self, words: Sequence[str]) -> asyncio.subprocess.Process:
        """A command with pipes, its words joined for a shell as ssh does it; the caller waits for it and ends it."""
        return await asyncio.create_subprocess_exec(
            *WITH_US, str(os.getpid()), "sh", "-c", f"exec {' '.join(words)}", stdin=PIPE, stdout=PIPE, stderr=PIPE,
            start_new_session=True, env=self._environment,
        )  # fmt: skip

    async def run(self, script: str, timeout: float) -> AsyncGenerator[tuple[str, Mapping[str, bytes]]]:
        """As ``Guest.run``. Raises RunFailed with the script's stderr."""
        whole = f". {self._library}\nSTEP={self._folder}/step\n{script}"
        # read in full before it runs, so that nothing in it reads the rest; no argument, because steps hold secrets
        process = await asyncio.create_subprocess_exec(
            *WITH_US, str(os.getpid()), "sh", "-c", 'eval "$(cat)"', stdin=PIPE, stdout=PIPE, stderr=PIPE,
            start_new_session=True, env=self._environment,
        )  # fmt: skip
        try:
            out, err = await asyncio.wait_for(process.communicate(whole.encode()), timeout)
        except TimeoutError:
            raise RunFailed("timeout", f"{self.name} did not finish a script within {timeout:.0f} s") from None
        finally:
            await end(process)
        for name, files in frames.Frames().feed(out):
            yield name, files
        if process.returncode:
            if refused := device_guard.refusal(err.decode(errors="replace"), self.name):
                raise refused
            with suppress(OSError):
                step = (self._folder / "step").read_text().strip()
                raise RunFailed(
                    "script-failed",
                    f"{self.name}: step {step!r} failed: {err.decode(errors='replace').strip()[-_TAIL:]}",
                )
            raise RunFailed(
                "script-failed", f"{self.name}: a script failed: {err.decode(errors='replace').strip()[-_TAIL:]}"
            )
