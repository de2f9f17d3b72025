"""Where the time of a database's transaction goes, with one client: parts of its mean latency. Pure.

One client waits for each of its reads and for the flush of its commit, one after the other, so latency is a sum. Under
the virtual clock: CPU time of server and load generator, of the kernel's threads, and for each read of the volume, and
for the write of the commit, one round trip of the configured link and the configured time of the medium. Pages that the
server writes in the background are waited for by nobody. On live machines: the same CPU time, and the time that the
disk behind the volume took for flushes, whoever asked for them. The rest is not attributed; it is negative where parts
ran at the same time.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from fairlane.checks._trials import number
from fairlane.records import Cell, Evidence, Observation

STATIONS = {
    "server": "CPU time of the database server and its load generator",
    "flushes": "flushes of the disk behind the volume",
}
"""Part -> its meaning; those of an I/O are ``waterfall.STATIONS``."""
Link = Callable[[float, float], float]
"""(round trips, bytes) -> ns on the configured link."""


def alone(cell: Cell) -> bool:
    """Whether one client runs transactions, as fast as it can."""
    return cell.kind == "oltp" and cell.params.get("numjobs") == 1 and not cell.params.get("rate")


def parts(evidence: Evidence, o: Observation, medium: float | None, link: Link) -> Mapping[str, float]:
    """The parts of a trial in ns, without the rest; empty: figures are missing. ``medium``: its completion time, ns."""
    latency, rate = number(o.metrics, "lat_mean"), number(o.metrics, "tps")
    transactions = number(o.context, "load", "transactions")
    if o.failed or not latency or not rate or not transactions:
        return {}
    between = max(0.0, 1e9 / rate - latency)  # the load generator's time between two transactions
    if not evidence.modelled:
        return _live(o, transactions, between)
    places: Any = (o.context.get("cpu") or {}).get("by_place") or {}
    reads, read_bytes = (number(o.context, "database", "disk", key) for key in ("reads", "read_bytes"))
    commits, wal = number(o.context, "database", "commits_per_transaction"), number(o.metrics, "wal_per_tx")
    if not places or medium is None or reads is None or read_bytes is None or commits is None:
        return {}
    waits = reads / transactions + commits
    return {
        "server": max(0.0, float(places.get("generator") or 0) - between),
        **{name: float(places.get(name) or 0) for name in ("initiator", "target", "shared", "other")},
        "link": link(waits, read_bytes / transactions + (wal or 0.0)),
        "medium": waits * medium,
    }


def _live(o: Observation, transactions: float, between: float) -> Mapping[str, float]:
    spent = [number(o.context, "generator", mode) for mode in ("user", "system")]
    flush_ms, flushes = (number(o.context, "database", "disk", key) for key in ("flush_ms", "flushes"))
    if None in spent:
        return {}
    server = {"server": max(0.0, math.fsum(ns or 0.0 for ns in spent) - between)}
    return server | ({"flushes": flush_ms * 1e6 / transactions} if flush_ms is not None and flushes else {})
