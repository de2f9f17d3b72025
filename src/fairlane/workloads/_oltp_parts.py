"""The servers and the load generators of workload ``oltp``: one file each. HammerDB has none: it is planned only."""

from collections.abc import Mapping
from typing import Any, Protocol

from fairlane.workloads import _mariadb, _pgbench, _postgresql, _sysbench
from fairlane.workloads._database import Server


class Load(Protocol):
    """What a load generator's module has."""

    TITLE: str
    PROGRAMS: tuple[str, ...]
    SERVERS: tuple[str, ...]
    """Servers that it loads; the first one by default."""
    TRANSACTIONS: tuple[str, ...]
    """What it does, by name; the first one by default."""
    LOG: str
    """Prefix of its logs, which are as pgbench writes them (``formats.pgbench_log``)."""
    COMPLAINT: str
    """Shell that says, on standard error, why it failed."""

    def fill(self, params: Mapping[str, Any]) -> str:
        """Shell that makes and fills its tables in the database ``bench``."""
        ...

    def run(self, params: Mapping[str, Any], seed: int, gate: str) -> str:
        """Shell that waits at ``gate``, a line of shell, and runs it; leaves its exit code in ``$code``, its output in
        ``load.out`` and ``load.messages``."""
        ...

    def totals(self, outputs: Mapping[str, bytes]) -> Mapping[str, int]:
        """What it counted in the whole run, beside its log: ``transactions``, ``retries``, ``reconnects``."""
        ...


SERVERS: Mapping[str, Server] = {"mariadb": _mariadb, "postgresql": _postgresql}
LOADS: Mapping[str, Load] = {"pgbench": _pgbench, "sysbench": _sysbench}
