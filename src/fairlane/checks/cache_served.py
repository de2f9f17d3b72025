"""I/O that the load generator counted and the disks did not: a cache served it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from fairlane.checks._behind import BehindCheck, Lane, Load, host_disks, lane_of
from fairlane.checks._trials import DIRECTIONS, Oddity, Trial, TrialCheck, at, indirect, number, text
from fairlane.metrics import rounded
from fairlane.records import Evidence, Finding

_SHORT = 0.05
"""fio reads the disk's counters a little before it ends (1 % short in 400 ms on an idle disk); a cache serves either
nothing or much."""
_MORE = 1.25
"""Read-ahead doubles, splitting multiplies; the ramp, which the disk's counters include, is taken off by its share and
may have run at another rate."""
_PAST_THE_CACHE = frozenset({
    "rbd", "rados", "libiscsi", "nbd", "nfs", "http", "gfapi", "gfapi_async", "libhdfs", "sg", "io_uring_cmd", "xnvme",
    "libblkio", "spdk", "dfs", "null", "net", "rdma",
})  # fmt: skip
"""fio's engines that do not go through the kernel's page cache: ``direct`` means nothing to them (fio's manual, I/O
engine)."""
_FEWER = ("zfs", "zvol")
"""Layers that compress, and so move fewer bytes than were asked for."""


class CacheServed(TrialCheck, BehindCheck):
    """The disk's bytes by direction (or its I/Os, with those merged) against the load's, and ``direct`` where it is
    known to be off. The disk's counters cover the ramp and the load's do not, so a shortfall is real. Of a file the
    disks below it count (``host_disks``), and what a probe of the path moved before the run (``probed``).
    Where the study itself asks for I/O through the page cache, that is said of every cell, and a shortfall is part of
    the answer. Imported figures whose file says ``direct=0`` are critical: nobody here chose it, and memory may have
    answered. Writes that are synced are an exception, and so is a reason in ``accept``."""

    between: ClassVar[bool] = False

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        yield from TrialCheck.check(self, evidence)
        yield from BehindCheck.check(self, evidence)

    def compare(self, lanes: Mapping[str, Lane], load: Load) -> Iterable[Finding]:
        ways = DIRECTIONS if load.writing else ("read",)
        for lane in lanes.values():
            for machine, probed in lane.probed.items():
                served = [way for way in ways if text(probed, way, "verdict") in ("cache", "memory")]
                if not served:
                    continue
                thin = bool(at(lane.behind.get(machine), "thin"))
                memory = all(text(probed, way, "verdict") == "memory" for way in served)
                ratio = min(number(probed, way, "ratio") or 0.0 for way in served)
                space = ", or the space was never written" if thin else ""
                what = "the path is backed by memory" if memory else f"a cache answered the rest{space}"
                loads = " and ".join(f"{way}s" for way in served)
                yield self.finding(
                    "probe-memory" if memory else "probe-cache",
                    "warning",
                    f"the disks moved {ratio:.0%} of the {loads} of a probe of {lane.name}: {what}",
                    lanes=[lane.name],
                    evidence={way: at(probed, way) for way in served},
                )

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:
        lane = lane_of(evidence, trial.observation.lane)
        asked = trial.cell.kind == "fio" and trial.cell.params.get("direct") is False
        for way in () if asked else DIRECTIONS:
            yield from _against(trial, way, lane)
        if asked:
            yield Oddity(
                "cached-io",
                "warning",
                1.0,
                "the study asks for I/O through the page cache (direct: false)",
                "the figures include the memory of the machine, and are not those of a device or a storage path alone",
                {"direct": False, **_shares(trial)},
            )
        elif indirect(trial.known) and text(trial.known, "engine") not in _PAST_THE_CACHE:
            accepted = evidence.study.design.accept.get("direct", "")
            grave = trial.cell.kind == "imported" and not accepted and not _synced(trial)
            way_out = '. To compare it anyway: accept: {direct: "why"}, or --accept direct="why"' if grave else ""
            yield Oddity(
                "indirect",
                "critical" if grave else "warning",
                1.0,
                "the load went through the page cache (direct: false)",
                f"accepted: {accepted}"
                if accepted
                else f"memory may have answered instead of the storage path{way_out}",
                {"direct": False},
            )


def _synced(trial: Trial) -> bool:
    """Whether the load is of writes alone, and syncs them: then they reach the device."""
    return trial.directions == (False, True) and any(
        trial.known.get(name) not in (None, False, 0, "0", "", "none") for name in ("fsync", "fdatasync", "sync")
    )


def _shares(trial: Trial) -> dict[str, float]:
    """Bytes that the disk moved / bytes of the load, by direction, where both are known."""
    moved = {way: (trial.all_jobs("bytes", way), trial.context("disk", f"{way}_bytes")) for way in DIRECTIONS}
    return {f"{way}s_on_disk": disk / load for way, (load, disk) in moved.items() if load and disk is not None}


def _against(trial: Trial, way: str, lane: Lane | None) -> Iterator[Oddity]:
    load, disk = trial.all_jobs("bytes", way), trial.context("disk", f"{way}_bytes")
    unit, counter, cache = "bytes", "the guest's disk", "a cache in the guest"
    below = _below(trial, way, lane) if lane else None
    if lane and below is not None:
        disk, counter, cache = below, f"the disks behind the lane ({', '.join(sorted(lane.names))})", "a cache"
    if load is None or disk is None:
        ios, done = trial.all_jobs("ios", way), trial.context("disk", f"{way}s")
        load, disk, unit = ios, done, "I/Os"
        if done is not None:
            disk = done + (trial.context("disk", f"{way}_merges") or 0.0)
    if not load or disk is None:
        return
    # I/Os in flight at the end are counted on one side only
    ios = trial.all_jobs("ios", way)
    late = (trial.in_flight or 0.0) / ios if ios else 0.0
    fewer = disk < load * (1 - _SHORT - late)
    if not fewer and disk <= _MORE * load:  # as nearly always: no words are needed
        return
    ramp, runtime = trial.parameter("ramp"), trial.seconds
    whole = load * (1 + ramp / 1e9 / runtime) if ramp is not None and runtime else None
    if not fewer and (whole is None or below is not None or disk <= _MORE * whole * (1 + late)):
        return  # other_io has what a lane's disks moved beside
    proof = {"load": int(load), "disk": int(disk), "unit": unit}
    message = f"fio counted {_figure(load, unit)} of {way}s, {counter} {_figure(disk, unit)}"
    memory = "the guest's memory" if below is None else "memory"
    rest = f"{cache} served the rest" if way == "read" else f"the rest was still in {memory}"
    if fewer:
        yield Oddity(
            f"fewer-{way}s",
            "critical",
            1 - disk / load,
            message,
            f"{rest}, so this is not a figure of the storage path",
            proof,
        )
    elif whole is not None:
        yield Oddity(
            f"more-{way}s",
            "info",
            disk / whole,
            message,
            "read-ahead, splitting, or another program on the same disk",
            {**proof, "ramp_included": int(whole)},
        )


def _below(trial: Trial, way: str, lane: Lane) -> float | None:
    """Bytes of the disks under a lane's file or device; None: not counted, or of no meaning."""
    if lane.layers & set(_FEWER) or any(lane.saves()) or text(lane.one, "medium") != "disks" or not lane.names:
        return None
    moved = host_disks(trial.observation.context, lane.names)
    return None if moved is None else moved.get(f"{way}_bytes", 0.0)


def _figure(value: float, unit: str) -> str:
    return f"{rounded(value / 2**20, 4)} MiB" if unit == "bytes" else f"{value:,.0f} I/Os"


PLUGIN = CacheServed()
