"""Measure what answers a path: a short load on each, and the counters of all disks around it."""

import asyncio
import json
from collections.abc import Collection, Mapping
from shlex import quote

from fairlane.machines import library
from fairlane.machines.base import Guest
from fairlane.machines.behind import counters
from fairlane.machines.behind.facts import Machine, PathFacts
from fairlane.machines.behind.look import gather
from fairlane.machines.behind.records import Behind, Probed
from fairlane.machines.behind.stack import resolve

_IDLE = 0.5
"""Seconds without load before the first path: a sample of other load on the disks, which is subtracted."""
_BLOCK = 65536
_PATIENCE = 60.0


async def probe(
    guest: Guest,
    files: Mapping[str, str],
    seconds: float = 2,
    *,
    writes: Collection[str] = (),
    buffered: bool = False,
) -> dict[str, Probed]:
    """Loads each of ``files`` (name -> existing file or block device on the machine) for ``seconds``, one after the
    other, with random reads, and those named in ``writes`` with random writes too. Needs fio there.

    ``writes``: files that this run made, whose contents may be lost; nothing else is written. ``buffered``: without
    O_DIRECT, as the study's workload. A path that cannot be loaded has the reason in ``failed``. Raises RunFailed."""
    machine, facts = await gather(guest, files.values())
    script = library.part("behind.sh")
    before = await guest.ask(f"{script}behind_counters idle\nsleep {_IDLE}\nbehind_counters then\n", _PATIENCE)
    idle = counters.counters(before, "idle"), counters.counters(before, "then")
    results = {}
    for name, path in files.items():
        behind = resolve(machine, path, facts)[0]
        ways = ("read", "write") if name in writes else ("read",)
        refused = _refused(behind, facts[path])
        text = script + "".join(_load(path, way, behind.size or 0, seconds, buffered) for way in ways)
        outputs = {} if refused else await guest.ask(text, _PATIENCE + 10 * len(ways) * seconds)
        results[name] = evaluate(machine, behind, seconds, outputs, idle) if outputs else _none(behind, refused)
        await asyncio.sleep(0)
    return results


def _none(behind: Behind, reason: str) -> Probed:
    return Probed(behind.machine, 0, "unknown", {}, {}, failed=reason)


def _refused(behind: Behind, facts: PathFacts) -> str:
    """Why a path cannot be loaded; empty: it can."""
    if behind.kind not in ("file", "device"):
        return f"{behind.path} is neither a file nor a block device"
    if not facts.readable:
        return f"{behind.path} is not readable"
    return f"{behind.path} is smaller than 4096 bytes" if (behind.size or 0) < 4096 else ""


def _load(path: str, way: str, size: int, seconds: float, buffered: bool) -> str:
    block = _BLOCK if size >= 16 * _BLOCK else 4096
    # a colon separates names in fio's option
    options = {
        "name": "probe", "filename": path.replace(":", r"\:"), "rw": f"rand{way}", "bs": block, "iodepth": 8,
        "size": size // block * block, "direct": int(not buffered), "time_based": 1,
        "runtime": f"{round(seconds * 1000)}ms", "norandommap": 1, "randrepeat": 0, "allow_file_create": 0,
        "output-format": "json", "output": f"{way}.json",
    }  # fmt: skip
    if way == "write":
        options |= {"end_fsync": 1, "overwrite": 1, "refill_buffers": 1}
    words = " ".join(quote(f"--{key}={value}") for key, value in options.items())
    if way == "read":
        words = f"--readonly {words}"
    return f"behind_load {way} {words}\n"


def evaluate(
    machine: Machine,
    behind: Behind,
    seconds: float,
    outputs: Mapping[str, bytes],
    idle: tuple[counters.Counters, counters.Counters],
) -> Probed:
    """What the loads moved, from their outputs: ``WAY.json`` of fio, ``WAY.before.*`` and ``WAY.after.*``. ``idle``:
    two snapshots without load, 0.5 s apart. Pure."""
    ways, arcs = {}, []
    failed = ""
    for number, way in enumerate(("read", "write")):
        if f"{way}.before.diskstats" not in outputs:
            continue
        load, problem = _bytes(outputs.get(f"{way}.json", b""), way)
        failed = (
            failed or problem or (outputs.get(f"{way}.err", b"").decode(errors="replace").strip() if not load else "")
        )
        before, after = counters.counters(outputs, f"{way}.before"), counters.counters(outputs, f"{way}.after")
        beside = {
            name: round((pair[number] - idle[0].disks[name][number]) * seconds / _IDLE)
            for name, pair in idle[1].disks.items()
            if name in idle[0].disks
        }
        ways[way] = counters.moved(machine, behind, number, load, before=before, after=after, idle=beside)
        if before.arc and after.arc:
            arcs.append((after.arc[0] - before.arc[0], after.arc[1] - before.arc[1]))
    arc = (sum(hits for hits, _ in arcs), sum(misses for _, misses in arcs)) if arcs else None
    result = counters.probed(behind, seconds, ways, arc)
    return result if not failed else Probed(behind.machine, seconds, "unknown", {}, ways, arc, failed[-300:])


def _bytes(data: bytes, way: str) -> tuple[int, str]:
    """Bytes that fio moved, and its error if it failed."""
    text = data.decode(errors="replace")
    try:
        jobs = json.loads(text[text.index("{") :])["jobs"]
        errors = [job["error"] for job in jobs if job.get("error")]
        return sum(int(job[way]["io_bytes"]) for job in jobs), f"fio: error {errors[0]}" if errors else ""
    except (ValueError, KeyError, TypeError):
        return 0, ""
