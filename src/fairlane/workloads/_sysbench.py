"""sysbench 1.0 as the load of a database server, as shell.

Its oltp tests work on tables of their own (``sbtest1``, ...). sysbench reports latencies of the whole run in bins 1.8 %
wide, or with ``--report-checkpoints`` of the time since a checkpoint; so guest/sysbench.lua, loaded on top of the test,
logs every transaction, and the figures come from these logs. sysbench's own totals must agree with them. Sources:
``src/lua/oltp_common.lua``, ``src/lua/internal/sysbench.lua`` and ``src/db_driver.c`` of sysbench 1.0.20.
"""

import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

TITLE = "sysbench"
SERVERS: tuple[str, ...] = ("mariadb", "postgresql")
TRANSACTIONS: tuple[str, ...] = ("read_write", "read_only", "write_only", "point_select")
SCRIPTS: tuple[str, ...] = ()
COUNTED = ""
PER_ROW = 260
"""Bytes of table and indexes per row: 247 measured with MariaDB 10.11 at 1,000,000 rows; PostgreSQL's were not."""
_THREADS = 4
"""Of ``prepare``, at most one per table."""
_TOTALS = {
    "transactions": re.compile(r"^ *transactions: +(\d{1,18}) ", re.MULTILINE),
    "retries": re.compile(r"^ *ignored errors: +(\d{1,18}) ", re.MULTILINE),
    "reconnects": re.compile(r"^ *reconnects: +(\d{1,18}) ", re.MULTILINE),
}


def programs(database: str) -> tuple[str, ...]:  # noqa: ARG001
    return ("sysbench",)


def _tables(params: Mapping[str, Any]) -> str:
    return f"--tables={params['tables']} --table-size={params['rows']}"


def fill(params: Mapping[str, Any]) -> str:
    """Shell that makes and fills sysbench's tables in the database ``bench``; the same rows on every lane."""
    return f"""
sysbench oltp_read_write $sysbench_to {_tables(params)} --threads={min(params["tables"], _THREADS)} --rand-seed=1 \\
  prepare > init.out 2>&1 < /dev/null ||
  fail "sysbench cannot fill the database: $(grep FATAL init.out | head -n 1 | cut -c 1-250)"
"""


def run(params: Mapping[str, Any], seed: int, gate: str) -> str:
    """Shell that runs sysbench; leaves its exit code in ``$code``. ``gate``: a line of shell at which to wait."""
    options = f"{_tables(params)} --rand-type={params['distribution']}"
    return command(f'require("oltp_{params["transactions"]}")\n', options, params, seed, gate)


def command(test: str, options: str, params: Mapping[str, Any], seed: int, gate: str) -> str:
    """The same for any test, a text in Lua, with its own ``options``."""
    seconds = (params["ramp"] + params["runtime"]) // 10**9
    lua = resources.files(__package__).joinpath("guest", "sysbench.lua").read_text("utf-8")
    return f"""
cat > fairlane.lua << 'END-OF-LUA'
{test}{lua}END-OF-LUA
printf 'tool_version\\t%s\\n' "$(sysbench --version | sed 's/^sysbench //')" >> place.tsv
{gate or ":"}
sysbench ./fairlane.lua $sysbench_to {options} --threads={params["numjobs"]} --time={seconds} \\
  --rand-seed={1 + seed % (2**31 - 1)} run > load.out 2> load.messages < /dev/null
code=$?
"""


def verify(outputs: Mapping[str, bytes]) -> None:
    pass


def check(params: Mapping[str, Any]) -> str:  # noqa: ARG001
    return ""


COMPLAINT = """
grep -hE 'FATAL' load.messages load.out | head -n 1 | cut -c 1-250 >&2
"""
"""Shell that says, on standard error, why sysbench failed."""


def totals(outputs: Mapping[str, bytes]) -> Mapping[str, int]:
    """What sysbench counted in the whole run: ``transactions``; ``retries`` of transactions after an error that it
    ignores (a deadlock, a lock that was waited for too long); ``reconnects``."""
    text = outputs.get("load.out", b"").decode(errors="replace")
    return {name: int(match[1]) for name, pattern in _TOTALS.items() if (match := pattern.search(text))}
