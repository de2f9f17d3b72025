"""How far a guest's clock is from ours, over the connection that is there anyway."""

import asyncio
import time

from fairlane.errors import RunFailed
from fairlane.platforms._ssh import SshGuest

_ROUNDS = 7
_TIMEOUT = 60.0

# bash tells the time without starting a program, which takes 50 ms on an emulated processor
_ANSWER = ("bash", "-c", "'while read -r ask; do echo $EPOCHREALTIME; done'")


async def clock_offset(guest: SshGuest) -> tuple[float, float]:
    """The guest's clock minus ours, and how far that may be off, s: of several questions the one with the shortest
    round trip, half of it off at most (Mills, RFC 5905, section 8). Raises RunFailed."""
    try:
        return await asyncio.wait_for(_ask(guest), _TIMEOUT)
    except (OSError, ValueError, TimeoutError) as error:
        raise RunFailed(f"{guest.name} does not tell its time: {error}") from error


async def _ask(guest: SshGuest) -> tuple[float, float]:
    process = await guest.start(_ANSWER)
    assert process.stdin and process.stdout  # noqa: S101, PT018 - opened as pipes
    best = (0.0, float("inf"))
    try:
        for _ in range(_ROUNDS):
            asked = time.time()
            process.stdin.write(b"\n")
            await process.stdin.drain()
            theirs = float(await process.stdout.readline())
            answered = time.time()
            off = (answered - asked) / 2
            if off < best[1]:
                best = (theirs - (asked + answered) / 2, off)
    finally:
        process.stdin.close()
        if process.returncode is None:
            process.kill()
        await process.wait()
    return best
