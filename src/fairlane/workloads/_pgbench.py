"""pgbench as the load of a PostgreSQL server, as shell.

Its built-in scripts work on its own tables: 100,000 rows of ``pgbench_accounts`` per unit of scale. Every transaction
is logged (``-l``); the figures come from these logs, and none from what pgbench prints. Source: PostgreSQL's
documentation of pgbench.
"""

from collections.abc import Mapping
from typing import Any

TITLE = "pgbench"
SERVERS: tuple[str, ...] = ("postgresql",)
TRANSACTIONS: tuple[str, ...] = ("tpcb-like", "simple-update", "select-only")
SCRIPTS: tuple[str, ...] = ()
COUNTED = ""
PER_SCALE = 15_600_000
"""Bytes of tables and indexes per unit of scale, measured with PostgreSQL 15: 1,561 MB at scale 100."""


def programs(database: str) -> tuple[str, ...]:  # noqa: ARG001
    return ("pgbench",)


def fill(params: Mapping[str, Any]) -> str:
    """Shell that makes and fills pgbench's tables in the database ``bench``."""
    return f"""
[ -x "$bin/pgbench" ] || fail "$bin/pgbench is missing"
"$bin/pgbench" -i -q -s {params["scale"]} -h "$sock" -p "$port" -U postgres bench > init.out 2>&1 < /dev/null ||
  fail "pgbench cannot fill the database: $(grep -iE 'error|fatal' init.out | tail -n 1 | cut -c 1-250)"
"""


def run(params: Mapping[str, Any], seed: int, gate: str) -> str:
    """Shell that runs pgbench; leaves its exit code in ``$code``. ``gate``: a line of shell at which to wait."""
    own = params["sql"]
    text = f"cat > own.sql << 'END-OF-SQL'\n{own.strip()}\nEND-OF-SQL\n" if own else ""
    script = "-f own.sql" if own else f"-b {params['transactions']}"
    rate = f" -R {params['rate']:g}" if params["rate"] else ""
    return text + command(f"{script}{rate}", params, seed, gate)


def command(options: str, params: Mapping[str, Any], seed: int, gate: str) -> str:
    """The same with ``options`` that say what it runs."""
    seconds = (params["ramp"] + params["runtime"]) // 10**9
    clients = params["numjobs"]
    # of old versions a failed transaction ends its client, and with it the trial
    return f"""
[ -x "$bin/pgbench" ] || fail "$bin/pgbench is missing"
detailed=
[ "$major" -lt 15 ] || detailed=--failures-detailed
{gate or ":"}
"$bin/pgbench" -n -h "$sock" -p "$port" -U postgres -c {clients} -j {min(params["threads"], clients)} -T {seconds} \\
  {options} -l --log-prefix=pgbench_log $detailed --random-seed={1 + seed % (2**31 - 1)} bench \\
  > load.out 2> load.messages < /dev/null
code=$?
"""


def verify(outputs: Mapping[str, bytes]) -> None:
    pass


def check(params: Mapping[str, Any]) -> str:  # noqa: ARG001
    return ""


COMPLAINT = """
grep -hE 'error|fatal|FATAL|ERROR' load.messages load.out | head -n 1 | cut -c 1-250 >&2
"""
"""Shell that says, on standard error, why pgbench failed."""


def totals(outputs: Mapping[str, bytes]) -> Mapping[str, int]:  # noqa: ARG001
    return {}  # the log has everything
