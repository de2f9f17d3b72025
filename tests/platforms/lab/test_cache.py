"""The cache: nothing half-made stays, nothing in use goes, what is too much goes oldest first."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane.platforms.lab import cache


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_CACHE", str(tmp_path))


def make(name: str, age: int = 0) -> Path:
    entry = cache.cache_dir() / "states" / name
    with cache.making(entry) as scratch:
        (scratch / "memory").write_bytes(b"x" * 100)
    os.utime(entry, (10**9 - age, 10**9 - age))
    return entry


def test_an_entry_appears_whole() -> None:
    entry = make("a")
    assert cache.entries("states") == [entry]
    assert cache.size(entry) == 100


def test_what_fails_half_way_leaves_nothing() -> None:
    entry = cache.cache_dir() / "states" / "a"

    def fail() -> None:
        with cache.making(entry) as scratch:
            (scratch / "memory").write_bytes(b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(entry.parent.iterdir()) == []


def test_a_full_disk_is_one_error_with_path_and_hint() -> None:
    entry = cache.cache_dir() / "states" / "a"

    def fill() -> None:
        with cache.making(entry):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(FairlaneError, match="No space left") as caught:
        fill()
    assert caught.value.where == str(entry.parent)
    assert "FAIRLANE_CACHE" in caught.value.hint


def test_the_least_recently_used_go_first_and_what_is_in_use_stays() -> None:
    old, middle, young = make("old", 300), make("middle", 200), make("young", 100)
    with cache.use(old):  # using it also makes it the most recent
        os.utime(old, (1, 1))
        cache.prune("states", keep=1)
        assert set(cache.entries("states")) == {old, young}
        assert not cache.remove(old)
    assert cache.remove(old)
    assert middle not in cache.entries("states")


def test_use_makes_an_entry_the_most_recent() -> None:
    old, young = make("old", 300), make("young", 100)
    cache.use(old).close()
    cache.prune("states", keep=1)
    assert cache.entries("states") == [old]
    assert not young.exists()


def test_who_waits_for_an_entry_can_be_interrupted() -> None:
    entry = cache.cache_dir() / "states" / "a"

    async def wait() -> str:
        async with cache.locked(entry):
            try:
                async with asyncio.timeout(0.5), cache.locked(entry):
                    return "held twice"
            except TimeoutError:
                return "waited"

    assert asyncio.run(wait()) == "waited"


def test_an_entry_in_use_can_be_used_by_others() -> None:
    entry = make("a")
    with cache.use(entry), cache.use(entry):
        assert not cache.remove(entry)
