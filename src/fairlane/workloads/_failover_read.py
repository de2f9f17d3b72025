"""Read the outputs of a failover trial: when I/O stalled and recovered, and which blocks are wrong. Pure. Times of the
series are ms since the load's start, on the guest's clock."""

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from fairlane.errors import Garbage
from fairlane.formats.fio_figures import summary
from fairlane.formats.fio_json import Report, reports
from fairlane.formats.fio_log import Log, read_log
from fairlane.records import Figures

INTERVAL_MS = 100
_SMOOTH = 5
"""Intervals over which IOPS are averaged before they count as fallen or recovered: half a second."""
_LONGEST_INTERVAL_MS = 400
"""fio's sampling thread may be late; a longer gap between two samples means that nothing completed."""
_MOST_INTERVALS = 10**6

# Of a header: "verify: bad magic header 0, wanted acca at file /dev/x offset 4096, length 4096 (requested block: ...".
# Of the data: "crc32c: verify failed at file /dev/x offset 4096, length 4096 (requested ..." (fio's verify.c).
_WRONG = re.compile(r"^(?:verify: bad|verify: unsupported|[\w-]+: verify failed).* at file (\S+) offset (\d+), length")
# "fio: io_u error on file /dev/x: Input/output error: write offset=4096, buflen=4096" (fio's io_u.c)
_ERROR = re.compile(r"^fio: io_u error on file (\S+): (.+?): (read|write) offset=(\d+), buflen=(\d+)")
_VERIFY_ERROR = 84
"""EILSEQ: fio's error number for a wrong block."""


@dataclass(frozen=True)
class Fault:
    """The fault on the path, from ``fault.json``. Times in s of the host's clock, Unix time."""

    kind: str
    path: int
    begins: float
    """When the fault was done; the path is dead from here at the latest."""
    ends: float
    """When the fault was undone; the initiator may take longer to use the path again."""
    offset: float
    """The machine's clock minus the host's."""
    within: float
    """Largest error of ``offset``."""

    @classmethod
    def of(cls, data: bytes | None) -> "Fault":
        """Raises Garbage."""
        try:
            return cls(**json.loads(data or b""))
        except ValueError as error:
            raise Garbage("output-damaged", f"fault.json is not JSON: {error}") from error
        except TypeError as error:  # another list of fields, or no object at all
            names = ", ".join(field.name for field in fields(cls))
            raise Garbage("output-damaged", f"fault.json must have exactly these fields: {names}") from error


@dataclass(frozen=True)
class Series:
    """Completions per interval."""

    starts_ms: int
    """Start, in the guest's Unix time."""
    counts: tuple[float, ...]
    """I/Os of the application in each interval."""

    @property
    def iops(self) -> list[float]:
        return [round(count * 1000 / INTERVAL_MS, 1) for count in self.counts]

    def mean(self, first_ms: float, last_ms: float) -> float:
        """IOPS over whole intervals within [first, last)."""
        first, last = -(-int(first_ms) // INTERVAL_MS), int(last_ms) // INTERVAL_MS
        chosen = self.counts[first:last]
        return sum(chosen) / len(chosen) * 1000 / INTERVAL_MS if chosen else 0.0


@dataclass(frozen=True)
class Stall:
    """The longest I/O after a given time."""

    ns: int
    ended_ms: float
    """End of the interval in which it completed."""


def figures(params: Mapping[str, Any], outputs: Mapping[str, bytes]) -> Figures:
    """The figures of one machine's trial. Raises Garbage if an output is missing or impossible."""
    fault = Fault.of(outputs.get("fault.json"))
    fio_reports = reports(_needed(outputs, "failover.json"), "failover.json")
    load = summary(fio_reports[0], fio_reports[0].jobs, disk=True)
    final = reports(_needed(outputs, "final.json"), "final.json")[0]
    series = _series(list(_logs(outputs, "iops")))
    begins = (fault.begins + fault.offset) * 1000 - series.starts_ms
    ends = (fault.ends + fault.offset) * 1000 - series.starts_ms
    length = len(series.counts) * INTERVAL_MS
    if not 0 < begins < ends <= length:
        raise Garbage(
            "fault-outside",
            f"the fault, {begins / 1000:.1f} to {ends / 1000:.1f} s, is not within the load of {length / 1000:.1f} s",
        )
    stall = _stall(_logs(outputs, "lat"), series.starts_ms, begins)
    before = series.mean(begins / 4, begins)
    if not before:
        raise Garbage("no-io", "no I/O of the application completed before the fault")
    back = recovery(series, begins, before * params["recovered"])
    data = _data(params, outputs, fio_reports[0], final)
    metrics = {"stall": float(stall.ns), "iops_before": before}
    if back is not None:
        metrics["recover_time"] = back * 1e6
    if after := series.mean(ends, length):
        metrics["iops_after"] = after
    context = {
        **load.context,
        "load": {
            **_application_load(load.context["load"], params["rw"]),
            "series": {"interval_ms": INTERVAL_MS, "iops": series.iops},
        },
        "fault": {
            "kind": fault.kind,
            "path": fault.path,
            "begins_ms": round(begins, 1),
            "ends_ms": round(ends, 1),
            "clock_ms": round(fault.within * 1000, 1),
            "stall_ends_ms": round(stall.ended_ms, 1),
            "silence_ms": _silence(series, begins),
            "recovered": back is not None,
            "iops_during": round(series.mean(begins, ends), 1),
            "carried": _carried(outputs.get("paths.tsv", b""), series.starts_ms, begins, ends),
        },
        "data": data,
    }
    return Figures(metrics, {}, context, {"recover_time": INTERVAL_MS / back} if back else {})


def merge(machines: Sequence[Figures], merged: Figures) -> Figures:
    """``merged`` with the machines' figures of one fault: series added from the earliest common start of the load on
    the fault's clock; the longest of the times; blocks and errors added."""
    faults = [figures.context["fault"] for figures in machines]
    least = min(fault["begins_ms"] for fault in faults)
    first = [round((fault["begins_ms"] - least) / INTERVAL_MS) for fault in faults]
    series = [f.context["load"]["series"]["iops"][n:] for f, n in zip(machines, first, strict=True)]
    iops = [round(sum(rates), 1) for rates in zip(*series, strict=False)]
    slowest = max(range(len(machines)), key=lambda n: machines[n].metrics["stall"])
    fault = {
        **faults[0],
        "begins_ms": least,
        "ends_ms": max(fault["ends_ms"] - n * INTERVAL_MS for fault, n in zip(faults, first, strict=True)),
        "clock_ms": max(fault["clock_ms"] for fault in faults),
        "stall_ends_ms": faults[slowest]["stall_ends_ms"] - first[slowest] * INTERVAL_MS,
        "silence_ms": max(fault["silence_ms"] for fault in faults),
        "recovered": all(fault["recovered"] for fault in faults),
        "iops_during": sum(fault["iops_during"] for fault in faults),
        "carried": _added([fault["carried"] for fault in faults]),
    }
    parts = [figures.context["data"] for figures in machines]
    data = {key: sum(each[key] for each in parts) for key in parts[0] if isinstance(parts[0][key], int)}
    errors = [each["first_error"] for each in parts if "first_error" in each]
    load = {**merged.context["load"], "series": {"interval_ms": INTERVAL_MS, "iops": iops}}
    context = {**merged.context, "load": load, "fault": fault,
               "data": data | ({"first_error": errors[0]} if errors else {})}  # fmt: skip
    return Figures(merged.metrics, merged.histograms, context, merged.steps)


def _added(carried: Sequence[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Bytes of each path added over the machines, for paths that all report."""
    names = [name for name in carried[0] if all(name in each for each in carried)]
    return {name: {when: sum(each[name][when] for each in carried) for when in carried[0][name]} for name in names}


def _needed(outputs: Mapping[str, bytes], name: str) -> bytes:
    if not (data := outputs.get(name)):
        raise Garbage("output-missing", f"fio wrote no {name}")
    return data


def _logs(outputs: Mapping[str, bytes], kind: str) -> Iterable[Log]:
    """fio's interval logs of a kind, one per job."""
    names = sorted(name for name in outputs if re.fullmatch(rf"job_{kind}\.\d+\.log", name))
    if not names or not any(outputs[name] for name in names):
        raise Garbage("output-missing", f"fio wrote no log of {kind}")
    for name in names:
        if not outputs[name]:
            continue
        log = read_log(io.BytesIO(outputs[name]), latencies=False)
        if not log.averaged or not log.unix:
            raise Garbage("log-kind", f"{name} is not an interval log in Unix time")
        yield log


def _series(logs: Sequence[Log]) -> Series:
    """IOPS of all jobs and directions on one grid. fio logs the rate since its previous sample, which its
    thread takes about every 100 ms, and leaves out intervals without I/O: each rate is spread over its own time."""
    start = min(log.first_ms for log in logs) - INTERVAL_MS
    length = max(log.last_ms for log in logs) - start
    if length > _MOST_INTERVALS * INTERVAL_MS:
        raise Garbage("too-large", "fio's logs span more time than a trial can last")
    counts = [0.0] * (length // INTERVAL_MS + 1)
    for log in logs:
        for rows in log.averages.values():
            last = start
            for time, rate in sorted(rows.items()):
                since = time - last if time - last <= _LONGEST_INTERVAL_MS else INTERVAL_MS
                _spread(counts, time - since - start, time - start, rate / 1000)
                last = time
    return Series(start, tuple(counts[:-1]))


def _spread(counts: list[float], first: float, last: float, per_ms: float) -> None:
    slot = int(first) // INTERVAL_MS
    while slot * INTERVAL_MS < last and slot < len(counts):
        inside = min(last, (slot + 1) * INTERVAL_MS) - max(first, slot * INTERVAL_MS)
        counts[slot] += per_ms * inside
        slot += 1


def _stall(logs: Iterable[Log], start: int, begins: float) -> Stall:
    """The largest latency after ``begins``. ``logs``: the largest latency of each interval, by the interval's end."""
    worst = Stall(0, begins)
    for log in logs:
        for rows in log.averages.values():
            for time, value in rows.items():
                if time - start > begins and value > worst.ns:
                    worst = Stall(int(value), time - start)
    if not worst.ns:
        raise Garbage("no-io", "no I/O completed after the fault began")
    return worst


def recovery(series: Series, begins: float, enough: float) -> float | None:
    """ms from ``begins`` until IOPS, averaged over half a second, have fallen below ``enough`` and come back to it; one
    interval if they never fell; None if they never came back. IOPS just after ``begins`` may still be good."""
    first = int(begins) // INTERVAL_MS
    fallen = False
    for slot in range(first, len(series.counts) - _SMOOTH + 1):
        good = sum(series.counts[slot : slot + _SMOOTH]) / _SMOOTH * 1000 / INTERVAL_MS >= enough
        if fallen and good:
            return max(float(INTERVAL_MS), slot * INTERVAL_MS - begins)
        fallen = fallen or not good
    return None if fallen else float(INTERVAL_MS)


def _silence(series: Series, begins: float) -> int:
    """Longest run of intervals without any completion, from the fault on, ms."""
    longest = run = 0
    for count in series.counts[int(begins) // INTERVAL_MS :]:
        run = 0 if count else run + 1
        longest = max(longest, run)
    return longest * INTERVAL_MS


_DIRECTIONS = ("ios", "bytes", "iops")


def _application_load(load: Mapping[str, Any], rw: str) -> dict[str, Any]:
    """fio's figures of its load without the reads of verification. fio counts these like any other, so a mix has no
    figures by direction. Run times of single jobs are left out too: a job ends when it has verified."""
    kept = {key: load[key] for key in ("runtime_ms", "jobs") if key in load}
    if rw == "randwrite":
        kept |= {key: {"write": load[key]["write"]} for key in _DIRECTIONS if "write" in load.get(key, {})}
    return kept


def _data(params: Mapping[str, Any], outputs: Mapping[str, bytes], load: Report, final: Report) -> dict[str, Any]:
    """Counts of written, checked and wrong blocks and of errors. A block whose write failed with an error may hold
    anything: it is not wrong, because the application got the error."""
    complaints = _text(outputs, "failover.err").splitlines()
    failed = [m for line in complaints if (m := _ERROR.match(line))]
    excused = {
        (m[1], offset) for m in failed if m[3] == "write" for offset in range(int(m[4]), int(m[4]) + int(m[5]), 4096)
    }
    during = _wrong(complaints)
    later = _wrong(line for name in ("whole.err", "final.err") for line in _text(outputs, name).splitlines())
    refused = {key for key in later if key in excused} - during
    wrong = (during | later) - refused
    errors = max(len(failed), _count(outputs, "failover.errors"))
    job_errors = [job.error for job in load.jobs if job.error]
    unread = max(_count(outputs, "whole.errors"), _count(outputs, "final.errors"))
    unread = max(unread, int(any(job.error not in (0, _VERIFY_ERROR) for job in final.jobs)))
    checked = sum(side.size for job in final.jobs for side in job.sides.values())
    if not unread and checked < params["size"] * len(final.jobs):
        raise Garbage(
            "check-incomplete", f"the last check read only {checked} of {params['size'] * len(final.jobs)} bytes"
        )
    return {
        "written": sum(side.ios for job in load.jobs for way, side in job.sides.items() if way == "write"),
        "checked": sum(side.ios for job in final.jobs for side in job.sides.values()),
        "checked_bytes": params["size"] * len(final.jobs),
        "wrong_blocks": max(len(wrong), int(_VERIFY_ERROR in job_errors)),
        "wrong_in_run": len(during),
        "io_errors": max(errors, int(any(error != _VERIFY_ERROR for error in job_errors))) + unread,
        **({"first_error": failed[0][2]} if failed else {}),
    }


def _count(outputs: Mapping[str, bytes], name: str) -> int:
    text = _text(outputs, name).strip()
    return int(text) if text.isdecimal() else 0


def _wrong(lines: Iterable[str]) -> set[tuple[str, int]]:
    """Blocks that fio reports as wrong: file and offset, each once."""
    return {(m[1], int(m[2])) for line in lines if (m := _WRONG.match(line))}


def _text(outputs: Mapping[str, bytes], name: str) -> str:
    return outputs.get(name, b"").decode(errors="replace")


def _carried(data: bytes, start: int, begins: float, ends: float) -> dict[str, dict[str, int]]:
    """Per path's interface the bytes per second that it carried (both ways) before and during the fault, where
    ``paths.tsv`` has samples: the first second of a fault and the last half second do not count (I/O in flight)."""
    rows: dict[str, list[tuple[float, int]]] = {}
    for line in data.decode(errors="replace").splitlines():
        words = line.split()
        if len(words) == 4 and words[2].isdecimal() and words[3].isdecimal():
            try:
                rows.setdefault(words[1], []).append((float(words[0]) * 1000 - start, int(words[2]) + int(words[3])))
            except ValueError:
                continue
    carried = {}
    for name, samples in rows.items():
        rates = [_rate(samples, *window) for window in ((begins / 4, begins), (begins + 1000, ends - 500))]
        if rates[0] is not None and rates[1] is not None:
            carried[name] = {"before": round(rates[0]), "during": round(rates[1])}
    return carried


def _rate(samples: Sequence[tuple[float, int]], first: float, last: float) -> float | None:
    inside = [sample for sample in samples if first <= sample[0] <= last]
    if len(inside) < 2 or inside[-1][0] <= inside[0][0]:
        return None
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0]) * 1000
