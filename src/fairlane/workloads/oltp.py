"""OLTP: transactions of pgbench or sysbench, or the patterns of TPC-C and SLOB, on a database server of the run's own
on every lane; HammerDB's TPROC-C is planned."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairlane.errors import FairlaneError, Garbage
from fairlane.formats.pgbench_log import Misread
from fairlane.records import Cell, Figures
from fairlane.workloads import _database as database
from fairlane.workloads import _oltp_read as read
from fairlane.workloads import _postgresql_lab as in_lab
from fairlane.workloads._oltp_parts import LOADS, SERVERS
from fairlane.workloads._oltp_spec import OltpSpec
from fairlane.workloads.base import Stage, Workload

__all__ = ["Oltp", "OltpSpec"]

_SETUP = 240.0
_SLOWEST = 20 * 2**20
"""Bytes per second of the slowest copy of a database that is waited for."""
_SLOWEST_FILL = 2 * 2**20
"""The same of one that is filled, indexed and vacuumed."""


class Oltp(Workload):
    """Outputs: the load's log (every transaction), ``load.out``, ``settings.tsv`` (read back from the server),
    ``state.before`` and ``state.after`` (its counters), ``volume.*`` (those of the disk), ``times.*`` and
    ``postmaster.*`` (CPU time), ``server.log``, ``oltp.err`` (what went wrong)."""

    Spec = OltpSpec
    folders = tuple(folder for server in SERVERS.values() for folder in server.FOLDERS)
    virtual = True
    part = in_lab.PART

    def calls(self, cell: Cell) -> tuple[str, ...]:
        if self.unable(cell, "hosts"):
            return ()
        server, load = SERVERS[cell.params["database"]], LOADS[cell.params["load"]]
        own = load.programs(cell.params["database"])
        return ("fio", *server.PROGRAMS, *own)  # fio: what lies behind a lane is probed with it

    async def drive(self, cell: Cell, devices: Callable[[int], Sequence[str]], seed: int, stage: Stage) -> None:
        gate = stage.gate(1)
        setup = _SETUP + cell.params["needs"] / _SLOWEST
        await stage.load(
            lambda machine: self._script(cell, devices(machine), seed + machine, gate), stage.seconds, setup=setup
        )

    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:
        return self._script(cell, devices, seed, "")

    def gated(self, cell: Cell, devices: Sequence[str], seed: int, begin: str, end: str) -> str:
        return self._script(cell, devices, seed, begin, end)

    def _script(self, cell: Cell, devices: Sequence[str], seed: int, gate: str, ends: str = "mark load-ends") -> str:
        p = self._runnable(cell)
        load = LOADS[p["load"]]
        return f"""{database.begin(SERVERS[p["database"]], devices[0], p, load.fill(p))}
printf 'filesystem\t%s\n' "$(df -PT "$root" 2> /dev/null | awk 'END {{ print $2 }}')" > place.tsv
volume before
times > times.before
cat "/proc/$postmaster/stat" > postmaster.before
{load.run(p, seed, gate)}
volume after
times > times.after
{ends}
sleep 0.3 # for sessions to end, and for the probes
cat "/proc/$postmaster/stat" > postmaster.after 2> /dev/null
if [ $code != 0 ]; then
{load.COMPLAINT}
cp "$sock/log" server.log
exit $code
fi
{database.END}
{load.check(p)}
exit 0
"""

    def prepare(self, cell: Cell, device: str) -> str:
        if self.unable(cell, "hosts"):
            return ""
        p = cell.params
        return database.make(SERVERS[p["database"]], device, p, LOADS[p["load"]].fill(p))

    def patience(self, cell: Cell) -> float:
        return float(cell.params.get("needs", 0)) / _SLOWEST_FILL

    def unable(self, cell: Cell, platform: str) -> str:
        if cell.params["load"] not in LOADS:
            return "workload 'oltp' with load: hammerdb can be planned, but not run yet"
        if platform == "lab":
            return in_lab.absent(cell.params)
        if platform == "hosts":
            return ""
        return "workload 'oltp' can be planned here, but runs on platforms hosts and lab only"

    def _runnable(self, cell: Cell) -> Mapping[str, Any]:
        """The parameters of a cell that can be run. Raises FairlaneError."""
        if why := self.unable(cell, "hosts"):
            hint = "results of HammerDB itself can be imported: docs/importers.md"
            raise FairlaneError("workload-unsupported", why, where=f"workloads.{cell.workload}", hint=hint)
        return cell.params

    def extent(self, cell: Cell, capacity: int) -> int:  # noqa: ARG002
        return int(cell.params.get("needs", 0))

    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:
        try:
            return read.figures(self._runnable(cell), outputs)
        except Misread as reason:
            raise Garbage(reason.kind, f"{reason.where}: {reason}") from None


PLUGIN = Oltp()
