"""fio's json as plain records: its reports, their jobs, directions, latencies and counters. Nothing is computed here;
``fio_figures`` does that."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlane.errors import Garbage
from fairlane.formats.fio_disks import disks
from fairlane.formats.fio_documents import Document, documents
from fairlane.formats.fio_jobs import Job, host, job, text, texts

_ALL_CLIENTS = "All clients"
"""Name of the entry in which fio's client adds up all machines."""


@dataclass(frozen=True)
class Report:
    """One report of fio: a run of it, or of its clients."""

    version: str
    """``fio-3.33``."""
    jobs: tuple[Job, ...]
    """Without the client's sum over all machines."""
    disk: Mapping[str, int]
    """Counters of the block devices (``fio_disks``). Empty: not known."""
    printed: int | None
    """Unix time in ms when fio printed it: at its end; a client's at its start."""
    clients: bool
    warnings: str
    """Warnings around it."""


def reports(data: bytes, name: str) -> list[Report]:
    """All reports in a file, in their order. Raises Garbage."""
    return [_report(document, name) for document in documents(data, name)]


def _report(document: Document, name: str) -> Report:
    tree = document.tree
    clients = "client_stats" in tree and "jobs" not in tree
    key = "client_stats" if clients else "jobs"
    entries = tree.get(key)
    if not isinstance(entries, list):
        raise Garbage("not-fio", f"{name}: jobs is missing or not a list")
    common = _common(tree.get("global options", {}), name)
    jobs = tuple(job(entry, name, common.get(_host(entry), common.get("", {}))) for entry in entries)
    if clients and len(jobs) > 1:
        jobs = tuple(entry for entry in jobs if entry.name != _ALL_CLIENTS or entry.own is not None)
    if not jobs:
        raise Garbage("no-jobs", f"{name} has no jobs")
    printed = tree.get("timestamp_ms", tree.get("timestamp"))
    if isinstance(printed, bool) or not isinstance(printed, int) or not 0 < printed < 2**53:
        printed = None
    elif "timestamp_ms" not in tree:
        printed *= 1000
    version = text(tree.get("fio version"))[:100]
    return Report(version, jobs, disks(tree.get("disk_util")), printed, clients, document.warnings)


def _host(entry: Any) -> str:
    return host(entry) if isinstance(entry, dict) else ""


def _common(tree: Any, name: str) -> dict[str, Mapping[str, str]]:
    """Global options by machine; under ``""`` those of all machines. A client lists its machines one by one."""
    if isinstance(tree, list):
        return {_host(options): texts(options, name) for options in tree}
    return {"": texts(tree, name)}
