"""The load like TPROC-C on real servers: a warehouse, seconds, and the conditions that its checks must find broken."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.workloads import _mariadb, _postgresql
from tests.platforms.hosts.database_bench import left, observations, reachable
from tests.platforms.hosts.hosts_bench import Bench, study

PATH = os.pathsep.join((os.environ["PATH"], *_mariadb.FOLDERS))
INSTALLED = all(shutil.which(name, path=PATH) for name in (*_mariadb.PROGRAMS, "sysbench"))
INSTALLED = INSTALLED and any(Path("/").glob(f"{folder[1:]}/postgres") for folder in _postgresql.FOLDERS)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not INSTALLED, reason="needs PostgreSQL, MariaDB and sysbench")]

SETTINGS = {
    "mariadb": {"innodb_buffer_pool_size": "32M", "innodb_log_file_size": "64M"},
    "postgresql": {"shared_buffers": "32MB", "max_wal_size": "128MB"},
}


@pytest.fixture
def bench() -> Iterator[Bench]:
    with reachable() as made:
        yield made


def orders(bench: Bench, database: str, warehouses: int) -> Path:
    load = {"kind": "oltp", "load": "tproc_c", "database": database, "settings": SETTINGS[database],
            "warehouses": warehouses, "clients": [3], "runtime": "4s", "ramp": "1s"}  # fmt: skip
    lanes = {"a": bench.lane("a"), "b": bench.lane("b")}
    return bench.write(study(lanes, workloads={"db": load}, platform={"size": "900m", "keep_free": "0%"}))


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_orders_are_taken_and_the_books_balance(bench: Bench, database: str) -> None:
    run = bench.folder / "run"
    done = bench.run("run", str(orders(bench, database, 2)), "--out", str(run))
    assert done.returncode == 0, done.stderr
    for trial in observations(run):
        metrics, context = trial["metrics"], trial["context"]
        counts = context["load"]["by_transaction"]
        total = sum(counts.values())
        assert total == context["load"]["processed"]
        assert metrics["nopm"] == pytest.approx(counts["new-order"] * 15)
        # four standard errors of the mix
        assert counts["new-order"] / total == pytest.approx(0.45, abs=4 * (0.45 * 0.55 / total) ** 0.5)
        assert counts["delivery"] / total == pytest.approx(0.04, abs=4 * (0.04 * 0.96 / total) ** 0.5)
        assert metrics["wal_per_tx"] > 1000
        assert context["database"]["deadlocks" if database == "postgresql" else "retries"] == 0
    assert left(bench, run) == []


DAMAGE = """
update warehouse set w_ytd = w_ytd + 0.01 where w_id = 1;
update district set d_next_o_id = d_next_o_id + 1 where d_w_id = 1 and d_id = 4;
delete from new_order where no_w_id = 1 and no_d_id = 1 and no_o_id = 2900;
delete from order_line where ol_w_id = 1 and ol_d_id = 3 and ol_o_id = 77 and ol_number = 1;
"""


def test_what_a_lane_lost_is_found(bench: Bench) -> None:
    folder = bench.folder / "bin"
    folder.mkdir()
    wrapper = folder / "sysbench"
    wrapper.write_text(f"""#!/bin/sh
{shutil.which("sysbench")} "$@"
code=$?
for word; do
  case $word in --mysql-socket=*) mariadb --no-defaults -S "${{word#*=}}" -u root bench -e "{DAMAGE}" ;; esac
done
exit $code
""")
    wrapper.chmod(0o755)
    bench.environment["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    run = bench.folder / "run"
    bench.run("run", str(orders(bench, "mariadb", 1)), "--out", str(run))
    failed = {trial["failed"] for trial in observations(run)}
    places = ", ".join(f"{number} in 1 places" for number in (1, 2, 3, 4))
    assert failed == {f"the database is damaged: of TPC-C's conditions (3.3.2) these fail: {places}"}
    assert left(bench, run) == []
