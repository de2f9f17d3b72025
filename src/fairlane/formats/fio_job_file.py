"""Parse a fio job file as a user has it, and sort its options: kept for fio, ours and dropped, or refused by name.

Devices, paths, seeds, output and the time measured are Fairlane's. What would make trials of two lanes differ, or add
up what did not run together, is refused. Options that shape the load, and can neither name a file nor start a program,
go to fio as they stand; all others are refused: some of fio's write to any file, even in a job that only reads. Every
refusal begins with the line of the file; a file with several faults names them all.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fairlane.errors import SEVERAL, Invalid
from fairlane.formats.fio_options import PATTERNS, duration, integer, main_name

MOST_JOBS = 20
"""Most sections of a file."""
MOST_CHARACTERS = 64 * 1024
MOST_PROCESSES = 100
"""Most ``numjobs`` of a job."""

ENGINES = ("io_uring", "libaio", "posixaio", "psync", "pvsync", "pvsync2", "sync", "vsync")
"""fio's engines that load the device of a lane."""

_DROPPED = frozenset({
    "name", "description", "filename", "directory", "filename_format", "unique_filename", "opendir", "hostname", "port",
    "group_reporting", "new_group", "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log",
    "per_job_logs", "bwavgtime", "iopsavgtime", "lat_percentiles", "clat_percentiles", "slat_percentiles",
    "percentile_list", "significant_figures", "disk_util", "stats", "gtod_reduce", "disable_lat", "disable_clat",
    "disable_slat", "disable_bw_measurement", "unified_rw_reporting", "error_dump", "time_based", "runtime",
    "ramp_time", "randseed", "randrepeat", "allrandrepeat", "norandommap", "create_serialize", "create_fsync",
    "create_on_open", "fallocate", "overwrite", "openfiles", "lockfile", "file_service_type", "filesize", "unlink",
    "unlink_each_loop", "allow_file_create", "exitall_on_error",
})  # fmt: skip
_TIMES = ("runtime", "ramp_time")
"""Options that a study takes from the file, unless it has times of its own."""
_TOGETHER = "the jobs of a trial run at the same time, from begin to end: compare each by itself, in a file of its own"
_BY_TIME = "remove it: a trial ends by its runtime, so that lanes are under load equally long"
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("stonewall", "wait_for", "startdelay", "exitall", "exit_what"), _TOGETHER),
    **dict.fromkeys(("number_ios", "io_size", "fill_device", "fill_fs", "loops"), _BY_TIME),
    **dict.fromkeys(("exec_prerun", "exec_postrun"), "the study's platform prepares machines, equally for all lanes"),
    **dict.fromkeys(("read_iolog", "write_iolog", "replay_redirect", "merge_blktrace_file"),
                    "a trace names its own devices; describe the load by options"),
    **dict.fromkeys(("nrfiles", "file_size"), "a lane has one device or file; use size and offset"),
    **dict.fromkeys(("uid", "gid", "cgroup", "cgroup_weight", "ioscheduler", "profile", "client", "server"),
                    "it changes the machine, which the study's platform sets up"),
    **dict.fromkeys(("allow_mounted_write", "pre_read"), "Fairlane guards the devices itself (docs/safety.md)"),
    "create_only": "remove the whole job: it only makes files, and Fairlane makes and fills them itself",
    "kb_base": "write sizes in powers of 1024",
    **dict.fromkeys(("steadystate", "steadystate_duration", "steadystate_ramp_time"),
                    "remove it; a study preconditions its lanes with the workload's key steady"),
}  # fmt: skip
"""Option that breaks the comparison -> what to do."""
_VERIFY = ("verify", "do_verify", "experimental_verify")
"""How the options begin by which fio reads its data back."""
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
_NEUTRAL = {"nrfiles": "1", "loops": "1", "pre_read": "0", "startdelay": "0", "create_only": "0", "kb_base": "1024"}
"""Values at which a refused option does nothing."""
_MEMORY = ("malloc", "shm", "shmhuge", "mmap", "mmaphuge", "mmapshared")
"""Kinds of memory of buffers; with a colon and a path, a file is the memory, and is written."""
_SECTION = re.compile(r"\[(.+)\]")
_SHARE = re.compile(r"(100|\d{1,2})(\.\d{1,6})?%")
_NUMBERS = frozenset({
    "bs", "ba", "bsrange", "size", "filesize", "offset", "offset_increment", "iodepth", "numjobs", "fsync", "fdatasync",
    "rwmixread", "rwmixwrite", "rate", "rate_iops",
})  # fmt: skip
"""Options with numbers, one for each direction or a range, that Fairlane reads itself."""
_SHARES = ("size", "offset", "offset_increment")
"""Those that may be a share of the device."""
_OPTION = re.compile(r"[a-z][a-z0-9_]{1,39}")
_FEW = 5
"""Numbers of lines that a message lists."""
_NAME = 31
"""Characters of a job's name."""


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
    files: bool
    """Whether fio would give its processes a file each, where here all load the lane's."""


@dataclass(frozen=True)
class _Option:
    value: str
    line: int


_Options = Mapping[str, _Option]
"""The options of a job, by fio's main names."""


@dataclass(frozen=True)
class _Fault:
    line: int
    kind: str
    message: str
    hint: str = ""


def parse(text: str) -> JobFile:
    """The jobs in ``text``. Raises Invalid: no job file, or options that break a comparison."""
    if len(text) > MOST_CHARACTERS:
        raise Invalid("job-file-size", f"a job file of more than {MOST_CHARACTERS} characters")
    sections = _sections(text)
    if not sections:
        raise Invalid("job-file-empty", "the job file has no job", hint="a job is a [section] with options")
    if len(sections) > MOST_JOBS:
        raise Invalid("limit", f"expected at most {MOST_JOBS} jobs, found {len(sections)}")
    _refuse(list(dict.fromkeys(_faults(sections))))  # a fault of [global] is one
    runtime, ramp = (_one(sections, option) for option in _TIMES)
    dropped = {option for options in sections.values() for option in options if _ours(option)}
    jobs = {name: _passed(options) for name, options in sections.items()}
    processes = sum(integer(options.get("numjobs", "1")) for options in jobs.values())
    named = any("filename" in options for options in sections.values())
    return JobFile(jobs, tuple(sorted(dropped)), runtime, ramp, files=processes > 1 and not named)


def _refuse(faults: list[_Fault]) -> None:
    """Raise Invalid if there are faults: the only one, or all of them; the same one on several lines counts once. A job
    whose engine loads no device cannot be compared whatever else is mended: then the message names the engine alone."""
    lines: dict[tuple[str, str, str], list[int]] = {}
    for fault in [f for f in faults if f.message.startswith("ioengine: ")] or sorted(faults, key=lambda f: f.line):
        lines.setdefault((fault.kind, fault.message, fault.hint), []).append(fault.line)
    texts = [(kind, f"{_at(numbers)}: {message}", hint) for (kind, message, hint), numbers in lines.items()]
    if len(texts) == 1:
        kind, text, hint = texts[0]
        raise Invalid(kind, text, hint=hint)
    if texts:
        rows = [f"  {text} [{kind}]" + (f" ({hint})" if hint else "") for kind, text, hint in texts]
        raise Invalid(SEVERAL, "\n".join([f"{len(texts)} problems:", *rows]))


def _at(lines: list[int]) -> str:
    """``line 3``, ``lines 3, 5 and 9``, ``lines 3, 5, 9, 12 and 8 more``."""
    numbers = [str(n) for n in sorted(set(lines))]
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    shown = numbers if len(numbers) <= _FEW else [*numbers[: _FEW - 1], f"{len(numbers) - _FEW + 1} more"]
    return f"lines {', '.join(shown[:-1])} and {shown[-1]}"


def _ours(option: str) -> bool:
    return option in _DROPPED or option.startswith("log_")


def _passed(options: _Options) -> dict[str, str]:
    """What fio gets. The size of a job's file is the part of the lane's that it loads."""
    passed = {name: option.value for name, option in options.items() if name in _PASSED}
    return passed if "size" in passed or "filesize" not in options else {**passed, "size": options["filesize"].value}


def _sections(text: str) -> dict[str, dict[str, _Option]]:
    """Section -> its options, those of [global] before it included; as fio reads them."""
    common: dict[str, _Option] = {}
    sections: dict[str, dict[str, _Option]] = {}
    here: dict[str, _Option] | None = None
    for number, row in enumerate(text.splitlines(), start=1):
        line = re.split(r"[;#]", row, maxsplit=1)[0].strip()
        if not line:
            continue
        if match := _SECTION.fullmatch(line):
            here = common
            if not match[1].strip().startswith("global"):  # fio compares six letters: [globals] is one, too
                here = sections[_name(match[1].strip(), number, sections)] = dict(common)
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if key.startswith("include ") or here is None or not _OPTION.fullmatch(key):
            raise Invalid(
                "job-file-line",
                f"line {number}: expected [section] or option=value, found {line[:60]!r}",
                hint="copy the included files into this one" if key.startswith("include") else "",
            )
        here[main_name(key)] = _Option(value if equals else "1", number)
    return sections


def _name(title: str, line: int, taken: Mapping[str, object]) -> str:
    """The name of the job ``[title]``, which no job before it has: letters, digits and dashes. Raises Invalid."""
    whole = re.sub(r"[^a-z0-9-]+", "-", title.lower()).strip("-") or "job"
    if whole.startswith("global"):
        raise Invalid(
            "job-file-name", f"line {line}: [{title}] is a job to fio, but [{whole[:_NAME]}] is not",
            hint="rename the job",
        )  # fmt: skip
    name, count = whole[:_NAME].rstrip("-"), 1
    while name in taken:
        count += 1
        name = f"{whole[: _NAME - 3].rstrip('-')}-{count}"
    return name


def _faults(sections: Mapping[str, _Options]) -> Iterator[_Fault]:
    """What breaks a comparison, in any job; that of [global] once for each job."""
    yield from _several_targets(sections)
    for index, options in enumerate(sections.values()):
        for name, option in options.items():
            if not _harmless(name, option.value, options, alone=len(sections) == 1, first=index == 0):
                yield from _option_faults(name, option)
        yield from _load_faults(options)


def _several_targets(sections: Mapping[str, _Options]) -> Iterator[_Fault]:
    """Jobs that load different files: a lane has one."""
    targets = {options["filename"].value if "filename" in options else "": options for options in sections.values()}
    if len(targets) > 1 or any(re.search(r"(?<!\\):", target) for target in targets):
        line = max((options["filename"].line for target, options in targets.items() if target), default=0)
        yield _Fault(
            line,
            "job-file-option",
            "filename: the file loads several files, but a lane has one device",
            "give each job a part of the device: size and offset",
        )


def _harmless(name: str, value: str, options: _Options, *, alone: bool, first: bool) -> bool:
    """Whether an option that breaks comparisons does nothing here."""
    if _NEUTRAL.get(name) == value.strip() or (name.startswith(_VERIFY) and value in ("0", "none")):
        return True
    if name in ("stonewall", "wait_for") and first:
        return True  # it waits for the jobs before it
    if name in ("startdelay", "exitall", "exit_what") and alone:
        return True
    return name == "loops" and "time_based" in options


def _option_faults(name: str, option: _Option) -> Iterator[_Fault]:
    """What is wrong with one option."""
    value, line = option.value, option.line
    if "$" in value and (not _ours(name) or name in (*_TIMES, "filesize")):
        yield _Fault(
            line,
            "job-file-environment",
            f"{name} takes its value from the environment or the machine ({value[:40]!r})",
            "write the value, so that it is the same for every lane",
        )
    elif hint := _REFUSED.get(name):
        yield _Fault(line, "job-file-option", f"{name}: breaks the comparison", hint)
    elif name.startswith(_VERIFY):
        hint = "remove it: trials do not verify data; use a failover workload (docs/failover.md)"
        yield _Fault(line, "job-file-option", f"{name}: breaks the comparison", hint)
    elif name in _TIMES:
        try:
            duration(value)
        except ValueError as error:
            yield _Fault(line, "job-file-value", f"{name}: {error}")
    elif name in _PASSED or name == "filesize":
        yield from _value_faults(name, option)
    elif not _ours(name):
        yield _Fault(
            line,
            "job-file-option",
            f"{name}: is not an option that Fairlane passes to fio",
            "remove it: Fairlane refuses unknown options, and those that may name files, programs or machines",
        )


def _value_faults(name: str, option: _Option) -> Iterator[_Fault]:
    """A value that fio would not take, or by which an option that is passed on would name a file."""
    value, line = option.value.strip(), option.line
    path = value.startswith("/") or ":/" in value or ".." in value
    # fio reads a pattern in single quotes from the file of that name
    pattern = name == "buffer_pattern" and "'" in value
    if (path and name != "ioengine") or pattern or (name == "mem" and value not in _MEMORY):
        yield _Fault(
            line,
            "job-file-option",
            f"{name}: {value[:40]!r} may name a file, but a load may only use its lane's device",
            f"one of {', '.join(_MEMORY)}" if name == "mem" else "remove it, or use a value without a path",
        )
    elif name in _NUMBERS or name == "bssplit":
        try:
            (_split if name == "bssplit" else _numbers)(name, value)
        except ValueError as error:
            yield _Fault(line, "job-file-value", f"{name}: {error}")


def _numbers(name: str, value: str) -> None:
    """Raise ValueError for what are no numbers of the option."""
    if value.endswith("%") and name in _SHARES:
        if not _SHARE.fullmatch(value):
            raise ValueError(f"{value[:40]!r} is not a share of a device")
        return
    found = [integer(part) for part in re.split(r"[,-]" if name in ("bsrange", "filesize") else ",", value) if part]
    if not found:
        raise ValueError(f"{value[:40]!r} is not a number as fio writes it")
    if name == "filesize" and len(found) > 1:
        raise ValueError(f"{value[:40]!r} are sizes of several files, but a lane has one device")
    if name == "numjobs" and not 1 <= found[0] <= MOST_PROCESSES:
        raise ValueError(f"expected 1 to {MOST_PROCESSES}, found {found[0]}")
    if name == "iodepth" and not found[0]:
        raise ValueError("expected at least 1, found 0")


def _split(_: str, value: str) -> None:
    """Raise ValueError for what are no block sizes with their shares."""
    for entry in re.split("[,:]", value):
        size, _, share = entry.partition("/")
        integer(size)
        if share and (not share.isdecimal() or int(share) > 100):
            raise ValueError(f"{share[:40]!r} is not a share in per cent")


def _load_faults(options: _Options) -> Iterator[_Fault]:
    """A pattern or an engine that loads no device."""
    pattern, engine = (options.get(name, _Option("", 0)) for name in ("rw", "ioengine"))
    ways = PATTERNS.get(pattern.value.replace("readwrite", "rw").strip() or "read", ())
    if "trim" in pattern.value:
        message = f"rw: {pattern.value[:40]!r} trims, so later reads would hit unallocated blocks"
        yield _Fault(pattern.line, "job-file-option", message, "remove the job, or let it write")
    elif not ways and "$" not in pattern.value:
        known = ", ".join(name for name, some in PATTERNS.items() if "trim" not in some)
        message = f"rw: {pattern.value[:40]!r} is not a pattern that Fairlane compares"
        yield _Fault(pattern.line, "job-file-option", message, f"patterns: {known}")
    if engine.line and engine.value not in ENGINES and "$" not in engine.value:
        message = f"ioengine: {engine.value[:40]!r} does not load the lane's device"
        yield _Fault(engine.line, "job-file-option", message, f"engines: {', '.join(ENGINES)}")


def _one(sections: Mapping[str, _Options], option: str) -> int | None:
    """A time that all jobs have in common, ns; None: no job has it. Raises Invalid where they differ."""
    times = {duration(o[option].value) if option in o else None for o in sections.values()}
    if len(times) > 1:
        line = max(o[option].line for o in sections.values() if option in o)
        raise Invalid("job-file-option", f"line {line}: {option}: differs between the jobs", hint=_TOGETHER)
    return times.pop()


def number(options: Mapping[str, str], option: str, default: int | None) -> int | None:
    """A whole number among the ``options`` of a parsed job; None for a share (``50%``)."""
    value = options.get(option)
    if value is None:
        return default
    return None if value.endswith("%") else integer(value)
