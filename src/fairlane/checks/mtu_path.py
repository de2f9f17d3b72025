"""Interfaces whose MTU is larger than that of the path to the array."""

from collections.abc import Iterable, Mapping

from fairlane.checks._trials import at
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class MtuPath(Check):
    """``network`` of a lane's description (platform hosts): pings as large as the interface's MTU that must not be
    fragmented. Where small ones arrive and such do not, a switch or the array has a smaller MTU: TCP finds out, or
    hangs, and the lane does not run as configured."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        lanes = at(evidence.description, "lanes")
        for name in evidence.study.lanes:
            machines = at(lanes, name, "network")
            for machine, paths in machines.items() if isinstance(machines, Mapping) else ():
                for address, path in paths.items() if isinstance(paths, Mapping) else ():
                    if at(path, "mtu_arrives") is not False:
                        continue
                    yield self.finding(
                        "mtu", "warning",
                        f"packets of {at(path, 'mtu')} bytes (the MTU of {at(path, 'interface')} on {machine}) do not "
                        f"reach {address}: a switch or the array has a smaller MTU. Set one MTU on the whole path",
                        lanes=[name], evidence={"machine": machine, "address": address, "mtu": at(path, "mtu")},
                    )  # fmt: skip


PLUGIN = MtuPath()
