"""Lanes whose hypervisor drops the guest's flushes."""

from collections.abc import Iterable

from fairlane.checks._behind import listed, load
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class UnsafeCache(Check):
    """Lanes with ``device.cache: unsafe``, in cells that write: the guest sees a volatile cache and flushes it, and
    QEMU does nothing."""

    between = True

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        lanes = {name: lane.label or name for name, lane in evidence.study.lanes.items()
                 if lane.device and lane.device.flags.no_flush}  # fmt: skip
        writing = load(evidence.cells()).writing
        if lanes and writing:
            yield self.finding(
                "flushes-dropped", "warning",
                f"{listed(lanes.values())}: cache mode unsafe. QEMU drops the guest's flushes, so a crash of the host "
                "loses data that the guest believes safe",
                cells=writing, lanes=[*lanes], evidence=dict.fromkeys(lanes, "unsafe"),
            )  # fmt: skip


PLUGIN = UnsafeCache()
