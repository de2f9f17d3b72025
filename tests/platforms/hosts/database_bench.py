"""Database loads on this machine, for tests: folders that a server's user can reach, and what a run has left."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.platforms.hosts.hosts_bench import WORK, Bench, identity, lines, loads


@contextmanager
def reachable() -> Iterator[Bench]:
    """A bench in a folder that the server's user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="fairlane-test-db-", dir=WORK))
    folder.chmod(0o755)
    yield Bench(folder)
    shutil.rmtree(folder)


def servers(folder: Path) -> list[str]:
    """Command lines of servers with their data in ``folder``, or of a run's."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(folder) in str((entry / "cwd").readlink()):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def left(bench: Bench, run: Path) -> list[str]:
    """All that a run has left: files in lanes, servers, mounts, its folder."""
    own = WORK / f"fairlane-{identity(run)}"
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(own) in line]
    return [*bench.files(), *servers(bench.folder), *servers(own), *mounts, *([str(own)] if own.exists() else [])]


def observations(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "observations.jsonl").read_text().splitlines()]


def other_commits(trial: Mapping[str, Any]) -> int:
    """Commits beside the load's transactions: connections prepare their statements in some, whatever the load takes."""
    database: dict[str, float] = trial["context"]["database"]
    return round((database["commits_per_transaction"] - 1) * database["transactions"])


def started(run: Path) -> bool:
    """Whether trials have begun."""
    journal = run / "journal.jsonl"
    return journal.exists() and any(line["type"] == "start" for line in lines(run))


def commands(run: str) -> list[str]:
    """Names of the programs of a run's loads."""
    names = []
    for pid in loads(run):
        with suppress(OSError):
            names.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return names


@contextmanager
def small_disk(bench: Bench, megabytes: int) -> Iterator[Path]:
    """The folder ``small`` of the bench with a file system of its own."""
    image, small = bench.folder / "image", bench.folder / "small"
    with image.open("wb") as handle:
        handle.truncate(megabytes * 2**20)
    small.mkdir()
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(small)], check=True)
    try:
        yield small
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
