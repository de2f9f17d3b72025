"""Databases that did not do what the study asks for, did not begin at rest, or are smaller than memory."""

import math
from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck, at, mappings, number
from fairlane.metrics import rounded
from fairlane.records import Evidence
from fairlane.units import format_size

_KEPT = 0.95
_SIGMAS = 4.0
"""Transactions are scheduled at random times (Poisson), so their number varies by its root."""
_AT_REST = {"history_length": "transactions to purge", "dirty_pages": "dirty pages", "pending_io": "pending I/Os"}
_REASONS = ("failed", "serialization", "deadlock", "other", "skipped")


class DatabaseState(TrialCheck):
    """``context["database"]``: transactions that did not complete; the rate against ``rate``; vacuums that ran before
    the load, and checkpoints within it; what InnoDB had still to write and to purge; transactions that were repeated;
    the size of the data against the machine's memory, through which PostgreSQL reads."""

    needs = frozenset({"database"})

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        context = trial.observation.context
        if mappings(context, "vms") or not isinstance(at(context, "database"), dict):
            return
        yield from _completed(trial)
        yield from _rate(trial)
        running = trial.context("database", "vacuums_running")
        if running:
            yield Oddity(
                "vacuum", "warning", running, f"{rounded(running)} vacuums still ran when the load began",
                "the trial did not begin at rest", {"vacuums_running": running},
            )  # fmt: skip
        if checkpoints := trial.context("database", "checkpoints"):
            yield Oddity(
                "checkpoints", "info", checkpoints,
                f"{rounded(checkpoints)} checkpoint{'s' * (checkpoints != 1)} within a trial",
                "after each, the first change of a page writes the whole page to the log, and commits cost more",
                {"checkpoints": checkpoints},
            )  # fmt: skip
        waiting = {key: trial.context("database", key) or 0 for key in _AT_REST}
        if busy := [f"{rounded(value)} {_AT_REST[key]}" for key, value in waiting.items() if value]:
            yield Oddity(
                "not-at-rest", "warning", max(waiting.values()), f"the load began with {' and '.join(busy)}",
                "the server wrote and purged for the time before the trial, too", waiting,
            )  # fmt: skip
        retries = trial.context("database", "retries") or 0
        if retries and (completed := trial.context("database", "transactions")):
            yield Oddity(
                "retried", "info", retries / completed,
                f"{rounded(retries)} attempts at {rounded(completed)} transactions failed and were repeated",
                "deadlocks and waits for locks; latency counts from the first attempt",
                {"retries": retries, "transactions": completed},
            )  # fmt: skip
        if reconnects := trial.context("database", "reconnects"):
            yield Oddity(
                "reconnects", "warning", reconnects, f"clients had to connect {rounded(reconnects)} times again",
                "their transactions waited for it", {"reconnects": reconnects},
            )  # fmt: skip
        size, memory = trial.context("database", "bytes"), trial.parameter("vm_memory")
        through = at(context, "database", "page_cache") is not False
        if through and size and memory and size < memory:
            yield Oddity(
                "in-memory", "info", memory / size,
                f"the database has {format_size(_whole(size))} and its machine {format_size(_whole(memory))} of memory",
                "once read, its data come from the page cache. Commits still wait for the lane",
                {"bytes": size, "memory": memory},
            )  # fmt: skip


def _completed(trial: Trial) -> Iterable[Oddity]:
    counts = {r: n for r in _REASONS if (n := number(trial.observation.context, "database", f"not_completed_{r}"))}
    completed = trial.context("load", "processed")
    if not counts or not completed:
        return
    lost = sum(counts.values())
    words = ", ".join(f"{n:,.0f} {reason}" for reason, n in counts.items())
    share = lost / (lost + completed)
    yield Oddity(
        "not-completed", "warning", share, f"{share:.2%} of the transactions did not complete ({words})",
        "they are in no latency and in no rate", {**counts, "completed": completed},
    )  # fmt: skip


def _rate(trial: Trial) -> Iterable[Oddity]:
    asked, ran, seconds = trial.parameter("rate_tps"), trial.metric("tps"), trial.seconds
    if not asked or ran is None or not seconds:
        return
    allowed = max(1 - _KEPT, _SIGMAS / math.sqrt(asked * seconds))
    if ran < asked * (1 - allowed):
        yield Oddity(
            "rate-not-kept", "critical", asked / ran if ran else math.inf,
            f"{rounded(ran)} of {rounded(asked)} scheduled transactions per second completed",
            "the queue grew as long as the load ran, and latency says how long that was",
            {"tps": ran, "asked": asked, "allowed": allowed},
        )  # fmt: skip


def _whole(size: float) -> int:
    """Bytes in whole MiB, as long as there are some."""
    return int(size) // 2**20 * 2**20 or int(size)


PLUGIN = DatabaseState()
