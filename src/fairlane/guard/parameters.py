"""The registry of parameters: the conditions of a trial, and whether lanes must agree in them.

* ``identity``: lanes are meant to differ in it; never required to match.
* ``controlled``: must match, or the verdict is refused.
* ``context``: reported for the reader; not required to match.

A study's ``design.vary`` makes a controlled parameter part of the question; ``design.accept`` and ``--accept`` turn a
refusal into a caveat. A name that a plugin brings and this registry does not know is controlled: the safe side.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, WithJsonSchema

from fairlane import units
from fairlane.guard import values

NONE = values.NONE
Scalar = values.Scalar

Role = Literal["identity", "controlled", "context"]
Group = Literal["path", "machine", "durability", "link", "load", "context"]
GROUPS: tuple[Group, ...] = ("machine", "durability", "link", "load", "path", "context")
"""Groups in the order of a table: parameters that must match come first."""

UNKNOWN = "unknown"
"""Text for a parameter that is not known."""


@dataclass(frozen=True)
class Parameter:
    """One parameter. Values are plain JSON scalars in the unit that ``read`` gives: bytes, ns, bit/s."""

    name: str
    group: Group
    title: str
    role: Role
    meaning: str
    read: Callable[[Any], Any] = values.text
    """From what a user writes (``150GiB``) to the value. Raises ValueError."""
    format: Callable[[Any], str] = str
    tolerance: float = 0.0
    """Two numbers match if they differ by no more than this, in the parameter's unit."""
    of_lane: bool = False
    """Controlled, and yet what some compare: results that differ in nothing but this are taken for lanes."""
    of_vm: bool = False
    """Only a virtual machine has it: results of which nothing says that they are a machine's need not state it."""
    absent: bool = False
    """``none`` on one side follows from the path and is no difference: a local disk has no link."""

    @property
    def tells_lanes(self) -> bool:
        """Whether a difference in it may be what somebody compares."""
        return self.of_lane or self.role == "identity"

    def shown(self, value: Any) -> str:
        """``value`` for a reader: ``150g``, ``yes``, ``none``, ``unknown`` for None."""
        if value is None:
            return UNKNOWN
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str):
            return value
        try:
            return self.format(value)
        except (ValueError, TypeError, OverflowError, OSError):  # an external value that is invalid for this parameter
            return str(value)

    def match(self, a: Any, b: Any) -> bool:
        """Whether two known values are the same for a comparison. Symmetric. Text regardless of case; true is not 1."""
        if self.absent and NONE in (a, b):
            return True
        if isinstance(a, str) or isinstance(b, str):
            return isinstance(a, str) and isinstance(b, str) and a.casefold() == b.casefold()
        if isinstance(a, bool) or isinstance(b, bool):
            return a is b
        return bool(a == b or (self.tolerance and abs(a - b) <= self.tolerance))


def _percent(value: float) -> str:
    return f"{value:g} %"


_PG = ("shared_buffers", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "checkpoint_timeout",
       "max_wal_size", "autovacuum", "data_checksums")  # fmt: skip
"""Settings of PostgreSQL that a study may accept a difference in; all that are read back must match."""
_MARIADB = ("innodb_buffer_pool_size", "innodb_flush_log_at_trx_commit", "innodb_doublewrite", "innodb_flush_method",
            "innodb_log_file_size", "log_bin", "sync_binlog", "innodb_io_capacity", "innodb_page_size")  # fmt: skip
"""The same of MariaDB."""

_ALL = (
    Parameter("platform", "path", "platform", "identity", "source of the virtual machines: lab, kubevirt, ..."),
    Parameter("transport", "path", "transport", "identity", "how the volume reaches the guest: iscsi, nvme_tcp, ..."),
    Parameter("initiator", "path", "initiator", "identity", "where the initiator runs: guest, hypervisor"),
    Parameter("multipath", "path", "multipath", "identity", "policy and number of paths"),
    Parameter("path_settings", "path", "path settings", "identity", "sessions, queues and digests of the transport"),
    Parameter("backend", "path", "backend", "identity", "array, pool or tier"),
    # --- the virtual machine
    Parameter("vm_cpus", "machine", "VM CPUs", "controlled", "virtual CPUs of one machine", values.count, of_vm=True),
    Parameter("vm_memory", "machine", "VM memory", "controlled", "memory of one machine", values.size,
              units.format_size, of_vm=True),
    Parameter("cpu_pinning", "machine", "CPU pinning", "controlled", "virtual CPUs are pinned to cores", values.yes_no,
              of_vm=True),
    Parameter("guest_kernel", "machine", "guest kernel", "controlled", "release of the guest's kernel", values.version,
              of_vm=True),
    Parameter("preempt", "machine", "kernel preemption", "controlled", "the guest kernel's model: none, voluntary, "
              "full", of_vm=True),
    Parameter("fleet", "machine", "fleet size", "controlled", "virtual machines under load together", values.count,
              of_vm=True),
    Parameter("bus", "machine", "guest bus", "controlled", "virtio-blk, virtio-scsi, nvme, ...; none without a guest "
              "device", of_lane=True, of_vm=True),
    Parameter("io_threads", "machine", "IO threads", "controlled", "IO threads of the guest device",
              values.count_or_text, of_vm=True),
    Parameter("queues", "machine", "device queues", "controlled", "queues of the guest device", values.count_or_text,
              of_vm=True),
    Parameter("cache_mode", "machine", "cache mode", "controlled", "none, writeback, writethrough, ...", of_vm=True),
    Parameter("aio", "machine", "host AIO", "controlled", "io_uring, native, threads", of_vm=True),
    Parameter("controllers", "machine", "controllers", "controlled", "disk controllers of one machine",
              values.count_or_text, of_vm=True),
    Parameter("image_format", "machine", "image format", "controlled", "format of the file behind a disk: raw, qcow2",
              of_vm=True),
    Parameter("device_options", "machine", "device options", "controlled", "keys of the guest device that are not at "
              "their defaults: discard, queue_size, packed, ...", of_vm=True),
    Parameter("volume_mode", "machine", "volume mode", "controlled", "Block or Filesystem; file or device", of_vm=True),
    Parameter("provisioning", "machine", "provisioning", "controlled", "allocation of the volume: thin, thick"),
    Parameter("disk_size", "machine", "disk size", "controlled", "size of the volume", values.size, units.format_size),
    Parameter("disks", "machine", "disks", "controlled", "volumes under load in one machine", values.count),
    # --- durability class
    Parameter("copies", "durability", "copies", "controlled", "number of copies, or data+parity: 3, 2, 4+2",
              values.count_or_text),
    Parameter("write_ack", "durability", "write acknowledged", "controlled", "when a write is acknowledged: after "
              "all copies, one copy, the cache"),
    Parameter("flush", "durability", "flush", "controlled", "what a flush does: honoured, ignored"),
    # --- the link
    Parameter("link_speed", "link", "link speed", "controlled", "rate of the link that carries the I/O",
              values.bitrate, units.format_bitrate, absent=True),
    Parameter("link_delay", "link", "link delay", "controlled", "one-way delay, if set or measured",
              values.delay, units.format_duration, absent=True),
    Parameter("nics", "link", "network interfaces", "controlled", "number and speed of the connected interfaces of a "
              "machine"),
    Parameter("mtu", "link", "MTU", "context", "largest packet, bytes", values.count, absent=True),
    # --- the load
    Parameter("tool", "load", "tool", "controlled", "load generator: fio, vdbench, ..."),
    Parameter("tool_version", "load", "tool version", "controlled", "version of the load generator", values.version),
    Parameter("engine", "load", "I/O engine", "controlled", "io_uring, libaio, psync, ...", of_lane=True),
    Parameter("direct", "load", "direct I/O", "controlled", "O_DIRECT: I/O bypasses the guest's page cache",
              values.yes_no),
    Parameter("rw", "load", "access pattern", "controlled", "randread, write, randrw, ..."),
    Parameter("rwmixread", "load", "share of reads", "controlled", "percent of reads in a mix", values.percent,
              _percent),
    Parameter("bs", "load", "block size", "controlled", "bytes of one I/O", values.size, units.format_size),
    Parameter("iodepth", "load", "iodepth", "controlled", "I/Os in flight per job", values.count),
    Parameter("numjobs", "load", "numjobs", "controlled", "jobs, workers or threads in one machine", values.count),
    Parameter("rate_iops", "load", "requested rate", "controlled", "IOPS that the load generator is limited to",
              values.number),
    Parameter("bssplit", "load", "block sizes", "controlled", "sizes and their shares, instead of one block size"),
    Parameter("fsync", "load", "writes between fsyncs", "controlled", "number of writes before each fsync",
              values.count),
    Parameter("fdatasync", "load", "writes between fdatasyncs", "controlled", "number of writes before each fdatasync",
              values.count),
    Parameter("sync", "load", "synchronous writes", "controlled", "flag with which the file is opened: sync (O_SYNC), "
              "dsync (O_DSYNC)"),
    Parameter("end_fsync", "load", "fsync at the end", "controlled", "one fsync when a job ends", values.yes_no),
    Parameter("offset", "load", "offset", "controlled", "where the working set begins", values.size_or_text,
              units.format_size),
    Parameter("random_distribution", "load", "random distribution", "controlled", "distribution of addresses: "
              "zipf, pareto, normal, zoned"),
    Parameter("percentage_random", "load", "share of random I/Os", "controlled", "percent of a random load that is "
              "not sequential", values.percent, _percent),
    Parameter("buffer_compress_percentage", "load", "compressible data", "controlled", "percent by which written "
              "data can be compressed", values.percent, _percent),
    Parameter("dedupe_percentage", "load", "duplicate data", "controlled", "percent of written blocks that are "
              "duplicates", values.percent, _percent),
    Parameter("thinktime", "load", "think time", "controlled", "pause of a job between I/Os", values.delay,
              units.format_duration),
    Parameter("thinktime_blocks", "load", "I/Os between pauses", "controlled", "I/Os of a job before it pauses",
              values.count),
    Parameter("jobs", "load", "concurrent jobs", "controlled", "named jobs that run together, with their options"),
    Parameter("judged", "load", "judged job", "controlled", "the one of several jobs whose figures are compared"),
    Parameter("mem", "load", "I/O buffers", "controlled", "memory of the load generator's buffers"),
    Parameter("size", "load", "working set", "controlled", "bytes of the volume that are used", values.size_or_text,
              units.format_size),
    Parameter("prefill", "load", "prefill", "controlled", "the working set was written before it was read",
              values.yes_no),
    Parameter("ramp", "load", "ramp-up", "controlled", "time under load before the measurement", values.duration,
              units.format_duration),
    Parameter("runtime", "load", "runtime", "controlled", "time measured", values.duration, units.format_duration),
    Parameter("fault", "load", "fault", "controlled", "what fails under load, on which path, and for how long"),
    Parameter("scale", "load", "scale", "controlled", "warehouses, scale factor, table size of a database load",
              values.count_or_text),
    Parameter("database", "load", "database server", "controlled", "PostgreSQL, MariaDB, ..."),
    Parameter("database_version", "load", "database version", "controlled", "version of the database server",
              values.version),
    Parameter("transactions", "load", "transactions", "controlled", "what a database load does: a built-in script's "
              "name, or a script"),
    Parameter("rate_tps", "load", "requested transactions", "controlled", "transactions per second that are scheduled",
              values.number),
    Parameter("durability", "load", "durability", "controlled", "what a database server gives up, and why"),
    Parameter("filesystem", "load", "file system", "controlled", "of a database's data on a block device"),
    *(Parameter(f"pg_{name}", "load", f"PostgreSQL {name}", "controlled", "setting of the running server")
      for name in _PG),
    *(Parameter(f"mariadb_{name}", "load", f"MariaDB {name}", "controlled", "setting of the running server")
      for name in _MARIADB),
    Parameter("metric_definition", "load", "definition of the metric", "controlled", "how the figure is computed, if "
              "not as the metric registry defines it"),
    Parameter("date", "load", "date", "controlled", "date of the measurement; dates match within 7 days", values.date,
              values.date_shown, tolerance=7.0),
    # --- worth knowing
    Parameter("host_cpu", "context", "host CPU", "context", "CPU model of the hypervisor"),
    Parameter("hypervisor", "context", "hypervisor", "context", "name and version"),
    Parameter("notes", "context", "notes", "context", "anything a reader should know"),
)  # fmt: skip

PARAMETERS: dict[str, Parameter] = {p.name: p for p in _ALL}


def parameter(name: str) -> Parameter:
    """The parameter ``name``; an unknown name is controlled, with its name as title."""
    return PARAMETERS.get(name) or Parameter(
        name, "load", name.replace("_", " "), "controlled", "brought by a plugin or a file", values.plain
    )


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """``names`` by group, then in the registry's order; unknown names follow, sorted."""
    ordered = (
        *(name for name in PARAMETERS if name in names),
        *sorted(name for name in names if name not in PARAMETERS),
    )
    return tuple(sorted(ordered, key=lambda name: GROUPS.index(parameter(name).group)))


Load = Literal["block", "database", "fleet"]
"""Kind of a cell's load: I/O on a device, transactions, virtual machines that are made."""

OF_THE_PATH = ("copies", "write_ack", "flush", "link_speed")
"""Can differ between lanes even if one run measured them side by side in the same machine: must be stated there too."""

_MACHINE = ("vm_cpus", "vm_memory", "guest_kernel", "fleet", "bus", "io_threads", "queues", "cache_mode", "volume_mode",
            "disk_size")  # fmt: skip
_TOOL = ("tool", "tool_version", "numjobs", "ramp", "runtime", "date")

WANTED: Mapping[Load, tuple[str, ...]] = {
    "block": (*_MACHINE, *OF_THE_PATH, *_TOOL, "engine", "direct", "rw", "bs", "iodepth", "size", "prefill"),
    "database": (*_MACHINE, *OF_THE_PATH, *_TOOL, "scale"),
    "fleet": ("vm_cpus", "vm_memory", "fleet", "volume_mode", "disk_size", "provisioning", "copies", "link_speed",
              "tool", "tool_version", "date"),
}  # fmt: skip
"""Parameters that lanes measured apart must state."""


def wanted(known: Mapping[str, Any], primary: str) -> tuple[str, ...]:
    """Parameters that lanes measured apart must state in a cell of which they state ``known``: those of its kind of
    load; those of virtual machines only where the load is machines, or something is stated of one."""
    load = load_of(known, primary)
    machines = load == "fleet" or any(name in PARAMETERS and PARAMETERS[name].of_vm for name in known)
    return tuple(name for name in WANTED[load] if machines or not PARAMETERS[name].of_vm)


_DATABASE, _FLEET = frozenset({"tps", "tpm", "nopm"}), ("vm_ready", "job_time")


def load_of(known: Mapping[str, Any], primary: str) -> Load:
    """The kind of load of a cell, from its parameters or else its primary metric."""
    if "scale" in known or (primary in _DATABASE and "rw" not in known):
        return "database"
    return "fleet" if primary.startswith(_FLEET) and "rw" not in known else "block"


def _known(name: str) -> str:
    if name not in PARAMETERS:
        raise ValueError(f"{name!r} is not a parameter (parameters: {', '.join(PARAMETERS)})")
    return name


ParameterName = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": list(PARAMETERS)})]
"""Name in this registry."""


def _with_reason(accept: dict[str, str]) -> dict[str, str]:
    for name, reason in accept.items():
        if not is_meaningful(reason):
            raise ValueError(f"{name}: write the reason for accepting it, which reports print")
    return accept


def is_meaningful(reason: str) -> bool:
    """Whether a reason has a letter or digit."""
    return any(letter.isalnum() for letter in reason)


Accepted = Annotated[dict[ParameterName, str], AfterValidator(_with_reason)]
"""Parameters that need not match, each with the reason why not."""


def _read_all(given: Mapping[str, Scalar]) -> dict[str, Any]:
    read = {}
    for name, value in given.items():
        try:
            read[name] = PARAMETERS[name].read(value)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{name}: {error}") from None
    return read


Conditions = Annotated[dict[ParameterName, Scalar], AfterValidator(_read_all)]
"""Parameters with their values as a user writes them; read, they are in the registry's units."""
