"""A load like TPROC-C, on either server: the five transactions of TPC-C by procedures of the database, as shell.

Written after TPC Benchmark C, revision 5.11, by itself: it is no TPC-C and no HammerDB, and its figures compare with
neither. The mix and the random numbers are those of clauses 2 and 5.2.3, without keying and thinking time, as in
HammerDB. pgbench calls the procedures on PostgreSQL, sysbench on MariaDB, each client for a warehouse of its own as
long as there are as many. New-Order transactions count with the hundredth that is rolled back as clause 2.4.1.4 asks.
After the load consistency conditions 1 to 4 (clause 3.3.2) are checked.
"""

from collections.abc import Mapping
from importlib import resources
from typing import Any

from fairlane.errors import Garbage
from fairlane.workloads import _pgbench as pgbench
from fairlane.workloads import _sysbench as sysbench

TITLE = "TPROC-C-like"
SERVERS: tuple[str, ...] = ("postgresql", "mariadb")
TRANSACTIONS: tuple[str, ...] = ("TPROC-C-like",)
SCRIPTS: tuple[str, ...] = ("new-order", "payment", "order-status", "delivery", "stock-level")
"""Transactions by their number in the log."""
COUNTED = "new-order"
_MIX = (45, 43, 4, 4, 4)
"""Percent of them (clause 5.2.3)."""
PER_WAREHOUSE = 110_000_000
"""Bytes of tables and indexes per warehouse, about."""
_CONDITIONS = ("1", "2", "3", "4")


def programs(database: str) -> tuple[str, ...]:
    return sysbench.programs(database) if database == "mariadb" else pgbench.programs(database)


def _guest(name: str) -> str:
    return resources.files(__package__).joinpath("guest", name).read_text("utf-8")


def fill(params: Mapping[str, Any]) -> str:
    """Shell that makes and fills the tables in the database ``bench``; the same rows on every lane."""
    database, warehouses = params["database"], params["warehouses"]
    if database == "mariadb":
        calls = f'sql bench < tproc_c.sql > init.out 2>&1 && sql bench -e "call fill({warehouses})" >> init.out 2>&1'
    else:
        calls = f'sql -f tproc_c.sql -c "call fill({warehouses})" -c "select finish_fill()" > init.out 2>&1 < /dev/null'
    return f"""
cat > tproc_c.sql << 'END-OF-SQL'
{_guest(f"tproc_c_{database}.sql")}END-OF-SQL
{{ {calls}; }} || fail "the database cannot be filled: $(grep -iE 'error|fatal' init.out | head -n 1 | cut -c 1-250)"
"""


def run(params: Mapping[str, Any], seed: int, gate: str) -> str:
    """Shell that runs the load; leaves its exit code in ``$code``. ``gate``: a line of shell at which to wait."""
    warehouses = params["warehouses"]
    if params["database"] == "mariadb":
        return sysbench.command(_guest("tproc_c.lua"), f"--warehouses={warehouses}", params, seed, gate)
    texts = [
        f"cat > {name}.sql << 'END-OF-SQL'\n"
        f"\\set home :client_id % {warehouses} + 1\n"
        "\\set seed random(0, 2000000000)\n"
        f"call {name.replace('-', '_')}_transaction(:home, {warehouses}, :seed / 2000000000.0);\nEND-OF-SQL\n"
        for name in SCRIPTS
    ]
    options = " ".join(f"-f {name}.sql@{share}" for name, share in zip(SCRIPTS, _MIX, strict=True))
    return "".join(texts) + pgbench.command(options, params, seed, gate)


COMPLAINT = f"{pgbench.COMPLAINT}{sysbench.COMPLAINT}"
"""Shell that says, on standard error, why the load failed."""


def check(params: Mapping[str, Any]) -> str:
    """Shell that checks the conditions after the load."""
    ask = "sql bench" if params["database"] == "mariadb" else "sql"
    return f"""
{ask} > consistency.tsv << 'END-OF-SQL' || fail "the consistency conditions of the database cannot be checked"
{_guest("tproc_c_checks.sql")}END-OF-SQL
"""


def verify(outputs: Mapping[str, bytes]) -> None:
    """Raises Garbage where a condition does not hold, or was not checked."""
    text = outputs.get("consistency.tsv", b"").decode(errors="replace")
    rows = {number: places for number, _, places in (line.partition("\t") for line in text.splitlines())}
    if missing := [number for number in _CONDITIONS if not rows.get(number, "").isdigit()]:
        raise Garbage("not-checked", f"consistency condition {missing[0]} of TPC-C (3.3.2) was not checked")
    if broken := [number for number in _CONDITIONS if int(rows[number])]:
        counts = ", ".join(f"{number} in {rows[number]} places" for number in broken)
        raise Garbage("inconsistent", f"the database is damaged: of TPC-C's conditions (3.3.2) these fail: {counts}")


def totals(outputs: Mapping[str, bytes]) -> Mapping[str, int]:
    """What sysbench counted; pgbench's log has everything."""
    return sysbench.totals(outputs)
