"""One job of fio: its keys in a study, what is wrong with them, their name, and their options in a job file."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from fairlane.errors import Invalid
from fairlane.formats.fio_options import integer
from fairlane.study.strict import Strict
from fairlane.units import Duration, Size, format_duration, format_size

Pattern = Literal["read", "write", "randread", "randwrite", "rw", "randrw"]
Engine = Literal["io_uring", "libaio", "psync"]
Sync = Literal["none", "sync", "dsync"]
JobName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]

MIXES = ("rw", "randrw")
READS = ("read", "randread")
RANDOM = ("randread", "randwrite", "randrw")
SYNCS = ("fsync", "fdatasync")
WRITES_ONLY = (*SYNCS, "sync", "end_fsync")
"""Keys that mean nothing to a job that only reads."""
RANDOM_ONLY = ("random_distribution", "percentage_random")
"""Keys that mean nothing to a sequential job."""
OF_DATA = ("buffer_compress_percentage", "dedupe_percentage")
"""Keys of what is written, the prefill included: the same for all jobs."""
SCALARS = ("sync", "end_fsync", "offset", "random_distribution", "bssplit", "percentage_random", "thinktime",
           "thinktime_blocks")  # fmt: skip
"""Keys with one value, that a job inherits from its workload."""


class Job(Strict):
    """One of several jobs at once. Keys that it does not set come from the workload."""

    rw: Pattern | None = None
    """Access pattern."""
    bs: Size | None = None
    """Block size."""
    bssplit: str | None = None
    """Block sizes and their shares, in place of bs."""
    iodepth: int | None = Field(default=None, ge=1, le=65536)
    """I/Os in flight."""
    numjobs: int | None = Field(default=None, ge=1, le=100)
    """Processes that run this job."""
    rwmixread: int | None = Field(default=None, ge=0, le=100)
    """Share of reads in percent, for the patterns rw and randrw."""
    rate_iops: int | None = Field(default=None, ge=1, le=10**9)
    """Target rate (IOPS) per process."""
    engine: Engine | None = None
    """fio's ioengine. Default for a job with fsync or fdatasync and one I/O in flight: psync."""
    fsync: int | None = Field(default=None, ge=0, le=10**9)
    """Number of writes before each fsync; 0: none."""
    fdatasync: int | None = Field(default=None, ge=0, le=10**9)
    """Number of writes before each fdatasync; 0: none."""
    sync: Sync | None = None
    """Synchronous writes."""
    end_fsync: bool | None = None
    """One fsync at the end."""
    size: Size | None = None
    """Part of the device that this job uses, from its offset."""
    offset: Size | None = None
    """Where that part begins."""
    random_distribution: str | None = None
    """Distribution of its addresses."""
    percentage_random: int | None = Field(default=None, ge=0, le=100)
    """Share of its I/Os that are random, in percent."""
    thinktime: Duration | None = None
    """Pause between its I/Os."""
    thinktime_blocks: int | None = Field(default=None, ge=1, le=10**9)
    """I/Os before each pause."""


def writes(rw: str) -> bool:
    return rw not in READS


# --- values


def within(key: str, values: tuple[int, ...], least: int, most: int, *, multiple: int = 1) -> None:
    """Raises ValueError for a value of ``key`` beyond its limits."""
    for value in values:
        if not least <= value <= most or value % multiple:
            of = f", a multiple of {multiple}" if multiple > 1 else ""
            raise ValueError(f"{key}: expected {least} to {most}{of}, found {value}")


def given(job: Job) -> dict[str, Any]:
    """The keys that a job gives."""
    return {key: value for key in Job.model_fields if (value := getattr(job, key)) is not None}


def check_values(values: Mapping[str, Any], where: str) -> None:
    """Raises Invalid for single values that fio would not take. ``where``: prefix of the keys, ``jobs.log.``."""
    try:
        if values.get("bssplit"):
            sizes(values["bssplit"])
        check_distribution(values.get("random_distribution", "random"))
        if (values.get("thinktime") or 0) % 1000:
            raise Invalid("thinktime", "thinktime: expected whole microseconds")
        within("bs", (values.get("bs", 512),), 512, 2**31, multiple=512)
        if (values.get("offset") or 0) % 512:
            raise Invalid("offset", "offset: expected a multiple of 512 bytes")
    except Invalid as error:
        raise Invalid(error.kind, f"{where}{error}", hint=error.hint) from None


_THETA = {"zipf": (0.0, 100.0), "pareto": (0.0, 1.0), "normal": (0.0, 100.0)}
_SHAPE = re.compile(r"(zipf|pareto|normal):(\d{1,3}(?:\.\d{1,6})?)(?::(0(?:\.\d{1,6})?|1(?:\.0+)?))?")
_ZONE = re.compile(r"(\d{1,3})/(\d{1,3})?")


def check_distribution(text: str) -> None:
    """Raises Invalid for what is none of fio's distributions."""
    kind, _, rest = text.partition(":")
    if kind == "zoned":
        zones = [_ZONE.fullmatch(zone) for zone in rest.split(":")]
        if not all(zones) or len(zones) > 256:
            raise _distribution(text)
        access, area = (sum(int(zone[place] or 0) for zone in zones if zone) for place in (1, 2))
        open_ends = any(zone and zone[2] is None for zone in zones)
        if access != 100 or area > 100 or (area != 100 and not open_ends):
            raise Invalid(
                "distribution",
                f"random_distribution: the zones have {access} % of the I/Os and {area} % of the area; both must be "
                "100 %",
            )
        return
    match = _SHAPE.fullmatch(text)
    if text != "random" and not match:
        raise _distribution(text)
    if match:
        low, high = _THETA[match[1]]
        value = float(match[2])
        if not low < value <= high or (match[1] != "normal" and value == 1.0):
            limits = "above 0, and not 1" if match[1] == "zipf" else f"above {low:g} and below {high:g}"
            raise Invalid("distribution", f"random_distribution: expected {match[1]} {limits}, found {match[2]}")


def _distribution(text: str) -> Invalid:
    return Invalid(
        "distribution",
        f"random_distribution: expected random, zipf, pareto, normal or zoned with its numbers, found {text[:40]!r}",
        hint="such as zipf:1.2, pareto:0.9, normal:50 or zoned:60/10:30/20:8/30:2/40",
    )


def sizes(text: str) -> tuple[dict[int, float], ...]:
    """``bssplit`` as block size -> share of the I/Os: one for both directions, or one for reads and one for writes.
    Shares that are left out divide the rest. Raises Invalid."""
    ways = []
    for part in text.split(","):
        given: dict[int, int | None] = {}
        for entry in part.split(":"):
            size, slash, share = entry.partition("/")
            try:
                of = integer(size)
                given[of] = int(share) if slash and share else None
            except ValueError:
                raise _split(text) from None
            if not 512 <= of <= 2**31 or of % 512:
                raise Invalid("bssplit", f"bssplit: expected sizes of 512b to 2g, a multiple of 512, found {size!r}")
        known = sum(share for share in given.values() if share is not None)
        rest = [size for size, share in given.items() if share is None]
        if known > 100 or (not rest and known != 100) or len(given) > 64:
            raise Invalid("bssplit", f"bssplit: the shares must add up to 100 %, but are {known} %")
        ways.append({size: (100 - known) / len(rest) if n is None else float(n) for size, n in given.items()})
    if not 1 <= len(ways) <= 2:
        raise _split(text)
    return tuple(ways)


def _split(text: str) -> Invalid:
    return Invalid(
        "bssplit",
        f"bssplit: expected sizes and their shares, found {text[:40]!r}",
        hint="such as 4k/60:64k/40, or 4k/100,64k/100 for reads and writes",
    )


def extent(params: Mapping[str, Any]) -> tuple[int, int]:
    """Smallest and largest block size of a job, bytes."""
    if split := params.get("bssplit"):
        try:
            every = [size for way in sizes(split) for size in way]
        except Invalid:  # of a job file: fio knows more forms
            return 512, 2**20
        return min(every), max(every)
    bs = params.get("bs") or 4096
    return bs, bs


def mean_size(params: Mapping[str, Any], way: str) -> float:
    """Mean block size of a job's reads or writes, bytes."""
    if split := params.get("bssplit"):
        ways = sizes(split)
        chosen = ways[-1] if way == "write" else ways[0]
        return sum(size * share for size, share in chosen.items()) / 100
    return float(params["bs"])


# --- one job as a whole


def engine(params: Mapping[str, Any], default: str) -> str:
    """The engine of a job that gives none: psync where it syncs with one I/O in flight, because fio times no other's
    syncs rightly; else that of its workload."""
    return "psync" if any(params.get(key) for key in SYNCS) and params["iodepth"] == 1 else default


def check_job(params: Mapping[str, Any], where: str = "") -> None:
    """Raises ValueError for a job that fio would not run as configured. ``where``: prefix of the key, such as
    ``jobs.log.``."""
    deep, every = params["iodepth"], next((key for key in SYNCS if params.get(key)), "")
    if params["engine"] == "psync" and deep != 1:
        raise ValueError(f"{where}iodepth: psync has one I/O in flight, so iodepth must be 1 (found {deep})")
    if params.get("direct") is False and params["engine"] == "libaio" and deep != 1:
        raise Invalid(
            "depth",
            f"{where}iodepth: through the page cache libaio has one I/O in flight, so iodepth must be 1 (found {deep})",
            hint="use the engine io_uring, or direct I/O",
        )
    if all(params.get(key) for key in SYNCS):
        raise Invalid("two-syncs", f"{where}fsync: fdatasync is set, too", hint="set only one of them")
    if every and params["engine"] == "io_uring" and deep > 1 and params[every] > 1:
        raise Invalid(
            "sync-depth",
            f"{where}{every}: with io_uring and {deep} I/Os in flight fio syncs more often than after every "
            f"{params[every]} writes",
            hint="use the engine libaio, or psync with iodepth 1 and more numjobs",
        )
    if params.get("size") is not None and params["size"] < extent(params)[1] * params["numjobs"]:
        raise ValueError(f"{where}size: {format_size(params['size'])} is too small for one block of every job")
    if params.get("offset") and params.get("size") is None and params["numjobs"] > 1 and params["rw"] not in RANDOM:
        raise Invalid("size", f"{where}size: required for several sequential jobs with an offset", hint="set size")
    rate, mix = params.get("rate_iops"), params.get("rwmixread")
    if rate and mix is not None and params["rw"] in MIXES and abs(round(rate * mix / 100) / rate - mix / 100) > 0.005:
        raise ValueError(f"{where}rate_iops: {rate} cannot be split {mix}/{100 - mix} into whole I/Os per second")


def times_syncs(params: Mapping[str, Any]) -> bool:
    """Whether a job has correct sync latencies."""
    return any(params.get(key) for key in SYNCS) and params["engine"] not in ("io_uring", "libaio", "posixaio")


def name(params: Mapping[str, Any]) -> str:
    """``4k randread qd16``, ``8k randrw 70/30 qd8 x4``, ``4k randread qd64 at 5000``, ``4k write qd1 fdatasync 1``."""
    mix, jobs, rate = params["rwmixread"], params["numjobs"], params["rate_iops"]
    pattern = params["rw"] if mix is None else f"{params['rw']} {mix}/{100 - mix}"
    low, high = extent(params)
    size = format_size(low) if low == high else f"{format_size(low)}-{format_size(high)}"
    text = f"{size} {pattern} qd{params['iodepth']}" + (f" x{jobs}" if jobs != 1 else "")
    text += "" if rate is None else f" at {rate}"
    text += "".join(f" {key} {params[key]}" for key in SYNCS if params.get(key))
    text += f" {params['sync']}" if params.get("sync") else ""
    return text + (" cached" if params.get("direct") is False else "")


def extras(params: Mapping[str, Any]) -> dict[str, str | int]:
    """fio's options for the keys that not every job has, in a fixed order."""
    options: dict[str, str | int] = {}
    for key in (*SYNCS, "sync", "random_distribution", "percentage_random", *OF_DATA, "thinktime_blocks"):
        if (value := params.get(key)) is not None:
            options[key] = value
    # what is left in memory would be written in the next trial, which is another lane's
    if params.get("end_fsync") or (params.get("direct") is False and writes(params["rw"])):
        options["end_fsync"] = 1
    if pause := params.get("thinktime"):
        options["thinktime"] = f"{pause // 1000}us"
    return options


def described(params: Mapping[str, Any]) -> str:
    """A job in words: its name and the options that the name leaves out."""
    rest = {key: value for key, value in extras(params).items() if key not in (*SYNCS, "sync")}
    for key, show in (("offset", format_size), ("size", format_size)):
        if params.get(key) is not None:
            rest[key] = show(params[key])
    if params.get("thinktime"):
        rest["thinktime"] = format_duration(params["thinktime"])
    rest |= {"engine": params["engine"], **params.get("options", {})}
    return f"{name(params)} ({', '.join(f'{key}={value}' for key, value in sorted(rest.items()))})"
