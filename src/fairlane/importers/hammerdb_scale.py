"""hammerdb-scale 2.x: the ``summary.json`` of a run, HammerDB against several databases at once.

Format: ``results/aggregator.py`` of its source, 2.0.1 to 2.0.4, and for ``timings`` ``reports/generator.py``. The
databases ran together, so a file is one trial, its NOPM and TPM their sums. A run in which a database failed, or is
missing, is a failed trial. Response times are per database and stored procedure: their mean over all calls is that of
all transactions, their percentiles do not merge and stay in the context. TPROC-H (queries) is not read.

The logs beside the file are HammerDB's own: each is a trial of one database, which its importer reads.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent
from fairlane.importers._reading import MS
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.records import Figures

_KEYS = tuple(re.compile(rb'"%s"\s*:' % key) for key in (b"deployment_name", b"test_id", b"benchmark", b"targets"))
_RANKS = {"p50_ms": "lat_p50", "p95_ms": "lat_p95", "p99_ms": "lat_p99"}
_MINUTE = 60 * 10**9


class HammerdbScale(Importer):
    title = "hammerdb-scale 2.x: summary.json, TPROC-C"
    source = "hammerdb-scale's source: results/aggregator.py, reports/generator.py"

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        return head.lstrip()[:1] == b"{" and all(key.search(head) for key in _KEYS)

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        for file in files:
            tree = reading.tree(file)
            if not isinstance(tree, dict) or not isinstance(tree.get("targets"), list):
                raise Unreadable(
                    "not-this-tool", "expected the summary of a run, with a list of targets", where=file.name
                )
            if tree.get("benchmark") != "tprocc":
                raise Unreadable(
                    "report-unsupported", "a summary of TPROC-H: only TPROC-C (tprocc) is read", where=file.name
                )
            targets = [target for target in tree["targets"] if isinstance(target, dict)]
            yield consistent(_record(tree, targets, file.name), file.name)


def _record(tree: Mapping[str, Any], targets: Sequence[Mapping[str, Any]], where: str) -> Record:
    config, total = (part if isinstance(part := tree.get(key), dict) else {} for key in ("config", "aggregate"))

    def whole(parent: Mapping[str, Any], key: str) -> int | None:
        value = reading.figure(parent, key, where)
        return None if value is None else int(value)

    ramp, runtime = whole(config, "rampup_minutes"), whole(config, "duration_minutes")
    params = reading.known(
        fleet=len(targets) or None,
        numjobs=whole(config, "virtual_users"),
        scale=whole(config, "warehouses"),
        ramp=None if ramp is None else ramp * _MINUTE,
        runtime=runtime * _MINUTE if runtime else None,
    )
    labels = reading.known(
        test=reading.shown(tree.get("test_id")),
        deployment=reading.shown(tree.get("deployment_name")),
        database=reading.shown(config.get("database_type")),
    )
    if reason := _failure(targets, whole(config, "target_count")):
        return Record(params, labels=labels, failed=reason)
    sums = {
        metric: sum(
            _figure(target["tprocc"], metric, f"{where} (target {number})") for number, target in enumerate(targets)
        )
        for metric in ("nopm", "tpm")
    }
    for metric, value in sums.items():
        if (stated := reading.figure(total, f"total_{metric}", where)) is not None and stated != value:
            raise Unreadable(
                "contradiction", f"total_{metric} is {stated:.0f}, and the targets' sum {value:.0f}", where=where
            )
    if not sums["nopm"]:
        return Record(params, labels=labels, failed="HammerDB achieved 0 NOPM")
    metrics = {metric: value for metric, value in sums.items() if value}
    procedures = {reading.shown(target.get("name"), 60): _timings(target["tprocc"], where) for target in targets}
    calls = sum(timing["calls"] for timings in procedures.values() for timing in timings.values())
    if calls and all(procedures.values()):
        spent = (t["calls"] * t["avg"] for timings in procedures.values() for t in timings.values())
        metrics["lat_mean"] = sum(spent) / calls
    context = {
        "conditions": {"tool": "HammerDB"},
        "hammerdb": {
            "targets": {reading.shown(t.get("name"), 60): {"nopm": t["tprocc"]["nopm"]} for t in targets},
            **({"procedures": procedures} if calls else {}),
        },
    }
    return Record(params, Figures(metrics, {}, context, {"nopm": len(targets) / metrics["nopm"]}), labels=labels)


def _failure(targets: Sequence[Mapping[str, Any]], expected: int | None) -> str:
    """Why the run has no sum of all its databases; empty: it has."""
    bad = [t for t in targets if t.get("status") != "completed" or not isinstance(t.get("tprocc"), dict)]
    if bad:
        error = reading.shown(bad[0].get("error"), 200)
        reason = error or reading.shown(bad[0].get("status"), 40) or "unknown"
        return (
            f"{len(bad)} of {len(targets)} databases have no result ({reading.shown(bad[0].get('name'), 60)}: {reason})"
        )
    if not targets or (expected is not None and expected != len(targets)):
        return f"{len(targets)} of {expected or 0} databases have a result"
    return ""


def _figure(result: Mapping[str, Any], key: str, where: str) -> float:
    value = reading.figure(result, key, where)
    if value is None:
        raise Unreadable("key-missing", f"expected {key} in tprocc", where=where)
    return value


def _timings(result: Mapping[str, Any], where: str) -> dict[str, dict[str, float]]:
    """Stored procedure -> calls, mean and percentiles in ns."""
    timings = result.get("timings")
    found: dict[str, dict[str, float]] = {}
    for timing in timings if isinstance(timings, list) else []:
        if isinstance(timing, dict) and (calls := reading.figure(timing, "calls", where)):
            entry = {"calls": calls, "avg": (reading.figure(timing, "avg_ms", where) or 0.0) * MS}
            ranks = {rank: reading.figure(timing, key, where) for key, rank in _RANKS.items()}
            found[reading.shown(timing.get("name"), 40)] = entry | {
                rank: value * MS for rank, value in ranks.items() if value is not None
            }
    return found


PLUGIN = HammerdbScale()
