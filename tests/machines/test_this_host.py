"""This machine as a guest: the scripts of steps that run on it."""

import asyncio
from pathlib import Path

from fairlane.machines.this_host import LocalGuest


def test_scripts_that_run_at_once_give_each_their_own_files(tmp_path: Path) -> None:
    asyncio.run(_at_once(tmp_path))


async def _at_once(folder: Path) -> None:
    guest = LocalGuest(folder)
    scripts = [f"head -c {100_000 + n} /dev/urandom > data; echo {n} > number" for n in range(12)]
    found = await asyncio.gather(*(guest.ask(script) for script in scripts))
    assert [(len(files["data"]), files["number"]) for files in found] == [
        (100_000 + n, f"{n}\n".encode()) for n in range(12)
    ]
    assert {path.name for path in folder.iterdir()} == {"lib.sh", "programs"}
