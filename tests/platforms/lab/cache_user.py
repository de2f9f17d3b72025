"""One of several processes at work on the same cache: ``python cache_user.py SEED SECONDS LEAST``, with FAIRLANE_CACHE.

Holds, checks and removes entries at random for so long, and until it has held so many. An entry has two files of the
same text, written with a pause between."""

import asyncio
import random
import sys
import time
from pathlib import Path

from fairlane.platforms.lab import cache
from fairlane.runs.files import cache_dir


async def make(scratch: Path) -> None:
    text = str(time.monotonic_ns())
    (scratch / "first").write_text(text)
    await asyncio.sleep(random.uniform(0, 0.01))  # noqa: S311
    (scratch / "last").write_text(text)


async def main(seed: int, seconds: float, least: int) -> None:
    random.seed(seed)
    held = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end or held < least:
        entry = cache_dir() / "states" / random.choice("abc")  # noqa: S311
        if random.random() < 0.3:  # noqa: S311
            cache.remove(entry)
            continue
        with await cache.hold(entry, "last", make, keep=1):
            before = (entry / "first").read_text()
            await asyncio.sleep(random.uniform(0, 0.01))  # noqa: S311
            assert (entry / "first").read_text() == (entry / "last").read_text() == before
            assert entry in cache.entries("states")
            assert cache.size(entry) == 2 * len(before)
            held += 1
    print(held)


asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
