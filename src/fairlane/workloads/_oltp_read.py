"""Figures of a trial of a database load, from its outputs. Pure.

Rate and latencies are of the transactions that ended within the time measured, by the load's log; counters of server
and disk are of the whole load, ramp included, and are divided by all its transactions.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fairlane.errors import Garbage
from fairlane.formats import pgbench_log
from fairlane.formats.pgbench_log import Log
from fairlane.records import Figures
from fairlane.workloads._oltp_parts import LOADS, LOGS, SERVERS

_TICK_NS = 10_000_000
"""Unit of /proc/PID/stat (USER_HZ = 100)."""
_TIMES = re.compile(r"(\d+)m([\d.]+)s (\d+)m([\d.]+)s")
_NUMBER = re.compile(r"-?\d{1,18}")
_FLUSHES, _FLUSH_MS = 15, 16
"""Columns of a disk's stat (kernel: Documentation/block/stat.rst), since 5.5."""
_VERSION = re.compile(r"\d+(?:\.\d+){0,2}")


def figures(params: Mapping[str, Any], outputs: Mapping[str, bytes]) -> Figures:
    """Raises Garbage."""
    generator, server = LOADS[params["load"]], SERVERS[params["database"]]
    names = sorted(name for name in outputs if name.startswith(LOGS))
    if not names:
        raise Garbage("no-log", f"{generator.TITLE} left no log of its transactions")
    whole = pgbench_log.read_log([(name, _lines(outputs[name])) for name in names])
    begin = whole.first + params["ramp"] / 1e3
    window = begin, begin + params["runtime"] / 1e3
    log = pgbench_log.read_log(
        [(name, _lines(outputs[name])) for name in names], window, scripts=bool(generator.SCRIPTS)
    )
    measured = log.figures(params["runtime"] / 1e9)
    if not log.count:
        raise Garbage("no-transactions", "no transaction completed within the time measured")
    settings = _rows(outputs.get("settings.tsv", b""))
    place = _rows(outputs.get("place.tsv", b""))
    state = _moved(outputs)
    transactions = whole.count
    totals = dict(generator.totals(outputs))
    if (counted := totals.pop("transactions", transactions)) != transactions:
        raise Garbage("log-incomplete", f"{generator.TITLE} counted {counted} transactions, its log has {transactions}")
    disk = _disk(outputs)
    load = {
        **measured.context["load"],
        "runtime_ms": params["runtime"] / 1e6,
        "cached": True,  # the disk's I/Os are not the transactions
        "transactions": transactions,
        "all": {"ios": {"transactions": transactions}},
    }
    generator.verify(outputs)
    metrics = dict(measured.metrics)
    histograms = dict(measured.histograms)
    if log.scripts is not None:
        minutes = params["runtime"] / 60e9
        counts = {name: log.scripts[i].count if i in log.scripts else 0 for i, name in enumerate(generator.SCRIPTS)}
        if generator.COUNTED:
            metrics |= {"nopm": counts[generator.COUNTED] / minutes, "tpm": log.count / minutes}
        load["by_transaction"] = counts
        histograms |= {
            f"tx.lat@{name}": log.scripts[i].histogram() for i, name in enumerate(generator.SCRIPTS) if counts[name]
        }
    if transactions and "wal_bytes" in state:
        metrics["wal_per_tx"] = state["wal_bytes"] / transactions
    if transactions and disk.get("flushes"):
        metrics["flushes_per_tx"] = disk["flushes"] / transactions
    context: dict[str, Any] = {
        "load": load,
        "conditions": {**_conditions(settings, server.PREFIX), **place},
        "database": {
            **_database(state, log, transactions), **totals, "page_cache": server.PAGE_CACHE,
            **({"disk": disk} if disk else {}),
        },
    }  # fmt: skip
    if spent := _cpu(outputs, transactions, server.CPU):
        context |= {"generator": spent, "generator_step": 2 * _TICK_NS / transactions}
    return replace(measured, metrics=metrics, histograms=histograms, context=context)


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    return enumerate(data.decode(errors="replace").splitlines(), 1)


def _rows(data: bytes) -> dict[str, str]:
    rows = (line.partition("\t") for line in data.decode(errors="replace").splitlines())
    return {key: value.strip() for key, tab, value in rows if tab}


def _conditions(settings: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """The server's settings as parameters: its version by its name, others with ``prefix`` before theirs. The version
    is also that of a load which comes with the server."""
    version = _VERSION.match(settings.get("server_version", ""))
    return {
        **({"database_version": version[0], "tool_version": version[0]} if version else {}),
        **{f"{prefix}{name}": value for name, value in settings.items() if name != "server_version" and value},
    }


def _counters(outputs: Mapping[str, bytes], when: str) -> dict[str, int]:
    rows = _rows(outputs.get(f"state.{when}", b""))
    return {key: int(value) for key, value in rows.items() if _NUMBER.fullmatch(value)}


_LEVELS = ("bytes", "dead_tuples", "vacuums_running", "history_length", "dirty_pages", "pending_io")
"""Values that are not counted from the server's start."""


def _moved(outputs: Mapping[str, bytes]) -> dict[str, int]:
    """What the server's counters moved by; of levels the first value, and the last as ``KEY_after``."""
    before, after = _counters(outputs, "before"), _counters(outputs, "after")
    moved = {key: after[key] - before[key] for key in after if key in before and key not in _LEVELS}
    levels = {key: before[key] for key in _LEVELS if key in before}
    return moved | levels | {f"{key}_after": after[key] for key in _LEVELS if key in after}


def _database(state: Mapping[str, int], log: Log, transactions: int) -> dict[str, Any]:
    """Facts for readers and checks."""
    result: dict[str, Any] = {
        key: state[key]
        for key in ("bytes", "bytes_after", "dead_tuples", "dead_tuples_after", "vacuums_running", "autovacuums",
                    "history_length", "history_length_after", "dirty_pages", "dirty_pages_after", "pending_io",
                    "pages_flushed", "log_waits", "lock_waits", "binlog_bytes", "deadlocks", "rollbacks", "wal_bytes")
        if key in state
    }  # fmt: skip
    result["transactions"] = transactions
    result |= {f"not_completed_{reason}": count for reason, count in log.others.items()}
    if transactions and "commits" in state:
        result["commits_per_transaction"] = state["commits"] / transactions
    read = state.get("blocks_read", 0)
    asked = state["page_requests"] if "page_requests" in state else read + state.get("blocks_hit", 0)
    if asked > 0:
        result["hit_rate"] = 1 - read / asked
    if "checkpoints_timed" in state:
        result["checkpoints"] = state["checkpoints_timed"] + state.get("checkpoints_requested", 0)
    return result


def _disk(outputs: Mapping[str, bytes]) -> dict[str, Any]:
    """What the disk behind the volume counted: all of it, whoever used the disk; empty where there is none."""
    each = [outputs.get(f"volume.{when}", b"").decode(errors="replace").split() for when in ("before", "after")]
    if any(len(fields) <= _FLUSH_MS + 1 or not all(f.isdigit() for f in fields[1:18]) for fields in each):
        return {}
    first, last = ([int(field) for field in fields[1:18]] for fields in each)
    moved = [b - a for a, b in zip(first, last, strict=True)]
    if min(moved[:8]) < 0 or moved[_FLUSHES] < 0:
        return {}
    return {
        "name": each[0][0][:40], "reads": moved[0], "writes": moved[4], "read_bytes": moved[2] * 512,
        "write_bytes": moved[6] * 512, "flushes": moved[_FLUSHES], "flush_ms": moved[_FLUSH_MS],
    }  # fmt: skip


def _cpu(outputs: Mapping[str, bytes], transactions: int, fields: tuple[int, int]) -> dict[str, float]:
    """CPU time per transaction of the load generator and of the server's sessions, ns, which the probe does not see: it
    counts other processes. ``fields``: of the server's /proc/PID/stat."""
    if not transactions:
        return {}
    spent = {"user": 0.0, "system": 0.0}
    clocks = [_children(outputs.get(f"times.{when}", b"")) for when in ("before", "after")]
    sessions = [_spent(outputs.get(f"postmaster.{when}", b""), fields) for when in ("before", "after")]
    for pair in (clocks, sessions):
        if not all(pair):
            return {}
        for place, mode in enumerate(spent):
            spent[mode] += max(0.0, pair[1][place] - pair[0][place])
    return {mode: ns / transactions for mode, ns in spent.items()}


def _children(data: bytes) -> tuple[float, ...]:
    """User and system time of a shell's children, ns: the second line of ``times``."""
    found = _TIMES.findall(data.decode(errors="replace"))
    if len(found) < 2:
        return ()
    minutes, seconds, more, rest = found[1]
    return (int(minutes) * 60 + float(seconds)) * 1e9, (int(more) * 60 + float(rest)) * 1e9


def _spent(data: bytes, numbers: tuple[int, int]) -> tuple[float, ...]:
    """User and system time, ns: fields of /proc/PID/stat (proc(5), from 1)."""
    fields = data.decode(errors="replace").rpartition(")")[2].split()  # from the third on
    if len(fields) < 15 or not all(fields[number - 3].isdigit() for number in numbers):
        return ()
    user, system = (int(fields[number - 3]) * float(_TICK_NS) for number in numbers)
    return user, system
