"""The registry of metrics: name, unit, direction, margin, definition, format.

Every output looks a metric up here; none is defined twice.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

WAYS = ("read", "write")
"""Directions that have metrics of their own in a mix."""
SYNC = "sync"
"""``way`` of the metrics of syncs (fsync, fdatasync), which are no I/Os."""


def rounded(value: float, digits: int = 3) -> str:
    """Significant digits, or a whole number where it has more: 5,387, 14,525, 0.412; never 1e+03."""
    return f"{value:,.0f}" if abs(value) >= 10**digits - 0.5 else f"{value:,.{digits}g}"


def _duration(ns: float) -> str:
    """Nanoseconds for a reader: 812 ns, 185 µs, 1.74 ms."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= 0.9995 * size:  # 999.6 µs are 1 ms
            return f"{rounded(ns / size)} {unit}"
    return f"{rounded(ns)} ns"


def _bandwidth(per_second: float) -> str:
    return f"{rounded(per_second / 2**20, 4)} MiB/s"


@dataclass(frozen=True)
class Metric:
    """One metric. ``better`` is +1 where more is better and -1 where less is."""

    name: str
    title: str
    unit: str
    better: int
    margin: float
    """Default smallest relative difference that matters."""
    definition: str
    format: Callable[[float], str]
    """Value in the registry's unit -> text with unit."""
    percentile: float | None = None
    """For percentiles of the merged ``lat`` histogram: 0.99."""
    fleet: Literal["sum", "mean", "most"] = "mean"
    """How the figures of several machines become their fleet's: added up, the mean weighted by their I/Os, or the
    largest. Percentiles always come from the merged histogram."""
    way: str = ""
    """What it counts alone: a direction (``WAYS``) of a mix of reads and writes, or syncs (``SYNC``). Empty: all
    I/Os."""


@cache
def own_metric(name: str, way: str) -> str:
    """A direction's own metric: ``iops`` -> ``iops_read``, ``lat_p99`` -> ``lat_read_p99``; ``name`` if no way."""
    head, _, rest = name.partition("lat_")
    return name if not way else f"{name}_{way}" if head else f"lat_{way}_{rest}"


def of_mix(name: str, figures: Mapping[str, float | None]) -> dict[str, float]:
    """The own metrics of both directions from the ``figures`` of each, where neither is missing or 0: a load of reads
    alone has no second copy of its figures."""
    known = {own_metric(name, way): value for way in WAYS if (value := figures.get(way))}
    return known if len(known) == len(WAYS) else {}


def _percentile(name: str, title: str, q: float) -> Metric:
    return Metric(
        name, title, "ns", -1, 0.10,
        f"{100 * q:g} % of operations took at most this long from submission to completion (fio's lat, histograms of "
        "all jobs and directions merged; for databases: transactions); from a histogram only if at least 10 operations "
        "lie beyond it in every block",
        _duration, q,
    )  # fmt: skip


def _direction(way: str) -> Iterator[Metric]:
    """The metrics of one direction of a mix."""
    of = f"{way}s of a mix only"
    yield Metric(own_metric("iops", way), f"{way} IOPS", "1/s", +1, 0.05,
                 f"{of}: completed I/Os per second, ramp-up excluded; the time ends with the last I/O of either "
                 "direction", rounded,
                 fleet="sum", way=way)  # fmt: skip
    yield Metric(own_metric("bw", way), f"{way} bandwidth", "B/s", +1, 0.05,
                 f"{of}: bytes per second over the same time", _bandwidth, fleet="sum", way=way)  # fmt: skip
    database = "; for databases: wait for one block" if way == "read" else ""
    yield Metric(own_metric("lat_mean", way), f"mean {way} latency", "ns", -1, 0.05,
                 f"{of}: mean time from submission to completion{database}", _duration, way=way)  # fmt: skip
    for short, q in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
        yield Metric(own_metric(f"lat_{short}", way), f"p{100 * q:g} {way} latency", "ns", -1, 0.10,
                     f"{of}: {100 * q:g} % took at most this long from submission to completion; from a histogram "
                     f"only if at least 10 {way}s lie beyond it in every block", _duration, q, way=way)  # fmt: skip


def _syncs() -> Iterator[Metric]:
    """The metrics of syncs."""
    of = "time of an fsync or fdatasync between two writes (fio's sync"
    yield Metric("sync_lat_mean", "mean sync latency", "ns", -1, 0.05,
                 f"mean {of}, all jobs), not part of any write latency; only for synchronous engines (psync), "
                 "because fio times the syncs of others wrongly", _duration, way=SYNC)  # fmt: skip
    for short, q in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
        yield Metric(f"sync_lat_{short}", f"p{100 * q:g} sync latency", "ns", -1, 0.10,
                     f"{100 * q:g} % took at most this long: {of}, histograms of all jobs merged); only if at least "
                     "10 syncs lie beyond it in every block", _duration, q, way=SYNC)  # fmt: skip


_ALL = (
    Metric("iops", "IOPS", "1/s", +1, 0.05,
           "completed I/Os per second (all jobs, reads and writes), ramp-up excluded; the time ends with the last I/O",
           rounded,
           fleet="sum"),
    Metric("bw", "bandwidth", "B/s", +1, 0.05,
           "bytes of the same I/Os per second, over the same time",
           _bandwidth, fleet="sum"),
    Metric("lat_mean", "mean latency", "ns", -1, 0.05,
           "mean time of an operation from submission to completion (fio's lat; for databases: a transaction)",
           _duration),
    _percentile("lat_p50", "p50 latency", 0.50),
    _percentile("lat_p95", "p95 latency", 0.95),
    _percentile("lat_p99", "p99 latency", 0.99),
    _percentile("lat_p999", "p99.9 latency", 0.999),
    *(metric for way in WAYS for metric in _direction(way)),
    *_syncs(),
    Metric("cpu_per_io", "CPU per I/O", "ns", -1, 0.05,
           "CPU time of the load generator and of all kernel threads and services on its machine during the load, "
           "divided by the I/Os. Includes initiator and target if they run there, but no interrupts of an idle CPU. "
           "Under the virtual clock 1 ns = 1 instruction", _duration),
    Metric("cpu_per_io_target", "CPU per I/O on the array", "ns", -1, 0.05,
           "CPU time of all threads of the array during the load, divided by the I/Os of all machines; only if the "
           "platform can measure the array", _duration),
    Metric("cpu_per_io_hypervisor", "CPU per I/O on the hypervisor", "ns", -1, 0.05,
           "CPU time of all threads of the machines' processes (QEMU: virtual CPUs, IO threads, main loop, vhost) "
           "during the load, divided by the I/Os of all machines; includes the CPU time of the guests", _duration),
    Metric("cpu_per_io_node", "CPU per I/O on the nodes", "ns", -1, 0.05,
           "CPU time (without idle, iowait and steal) of the nodes of the lane's machines during the load, divided by "
           "the I/Os of all machines: guests, their processes, initiators in the nodes' kernels and everything else "
           "there; only if the cluster allows probes on its nodes", _duration),
    Metric("switches_per_io", "context switches per I/O", "switches", -1, 0.05,
           "context switches of the load's machine divided by its I/Os: how often the path makes a CPU change to "
           "another task for one I/O", rounded),
    Metric("iops_per_gbit", "IOPS per Gbit/s of link", "1/s per Gbit/s", +1, 0.05,
           "IOPS / link_speed of the lane; only if the lanes have links of different speed",
           rounded),
    Metric("iops_per_cost", "IOPS per unit of cost", "1/s per unit", +1, 0.05,
           "IOPS / the cost that the study declares for the lane", rounded),
    Metric("tps", "transactions per second", "1/s", +1, 0.05,
           "transactions that a database load completed / the time measured", lambda value: f"{rounded(value)} tps",
           fleet="sum"),
    Metric("cpu_per_tx", "CPU per transaction", "ns", -1, 0.05,
           "CPU time of a database load on its machine (load generator, the server's sessions and processes, kernel "
           "threads, all else there) during the load, divided by its transactions", _duration),
    Metric("wal_per_tx", "WAL per transaction", "B", -1, 0.05,
           "bytes of write-ahead log that a database server wrote during the load, divided by its transactions; full "
           "page images after a checkpoint are part of it", lambda value: f"{rounded(value)} B"),
    Metric("flushes_per_tx", "flushes per transaction", "flushes", -1, 0.05,
           "flushes that the disk behind the volume completed during the load, whoever asked for them, divided by the "
           "transactions; below 1 several transactions share one", rounded),
    Metric("tpm", "TPM", "1/min", +1, 0.05,
           "HammerDB's transactions per minute: commits and rollbacks as the database counts them", rounded,
           fleet="sum"),
    Metric("nopm", "NOPM", "1/min", +1, 0.05,
           "HammerDB's new orders per minute: the figure that compares between databases", rounded,
           fleet="sum"),
    Metric("vm_created_mean", "mean time until the volume exists", "ns", -1, 0.10,
           "mean time from the start of a storm until a virtual machine's volume exists", _duration),
    Metric("vm_scheduled_mean", "mean time until the pod runs", "ns", -1, 0.10,
           "mean time from the start of a storm until a virtual machine's pod runs on a node (KubeVirt's phase "
           "Scheduled)", _duration),
    Metric("vm_running_mean", "mean time until QEMU runs", "ns", -1, 0.10,
           "mean time from the start of a storm until a virtual machine's QEMU runs (KubeVirt's phase Running)",
           _duration),
    Metric("vm_booted_mean", "mean time until the guest has booted", "ns", -1, 0.10,
           "mean time from the start of a storm until a virtual machine's first process runs; on KubeVirt: until its "
           "sshd answers", _duration),
    Metric("vm_ready_mean", "mean time to ready", "ns", -1, 0.10,
           "mean time from a virtual machine's creation until it is ready (kube-burner's vmiLatency); for clone "
           "storms: from the start of the storm until a read and a flushed write of its volume have completed",
           _duration),
    Metric("vm_ready_p50", "p50 time to ready", "ns", -1, 0.10,
           "half of the virtual machines were ready within this time", _duration),
    Metric("vm_ready_p95", "p95 time to ready", "ns", -1, 0.10,
           "95 % of the virtual machines were ready within this time", _duration),
    Metric("vm_ready_p99", "p99 time to ready", "ns", -1, 0.10,
           "99 % of the virtual machines were ready within this time", _duration),
    Metric("stall", "longest I/O in the fault", "ns", -1, 0.10,
           "longest time from submission to completion of an I/O that completed after a path failed: writes, reads "
           "and verifying reads", _duration, fleet="most"),
    Metric("recover_time", "time to recover", "ns", -1, 0.10,
           "time from the failure of a path until IOPS over half a second are back to the workload's share of the "
           "earlier IOPS; at least one interval of the series (100 ms)", _duration, fleet="most"),
    Metric("iops_before", "IOPS before the fault", "1/s", +1, 0.05,
           "I/Os per second of the application, without verifying reads, over the last three quarters of the time "
           "before the fault", rounded, fleet="sum"),
    Metric("iops_after", "IOPS after the fault", "1/s", +1, 0.05,
           "the same I/Os per second, from the path's return to the end of the load", rounded, fleet="sum"),
    Metric("job_time", "time of the job", "ns", -1, 0.05,
           "time from the start of the job until everything it creates exists, as the tool reports it; for clone "
           "storms: until the last virtual machine is ready", _duration, fleet="most"),
)  # fmt: skip

METRICS: dict[str, Metric] = {m.name: m for m in _ALL}
