"""The contract of a check: one file that reads the evidence of a run and returns findings."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from fairlane import registry
from fairlane.records import Evidence, Finding, Severity

_FIRST: tuple[Severity, ...] = ("critical", "warning", "info")


class Check(ABC):
    """Findings from the evidence of a run.

    ``PLUGIN`` of each file in this package is one instance.

    ``Observation.context`` and ``Evidence.events`` come from outside and from other versions: any value may be missing,
    and a missing value is no finding.

    Keys of ``Observation.context``, filled by workloads, importers and probes alike; ``read`` and ``write`` are keys of
    an inner object wherever it says *by direction*:

    * ``load``: ``ios``, ``bytes``, ``iops`` by direction; ``window``: time under load / time measured, where there was
      a ramp; ``runtime_ms``, ``runtime_ms_min``, ``jobs``; ``parts``: jobs
      that differ in time, each ``{"name", "ios", "group", "stonewall", "start_ms", "end_ms"}``; ``series``:
      ``{"interval_ms", "iops": [...]}``, of databases ``tps``; ``samples`` by direction:
      ``{"count", "mean", "stddev"}`` of the tool's own samples of IOPS; ``percentiles_of``: ``averaged`` where
      percentiles were averaged, over what; ``syncs``: their number; ``cached``: through the page cache; ``all``:
      ``ios`` and ``bytes`` of all named jobs, where one of them is judged.
    * ``jobs``: named jobs that ran together, each its ``ios``, ``syncs``, ``iops``, ``bw``, ``lat_mean``,
      ``sync_lat_mean``; their histograms are among those of the trial (``write.lat@log``).
    * ``fio``: ``version``, ``usr_cpu``, ``sys_cpu`` (percent of one core, jobs added), ``short_ios``, ``dropped_ios``.
    * ``disk``: counters of the guest's block device meanwhile: ``reads``, ``writes``, ``read_bytes``, ``write_bytes``,
      ``read_merges``, ``write_merges`` (I/Os that became part of others).
    * ``machine``: shares of the machine's CPU time meanwhile: ``busy``, ``steal``, ``iowait``; ``cpus``;
      ``window_ms``: how long the counters ran, where that is longer than the load.
    * ``cpu``: ``by_place``, ``by_mode``: ns per I/O. ``net``: ``retransmits``, ``drops``, ``tx_bytes``, ``rx_bytes``.
    * ``vms``: per machine ``{"name", "iops", "lat_p99", "start_ms"}``; of clone storms ``{"name", "created_ms",
      "booted_ms", "answered_ms"}`` since the storm's begin.
    * ``vms`` of one run: also ``cpu_per_io``, and ``within_ms``, how far ``start_ms`` may be off. ``window``: of a
      fleet, ``skew_ms`` between the first start and the last, ``within_ms`` of that, ``share`` of the time from the
      first start to the last end in which all were under load.
    * ``cpu_target``, ``cpu_hypervisor``: ``by_place`` on array and hypervisor, ns per I/O of the fleet;
      ``exits_per_io``: of KVM, by kind. ``system``, ``system_target``, ``system_hypervisor``: ``pressure_cpu``,
      ``pressure_memory``, ``pressure_io`` and ``busy`` (shares of the time), ``switches_per_s``, ``switches_per_io``;
      beside the guests ``disks``, ``nics``: name -> bytes moved; of the hypervisor ``others`` (share of its CPU time
      that programs took which are not the run's) and ``steal``.
    * ``nodes``: of a cluster, name -> the same of the node, with ``steal``, ``cpus``, ``busiest_cpu``, ``window_ms``,
      ``retransmits``, and of ``nics`` the ``speed`` in bits per second; or ``failed``: why it was not read.
      ``cpu_node``: ``by_mode``, ns per I/O of the fleet on all of them.
    * ``database``: of a database load: ``bytes`` of the data before it, ``transactions`` with those of the ramp,
      ``not_completed_REASON``, ``hit_rate`` of the buffer, ``commits_per_transaction`` (of PostgreSQL with those in
      which connections prepare statements: some dozens a trial), ``rollbacks``, ``deadlocks``, ``wal_bytes``,
      ``checkpoints``, ``autovacuums``, ``dead_tuples``, ``vacuums_running`` before it; ``disk``: what the disk behind
      the volume counted.
    * ``host_disks``: of all disks of the machine that did anything, name -> ``reads``, ``read_bytes``, ``writes``,
      ``write_bytes``, ``flushes``, ``flush_ms``, ``busy`` (share of the time); of a fleet by machine.
    * ``programs``: CPUs that programs used which are not the run's, by name; of a fleet by machine.
    * ``host``: ``temperatures``: sensor -> ``celsius``, ``limit``, ``alarm``, ``disk``; ``throttles`` of its CPUs;
      ``governors``: name -> CPU frequency policies that have it; ``links``: interface -> bits per second; of a fleet by
      machine.
    * ``paths``: of a volume with several paths, ``[{"name", "ios"}]``: the portal's address, I/Os of all disks on it.
    * ``medium``: ``allocated_bytes`` of the volume before the load, ``unwritten_reads``: what reading unwritten space
      does (``zeros``: served without the medium; ``same``: as any other).
    * ``fault``: a fault of a path under load, times in ms since the series' start: ``kind``, ``path``,
      ``begins_ms``, ``ends_ms``, ``clock_ms`` (how far the clocks may be off), ``stall_ends_ms`` (when the longest I/O
      came back), ``silence_ms`` (longest time without completion), ``recovered``, ``iops_during``; ``carried``: bytes/s
      of each path's interface ``before`` and ``during`` it.
    * ``data``: ``written``, ``checked`` (I/Os), ``wrong_blocks``, ``wrong_in_run``, ``io_errors``, ``first_error``.
    * ``conditions``: parameters (``guard.parameters``) as the trial itself states them.
    * ``started``: of imported trials, Unix time in seconds when the load began.
    """

    between: ClassVar[bool] = False
    """Whether the check compares lanes with each other, rather than trials, lanes or the run by themselves."""

    @abstractmethod
    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """The findings, in any order; may be none. Pure; raises nothing."""

    def foresee(self, study: Any) -> Iterable[Finding]:  # noqa: ARG002
        """Findings that ``check`` will make in any run of ``study`` and that refuse, whatever is measured: reported
        before the first trial, in the same words. Pure. Default: none."""
        return ()

    @property
    def name(self) -> str:
        """The file's name."""
        return type(self).__module__.rpartition(".")[2]

    def finding(
        self,
        kind: str,
        severity: Severity,
        message: str,
        *,
        cells: Sequence[str] = (),
        lanes: Sequence[str] = (),
        evidence: Mapping[str, Any] | None = None,
        refuses: bool = False,
    ) -> Finding:
        """A finding of this check. ``kind`` stays when the words change. Empty ``cells`` or ``lanes``: all of
        them. Make one finding per lane and kind for all its cells: reports add cells and lanes that ``message`` does
        not name."""
        return Finding(self.name, severity, message, tuple(cells), tuple(lanes), evidence or {}, refuses, kind)


def run_all(evidence: Evidence, *, between: bool | None = None) -> tuple[Finding, ...]:
    """The findings of every check, the most severe first, then by check. ``between``: only checks with this value."""
    checks = [check for _, check in registry.every("checks") if between in (None, check.between)]
    findings = [finding for check in checks for finding in check.check(evidence)]
    return tuple(sorted(findings, key=lambda f: (_FIRST.index(f.severity), f.check)))
