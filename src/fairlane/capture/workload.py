"""A captured load as a workload of a study: one fio job, or several where reads and writes, or a log and the rest, have
different shapes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from fairlane.capture.record import Capture
from fairlane.capture.shape import Part, Shape, Sizes
from fairlane.errors import FairlaneError
from fairlane.units import format_duration, format_size, parse_size

_ALONE, _RANDOM, _SEQUENTIAL = 0.005, 0.1, 0.9
"""A direction below this share of I/Os and of bytes is left out; below and above these shares of sequential I/Os a job
is random or sequential."""
_SIZES_DIFFER, _PLACES_DIFFER, _HOT_DIFFER = 0.25, 0.2, 0.15
_ONE_SIZE, _MOST_SIZES = 0.95, 8
_RARE_FLUSH = 10_000
"""Writes per flush above which flushes are left out."""
_MEGABYTE = 1 << 20
_LEAST_SET = 16 * _MEGABYTE
_LONGEST_PAUSE = 10.0


@dataclass(frozen=True)
class Workload:
    """``keys``: of a workload of kind fio. ``notes``: what the workload leaves out, as sentences."""

    keys: Mapping[str, Any]
    notes: tuple[str, ...]


def distance(a: Sizes, b: Sizes) -> float:
    """Total variation distance of two distributions of sizes: 0 equal, 1 disjoint."""
    return sum(abs(a.get(size, 0.0) - b.get(size, 0.0)) for size in {*a, *b}) / 2


def workload(shape: Shape, *, closed: bool = False) -> Workload:
    """``closed``: as fast as the depth allows, without the captured rate. Raises FairlaneError if there was no I/O."""
    whole = shape.parts.get("all")
    if whole is None or whole.count < 1:
        raise FairlaneError(
            "capture-idle",
            "the disk was idle: there was no load to capture",
            hint="capture while the application works",
        )
    notes: list[str] = []
    ways = _ways(shape, notes)
    pieces = [piece for way in ways for piece in _pieces(shape, way)]
    scale = _queue_ahead(shape, whole, notes)
    if len(ways) == 2 and len(pieces) == 2 and not _differ(shape):
        jobs = {"mixed": _job(shape, whole, scale, closed=closed, notes=notes, mix=shape.read_share)}
    else:
        jobs = {_name(p): _job(shape, p, scale, closed=closed, notes=notes) for p in pieces}
        _place(jobs)
    if shape.fua is not None and shape.fua > 0.5:
        for job in jobs.values():
            if job["rw"] in ("write", "randwrite") and "fdatasync" not in job:
                job["sync"] = "dsync"
    elif shape.fua:
        notes.append(f"FUA (durable on completion), which {100 * shape.fua:.0f} % of the writes had")
    times = {"runtime": "30s", "ramp": "2s"}
    if not closed:
        times["primary"] = "lat_p99"  # at one rate, latency tells storage apart
    if len(jobs) == 1:
        (only,) = jobs.values()
        keys = {"kind": "fio", **{k: _listed(k, v) for k, v in only.items()}, **times}
    else:
        keys = {"kind": "fio", "jobs": jobs, "size": _largest(jobs), **times}
    return Workload(keys, tuple(dict.fromkeys(notes)))


_LISTS = ("rw", "bs", "iodepth", "rwmixread", "rate_iops", "fdatasync")


def _listed(key: str, value: Any) -> Any:
    return [value] if key in _LISTS else value


def _ways(shape: Shape, notes: list[str]) -> list[str]:
    """Directions that the workload has."""
    whole, ways = shape.parts["all"], []
    for way in ("read", "write"):
        part = shape.parts.get(way)
        if part is None:
            continue
        if part.iops < _ALONE * whole.iops and part.rate < _ALONE * whole.rate:
            notes.append(f"{way}s ({part.iops:.2g} per second)")
        else:
            ways.append(way)
    return ways


def _pieces(shape: Shape, way: str) -> list[Part]:
    """A direction, or its sequential and its random I/Os where their sizes differ or one of them is flushed."""
    part = shape.parts[way]
    if not shape.traced or part.sequential is None or not _RANDOM < part.sequential < _SEQUENTIAL:
        return [part]
    random, sequential = (shape.parts[f"{way}_{kind}"] for kind in ("random", "sequential"))
    flushed = way == "write" and _flushed(shape)
    if flushed or distance(random.sizes, sequential.sizes) > _SIZES_DIFFER:
        return [random, sequential]
    return [part]


def _flushed(shape: Shape) -> bool:
    return bool(shape.writes_per_flush is not None and shape.flushes and shape.writes_per_flush <= _RARE_FLUSH)


def _differ(shape: Shape) -> bool:
    """Whether reads and writes need jobs of their own. fio (3.33) repeats the sync of a mixed job at every read until
    the next write, so that a load with flushes is never one."""
    reads, writes = shape.parts["read"], shape.parts["write"]
    if _flushed(shape) or distance(reads.sizes, writes.sizes) > _SIZES_DIFFER:
        return True
    if reads.sequential is not None and writes.sequential is not None:
        if abs(reads.sequential - writes.sequential) > _PLACES_DIFFER:
            return True
        if reads.locality and writes.locality and abs(reads.locality.hot - writes.locality.hot) > _HOT_DIFFER:
            return True
    return False


def _queue_ahead(shape: Shape, whole: Part, notes: list[str]) -> float:
    """Factor on the mean depth at the disk: I/Os also wait in front of it, which its counters know."""
    if not shape.traced or not whole.flight or shape.depth < 1.5 * whole.flight + 1:
        return 1.0
    notes.append(
        f"the queue before the disk: of {shape.depth:.1f} I/Os in flight {whole.flight:.1f} were at the disk; "
        "iodepth counts all of them"
    )
    return shape.depth / whole.flight


def _name(part: Part) -> str:
    way, _, kind = part.name.partition("_")
    return {"sequential": f"{way}-stream", "random": f"{way}-random"}.get(kind, f"{way}s")


def _job(
    shape: Shape, part: Part, scale: float, *, closed: bool, notes: list[str], mix: float | None = None
) -> dict[str, Any]:
    rate = max(1, round(part.iops))
    way = "rw" if mix is not None else part.name.partition("_")[0]
    sequential = part.sequential if part.sequential is not None else 0.0
    job: dict[str, Any] = {"rw": way if sequential >= _SEQUENTIAL else f"rand{way}"}
    job |= _blocks(shape, part, mix)
    # a rate keeps the load at what it was: with it the depth is a limit only, as it was of the application
    high = (part.depth_high if closed else part.depth_most) or part.depth or 1.0
    if scale > 1:  # no distribution of the queue is known: the mean while the disk is busy, or what a limit may need
        high = max(high, part.flight * scale / (shape.busy or 1.0)) if closed else high * scale
    job["iodepth"] = min(max(1, round(high)), 4096)
    if mix is not None:
        job["rwmixread"] = round(100 * (mix if closed else round(rate * mix) / rate))
    if job["rw"].startswith("rand"):
        if part.locality and part.locality.distribution:
            job["random_distribution"] = part.locality.distribution
        if sequential > _RANDOM:
            job["percentage_random"] = round(100 * (1 - sequential))
    _flush(shape, part, job, notes)
    if not closed:
        _pace(part, rate, job, notes)
    if part.working_set is not None:
        job["size"] = format_size(max(-int(-part.working_set // _MEGABYTE) * _MEGABYTE, _LEAST_SET))
    return job


def _blocks(shape: Shape, part: Part, mix: float | None) -> dict[str, Any]:
    """``bs`` for one size, ``bssplit`` for several; for a mix, by direction."""
    parts = [part] if mix is None else [shape.parts["read"], shape.parts["write"]]
    splits = [split(p.sizes) for p in parts]
    if all(s == splits[0] for s in splits) and len(splits[0]) == 1:
        return {"bs": format_size(next(iter(splits[0])))}
    texts = [":".join(f"{format_size(size)}/{share}" for size, share in s.items()) for s in splits]
    return {"bssplit": texts[0] if len(set(texts)) == 1 else ",".join(texts)}


def split(sizes: Sizes) -> dict[int, int]:
    """At most eight sizes with shares in whole percent that add up to 100; the others join the nearest of these."""
    ranked = sorted(sizes, key=lambda size: -sizes[size])
    if sizes[ranked[0]] >= _ONE_SIZE:
        return {ranked[0]: 100}
    kept = sorted(size for size in ranked[:_MOST_SIZES] if sizes[size] >= 0.01) or [ranked[0]]
    weight = dict.fromkeys(kept, 0.0)
    for size, share in sizes.items():
        weight[min(kept, key=lambda k: abs(k - size) / max(k, size))] += share
    return _percent(weight)


def _percent(weight: Mapping[int, float]) -> dict[int, int]:
    """Largest remainders: whole percents that add up to 100."""
    floors = {size: int(100 * share) for size, share in weight.items()}
    for size in sorted(weight, key=lambda s: floors[s] - 100 * weight[s])[: 100 - sum(floors.values())]:
        floors[size] += 1
    return {size: share for size, share in floors.items() if share}


def _flush(shape: Shape, part: Part, job: dict[str, Any], notes: list[str]) -> None:
    """A sync after every N writes, for the job whose writes precede the flushes."""
    if job["rw"] not in ("write", "randwrite") or not shape.flushes:
        return
    if not _flushed(shape):
        notes.append(f"flushes ({shape.flushes:.2g} per second)")
        return
    if part.name != "write":  # one of two: the stream, if most flushes come right after one of its writes
        stream = shape.flush_of.get("write_sequential", 0.0) >= min(0.5, shape.flush_of.get("write_random", 0.0))
        if (part.name == "write_sequential") != stream:
            return
    job["fdatasync"] = max(1, round(part.iops / shape.flushes))
    if job["iodepth"] > 1 and job["fdatasync"] > 1:
        job["engine"] = "libaio"  # fio's io_uring with several I/Os in flight syncs more often than asked


def _pace(part: Part, rate: int, job: dict[str, Any], notes: list[str]) -> None:
    if part.bursts and part.bursts.pause <= _LONGEST_PAUSE:
        job["thinktime"] = format_duration(max(round(part.bursts.pause * 1e6), 1) * 1000)
        job["thinktime_blocks"] = max(1, round(part.bursts.ios))
        return
    if part.iops < 0.5:
        notes.append(f"{part.name}: its rate of less than one I/O per second; the workload has one per second")
    job["rate_iops"] = rate


def _place(jobs: Mapping[str, dict[str, Any]]) -> None:
    """A stream gets a region of its own, behind that of the random jobs."""
    sizes = [_bytes(job) for job in jobs.values() if job["rw"].startswith("rand")]
    at = max(sizes, default=0)
    for job in jobs.values():
        if not job["rw"].startswith("rand"):
            if at:
                job["offset"] = format_size(at)
            at += _bytes(job)


def _bytes(job: Mapping[str, Any]) -> int:
    return parse_size(job["size"]) if "size" in job else 0


def _largest(jobs: Mapping[str, dict[str, Any]]) -> str:
    ends = [_bytes(job) + parse_size(job.get("offset", "0b")) for job in jobs.values()]
    return format_size(max(*ends, _LEAST_SET))


def text(capture: Capture, found: Workload, command: Sequence[str] = ()) -> str:
    """The workload's file: where it comes from as comments, then its keys."""
    disk = capture.disk
    lines = [
        f"Captured {capture.began} on {capture.machine}: disk {disk.name}"
        + (f" ({disk.identity})" if disk.identity else "")
        + f", {format_size(disk.size)}, {capture.seconds:.0f} s.",
        f"Sources: {', '.join(capture.sources)}." + (" Stopped by the user." if capture.interrupted else ""),
        *(f"Not captured: {gap}." for gap in capture.gaps),
        *(f"Not in this workload: {note}." for note in found.notes),
        *([f"Made by: {' '.join(command)}"] if command else []),
        "Use: fairlane versus --workload FILE, or as a workload of a study.",
    ]
    head = "".join("# " + " ".join(line.split()) + "\n" for line in lines)
    return head + yaml.safe_dump(dict(found.keys), sort_keys=False, width=120, default_flow_style=None)
