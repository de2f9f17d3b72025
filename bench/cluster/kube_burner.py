"""kube-burner's side: its configuration, one run of it, and what it tells.

Everything is set so that it asks least: no clean-up before, no images loaded, no objects counted afterwards, and a
namespace that is there, in which it removes all machines with one request (``gc``) and not one by one. Its vmiLatency
measurement writes one record per machine.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from bench.cluster.audit import Request
from bench.cluster.outcome import Latencies, Phase, Told

REPLICA = "{{.Replica}}"
MEASURED: dict[Phase, str] = {
    "scheduled": "vmiScheduledLatency",
    "running": "vmiRunningLatency",
    "ready": "vmReadyLatency",
}
"""Fields of kube-burner's records, in ms since the VirtualMachine's creationTimestamp."""


def write_config(folder: Path, machine: dict[str, Any], count: int, rate: tuple[float, int] | None) -> list[str]:
    """Writes the job of ``count`` times ``machine``, which has ``REPLICA`` for its number, into ``folder``; arguments
    after the program's name. ``rate``: QPS and burst; None: kube-burner's defaults."""
    (folder / "machine.yaml").write_text(yaml.safe_dump(machine))
    job: dict[str, Any] = {
        "name": "storm",
        "jobIterations": 1,
        "namespacedIterations": False,
        "cleanup": False,
        "preLoadImages": False,
        "verifyObjects": False,
        "waitWhenFinished": True,
        "maxWaitTimeout": "15m",
        "gc": True,
        "objects": [{"objectTemplate": "machine.yaml", "replicas": count}],
    }
    if rate:
        job |= {"qps": rate[0], "burst": rate[1]}
    config = {
        "global": {"measurements": [{"name": "vmiLatency"}]},
        "metricsEndpoints": [{"indexer": {"type": "local", "metricsDirectory": "metrics"}}],
        "jobs": [job],
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return ["init", "--config", "config.yaml"]


def read(folder: Path, requests: Sequence[Request]) -> Told:
    """What a finished run told. The end of its job is in its own summary; that nothing is left it knows from its last
    list of machines, whose time the server tells."""
    (summary,) = json.loads((folder / "metrics/jobSummary.json").read_text())
    records = json.loads((folder / "metrics/vmiLatencyMeasurement-storm.json").read_text())
    lists = [r.answered for r in requests if (r.verb, r.resource) == ("list", "virtualmachines")]
    return Told(datetime.fromisoformat(summary["endTimestamp"]).timestamp(), max(lists), _latencies(records))


def _latencies(records: list[dict[str, Any]]) -> Latencies:
    """An instant that kube-burner did not see is the year 1 to it and the latency negative by centuries: not told."""
    return {
        record["vmName"]: {phase: record[key] / 1000 for phase, key in MEASURED.items() if record[key] > -1e9}
        for record in records
    }
