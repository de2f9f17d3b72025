"""What is asked of guests in a clone storm: data put into the golden volume, the first I/O of a clone, and its check.

A plain session of bash with what is needed in it: nothing has to be brought to a clone before its first I/O.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairlane.errors import RunFailed
from fairlane.machines.keys import Keys
from fairlane.machines.session import Session
from fairlane.machines.ssh import SshGuest
from fairlane.platforms.kubevirt import guests, tunnel
from fairlane.platforms.kubevirt.guests import Reach
from fairlane.platforms.kubevirt.tunnel import Tunnel

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api

GOLDEN = "golden"
"""First word of the block that every clone overwrites, in the golden volume."""
_SSHD = 22
_REACHED = 120.0
"""Seconds for a guest whose sshd has answered to let us in."""
_ANSWERED = 120.0
_FILLED = 3600.0

_FUNCTIONS = """
d=/var/lib/fairlane
# One block that begins with $1. The rest is random, so that no file system can keep it compressed beside its inode.
block() { { printf '%s ' "$1"; head -c 4096 /dev/urandom; } | head -c 4096; }
word() { dd if=$d/own bs=4k count=1 iflag=direct | { read -r -d ' ' w; echo "${w//[^a-zA-Z0-9.-]/}"; }; }
stamp() { dd if=$d/stamp bs=64k count=1 iflag=direct | sha256sum | cut -d ' ' -f 1; }
fill() {
  mkdir -p $d && block golden > $d/own && head -c 65536 /dev/urandom > $d/stamp &&
    head -c "$1" /dev/urandom > $d/data && sync && stamp
}
first() {
  local found
  block "$1" > /run/fairlane.own && found=$(word) &&
    dd if=/run/fairlane.own of=$d/own bs=4k count=1 oflag=direct conv=notrunc,fsync && echo "done $found"
}
check() { echo "$(word) $(stamp)"; }
@TRAITS@
""".replace("@TRAITS@", f"traits() {{ {guests.TRAITS}}}")
"""O_DIRECT, so that it is the volume that answers and not the guest's memory."""


@dataclass(frozen=True)
class Way:
    """How guests are reached."""

    api: "Api"
    namespace: str
    way: Reach
    keys: Keys
    scratch: Path
    """A short path, for the sockets of SSH."""

    async def banner(self, name: str, address: str, timeout: float) -> bool:
        """Whether the sshd of machine ``name`` says who it is, in one attempt."""
        if self.way == "portforward":
            said = await tunnel.banner(self.api, self.namespace, name, timeout)
        else:
            said = await _direct(address, timeout)
        return bool(said and said.startswith(b"SSH-"))

    @asynccontextmanager
    async def session(self, name: str, address: str, timeout: float = _REACHED) -> AsyncIterator[Session]:
        """A shell on machine ``name`` that knows ``fill``, ``first`` and ``check``. Raises RunFailed."""
        hole = await Tunnel.open(self.api, self.namespace, name, _SSHD) if self.way == "portforward" else None
        try:
            login = self.keys.login(hole.port) if hole else self.keys.login(_SSHD, address)
            guest = SshGuest(_short(name), login, self.scratch)
            try:
                await guest.open(timeout)
                session = await Session.open(guest, _FUNCTIONS)
                try:
                    yield session
                finally:
                    await session.close()
            finally:
                await guest.close()
        finally:
            if hole:
                await hole.close()


async def fill(session: Session, size: int) -> str:
    """Puts ``size`` bytes of random data into the golden volume, and what clones are known by. Returns the SHA-256 of
    the latter. Raises RunFailed."""
    stamp = (await session.ask(f"fill {size:d}", _FILLED)).strip()
    if len(stamp) != hashlib.sha256().digest_size * 2:
        raise RunFailed(
            f"{session.name} could not write {size} bytes of data into the golden volume",
            hint="platform.root_size must have room for the image and the workload's data",
        )
    return stamp


async def traits(session: Session) -> dict[str, str]:
    """What the guest says of itself. Raises RunFailed."""
    return guests.traits(await session.ask("traits", _ANSWERED))


async def first(session: Session, name: str) -> str:
    """The first I/O of clone ``name``: reads the block that the golden volume has there and overwrites it with the
    clone's name, flushed. Returns the word that was there. Raises RunFailed."""
    told = (await session.ask(f"first {name}", _ANSWERED)).split()
    if told[:1] != ["done"]:
        raise RunFailed(f"{name}: its volume could not be read and written (O_DIRECT, 4 KiB)")
    return " ".join(told[1:])


async def check(session: Session) -> tuple[str, str]:
    """What the clone's own block says, and the SHA-256 of the golden volume's data. Raises RunFailed."""
    word, _, stamp = (await session.ask("check", _ANSWERED)).strip().partition(" ")
    return word, stamp


def _short(name: str) -> str:
    """For the name of a control socket, which has 100 bytes with its folder: long names would share their begin."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


async def _direct(host: str, timeout: float) -> bytes | None:
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, _SSHD)
            try:
                return await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return None
