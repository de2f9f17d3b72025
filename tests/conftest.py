"""What holds for all tests: none asserts wall-clock time, and so hypothesis does not either; slow ones are dealt."""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no defect: neither a slow example nor slow generation (its tables of characters, the first time).
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same commit passes or fails everywhere alike. New examples are what `make search` is for; what it finds becomes
# an `@example` of its test.
settings.register_profile("fairlane", patient, derandomize=True, database=None)
settings.register_profile("search", patient, max_examples=2000, print_blob=True)
settings.load_profile("fairlane")


SIZE = 8 * 2**20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file of ``SIZE`` random bytes, for fio's real load."""
    path = tmp_path / "disk"
    path.write_bytes(os.urandom(SIZE))
    yield path
    path.unlink()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow", default="all", metavar="none|all|I/K", help="which tests marked slow run: the I-th of K parts"
    )


def pytest_configure(config: pytest.Config) -> None:
    slow = config.getoption("--slow")
    part = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", slow)
    if slow not in ("none", "all") and not (part and 1 <= int(part[1]) <= int(part[2])):
        raise pytest.UsageError(f"--slow {slow}: write none, all, or a part such as 2/4")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Asks xdist for one worker for all tests of pages, so that one Chromium runs at a time.

    In a trial with two workers both had some: what keeps xdist from it is not found yet.
    """
    if item.get_closest_marker("browser"):
        item.add_marker(pytest.mark.xdist_group("browser"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves slow tests out as asked."""
    slow = config.getoption("--slow")
    left = [item for item in items if item.get_closest_marker("slow") and not in_part(_name(item), slow)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def _name(item: pytest.Item) -> str:
    """Without the group that a worker of xdist puts behind it: the same part with and without workers."""
    return item.nodeid.removesuffix("@browser")


def in_part(test: str, slow: str) -> bool:
    """Whether a slow test runs: parts are dealt by the hash of its name, so each test is in one, on any machine."""
    if slow in ("none", "all"):
        return slow == "all"
    part, parts = map(int, slow.split("/"))
    return int.from_bytes(hashlib.sha256(test.encode()).digest()[:8]) % parts == part - 1


@pytest.fixture(scope="session", autouse=True)
def priority() -> Iterator[None]:
    """`serve` and `watch` give way to a study that runs; called within a test, they would slow all tests after it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "nice", lambda by: by)
        yield
