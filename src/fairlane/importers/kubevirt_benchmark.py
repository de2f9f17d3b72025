"""KubeVirt's proposed benchmark results (VEP 411, schema 1.x): times of machines to ready, and I/O in their guests.

Format: "Result schema" and "Metric definitions" of the proposal, kubevirt/enhancements, sig-scale 411, as of August
2026. It is not accepted yet, and what virtbench, its first implementation, writes today is of another form: its copies
of fio's json (``per-vm-results``) are read as fio's.

Scenarios ``datasource-clone`` and ``boot-storm``: ``vm_ready_*`` of the first of these that all machines have: VMI
ready, ping, VMI running; ``metric_definition`` says which. Percentiles are of the records, and need ten beyond.
Scenarios ``fio`` and ``elbencho``: the sums of the machines, which ran together. A run with failed machines is a failed
trial: the mean of the others says nothing of it.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.records import Figures
from fairlane.stats.histogram import BEYOND, beyond

_KEYS = tuple(re.compile(rb'"%s"\s*:' % key) for key in (b"schema_version", b"scenario", b"aggregate", b"workload"))
_READY = ("time_to_vmi_ready_seconds", "time_to_ping_seconds", "time_to_vmi_running_seconds")
_PERCENTILES = {"vm_ready_p50": 0.5, "vm_ready_p95": 0.95, "vm_ready_p99": 0.99}
_STARTS = ("datasource-clone", "boot-storm")
_IO = {"iops": "guest_io_iops", "bw": "guest_io_throughput_bytes_per_second"}
_OK = "Success"
_STEP = 0.005
"""Seconds by which a printed time may be off: two decimals."""


class KubevirtBenchmark(Importer):
    title = "KubeVirt benchmark results, the schema 1.x of proposal VEP 411"
    source = "the proposal's text (kubevirt/enhancements, sig-scale 411): Result schema, Metric definitions"

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        return head.lstrip()[:1] == b"{" and all(key.search(head) for key in _KEYS)

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        for file in files:
            tree = reading.tree(file)
            if not isinstance(tree, dict) or not isinstance(tree.get("aggregate"), dict):
                raise Unreadable("not-this-tool", "expected an object with aggregate and records", where=file.name)
            version = reading.shown(tree.get("schema_version"), 20)
            if version.partition(".")[0] != "1":
                raise Unreadable("version-unknown", f"schema version {version!r}: 1.x is read", where=file.name)
            yield consistent(_record(tree, file.name), file.name)


def _part(tree: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = tree.get(key)
    return part if isinstance(part, dict) else {}


def _record(tree: Mapping[str, Any], where: str) -> Record:
    tool, workload, total = (_part(tree, key) for key in ("tool", "workload", "aggregate"))
    scenario = reading.shown(_part(tree, "scenario").get("name"), 60)
    entries = tree.get("records")
    records = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    machines, failed = (reading.figure(total, key, where) for key in ("total_vms", "failed_vms"))
    params = reading.known(fleet=int(machines) if machines else None)
    labels = reading.known(
        scenario=scenario, storage_class=reading.shown(workload.get("storage_class")),
        access_mode=reading.shown(workload.get("access_mode")),
    )  # fmt: skip
    started = reading.moment(tree.get("timestamp"))
    bad = [entry for entry in records if entry.get("status") != _OK]
    if failed or bad:
        reason = f"{max(int(failed or 0), len(bad))} of {int(machines or len(records))} machines failed"
        return Record(params, name=scenario, labels=labels, started=started, failed=reason)
    whole = bool(records) and len(records) == machines
    context: dict[str, Any] = {
        "conditions": reading.known(
            tool=reading.shown(tool.get("name")), tool_version=reading.shown(tool.get("version")),
            volume_mode=reading.shown(workload.get("volume_mode")),
            disk_size=reading.size(reading.shown(workload.get("disk_size")).removesuffix("i")),
        )
    }  # fmt: skip
    if scenario in _STARTS:
        definition, metrics, steps = _ready(records if whole else [], total, where)
        context["conditions"]["metric_definition"] = definition
    elif scenario in ("fio", "elbencho"):
        metrics, steps = _io(records if whole else [], where), {}
    else:
        raise Unreadable(
            "report-unsupported",
            f"scenario {scenario!r}: {', '.join((*_STARTS, 'fio', 'elbencho'))} are read",
            where=where,
        )
    return Record(params, Figures(metrics, {}, context, steps), name=scenario, labels=labels, started=started)


def _ready(
    records: Sequence[Mapping[str, Any]], total: Mapping[str, Any], where: str
) -> tuple[str, dict[str, float], dict[str, float]]:
    """What was timed, ``vm_ready_*`` in ns, and their steps: of the records, or else the mean of the aggregate."""
    for key in _READY:
        times = sorted(time for entry in records if (time := reading.figure(entry, key, where)))
        stated = reading.figure(total, f"avg_{key}", where)
        if times and len(times) == len(records):
            mean = sum(times) / len(times)
            if stated is not None and abs(mean - stated) > _STEP + 0.001 * mean:
                raise Unreadable(
                    "contradiction", f"avg_{key} is {stated}, and the records' mean {mean:.2f}", where=where
                )
            seconds = {"vm_ready_mean": mean}
            for name, q in _PERCENTILES.items():
                if beyond({1: len(times)}, q) >= BEYOND:
                    seconds[name] = times[math.ceil(q * len(times)) - 1]
        elif stated and not records:
            seconds = {"vm_ready_mean": stated}
        else:
            continue
        return key, {name: s * 1e9 for name, s in seconds.items()}, {name: _STEP / s for name, s in seconds.items()}
    raise Unreadable("key-missing", f"expected one of {', '.join(_READY)}", where=where)


def _io(records: Sequence[Mapping[str, Any]], where: str) -> dict[str, float]:
    """Sums over the machines."""
    sums = {}
    for metric, key in _IO.items():
        values = [value for entry in records if (value := reading.figure(entry, key, where)) is not None]
        if values and len(values) == len(records):
            sums[metric] = sum(values)
    if not sums.get("iops"):
        raise Unreadable("key-missing", f"expected {_IO['iops']} in a record of every machine", where=where)
    return sums


PLUGIN = KubevirtBenchmark()
