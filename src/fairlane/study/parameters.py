"""The one registry of parameters: what describes the conditions of a trial, and whether lanes must agree in it.

* ``identity``: what the lanes are meant to differ in; never required to match.
* ``controlled``: must match, or the verdict is refused.
* ``context``: reported, because a reader wants to know it; not required to match.

A study's ``design.vary`` makes a controlled parameter part of the question; ``design.accept`` and ``--accept`` turn a
refusal into a caveat. A name that a plugin brings and this registry does not know is controlled: the safe side.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, WithJsonSchema

from fairlane.errors import nearest
from fairlane.study import units

Role = Literal["identity", "controlled", "context"]
Scalar = str | int | float | bool

NONE = "none"
"""Value of a parameter that does not apply (IO threads, where nothing is virtual): known, and equal to itself."""


def _as_is(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _quantity(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Text with a unit by ``parse``; a number is one already; ``none`` stays."""

    def read(value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("expected a quantity, not true or false")
        return value if isinstance(value, int | float) or value == NONE else parse(value)

    return read


_size = _quantity(units.parse_size)
_duration = _quantity(units.parse_duration)
_bitrate = _quantity(units.parse_bitrate)


@dataclass(frozen=True)
class Parameter:
    """One parameter. Values are plain JSON scalars in the unit that ``read`` gives: bytes, ns, bit/s."""

    name: str
    title: str
    role: Role
    meaning: str
    read: Callable[[Any], Any] = _as_is
    """From what a user writes (``150GiB``) to the value. Raises ValueError."""
    format: Callable[[Any], str] = str
    tolerance: float = 0.0
    """Two numbers match if they differ by no more than this, in the parameter's unit."""

    def shown(self, value: Any) -> str:
        """``value`` for a reader: ``150g``, ``yes``, ``none``."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return str(value) if isinstance(value, str) else self.format(value)


def _days(value: Any) -> Any:
    """A date or time in ISO form to days since 1970, so that distances can be taken."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    when = datetime.fromisoformat(str(value))
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() / 86400


def _date(days: Any) -> str:
    return datetime.fromtimestamp(float(days) * 86400, UTC).strftime("%Y-%m-%d")


_ALL = (
    # --- what lanes are meant to differ in
    Parameter("transport", "transport", "identity", "how the volume reaches the guest: iscsi, nvme_tcp, nfs, ..."),
    Parameter("platform", "platform", "identity", "where the virtual machines come from: lab, kubevirt, vsphere, ..."),
    Parameter("backend", "backend", "identity", "array, pool or tier"),
    Parameter("initiator", "initiator", "identity", "where the initiator runs: guest, hypervisor"),
    Parameter("multipath", "multipath", "identity", "policy and number of paths"),
    # --- the virtual machine
    Parameter("vm_cpus", "VM's CPUs", "controlled", "virtual CPUs of one machine"),
    Parameter("vm_memory", "VM's memory", "controlled", "memory of one machine", _size, units.format_size),
    Parameter("guest_kernel", "guest kernel", "controlled", "release of the guest's kernel"),
    Parameter("fleet", "fleet size", "controlled", "virtual machines under load together"),
    Parameter("bus", "guest bus", "controlled", "virtio-blk, virtio-scsi, nvme, ...; none without a guest device"),
    Parameter("io_threads", "IO threads", "controlled", "IO threads of the guest device"),
    Parameter("queues", "device queues", "controlled", "queues of the guest device"),
    Parameter("cache_mode", "cache mode", "controlled", "none, writeback, writethrough, ..."),
    Parameter("aio", "host AIO", "controlled", "io_uring, native, threads"),
    Parameter("volume_mode", "volume mode", "controlled", "Block or Filesystem; file or device"),
    Parameter("disk_size", "disk size", "controlled", "size of the volume", _size, units.format_size),
    Parameter("disks", "disks", "controlled", "volumes under load in one machine"),
    # --- durability class
    Parameter("copies", "copies", "controlled", "copies, or data+parity: 3, 2, 4+2"),
    Parameter("write_ack", "write acknowledged", "controlled", "when: after all copies, one copy, the cache"),
    Parameter("flush", "flush", "controlled", "what a flush does: honoured, ignored"),
    # --- the link
    Parameter("link_speed", "link speed", "controlled", "rate of the link that carries the I/O", _bitrate,
              units.format_bitrate),
    Parameter("mtu", "MTU", "context", "largest packet, bytes"),
    # --- the load
    Parameter("tool", "tool", "controlled", "what made the load: fio, vdbench, ..."),
    Parameter("tool_version", "tool's version", "controlled", "version of the load generator"),
    Parameter("engine", "I/O engine", "controlled", "io_uring, libaio, psync, ..."),
    Parameter("direct", "direct I/O", "controlled", "O_DIRECT: the guest's page cache is passed by"),
    Parameter("rw", "access pattern", "controlled", "randread, write, randrw, ..."),
    Parameter("bs", "block size", "controlled", "bytes of one I/O", _size, units.format_size),
    Parameter("iodepth", "iodepth", "controlled", "I/Os in flight per job"),
    Parameter("numjobs", "numjobs", "controlled", "jobs, workers or threads in one machine"),
    Parameter("rwmixread", "share of reads", "controlled", "percent of reads in a mix", format=lambda v: f"{v:g} %"),
    Parameter("rate_iops", "rate asked for", "controlled", "IOPS that the load generator is limited to"),
    Parameter("mem", "I/O buffers", "controlled", "memory of the load generator's buffers"),
    Parameter("size", "working set", "controlled", "bytes of the volume that are used", _size, units.format_size),
    Parameter("prefill", "prefill", "controlled", "the working set was written before it was read"),
    Parameter("ramp", "ramp", "controlled", "time under load before the measurement", _duration, units.format_duration),
    Parameter("runtime", "runtime", "controlled", "time measured", _duration, units.format_duration),
    Parameter("metric_definition", "definition of the metric", "controlled", "how the figure was made"),
    Parameter("date", "date", "controlled", "when measured: within 7 days of each other", _days, _date, 7.0),
    # --- worth knowing
    Parameter("scale", "scale", "controlled", "warehouses, scale factor, table size of a database load"),
    Parameter("host_cpu", "host's CPU", "context", "model of the hypervisor's CPU"),
    Parameter("hypervisor", "hypervisor", "context", "name and version"),
    Parameter("location", "location", "context", "site, zone, cluster"),
    Parameter("notes", "notes", "context", "anything a reader should know"),
)  # fmt: skip

PARAMETERS: dict[str, Parameter] = {p.name: p for p in _ALL}


def parameter(name: str) -> Parameter:
    """The parameter called ``name``; one that the registry does not know is controlled, with its name as title."""
    return PARAMETERS.get(name) or Parameter(name, name.replace("_", " "), "controlled", "brought by a plugin")


def _known(name: str) -> str:
    if name not in PARAMETERS:
        near = nearest(name, PARAMETERS)
        meant = f"did you mean {near}? " if near else ""
        raise ValueError(f"{name!r} is not a parameter ({meant}parameters: {', '.join(PARAMETERS)})")
    return name


ParameterName = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": list(PARAMETERS)})]
"""Name in this registry."""


def _read_all(found: Mapping[str, Scalar]) -> dict[str, Any]:
    values = {}
    for name, value in found.items():
        try:
            values[name] = PARAMETERS[name].read(value)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{name}: {error}") from None
    return values


Conditions = Annotated[dict[ParameterName, Scalar], AfterValidator(_read_all)]
"""Parameters with their values as a user writes them; read, they are in the registry's units."""
