"""Lanes whose hypervisor does native AIO on a disk that allocates space at the first write."""

from collections.abc import Iterable

from fairlane.checks._behind import listed, load
from fairlane.checks.base import Check
from fairlane.guard.conditions import conditions
from fairlane.records import Evidence, Finding


class NativeSparse(Check):
    """Host AIO ``native`` on thin volumes, in cells that write: QEMU submits the I/O in a thread that the file system
    holds up until it has allocated space, and with it the disk's other I/Os (nova ``libvirt-aio-mode``)."""

    between = True

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        known = conditions(evidence)
        writing = load(evidence.cells()).writing
        found = {
            name: lane.label or name
            for name, lane in evidence.study.lanes.items()
            if any((known[name, key].get("aio"), known[name, key].get("provisioning")) == ("native", "thin")
                   for key in writing)
        }  # fmt: skip
        if found:
            yield self.finding(
                "native-on-sparse", "warning",
                f"{listed(found.values())}: native AIO on a thin volume. A first write waits until space is allocated, "
                "and the disk's other I/Os wait with it. Use aio: threads or io_uring, or a volume allocated in full",
                cells=writing, lanes=[*found], evidence={"aio": "native", "provisioning": "thin"},
            )  # fmt: skip


PLUGIN = NativeSparse()
