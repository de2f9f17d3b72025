"""Failover: a path dies under verified load and comes back; measures the longest I/O and checks every block.

fio writes random blocks, each with a header and a CRC32C, and reads recent writes back (``verify_backlog``) throughout
the fault; once the load has ended, every block of the region is read and checked once more, whether written in this
trial or not. During the load fio also compares the number of the write in each header (``numberio``), so that an older
block in place of a newer one is wrong too; therefore the job is not ``time_based``, which switches that off
(``verify_header`` of fio's verify.c, 3.33).
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.errors import Refused, RunFailed
from fairlane.records import Cell, FaultKind, Figures
from fairlane.study.base import MetricName, WorkloadSpec
from fairlane.units import Duration, Share, Size, format_size
from fairlane.workloads import _failover_read as read
from fairlane.workloads.base import Stage, Workload
from fairlane.workloads.fio import fio_shell

INTERVAL_MS = 100
"""Resolution of the series."""
_HEADER = 4096
"""Bytes from one header to the next (``verify_interval``): the same in every cell, so that all check the region."""
_BACKLOG = 32
"""Writes after which as many blocks are read back and verified (``verify_backlog``)."""
_CHECK = 65536
"""Bytes of one I/O of the last check."""
_PATIENCE = 60.0
"""Seconds after which a load that should have ended, with the path back, counts as hanging."""
_SLOWEST = 2**17
"""Bytes per second of the slowest last check that is waited for: emulated machines on a busy host."""
_ENDLESS = "1000000g"


class FailoverSpec(WorkloadSpec):
    """A path fails under verified load: every combination of the lists is one cell."""

    kind: Literal["failover"]
    """Verified load with a fault in it."""
    primary: MetricName = "stall"
    """The longest I/O from the fault on."""
    fault: tuple[FaultKind, ...] = Field(("link",), min_length=1)
    """What fails. link: the network between machines and array, both ends. port: the target's port. state: the target
    declares the path inaccessible (ANA, ALUA)."""
    path: int = Field(default=0, ge=0, le=15)
    """Number of the path that fails, from 0."""
    rw: tuple[Literal["randwrite", "randrw"], ...] = Field(("randwrite",), min_length=1)
    """Access patterns. Written data are verified in both."""
    rwmixread: int = Field(default=70, ge=1, le=99)
    """Share of reads in percent, for randrw; reads that verify come on top."""
    bs: tuple[Size, ...] = Field((4096,), min_length=1)
    """Block sizes, multiples of 4k."""
    iodepth: tuple[int, ...] = Field((8,), min_length=1)
    """I/Os in flight."""
    rate_iops: int | None = Field(default=None, ge=1, le=10**9)
    """Target writes per second (randrw: reads and writes each). Default: as fast as iodepth allows."""
    before: Duration = 10 * 10**9
    """Time under load before the fault."""
    outage: Duration = 10 * 10**9
    """Duration of the fault."""
    after: Duration = 20 * 10**9
    """Time under load after the path is back."""
    settle: Duration = 2 * 10**9
    """Idle time after the trial, in which the path comes back into use."""
    size: Size = 64 * 1024**2
    """Part of the volume that is used, from its start."""
    recovered: Share = 0.5
    """IOPS count as recovered once they are back to this share of those before the fault."""

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        for bs in self.bs:
            if bs % _HEADER or not _HEADER <= bs <= 2**20:
                raise ValueError("bs: expected multiples of 4k up to 1m: every 4k has a header")
        if any(not 1 <= depth <= 1024 for depth in self.iodepth):
            raise ValueError("iodepth: expected 1 to 1024")
        if self.size % _CHECK or self.size < 16 * max(*self.bs, _CHECK):
            raise ValueError(f"size: expected a multiple of 64k, at least {format_size(16 * max(*self.bs, _CHECK))}")
        if self.before < 10**9 or self.outage < 10**9 or self.after < 10**9:
            raise ValueError("before, outage, after: expected at least 1s")
        if not self.recovered:
            raise ValueError("recovered: expected a share above 0")
        return self

    def cells(self, name: str) -> tuple[Cell, ...]:
        names = ("path", "rwmixread", "rate_iops", "before", "outage", "after", "settle", "size", "recovered")
        common = {name: getattr(self, name) for name in names}
        points = [
            {"fault": fault, "rw": rw, "bs": bs, "iodepth": depth}
            for fault in self.fault
            for rw in self.rw
            for bs in self.bs
            for depth in self.iodepth
        ]
        cells = (Cell(name, "failover", _name(point, self), common | point) for point in points)
        return tuple(dict.fromkeys(cells))

    def known(self, cell: Cell) -> Mapping[str, Any]:
        p = cell.params
        options = {name: p[name] for name in ("rw", "bs", "iodepth", "size", "rate_iops") if p[name] is not None}
        mix = {"rwmixread": p["rwmixread"]} if p["rw"] == "randrw" else {}
        return {**options, **mix, "numjobs": 1, "engine": "io_uring", "tool": "fio", "direct": True, "prefill": True,
                "runtime": p["before"] + p["outage"] + p["after"], "ramp": 0, "fault": fault_text(p)}  # fmt: skip

    def trial_seconds(self, cell: Cell) -> float:  # noqa: ARG002
        return (self.before + self.outage + self.after) / 1e9


def fault_text(params: Mapping[str, Any]) -> str:
    """The fault for a reader: ``link 0 for 10 s``."""
    return f"{params['fault']} {params['path']} for {params['outage'] / 1e9:g} s"


def _name(point: Mapping[str, Any], spec: FailoverSpec) -> str:
    """``4k randwrite qd8 link``."""
    mix = f" {spec.rwmixread}/{100 - spec.rwmixread}" if point["rw"] == "randrw" else ""
    path = f" {spec.path}" if spec.path else ""
    return f"{format_size(point['bs'])} {point['rw']}{mix} qd{point['iodepth']} {point['fault']}{path}"


def _verifying(params: Mapping[str, Any]) -> dict[str, Any]:
    return {"ioengine": "io_uring", "direct": 1, "size": params["size"], "verify": "crc32c",
            "verify_interval": _HEADER}  # fmt: skip


# Counters of each network interface, four times a second, without starting a program: which path carried the I/O.
_WATCH = """
mkfifo clock
bash -c 'exec 9<> clock
while :; do
  for i in /sys/class/net/path*; do
    read -r rx < $i/statistics/rx_bytes; read -r tx < $i/statistics/tx_bytes
    echo "$EPOCHREALTIME ${i##*/} $rx $tx"
  done
  read -r -t 0.25 -u 9 never
done' > paths.tsv 2> /dev/null &
watch=$!
"""


class Failover(Workload):
    """Outputs: ``failover.json`` (json+), ``failover.err`` (fio's stderr, cut), ``job_lat.*.log`` (longest I/O of
    each 100 ms) and ``job_iops.*.log``, in the guest's Unix time; ``paths.tsv`` (bytes of each path's interface);
    ``final.json``, ``final.err`` of the last check (``whole.err``: of its first pass, if that found a wrong block);
    ``fault.json`` (``read.Fault``)."""

    Spec = FailoverSpec
    packages = ("fio",)
    programs = ("fio",)

    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:
        return self._script(cell, devices, seed)

    def _script(self, cell: Cell, devices: Sequence[str], seed: int, *, gate: str = "") -> str:
        p = cell.params
        options: dict[str, Any] = {
            **_verifying(p),
            "rw": p["rw"],
            "bs": p["bs"],
            "iodepth": p["iodepth"],
            "io_size": _ENDLESS,  # ends by its time, see above
            "runtime": f"{(p['before'] + p['outage'] + p['after']) // 10**6}ms",
            "norandommap": 1,
            "serialize_overlap": 1,  # two I/Os on one block at once would have no defined outcome
            "randrepeat": 0,
            "randseed": 1 + seed % (2**32 - 1),
            "refill_buffers": 1,
            "verify_backlog": _BACKLOG,
            "continue_on_error": "all",  # errors are counted, not fatal
            "lat_percentiles": 1,
            "log_avg_msec": INTERVAL_MS,
            "log_max_value": 1,
            "log_unix_epoch": 1,
            "write_lat_log": "job",
            "write_iops_log": "job",
        }
        if gate:  # the load starts here: the fault's time counts from it
            options["exec_prerun"] = gate
        if p["rw"] == "randrw":
            options["rwmixread"] = p["rwmixread"]
        if p["rate_iops"] is not None:
            options["rate_iops"] = p["rate_iops"]
        # an error that fio counted is a figure here, not a failed trial, whatever its exit code
        return f"""{_WATCH}
{fio_shell(devices, options, "job", "failover")}
echo $? > fio.status
kill $watch
rm -f clock job_slat.*.log job_clat.*.log local-*.state
{_cut("failover")}
[ -s failover.json ]
"""

    def prepare(self, cell: Cell, device: str) -> str:
        options = {**_verifying(cell.params), "rw": "write", "bs": _CHECK, "iodepth": 8, "refill_buffers": 1,
                   "do_verify": 0}  # fmt: skip
        return fio_shell((device,), options, "prefill", "prefill")

    def final(self, cell: Cell, devices: Sequence[str]) -> str:
        """Shell that checks every block of the region: first many per I/O, and if any is wrong each by itself, because
        fio reports only the first of an I/O; then the region is rewritten for the next trial. The first pass's errors
        stay in ``whole.err``: a block that is right on the second read was wrong nevertheless."""
        options = {**_verifying(cell.params), "rw": "read", "iodepth": 8, "continue_on_error": "all"}
        whole = fio_shell(devices, {**options, "bs": _CHECK}, "final", "final")
        single = fio_shell(devices, {**options, "bs": _HEADER}, "final", "final")
        anew = "".join(self.prepare(cell, device) for device in devices)
        return f"""
{whole.rstrip()} || :
if grep -q verify final.err; then
mv final.err whole.err
{_cut("whole")}
{single.rstrip()} || :
{anew}fi
{_cut("final")}
[ -s final.json ]
"""

    async def drive(self, cell: Cell, devices: Callable[[int], Sequence[str]], seed: int, stage: Stage) -> None:
        p = cell.params
        if p["path"] >= stage.paths:
            raise RunFailed(
                "path-unknown",
                f"the workload fails path {p['path']}, but there are {stage.paths} paths (the first is 0)",
                hint="change platform.paths, or the workload's path",
            )
        clocks = await stage.offsets()
        scripts = partial(self._script, cell, gate=stage.gate(len(devices(0))))
        load = asyncio.ensure_future(stage.load(lambda m: scripts(devices(m), seed + m), stage.seconds + _PATIENCE))
        try:
            begins, ends = await _fault(p, stage, load)
            for machine, clock in enumerate(clocks):
                fault = read.Fault(p["fault"], p["path"], begins, ends, *clock)
                folder = f"vm{machine}/" if stage.fleet > 1 else ""
                stage.keep(f"{folder}fault.json", json.dumps(asdict(fault)).encode())
            done, _ = await asyncio.wait({load}, timeout=p["after"] / 1e9 + _PATIENCE)
            if not done:
                stage.lost(f"the load did not end within {_PATIENCE:.0f} s, though the path was back")
                return
            await load
            await self._check(cell, devices, stage)
        finally:
            load.cancel()
            with suppress(asyncio.CancelledError, RunFailed):
                await load

    async def _check(self, cell: Cell, devices: Callable[[int], Sequence[str]], stage: Stage) -> None:
        try:
            seconds = _PATIENCE + cell.params["size"] * len(devices(0)) / _SLOWEST
            await stage.after(lambda m: self.final(cell, devices(m)), seconds)
        except (RunFailed, Refused) as error:  # the fault may have taken the device itself
            stage.lost(f"the last check of the data failed: {error.message}")
            return
        await asyncio.sleep(cell.params["settle"] / 1e9)

    def prepares(self, cell: Cell, capacity: int) -> int:  # noqa: ARG002
        return int(cell.params["size"])

    def merge(self, cell: Cell, machines: Mapping[str, Figures]) -> Figures:
        return read.merge(list(machines.values()), super().merge(cell, machines))

    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:
        return read.figures(cell.params, outputs)


async def _fault(p: Mapping[str, Any], stage: Stage, load: "asyncio.Future[None]") -> tuple[float, float]:
    """Cuts the path on schedule and restores it whatever happens. Returns both times (host's Unix time, s)."""
    begun = asyncio.ensure_future(stage.begun())
    either: set[asyncio.Future[Any]] = {begun, load}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            await load
            raise RunFailed("load-ended", "the load ended before it ran on every machine")
    finally:
        begun.cancel()
    await asyncio.wait({load}, timeout=p["before"] / 1e9)
    try:
        cut = await stage.fault(p["fault"], p["path"], on=True)
        await asyncio.wait({load}, timeout=p["outage"] / 1e9)
    finally:
        # also after Ctrl-C, and after half a fault: later trials need the path
        restored = await asyncio.shield(asyncio.ensure_future(stage.fault(p["fault"], p["path"], on=False)))
    return cut, restored


def _cut(name: str) -> str:
    """Shell that keeps the first 256 KiB of a file of errors and counts all of them."""
    return (
        f"grep -c 'io_u error' {name}.err > {name}.errors || :\n"
        f"head -c 262144 {name}.err > {name}.kept; mv {name}.kept {name}.err"
    )


PLUGIN = Failover()
