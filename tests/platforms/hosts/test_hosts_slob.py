"""The load like SLOB on a real PostgreSQL: a row a block, read through the index, changed where it lies."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.workloads import _postgresql
from tests.platforms.hosts.database_bench import left, observations, reachable
from tests.platforms.hosts.hosts_bench import Bench, study

INSTALLED = any(Path("/").glob(f"{folder[1:]}/postgres") for folder in _postgresql.FOLDERS)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not INSTALLED, reason="needs PostgreSQL")]

ROWS = 12_000


@pytest.fixture
def bench() -> Iterator[Bench]:
    with reachable() as made:
        yield made


def test_blocks_are_read_and_changed(bench: Bench) -> None:
    load = {"kind": "oltp", "load": "slob", "rows": ROWS, "update_pct": 40, "hotspot": "16m", "clients": [4],
            "settings": {"shared_buffers": "16MB", "max_wal_size": "128MB"}, "runtime": "4s", "ramp": "1s"}  # fmt: skip
    lanes = {"a": bench.lane("a"), "b": bench.lane("b")}
    platform = {"size": "700m", "keep_free": "0%"}
    file, run = bench.write(study(lanes, workloads={"db": load}, platform=platform)), bench.folder / "run"
    done = bench.run("run", str(file), "--out", str(run))
    assert done.returncode == 0, done.stderr
    for trial in observations(run):
        metrics, context = trial["metrics"], trial["context"]
        counts, database = context["load"]["by_transaction"], context["database"]
        total = sum(counts.values())
        assert total == context["load"]["processed"]
        for names, share in ((("update", "hot-update"), 0.4), (("hot-read", "hot-update"), 1 / 3)):
            seen = sum(counts[name] for name in names) / total
            assert seen == pytest.approx(share, abs=4 * (share * (1 - share) / total) ** 0.5)
        # a block a row, with the index and the catalogues
        assert ROWS * 8192 < database["bytes"] < ROWS * 8192 * 1.03 + 12 * 2**20
        changed = 64 * (counts["update"] + counts["hot-update"])
        grown = (database["bytes_after"] - database["bytes"]) / 8192
        assert grown < 0.05 * changed, "a row's new version stays in its block"
        assert database["hit_rate"] < 0.95
        assert database["deadlocks"] == 0
        assert metrics["wal_per_tx"] > 0.4 * 60 * 60  # 60 bytes and more a change
    assert left(bench, run) == []
