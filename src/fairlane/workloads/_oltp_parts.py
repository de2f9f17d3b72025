"""The servers and the load generators of workload ``oltp``: one file each. HammerDB has none: it is planned only."""

from collections.abc import Mapping
from typing import Any, Protocol

from fairlane.workloads import _mariadb, _pgbench, _postgresql, _slob, _sysbench, _tproc_c
from fairlane.workloads._database import Server


class Load(Protocol):
    """What a load generator's module has."""

    TITLE: str
    SERVERS: tuple[str, ...]
    """Servers that it loads; the first one by default."""
    TRANSACTIONS: tuple[str, ...]
    """What it does, by name; the first one by default."""
    SCRIPTS: tuple[str, ...]
    """Kinds of its transactions by their number in the log; empty: it has one kind."""
    COUNTED: str
    """The one of them that NOPM counts; empty: it has no NOPM."""
    COMPLAINT: str
    """Shell that says, on standard error, why it failed."""

    def programs(self, database: str) -> tuple[str, ...]:
        """What it runs."""
        ...

    def fill(self, params: Mapping[str, Any]) -> str:
        """Shell that makes and fills its tables in the database ``bench``."""
        ...

    def run(self, params: Mapping[str, Any], seed: int, gate: str) -> str:
        """Shell that waits at ``gate``, a line of shell, and runs it; leaves its exit code in ``$code``, its output in
        ``load.out`` and ``load.messages``."""
        ...

    def check(self, params: Mapping[str, Any]) -> str:
        """Shell that checks, after the load and the last counters, that the database is sound; empty: nothing to do."""
        ...

    def verify(self, outputs: Mapping[str, bytes]) -> None:
        """Raises Garbage if ``check`` found the database damaged."""
        ...

    def totals(self, outputs: Mapping[str, bytes]) -> Mapping[str, int]:
        """What it counted in the whole run, beside its log: ``transactions``, ``retries``, ``reconnects``."""
        ...


SERVERS: Mapping[str, Server] = {"mariadb": _mariadb, "postgresql": _postgresql}
LOADS: Mapping[str, Load] = {"pgbench": _pgbench, "sysbench": _sysbench, "tproc_c": _tproc_c, "slob": _slob}
LOGS = ("pgbench_log.", "sysbench_log.")
"""Beginnings of the logs' names; all are as pgbench writes them (``formats.pgbench_log``)."""
