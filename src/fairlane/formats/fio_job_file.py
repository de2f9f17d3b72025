"""Parse a fio job file as a user has it, and sort its options: kept for fio, ours and dropped, or refused by name.

Devices, paths, seeds, output and the time measured are Fairlane's. What would make trials of two lanes differ, or add
up what did not run together, is refused. Options that shape the load, and can neither name a file nor start a program,
go to fio as they stand; all others are refused: some of fio's write to any file, even in a job that only reads.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fairlane.errors import Invalid
from fairlane.formats.fio_options import duration, flag, integer, named

MOST_JOBS = 20
"""Most sections of a file."""
MOST_CHARACTERS = 64 * 1024

ENGINES = ("io_uring", "libaio", "posixaio", "psync", "pvsync", "pvsync2", "sync", "vsync")
"""fio's engines that load the device of a lane."""

_DROPPED = frozenset({
    "name", "description", "filename", "directory", "filename_format", "unique_filename", "opendir", "hostname", "port",
    "group_reporting", "new_group", "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log",
    "per_job_logs", "bwavgtime", "iopsavgtime", "lat_percentiles", "clat_percentiles", "slat_percentiles",
    "percentile_list", "significant_figures", "disk_util", "stats", "gtod_reduce", "disable_lat", "disable_clat",
    "disable_slat", "disable_bw_measurement", "unified_rw_reporting", "error_dump", "time_based", "runtime",
    "ramp_time", "randseed", "allrandrepeat", "norandommap", "create_serialize", "create_fsync", "create_on_open",
    "fallocate", "overwrite", "openfiles", "lockfile", "file_service_type",
})  # fmt: skip
_TOGETHER = "the jobs of a trial run at the same time, from begin to end: write a workload for each"
_BY_TIME = "a trial ends by its runtime, so that lanes are under load equally long"
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("stonewall", "wait_for", "startdelay", "start_delay"), _TOGETHER),
    **dict.fromkeys(("exitall", "exit_what", "exitall_on_error"), _TOGETHER),
    **dict.fromkeys(("number_ios", "io_size", "io_limit", "fill_device", "fill_fs", "loops"), _BY_TIME),
    **dict.fromkeys(("exec_prerun", "exec_postrun"), "the study's platform prepares machines, equally for all lanes"),
    **dict.fromkeys(("read_iolog", "write_iolog", "replay_redirect", "merge_blktrace_file"),
                    "a trace names its own devices; describe the load by options"),
    **dict.fromkeys(("nrfiles", "filesize", "file_size"), "a lane has one device or file; use size and offset"),
    **dict.fromkeys(("uid", "gid", "cgroup", "cgroup_weight", "ioscheduler", "profile", "client", "server"),
                    "it changes the machine, which the study's platform sets up"),
    **dict.fromkeys(("allow_mounted_write", "unlink", "unlink_each_loop", "allow_file_create", "pre_read"),
                    "Fairlane guards the devices itself (docs/safety.md)"),
    "kb_base": "write sizes in powers of 1024",
    **dict.fromkeys(("steadystate", "ss", "steadystate_duration", "steadystate_ramp_time"),
                    "use the workload's key steady"),
}  # fmt: skip
"""Option that breaks the comparison -> what to do."""
_PASSED = frozenset({
    # pattern, addresses, sizes
    "rw", "rw_sequencer", "rwmixread", "rwmixwrite", "bs", "ba", "blockalign", "bsrange", "bssplit", "bs_unaligned",
    "blocksize_unaligned", "bs_is_seq_rand", "size", "offset", "offset_increment", "offset_align", "random_generator",
    "random_distribution", "percentage_random", "softrandommap", "zonemode", "zonesize", "zonecapacity", "zonerange",
    "zoneskip", "read_beyond_wp", "max_open_zones", "job_max_open_zones", "ignore_zone_limits",
    # engine and queue
    "ioengine", "iodepth", "iodepth_batch", "iodepth_batch_submit", "iodepth_batch_complete",
    "iodepth_batch_complete_min", "iodepth_batch_complete_max", "iodepth_low", "serialize_overlap", "io_submit_mode",
    "numjobs", "thread", "direct", "buffered", "atomic", "invalidate", "fadvise_hint", "write_hint", "hipri",
    "hipri_percentage", "fixedbufs", "registerfiles", "sqthread_poll", "sqthread_poll_cpu", "nonvectored", "uncached",
    "nowait", "force_async", "userspace_reap", "cmdprio_percentage", "cmdprio_class", "cmdprio", "cmdprio_bssplit",
    # syncs
    "fsync", "fdatasync", "sync", "sync_file_range", "write_barrier", "end_fsync", "fsync_on_close",
    # buffers and data
    "mem", "mem_align", "iomem_align", "zero_buffers", "refill_buffers", "scramble_buffers", "buffer_pattern",
    "buffer_compress_percentage", "buffer_compress_chunk", "dedupe_percentage", "dedupe_mode",
    "dedupe_working_set_percentage", "dedupe_global",
    # pace
    "rate", "rate_min", "rate_iops", "rate_iops_min", "rate_process", "rate_cycle", "rate_ignore_thinktime",
    "thinktime", "thinktime_spin", "thinktime_blocks", "thinktime_blocks_type", "thinktime_iotime", "max_latency",
    "latency_target", "latency_window", "latency_percentile", "latency_run", "flow", "flow_id", "flow_sleep",
    # processors
    "cpumask", "cpus_allowed", "cpus_allowed_policy", "numa_cpu_nodes", "numa_mem_policy", "nice", "prio", "prioclass",
    "clocksource", "gtod_cpu", "continue_on_error", "unit_base",
})  # fmt: skip
"""Options that fio gets, by the names of ``fio_options.named``. An option belongs here if no value of it names a file,
a directory, a program or another machine; ``_value`` guards those of which some do."""
_NEUTRAL = {"nrfiles": "1", "loops": "1", "unlink": "0", "pre_read": "0", "startdelay": "0", "exitall_on_error": "0",
            "kb_base": "1024"}  # fmt: skip
"""Values at which a refused option does nothing."""
_MEMORY = ("malloc", "shm", "shmhuge", "mmap", "mmaphuge", "mmapshared")
"""Kinds of memory of buffers; with a colon and a path, a file is the memory, and is written."""
_SECTION = re.compile(r"\[(.+)\]")
_SHARE = re.compile(r"(100|\d{1,2})(\.\d{1,6})?%")
_OPTION = re.compile(r"[a-z][a-z0-9_]{1,39}")


@dataclass(frozen=True)
class JobFile:
    """A job file, sorted."""

    jobs: Mapping[str, Mapping[str, str]]
    """Name -> the options that fio gets, common ones included, by fio's main names."""
    dropped: tuple[str, ...]
    """Options that are Fairlane's, sorted."""
    runtime: int | None
    """ns; None: not in the file."""
    ramp: int | None


def parse(text: str) -> JobFile:
    """The jobs in ``text``. Raises Invalid: no job file, or an option that breaks a comparison."""
    if len(text) > MOST_CHARACTERS:
        raise Invalid("job-file-size", f"a job file of more than {MOST_CHARACTERS} characters")
    sections = {name: named(options) for name, options in _sections(text).items()}
    if not sections:
        raise Invalid("job-file-empty", "the job file has no job", hint="a job is a [section] with options")
    if len(sections) > MOST_JOBS:
        raise Invalid("limit", f"expected at most {MOST_JOBS} jobs, found {len(sections)}")
    _one_target(sections)
    for name, options in sections.items():
        _examine(name, options)
    dropped = {option for options in sections.values() for option in options if _ours(option)}
    jobs = {
        name: {option: value for option, value in options.items() if option in _PASSED and not _ours(option)}
        for name, options in sections.items()
    }
    times = [_one(sections, option) for option in ("runtime", "ramp_time")]
    return JobFile(jobs, tuple(sorted(dropped)), *times)


def _ours(option: str) -> bool:
    return option in _DROPPED or option == "randrepeat" or option.startswith("log_")


def _sections(text: str) -> dict[str, dict[str, str]]:
    """Section -> its options, those of [global] before it included; as fio reads them."""
    common: dict[str, str] = {}
    sections: dict[str, dict[str, str]] = {}
    here: dict[str, str] | None = None
    for number, row in enumerate(text.splitlines(), start=1):
        line = re.split(r"[;#]", row, maxsplit=1)[0].strip()
        if not line:
            continue
        if match := _SECTION.fullmatch(line):
            here = common
            if not match[1].strip().startswith("global"):  # fio compares six letters: [globals] is one, too
                name = re.sub(r"[^a-z0-9-]+", "-", match[1].strip().lower()).strip("-")[:31].rstrip("-") or "job"
                if name.startswith("global"):
                    raise Invalid(
                        "job-file-name", f"line {number}: [{match[1].strip()}] is a job to fio, but [{name}] is not",
                        hint="rename the job",
                    )  # fmt: skip
                if name in sections:
                    raise Invalid(
                        "job-file-name", f"line {number}: two jobs have the name {name}", hint="rename one of them"
                    )
                here = sections[name] = dict(common)
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if key.startswith("include ") or here is None or not _OPTION.fullmatch(key):
            raise Invalid(
                "job-file-line",
                f"line {number}: expected [section] or option=value, found {line[:60]!r}",
                hint="copy the included files into this one" if key.startswith("include") else "",
            )
        if "$" in value:
            raise Invalid(
                "job-file-environment",
                f"line {number}: {key} takes its value from the environment or the machine ({value[:40]!r})",
                hint="write the value, so that it is the same for every lane",
            )
        here[key] = value if equals else "1"
    return sections


def _one_target(sections: Mapping[str, Mapping[str, str]]) -> None:
    """Raise Invalid where jobs load different files: a lane has one."""
    names = {options.get("filename", "") for options in sections.values()}
    if len(names) > 1 or any(re.search(r"(?<!\\):", name) for name in names):
        raise Invalid(
            "job-file-option",
            "filename: the jobs load different files, but a lane has one device",
            hint="give each job a part of the device: size and offset",
        )


def _examine(name: str, options: Mapping[str, str]) -> None:
    """Raise Invalid for an option that breaks a comparison."""
    for option, value in options.items():
        hint = _REFUSED.get(option) or (
            "trials do not verify data; use a failover workload (docs/failover.md)"
            if option.startswith(("verify", "do_verify", "experimental_verify")) and value not in ("0", "none")
            else ""
        )
        if hint and _NEUTRAL.get(option) != value.strip():
            raise Invalid("job-file-option", f"{option}: of job {name}, breaks the comparison", hint=hint)
        if option in _PASSED:
            _value(name, option, value)
        elif not (hint or _ours(option) or option.startswith(("verify", "do_verify", "experimental_verify"))):
            raise Invalid(
                "job-file-option",
                f"{option}: of job {name}, is not an option that Fairlane passes to fio",
                hint="remove it: Fairlane refuses unknown options, and those that may name files, programs or machines",
            )
    try:
        if flag(options.get("randrepeat", "0")):
            raise Invalid(
                "job-file-option",
                f"randrepeat: of job {name}: every block would use the same addresses",
                hint="remove it: all lanes of a block use the same addresses, and the next block uses others",
            )
    except ValueError as error:
        if isinstance(error, Invalid):
            raise
        raise Invalid("job-file-value", f"randrepeat: {error}") from None
    engine = options.get("ioengine", "psync")
    if engine not in ENGINES:
        raise Invalid(
            "job-file-option",
            f"ioengine: {engine[:40]!r} of job {name} does not load the lane's device",
            hint=f"engines: {', '.join(ENGINES)}",
        )
    if "trim" in options.get("rw", ""):
        raise Invalid(
            "job-file-option", f"rw: job {name} trims, so later reads would hit unallocated blocks", hint="remove it"
        )


def _value(name: str, option: str, value: str) -> None:
    """Raise Invalid for a value by which an option that is passed on would name a file."""
    path = value.startswith("/") or ":/" in value or ".." in value
    # fio reads a pattern in single quotes from the file of that name
    pattern = option == "buffer_pattern" and "'" in value
    if path or pattern or (option == "mem" and value.strip() not in _MEMORY):
        raise Invalid(
            "job-file-option",
            f"{option}: {value[:40]!r} of job {name} may name a file, but a load may only use its lane's device",
            hint=f"one of {', '.join(_MEMORY)}" if option == "mem" else "remove it, or use a value without a path",
        )


def _one(sections: Mapping[str, Mapping[str, str]], option: str) -> int | None:
    """A time that all jobs have in common, ns; None: no job has it. Raises Invalid where they differ."""
    values = {options.get(option) for options in sections.values()}
    if len(values) > 1:
        raise Invalid("job-file-option", f"{option}: differs between the jobs", hint=_TOGETHER)
    value = values.pop()
    try:
        return None if value is None else duration(value)
    except ValueError as error:
        raise Invalid("job-file-value", f"{option}: {error}") from None


def number(options: Mapping[str, str], option: str, default: int | None) -> int | None:
    """A whole number among ``options``; None for a share (``50%``). Raises Invalid."""
    value = options.get(option)
    if value is None:
        return default
    if value.endswith("%"):
        if not _SHARE.fullmatch(value):
            raise Invalid("job-file-value", f"{option}: {value[:40]!r} is not a share of a device")
        return None
    try:
        return integer(value)
    except ValueError as error:
        raise Invalid("job-file-value", f"{option}: {error}") from None
