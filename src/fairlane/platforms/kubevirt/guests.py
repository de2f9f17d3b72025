"""A virtual machine as a guest: connection to its sshd, its session, and the library for scripts."""

import asyncio
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from fairlane.errors import RunFailed, Unfinished
from fairlane.machines import library
from fairlane.machines.keys import Keys
from fairlane.machines.ssh import SshGuest
from fairlane.platforms.kubevirt.api_errors import plain
from fairlane.platforms.kubevirt.tunnel import Tunnel, banner

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api

LIBRARY = "/run/fairlane.sh"
"""Path in a guest; a reboot removes it, as everything that a trial may leave."""
_SSHD = 22
Reach = Literal["portforward", "direct"]
"""portforward: through the API server. direct: to the machine's own address."""
_ATTEMPT = 5.0
"""Seconds for one attempt to get an sshd's banner, and the pause between attempts."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 2.0
_TIMEOUT = 60.0
_NEEDED = ("bash", "tar", "gzip", "sha256sum", "wipefs", "stat", "find", "timeout")
"""Programs that scripts call in every guest, besides those of workloads."""
TRAITS = """
echo "kernel $(uname -r)"
( . /etc/os-release && echo "system $PRETTY_NAME" )
! grep -q "QEMU TCG" /proc/cpuinfo || echo "emulated yes"
"""
"""Shell that prints a guest's kernel and system, for ``traits``; QEMU's TCG identifies itself."""


_FILES = 65536


def allow_files() -> None:
    """Raises this process's limit of open files: a guest needs a dozen (pipes of its sessions, both ends of its
    tunnel), and the default is often 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class ClusterGuest(SshGuest):
    """A VirtualMachineInstance behind its sshd. Call ``reach`` before use, ``close`` after."""

    def __init__(self, name: str, keys: Keys, scratch: Path) -> None:
        super().__init__(name, keys.login(_SSHD), scratch, LIBRARY)
        self._keys = keys
        self._tunnel: Tunnel | None = None

    async def reach(self, api: "Api", namespace: str, *, address: str, way: Reach, timeout: float) -> None:
        """Connects through the API server, or to ``address`` if the pod network is reachable, and installs the library.
        Raises RunFailed."""
        await self.close()
        if way == "direct":
            self.login = self._keys.login(_SSHD, address)
        else:
            await self._answers(api, namespace, timeout)
            self._tunnel = await Tunnel.open(api, namespace, self.name, _SSHD)
            self.login = self._keys.login(self._tunnel.port)
        await self.open(timeout)
        await self._put(library.text())

    async def _answers(self, api: "Api", namespace: str, timeout: float) -> None:
        """Waits for the sshd's banner, which costs less than starting an ssh process for each attempt."""
        pause, ends = _FIRST_PAUSE, time.monotonic() + timeout
        while not await banner(api, namespace, self.name, _ATTEMPT):
            if time.monotonic() + pause > ends:
                raise RunFailed("unreachable", f"the sshd of {self.name} did not answer within {timeout:.0f} s")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _put(self, text: str) -> None:
        """Installs the library; ``run`` depends on it."""
        process = await self.start((f"cat > {LIBRARY}.new && mv {LIBRARY}.new {LIBRARY}",))
        try:
            _, stderr = await asyncio.wait_for(process.communicate(text.encode()), _TIMEOUT)
        except TimeoutError:
            raise RunFailed(
                "timeout", f"copying the script library to {self.name} took more than {_TIMEOUT:.0f} s"
            ) from None
        if process.returncode:
            raise RunFailed(
                "guest-library",
                f"{self.name} could not write {LIBRARY}: {stderr.decode(errors='replace').strip()[-300:]}",
            )

    async def settle_down(self, timeout: float) -> None:
        """Waits until cloud-init has finished: it would be load beside trials. Raises RunFailed."""
        try:
            await self.ask("! command -v cloud-init > /dev/null || cloud-init status --wait > /dev/null || :", timeout)
        except Unfinished as error:
            raise Unfinished(
                "timeout",
                f"the first boot of {self.name} did not finish within {timeout:.0f} s after its sshd answered",
                hint="`cloud-init status --long` in it shows the step that hangs; or raise platform.boot_timeout",
            ) from error

    async def lacks(self, programs: Sequence[str]) -> list[str]:
        """Missing ones among ``programs`` and those that every guest needs. Raises RunFailed."""
        every = " ".join(quote(program) for program in dict.fromkeys((*_NEEDED, *programs)))
        text = f'for p in {every}; do command -v "$p" > /dev/null || echo "$p"; done > lacks'
        return (await self.ask(text))["lacks"].decode(errors="replace").split()

    async def close(self) -> None:
        """Ends session and tunnel; never raises."""
        await super().close()
        if self._tunnel:
            await self._tunnel.close()
            self._tunnel = None


def traits(text: str) -> dict[str, str]:
    """Name -> value of the lines of ``TRAITS``: kernel, system; emulated, if it is."""
    lines = (line.partition(" ") for line in text.splitlines())
    return {name: plain(value.strip(), 200) for name, _, value in lines if value.strip()}


def address_of(vmi: Mapping[str, Any]) -> str:
    """Address of an instance in the pod network; empty: none yet."""
    every = (vmi.get("status") or {}).get("interfaces") or []
    return next((str(one["ipAddress"]) for one in every if one.get("ipAddress")), "")
