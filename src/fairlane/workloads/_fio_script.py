"""The job file that workload ``fio`` gives to fio, as shell."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from fairlane.errors import FairlaneError
from fairlane.formats.fio_options import integer
from fairlane.workloads import _fio_keys as keys

SEPARATOR = "."
"""Between a job's name and the number of its device, where a lane has several; no job's name has it."""


@dataclass(frozen=True)
class _Part:
    """Region of the device that the jobs of a cell use: fio's ``size`` and, for disjoint regions,
    ``offset_increment``."""

    size: str
    increment: str = ""


def _part(params: Mapping[str, Any]) -> _Part:
    """The jobs' regions. Sequential jobs on the same blocks would hit each other's cached data: each gets its own
    region."""
    size, jobs, bs = params["size"], params["numjobs"], keys.extent(params)[1]
    if jobs == 1 or params["rw"] in keys.RANDOM:
        return _Part("100%" if size is None else str(size))
    share = f"{100 // jobs}%" if size is None else str(size // jobs // bs * bs)
    return _Part(share, share)


def _filename(device: str) -> str:
    """``device`` escaped for fio's job file. Raises FairlaneError for a name that a job file cannot carry.

    fio splits names at ``:``, which by-path names have; it cuts lines at ``;`` and ``#`` and expands ``$``.
    """
    if not device.startswith("/") or device != device.strip() or not device.isprintable() or set(device) & set(";#$\\"):
        raise FairlaneError(
            "device-name",
            f"fio cannot parse the device name {device!r}",
            hint="use an absolute path without ; # $ or backslash, such as /dev/disk/by-id/...",
        )
    return device.replace(":", "\\:")


def fio_shell(devices: Sequence[str], options: Mapping[str, Any], job: str, out: str, *, readonly: bool = False) -> str:
    """Shell that writes ``JOB.fio`` and runs it, with every device under the same load at once; the shell expands
    nothing in the quoted heredoc. ``readonly``: fio refuses to write."""
    lines = _lines(options)
    names = [_filename(device) for device in devices]
    if len(names) == 1:
        text = f"[{job}]\nfilename={names[0]}\n{lines}"
    else:
        text = f"[global]\n{lines}" + "".join(f"\n[{job}{i}]\nfilename={name}" for i, name in enumerate(names))
    return _run(text, job, out, readonly=readonly)


def jobs_shell(
    devices: Sequence[str], jobs: Mapping[str, Mapping[str, Any]], job: str, out: str, *, readonly: bool = False
) -> str:
    """As ``fio_shell``, for several named jobs at once, each with its own options and on every device."""
    names = [_filename(device) for device in devices]
    sections = [
        f"[{title if len(names) == 1 else f'{title}{SEPARATOR}{i}'}]\nfilename={name}\n{_lines(options)}"
        for title, options in jobs.items()
        for i, name in enumerate(names)
    ]
    return _run("\n".join(sections), job, out, readonly=readonly)


def _lines(options: Mapping[str, Any]) -> str:
    return "\n".join(f"{key}={value}" for key, value in options.items())


def _run(text: str, job: str, out: str, *, readonly: bool) -> str:
    guard = "--readonly " if readonly else ""
    return (
        f"cat > {job}.fio <<'END-OF-JOB'\n{text}\nEND-OF-JOB\n"
        f"fio {guard}--output-format=json+ --output={out}.json {job}.fio 2>{out}.err\n"
    )


def options(params: Mapping[str, Any], seed: int, gate: str) -> dict[str, Any]:
    """fio's options for one job. ``gate``: a line of shell at which it waits."""
    part = _part(params)
    made: dict[str, Any] = {
        "ioengine": params["engine"],
        "direct": 0 if params.get("direct") is False else 1,
        "mem": params["mem"],
        "rw": params["rw"],
        **({"bssplit": params["bssplit"]} if params.get("bssplit") else {"bs": params["bs"]}),
        "iodepth": params["iodepth"],
        "numjobs": params["numjobs"],
        "size": part.size,
        **_measured(params, seed),
        "norandommap": 1,  # a map would make late I/Os of a long trial hunt for blocks not yet hit
        "refill_buffers": 1,
        **_LATENCIES,
    }
    if offset := params.get("offset"):
        made["offset"] = offset
    if part.increment:
        made["offset_increment"] = part.increment
    made |= _series(params) | keys.extras(params)
    if gate:  # fio has set everything up by then; its own CPU time counts from here
        made["exec_prerun"] = gate
    rate, mix = params["rate_iops"], params["rwmixread"]
    if mix is not None:
        made["rwmixread"] = mix
    if rate is not None:
        reads = round(rate * (50 if mix is None else mix) / 100)
        # one number would cap each direction by itself: 70/30 would become 50/50 (STATISTICS.md)
        ways = {"read": rate, "write": rate} if mix is None else {"read": reads, "write": rate - reads}
        made["rate_iops"] = ",".join(str(_asked(params, way, iops)) for way, iops in ways.items())
    return made


def _asked(params: Mapping[str, Any], way: str, iops: int) -> int:
    """The rate to ask fio for: it paces bytes, ``rate_iops`` times the smallest block size (3.33, ``__setup_rate``), so
    that blocks of several sizes would come too seldom."""
    if not params.get("bssplit"):
        return iops
    chosen = keys.sizes(params["bssplit"])[-1 if way == "write" else 0]
    return round(iops * keys.mean_size(params, way) / min(chosen))


def options_in_file(params: Mapping[str, Any], seed: int, gate: str) -> dict[str, Any]:
    """fio's options for one job of a job file: its own as they stand, and ours, which it does not have."""
    filled = {"zero_buffers", "buffer_pattern", "refill_buffers", "scramble_buffers"} & params["options"].keys()
    return {
        "size": "100%",
        **params["options"],
        **_measured(params, seed),
        "norandommap": 1,
        **({} if filled else {"refill_buffers": 1}),
        **_LATENCIES,
        **_series(params),
        **({"end_fsync": 1} if "end_fsync" in keys.extras(params) else {}),
        **({"exec_prerun": gate} if gate else {}),
    }


def _measured(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    return {
        "time_based": 1,
        "runtime": f"{params['runtime'] // 10**6}ms",
        "ramp_time": f"{params['ramp'] // 10**6}ms",
        # fio 3.33 ignores randseed for the offsets unless randrepeat is 0 (axboe/fio issue 1502), and its
        # generator takes the low 32 bits of seed * job number, so that 0 would give all jobs the same stream.
        "randrepeat": 0,
        "randseed": 1 + seed % (2**32 - 1),
    }


_LATENCIES = {"lat_percentiles": 1, "clat_percentiles": 1, "slat_percentiles": 1}


def _series(params: Mapping[str, Any]) -> dict[str, Any]:
    series = params.get("series")
    return {"write_iops_log": "series", "log_avg_msec": series // 10**6, "per_job_logs": 0} if series else {}


# --- the prefill


def jobs_of(params: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The jobs of a cell by name; that of a cell without names has none."""
    return dict(params.get("jobs") or {"": params})


def region(params: Mapping[str, Any]) -> tuple[int, int | None]:
    """Begin and end, in bytes, of the part of the device that the jobs of a cell use; None: up to its end."""
    begins, ends = [], []
    for job in jobs_of(params).values():
        offset, size = job.get("offset") or 0, job["size"]
        if not isinstance(offset, int):  # a share of the device, of a job file
            return 0, None
        begins.append(offset)
        copies = job["numjobs"] if "offset_increment" in job.get("options", {}) else 1
        ends.append(None if size is None or copies > 1 else offset + size)
    known = [end for end in ends if end is not None]
    return min(begins), max(known) if len(known) == len(ends) else None


def needed(params: Mapping[str, Any], capacity: int) -> int:
    """Bytes that a device of ``capacity`` bytes must have for the jobs of a cell, so that fio lays no file out anew:
    the end of the last region, or the first block of a region without an end."""
    return max(_end(job, capacity) for job in jobs_of(params).values())


def _end(job: Mapping[str, Any], capacity: int) -> int:
    least, most = keys.extent(job)
    own = job.get("options", {})
    begin: int = _bytes_of(job.get("offset") or 0, capacity, least)
    begin += _bytes_of(own.get("offset_increment", 0), capacity, 1) * (job["numjobs"] - 1)
    if job["size"] is not None:
        return begin + int(job["size"])
    share = own.get("size", "100%").strip()
    return begin + (most if share == "100%" else _bytes_of(share, capacity, 1))


def _bytes_of(value: int | str, capacity: int, step: int) -> int:
    """A number of bytes, or a share of the device (``50%``), which fio rounds up to whole blocks."""
    if isinstance(value, int):
        return value
    if not value.strip().endswith("%"):
        return integer(value)
    return -(-int(capacity * float(value.strip()[:-1]) / 100) // step) * step


def data(params: Mapping[str, Any]) -> dict[str, Any]:
    """Options of what is written: how far it can be compressed, and how much of it is twice there."""
    jobs = jobs_of(params).values()
    own = {key: params[key] for key in keys.OF_DATA if params.get(key) is not None}
    for options in (job.get("options", {}) for job in jobs):
        own |= {key: options[key] for key in (*keys.OF_DATA, *_OF_BUFFERS) if key in options}
    return own


_OF_BUFFERS = ("buffer_compress_chunk", "dedupe_mode", "dedupe_working_set_percentage", "buffer_pattern",
               "zero_buffers")  # fmt: skip


def fill(params: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the job that writes the part in use once."""
    begin, end = region(params)
    made: dict[str, Any] = {
        "ioengine": params["engine"] or "io_uring",
        "direct": 1,
        "rw": "write",
        "bs": 2**20 if end is None or (end - begin) % 2**20 == 0 else block(params),
        "iodepth": 16 if params["engine"] in (None, "io_uring", "libaio") else 1,
        "size": "100%" if end is None else end - begin,
        "refill_buffers": 1,
    }
    return made | ({"offset": begin} if begin else {}) | data(params)


def block(params: Mapping[str, Any]) -> int:
    """Size of the prefill's blocks where 1 MiB does not fit: bytes."""
    if params["bs"] is not None and "jobs" not in params:
        return int(params["bs"])
    begin, end = region(params)
    return gcd(end - begin, 2**20) if end is not None else 2**20


def filled(params: Mapping[str, Any], capacity: int) -> int:
    """Bytes that the prefill writes at least to a device of ``capacity`` bytes."""
    begin, end = region(params)
    size = max(0, min(capacity if end is None else end, capacity) - begin)
    step = int(params["bs"]) if params["bs"] is not None and "jobs" not in params else 512
    return size // step * step


def sections(params: Mapping[str, Any], seed: int, gate: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Name and fio's options of each job of a cell of named jobs."""
    common = {key: params.get(key) for key in ("mem", "runtime", "ramp", "series", *keys.OF_DATA)}
    for name, job in params["jobs"].items():
        whole = {**common, **job}
        yield name, options_in_file(whole, seed, gate) if "options" in job else options(whole, seed, gate)
