"""Turn fio's job options, from its json, into parameters of the trial (``guard.parameters``)."""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from fairlane.guard.parameters import PARAMETERS

PATTERNS: Mapping[str, tuple[str, ...]] = {
    "read": ("read",), "randread": ("read",), "write": ("write",), "randwrite": ("write",),
    "rw": ("read", "write"), "randrw": ("read", "write"),
    "trim": ("trim",), "randtrim": ("trim",), "trimwrite": ("trim", "write"), "randtrimwrite": ("trim", "write"),
}  # fmt: skip
"""fio's ``rw`` -> the directions it has."""
MIXES = ("rw", "randrw")

# Every other option that is set is a parameter of its own: fio has some 300, half of them change what is measured, and
# new ones come. Left out are options that are parameters under another name; targets, logs, output and order of jobs;
# seeds; and the map of random offsets, which only changes their order.
_READ = frozenset({
    "rw", "bs", "iodepth", "ioengine", "direct", "buffered", "mem", "ramp_time", "rwmixread", "rwmixwrite", "rate_iops",
    "size", "offset_increment", "numjobs", "runtime", "time_based", "kb_base", "unit_base",
})  # fmt: skip
_NEUTRAL = frozenset({
    "name", "description", "filename", "filename_format", "unique_filename", "lockfile", "directory", "opendir",
    "hostname", "port", "pool", "rbdname", "clientname", "uri",
    "group_reporting", "new_group", "stonewall", "wait_for", "exitall", "exit_what", "exitall_on_error", "flow_id",
    "unlink", "unlink_each_loop", "create_on_open", "create_serialize", "create_fsync", "create_only", "fallocate",
    "allow_file_create", "allow_mounted_write", "uid", "gid", "exec_prerun", "exec_postrun", "profile",
    "stats", "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "per_job_logs", "bwavgtime",
    "iopsavgtime", "clat_percentiles", "lat_percentiles", "slat_percentiles", "percentile_list",
    "significant_figures", "block_error_percentiles", "disk_util", "error_dump", "steadystate",
    "steadystate_duration", "steadystate_ramp_time",
    "randrepeat", "randseed", "allrandrepeat", "norandommap",
})  # fmt: skip
_DEFAULTS: Mapping[str, str] = {
    **dict.fromkeys((
        "zero_buffers", "refill_buffers", "thread", "gtod_reduce", "disable_lat", "disable_clat", "disable_slat",
        "offset", "fsync", "fdatasync", "sync", "thinktime", "startdelay", "verify", "buffer_compress_percentage",
        "dedupe_percentage", "overwrite", "end_fsync", "fsync_on_close", "hipri", "fixedbufs", "registerfiles",
        "sqthread_poll", "nonvectored", "nice", "loops",
    ), "0"),
    **dict.fromkeys((
        "invalidate", "scramble_buffers", "nrfiles", "iodepth_batch", "iodepth_batch_submit",
        "iodepth_batch_complete_min",
    ), "1"),
    "random_distribution": "random", "rate_process": "linear", "zonemode": "none", "io_submit_mode": "inline",
    "percentage_random": "100", "file_service_type": "roundrobin", "thinktime_blocks": "1",
}  # fmt: skip
"""fio's defaults: an option with this value is no parameter."""
_MANY = 50
"""Most other options of a job."""
_NAME = re.compile(r"[a-z][a-z0-9_]{1,39}")
_ALIASES = {
    "readwrite": "rw", "blocksize": "bs", "blocksize_range": "bsrange", "iomem": "mem", "timeout": "runtime",
    "fileoffset": "offset", "nr_files": "nrfiles", "io_limit": "io_size", "ratemin": "rate_min",
    "ratecycle": "rate_cycle", "wait_for_previous": "stonewall", "start_delay": "startdelay",
    "disable_bw": "disable_bw_measurement", "ss": "steadystate", "ss_dur": "steadystate_duration",
    "ss_ramp": "steadystate_ramp_time",
}  # fmt: skip

_SYNCS = {"": "sync", "1": "sync"}
"""Values of ``sync`` by their names."""

_POWERS = {letter: power for power, letter in enumerate("kmgtp", start=1)}
_INTEGER = re.compile(r"(0x[0-9a-f]+|[0-9]+)(?:([kmgtp])(ib|i|b)?|b)?", re.IGNORECASE)
_TIME = re.compile(r"([0-9]+)(d|h|m|s|sec|ms|msec|us|usec)?", re.IGNORECASE)
_SECONDS = {
    "d": Fraction(86400), "h": Fraction(3600), "m": Fraction(60), "s": Fraction(1), "sec": Fraction(1),
    "ms": Fraction(1, 10**3), "msec": Fraction(1, 10**3), "us": Fraction(1, 10**6), "usec": Fraction(1, 10**6),
}  # fmt: skip
_LONGEST = 30
"""Most characters of a number."""


_How = Callable[[str], Any]


@lru_cache(maxsize=4096)
def integer(text: str, base: int = 1024) -> int:
    """A number with fio's suffixes. ``base``: fio's ``kb_base``: with 1024, the default, ``4k`` is 4096 and ``4kib`` is
    4000 (not so ``4ki``, whatever its manual says); with 1000 the other way round. Raises ValueError."""
    match = _INTEGER.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if not match:
        raise ValueError(f"{text[:40]!r} is not a number as fio writes it")
    number = int(match[1], 0) if match[1].lower().startswith("0x") else int(match[1])
    if not match[2]:
        return number
    binary = (base == 1024) != ((match[3] or "").lower() == "ib")
    return int(number * (1024 if binary else 1000) ** _POWERS[match[2].lower()])


@lru_cache(maxsize=4096)
def duration(text: str, unit: str = "s") -> int:
    """Nanoseconds; a bare number is in ``unit``. Raises ValueError."""
    match = _TIME.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if not match:
        raise ValueError(f"{text[:40]!r} is not a time as fio writes it")
    return int(int(match[1]) * _SECONDS[(match[2] or unit).lower()] * 10**9)


def flag(text: str) -> bool:
    """fio's bool; an option without a value is true. Raises ValueError."""
    return text.strip() in ("", "true") or (text.strip() != "false" and integer(text) != 0)


def main_name(option: str) -> str:
    """The name of an option that fio knows by several."""
    return _ALIASES.get(option, option)


def named(options: Mapping[str, str]) -> dict[str, str]:
    """``options`` by their main names."""
    return {main_name(name): value for name, value in options.items()}


def parameters(options: Mapping[str, str]) -> dict[str, Any]:
    """The load of one job, by the names and in the units of ``guard.parameters``.

    ``options``: all options of the job, global ones included; others have fio's defaults. Values that cannot be read,
    or are no single value (``bsrange``), are left out, as are ``numjobs`` and ``runtime``, which depend on the figures.
    """
    return dict(_parameters(tuple(options.items())))


@lru_cache(maxsize=4096)
def _parameters(options: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """The repetitions of a cell, hundreds of files, have the same options."""
    given = named(dict(options))
    params: dict[str, Any] = {}
    try:
        base = integer(given.get("kb_base", "1024"))
    except ValueError:
        return params

    def read(name: str, how: _How, default: str | None = None, option: str = "") -> None:
        value = given.get(option or name, default)
        if value is not None:
            try:
                params[name] = how(value)
            except (ValueError, ZeroDivisionError):
                return

    read("rw", _pattern, "read")
    ways = PATTERNS.get(params.get("rw", ""), ())
    if "bsrange" not in given and "bssplit" not in given:
        read("bs", lambda text: _of_all(text, ways, base), "4096")
    read("iodepth", integer, "1")
    read("engine", str.strip, "psync", "ioengine")
    read("direct", flag, "0")
    if "direct" not in given and "buffered" in given:
        read("direct", lambda text: not flag(text), option="buffered")
    read("mem", str.strip, "malloc")
    read("ramp", duration, "0", "ramp_time")
    if params.get("rw") in MIXES:
        read("rwmixread", integer, "50")
        if "rwmixread" not in given and "rwmixwrite" in given:
            read("rwmixread", lambda text: 100 - integer(text), option="rwmixwrite")
    read("rate_iops", lambda text: _sum(text, ways))
    if "offset_increment" not in given:  # jobs with parts of their own: size is not the working set
        read("size", lambda text: integer(text, base))
    for name, how in _TYPED.items():
        if (value := given.get(name)) is not None and _DEFAULTS.get(name) != value.strip():
            read(name, how)
            params.setdefault(name, value.strip())  # several values, one for each direction
    return params | _others(given)


def _others(given: Mapping[str, str]) -> dict[str, str]:
    params: dict[str, str] = {}
    for option in sorted(given):
        name, value = option.replace("-", "_"), given[option].strip() or "1"
        if option in _READ or option in _NEUTRAL or name in PARAMETERS or option.startswith("log_"):
            continue  # a name of the registry would be a claim that no option of fio's can make
        if _NAME.fullmatch(name) and _DEFAULTS.get(name) != value and len(params) < _MANY:
            params[name] = value
    return params


def _where(text: str) -> int | str:
    """An offset in bytes; a share of the device unchanged."""
    return text.strip() if text.strip().endswith("%") else integer(text)


_TYPED: Mapping[str, _How] = {
    "fsync": integer, "fdatasync": integer, "sync": lambda text: _SYNCS.get(text.strip(), text.strip()),
    "end_fsync": flag, "offset": _where, "random_distribution": str.strip, "bssplit": str.strip,
    "percentage_random": integer, "buffer_compress_percentage": integer, "dedupe_percentage": integer,
    "thinktime": lambda text: duration(text, "us"), "thinktime_blocks": integer,
}  # fmt: skip
"""Options that are parameters of the registry by the same name -> the value in its unit. With fio's default they are no
parameter."""


def devices(options: Mapping[str, str]) -> tuple[str, ...]:
    """The block devices in ``filename``, which separates several by colons that no backslash precedes."""
    names = re.split(r"(?<!\\):", options.get("filename", ""))
    return tuple(name.replace("\\:", ":") for name in names if name.startswith("/dev/"))


def _pattern(text: str) -> str:
    """The pattern; with a number of I/Os or a stride (``rw:8``) it is another pattern, kept unchanged."""
    kind = text.strip()
    return "rw" if kind == "readwrite" else kind


def _values(text: str) -> dict[str, str]:
    """fio's ``reads,writes,trims``; missing values: writes as reads, trims as writes."""
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 3:
        raise ValueError(f"{text[:40]!r} has too many values")
    reads = parts[0]
    writes = parts[1] if len(parts) > 1 else reads
    return {"read": reads, "write": writes, "trim": parts[2] if len(parts) > 2 else writes}


def _of_all(text: str, ways: tuple[str, ...], base: int) -> int:
    """The one value for all directions. ValueError: they differ."""
    values = _values(text)
    numbers = {integer(values[way], base) for way in (ways or tuple(values))}
    if len(numbers) != 1:
        raise ValueError("differs between directions")
    return numbers.pop()


def _sum(text: str, ways: tuple[str, ...]) -> int:
    """Rate of all directions together: fio caps each by itself. ValueError: a direction without a cap."""
    values = _values(text)
    if not ways:
        raise ValueError("the directions are not known")
    return sum(integer(values[way]) for way in ways)
