"""What holds for all tests: none asserts wall-clock time, and so hypothesis does not either; slow ones are dealt."""

import hashlib
import os
import re
import signal
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from scripts.tests import without_group
from testkit.shared import Shared

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

# A busy machine is no defect: neither a slow example nor slow generation (its tables of characters, the first time).
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same commit passes or fails everywhere alike. New examples are what `make search` is for; what it finds becomes
# an `@example` of its test.
settings.register_profile("fairlane", patient, derandomize=True, database=None)
settings.register_profile("search", patient, max_examples=2000, print_blob=True)
settings.load_profile("fairlane")


SIZE = 8 * 2**20
MEMORY = Path("/dev/shm")


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where that takes direct I/O: a busy disk under ``tmp_path`` may serve nothing for 300 ms."""
    with tempfile.TemporaryDirectory(dir=MEMORY if takes_direct_io(MEMORY) else tmp_path) as folder:
        yield Path(folder)


def takes_direct_io(folder: Path) -> bool:
    """Whether files of a directory can be opened for direct I/O: those of a tmpfs since Linux 6.6."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            os.close(os.open(file.name, os.O_RDWR | os.O_DIRECT))
    except OSError:
        return False
    return True


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
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of what a shell runs in the background: programs under
        signal.signal(signal.SIGINT, signal.default_int_handler)  # test would inherit it, and never see Ctrl-C
    slow = config.getoption("--slow")
    part = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", slow)
    if slow not in ("none", "all") and not (part and 1 <= int(part[1]) <= int(part[2])):
        raise pytest.UsageError(f"--slow {slow}: write none, all, or a part such as 2/4")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "Scheduling | None":
    from tests.scheduling import RecoveringFiles, RecoveringGroups  # noqa: PLC0415 # pytest may run without xdist

    kinds = {"loadfile": RecoveringFiles, "loadgroup": RecoveringGroups}
    kind = kinds.get(config.getoption("dist"))
    return kind(config, log) if kind else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Asks xdist for one worker for all tests of pages, so that one Chromium runs at a time.

    In a trial with two workers both had some: what keeps xdist from it is not found yet.
    """
    if item.get_closest_marker("browser"):
        item.add_marker(pytest.mark.xdist_group("browser"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves slow tests out as asked."""
    slow = config.getoption("--slow")
    left = [i for i in items if i.get_closest_marker("slow") and not in_part(without_group(i.nodeid), slow)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def in_part(test: str, slow: str) -> bool:
    """Whether a slow test runs: parts are dealt by the hash of its name, so each test is in one, on any machine."""
    if slow in ("none", "all"):
        return slow == "all"
    part, parts = map(int, slow.split("/"))
    return int.from_bytes(hashlib.sha256(test.encode()).digest()[:8]) % parts == part - 1


_MADE_ANEW: set[str] = set()
"""Fixtures whose second set-up failed as the first one did: a third is not tried."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What ends or breaks a machine that tests share fails one test: the next one gets a new machine."""
    assert isinstance(item, pytest.Function)
    for fixture in {d for known in item._fixtureinfo.name2fixturedefs.values() for d in known}:
        if fixture.scope == "function" or not fixture.cached_result:
            continue
        value, _, error = fixture.cached_result
        why = value.dead() if isinstance(value, Shared) else ""
        if error and not isinstance(error[0], pytest.skip.Exception) and fixture.argname not in _MADE_ANEW:
            _MADE_ANEW.add(fixture.argname)
            why = f"its set-up failed: {error[0]}"
        if why:
            print(f"{fixture.argname} is made anew: {why}")
            try:
                fixture.finish(item._request)  # type: ignore[arg-type] # it names its node in errors, no more
            except Exception:  # what is dead cannot be taken apart in good order
                traceback.print_exc()


@pytest.fixture(scope="session", autouse=True)
def priority() -> Iterator[None]:
    """`serve` and `watch` give way to a study that runs; called within a test, they would slow all tests after it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "nice", lambda by: by)
        yield
