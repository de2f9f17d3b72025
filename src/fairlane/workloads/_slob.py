"""The pattern of SLOB's I/O on PostgreSQL, as shell: single blocks at random through an index, a share of them changed.

SLOB, the Silly Little Oracle Benchmark of Kevin Closson, makes Oracle's own I/O; this is its pattern by itself, and its
figures compare with nobody else's. A row is a block. A work unit (SLOB's WORK_UNIT) reads so many rows one by one, or
changes them and commits (UPDATE_PCT of the units). All clients use one table (SLOB's single schema); every so many
units go to its beginning (HOTSPOT_MB, HOTSPOT_FREQUENCY). pgbench calls the procedures.
"""

from collections.abc import Mapping
from importlib import resources
from typing import Any

from fairlane.workloads import _pgbench as pgbench

TITLE = "SLOB-like"
SERVERS: tuple[str, ...] = ("postgresql",)
TRANSACTIONS: tuple[str, ...] = ("SLOB-like",)
SCRIPTS: tuple[str, ...] = ("read", "update", "hot-read", "hot-update")
"""Work units by their number in the log."""
COUNTED = ""
PER_ROW = 8_215
"""Bytes of a row: its block, and its part of the index (measured with PostgreSQL 15)."""
BLOCK = 8192
_BATCH = 100_000
"""Rows of a transaction that fills the table."""

programs = pgbench.programs
COMPLAINT, verify, check, totals = pgbench.COMPLAINT, pgbench.verify, pgbench.check, pgbench.totals


def fill(params: Mapping[str, Any]) -> str:
    """Shell that makes and fills the table in the database ``bench``; the same rows on every lane."""
    rows = params["rows"]
    text = resources.files(__package__).joinpath("guest", "slob.sql").read_text("utf-8")
    return f"""
cat > slob.sql << 'END-OF-SQL'
{text}END-OF-SQL
filled() {{
  sql -f slob.sql || return
  first=1
  while [ $first -le {rows} ]; do
    last=$((first + {_BATCH - 1}))
    [ $last -le {rows} ] || last={rows}
    sql -c "call slob_fill($first, $last)" || return
    first=$((last + 1))
  done
  sql -c "alter table slob add primary key (id)"
}}
filled > init.out 2>&1 < /dev/null ||
  fail "the database cannot be filled: $(grep -iE 'error|fatal' init.out | head -n 1 | cut -c 1-250)"
"""


def run(params: Mapping[str, Any], seed: int, gate: str) -> str:
    """Shell that runs the load; leaves its exit code in ``$code``. ``gate``: a line of shell at which to wait."""
    texts, options = [], []
    for name, weight in weights(params).items():
        rows = max(1, params["hotspot"] // BLOCK) if name.startswith("hot-") else params["rows"]
        function = f"slob_{name.removeprefix('hot-')}"
        texts.append(
            f"cat > {name}.sql << 'END-OF-SQL'\n\\set seed random(0, 2147483645)\n"
            f"select {function}(:seed, {params['work_unit']}, {rows});\nEND-OF-SQL\n"
        )
        options.append(f"-f {name}.sql@{weight}")
    return "".join(texts) + pgbench.command(" ".join(options), params, seed, gate)


def weights(params: Mapping[str, Any]) -> Mapping[str, int]:
    """Share of each kind of work unit, as whole numbers."""
    every = params["hotspot_frequency"] if params["hotspot"] else 0
    cold, hot = (every - 1, 1) if every else (1, 0)
    update = params["update_pct"]
    shares = ((100 - update) * cold, update * cold, (100 - update) * hot, update * hot)
    return dict(zip(SCRIPTS, shares, strict=True))
