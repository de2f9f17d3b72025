"""The cache: nothing half-made stays or is used, nothing in use goes, what is too much goes oldest first."""

import asyncio
import errno
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane.platforms.lab import cache
from fairlane.runs.files import cache_dir
from tests.words import kind


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_CACHE", str(tmp_path))


def states() -> Path:
    return cache_dir() / "states"


async def fill(scratch: Path) -> None:
    (scratch / "memory").write_bytes(b"x" * 100)


async def not_again(_: Path) -> None:
    raise AssertionError("made although it was there")


def hold(name: str, *, keep: int = 12) -> cache.Hold:
    return asyncio.run(cache.hold(states() / name, "memory", fill, keep=keep))


def make(name: str, age: int = 0) -> Path:
    hold(name).close()
    os.utime(states() / name, (10**9 - age, 10**9 - age))
    return states() / name


def half_made() -> list[Path]:
    return list(states().glob("build-*"))


def test_an_entry_appears_whole_and_is_made_once() -> None:
    entry = make("a")
    assert cache.entries("states") == [entry]
    assert cache.size(entry) == 100
    asyncio.run(cache.hold(entry, "memory", not_again, keep=12)).close()
    assert half_made() == []


def test_an_entry_without_its_last_file_is_made_again() -> None:
    entry = make("a")
    (entry / "memory").rename(entry / "other")
    hold("a").close()
    assert [p.name for p in entry.iterdir()] == ["memory"]


def test_an_entry_can_be_made_again_for_new_contents() -> None:
    entry = make("a")

    async def other(scratch: Path) -> None:
        assert cache.size(entry) == 100  # the old one is there until the new one is whole
        (scratch / "memory").write_bytes(b"y")

    asyncio.run(cache.hold(entry, "memory", other, keep=12, again=True)).close()
    assert (entry / "memory").read_bytes() == b"y"
    assert half_made() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError, RuntimeError])
def test_what_fails_half_way_leaves_nothing(error: type[BaseException]) -> None:
    async def fail(scratch: Path) -> None:
        (scratch / "memory").write_bytes(b"x")
        raise error

    with pytest.raises(error):
        asyncio.run(cache.hold(states() / "a", "memory", fail, keep=12))
    assert cache.entries("states") == []


def test_a_full_disk_is_one_error_with_path_and_hint() -> None:
    async def no_room(_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(
        FairlaneError, match=re.escape(os.strerror(errno.ENOSPC)), check=kind("cache-unwritable")
    ) as caught:
        asyncio.run(cache.hold(states() / "a", "memory", no_room, keep=12))
    assert caught.value.where == str(states())
    assert "FAIRLANE_CACHE" in caught.value.hint
    assert cache.entries("states") == []


def test_a_cache_that_cannot_be_made_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FAIRLANE_CACHE", str(tmp_path / "file"))
    with pytest.raises(FairlaneError, match=re.escape(os.strerror(errno.ENOTDIR)), check=kind("cache-unwritable")):
        hold("a")


def test_the_least_recently_used_go_first_and_what_is_in_use_stays() -> None:
    old, middle, young = make("old", 300), make("middle", 200), make("young", 100)
    with hold("old"):  # using it also makes it the most recent
        os.utime(old, (1, 1))
        cache.prune("states", keep=1)
        assert set(cache.entries("states")) == {old, young}
        assert not cache.remove(old)
    assert cache.remove(old)
    assert middle not in cache.entries("states")


def test_use_makes_an_entry_the_most_recent() -> None:
    """Before others are pruned: a run does not throw out what it is about to use."""
    old, young = make("old", 300), make("young", 100)
    hold("old", keep=1).close()
    assert cache.entries("states") == [old]
    assert not young.exists()


def test_who_waits_for_an_entry_can_be_interrupted() -> None:
    async def wait() -> str:
        begun = asyncio.Event()

        async def slow(_: Path) -> None:
            begun.set()
            await asyncio.sleep(60)

        maker = asyncio.create_task(cache.hold(states() / "a", "memory", slow, keep=12))
        await begun.wait()
        try:
            async with asyncio.timeout(0.3):
                await cache.hold(states() / "a", "memory", not_again, keep=12)
        except TimeoutError:
            return "waited"
        finally:
            maker.cancel()
            await asyncio.gather(maker, return_exceptions=True)
        return "held twice"

    assert asyncio.run(wait()) == "waited"


def test_an_entry_in_use_can_be_used_by_others() -> None:
    with hold("a"), hold("a"):
        assert not cache.remove(states() / "a")


def user(seed: int, seconds: float, least: int = 0) -> "subprocess.Popen[str]":
    script = Path(__file__).with_name("cache_user.py")
    command = [sys.executable, str(script), str(seed), str(seconds), str(least)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_that_make_use_and_remove_the_same_entries_never_see_a_part() -> None:
    """Also while others are killed: what those leave half-made is gone in the end."""
    users, victims = [user(seed, 1.5, 20) for seed in range(2)], [user(seed, 300) for seed in (2, 3)]
    for victim in victims:
        time.sleep(1)
        with victim:
            victim.kill()
    for process in users:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        assert int(out) >= 20
    hold("a", keep=1).close()
    assert cache.entries("states") == [states() / "a"]
