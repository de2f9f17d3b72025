"""Workloads by name: what an application asks of its storage, as keys of workload ``fio``, each with its source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Workloads = Mapping[str, Mapping[str, Any]]
"""Name of a workload -> its keys, without those of time and size."""


@dataclass(frozen=True)
class Limit:
    """A documented limit, printed as pass or fail beside the verdicts."""

    metric: str
    below: float
    """In the metric's unit (ns)."""
    source: str


@dataclass(frozen=True)
class Profile:
    """A named load."""

    summary: str
    """For ``--help``: at most 60 characters."""
    source: str
    workloads: Workloads
    limits: Sequence[Limit] = field(default=())
    largest: int | None = None
    """Bytes of a file that it needs at most; None: any."""

    @property
    def reads_only(self) -> bool:
        return all(rw in _READS for load in self.workloads.values() for rw in load.get("rw", ()))


_LOG = 256 * 1024**2
"""A log is written from its beginning, over and over."""
_READS = ("read", "randread")

DEFAULT = Profile(
    "4k random reads at depth 1, 4k random writes at depth 16",
    "Two extremes: single reads show the latency of the path; sixteen writes in flight show its throughput, caches and "
    "flash translation included.",
    {
        "read": {"rw": ["randread"], "bs": ["4k"], "iodepth": [1]},
        "write": {"rw": ["randwrite"], "bs": ["4k"], "iodepth": [16]},
    },
)
READ_ONLY = Profile(
    "4k random reads at depth 1 and 16",
    "For paths that must not be written: latency of single reads, and throughput with sixteen in flight.",
    {"read": {"rw": ["randread"], "bs": ["4k"], "iodepth": [1, 16]}},
)

PROFILES: Mapping[str, Profile] = {
    "latency": Profile(
        "4k reads and writes, one at a time, judged by p99 latency",
        "One I/O in flight: its latency is all that a single user waits for.",
        {"one": {"rw": ["randread", "randwrite"], "bs": ["4k"], "iodepth": [1], "primary": "lat_p99"}},
    ),
    "oltp": Profile(
        "8k random, 70 % reads, depth 16: a transaction database",
        "Dell, VxRail performance analysis, Vdbench and workload analysis: OLTP 8 KB is 100 % random, 70 % reads. "
        "PostgreSQL and Oracle read and write pages of 8 KiB.",
        {"oltp": {"rw": ["randrw"], "rwmixread": [70], "bs": ["8k"], "iodepth": [16]}},
    ),
    "log": Profile(
        "8k sequential writes, each made durable: a database's log",
        "PostgreSQL, pg_test_fsync: one 8 KiB write, then fdatasync.",
        {"log": {"rw": ["write"], "bs": ["8k"], "iodepth": [1], "fdatasync": [1]}},
        largest=_LOG,
    ),
    "etcd": Profile(
        "2,300-byte writes, fdatasync after each; limit: p99 of 10 ms",
        "etcd, FAQ and hardware guide: the p99 of wal_fsync_duration_seconds should be below 10 ms. The load is "
        "after Olivi and Spreitzer, Using Fio to Tell Whether Your Storage is Fast Enough for Etcd (IBM, 2019): "
        "--rw=write --ioengine=sync --size=22m --fdatasync=1 --bs=2300, through the page cache, as etcd writes. "
        "Every round writes a new file of 22 MiB without prefill, and starts over when it is full.",
        {
            "etcd": {
                "rw": ["write"], "bs": ["2300b"], "iodepth": [1], "fdatasync": [1], "direct": False,
                "engine": "psync", "size": "22m", "prefill": False, "primary": "sync_lat_p99",
            }
        },
        (Limit("sync_lat_p99", 10e6, "etcd's documentation"),),
    ),
    "vdi": Profile(
        "4k random, 80 % writes, depth 8: desktops at work",
        "Moyle, Windows 7 IOPS for VDI: Deep Dive (Atlantis Computing, 2011): in the steady state most I/Os of virtual "
        "desktops are small random writes.",
        {"vdi": {"rw": ["randrw"], "rwmixread": [20], "bs": ["4k"], "iodepth": [8]}},
    ),
    "backup": Profile(
        "1m sequential reads and writes, depth 4: backup, restore",
        "Large sequential I/O with a little read-ahead, as backup programs and copies of images do.",
        {"backup": {"rw": ["read", "write"], "bs": ["1m"], "iodepth": [4], "primary": "bw"}},
    ),
    "mixed": Profile(
        "4k random, 70 % reads, depth 32: many virtual machines",
        "The most common test load for storage of virtual machines: 4 KiB, 70 % reads, all random (HCIBench and "
        "VMFleet both include it).",
        {"mixed": {"rw": ["randrw"], "rwmixread": [70], "bs": ["4k"], "iodepth": [32]}},
    ),
}  # fmt: skip
