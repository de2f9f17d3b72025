"""What the network lost during a trial: TCP retransmits of the machine, packets dropped by its queues and interfaces.

A cell with either is no measurement of a protocol but of a broken link: it gets a finding and no headline.
"""

import re
from typing import ClassVar

from fairlane.probes.base import Probe
from fairlane.records import Figures


class Net(Probe):
    capture: ClassVar[str] = "grep -s . /proc/net/snmp /sys/class/net/*/statistics/*_dropped; tc -s qdisc show"

    def observe(self, before: str, after: str, load: Figures) -> Figures:  # noqa: ARG002
        retransmits = _retransmits(after) - _retransmits(before)
        drops = _drops(after) - _drops(before)
        return Figures(context={"net": {"retransmits": retransmits, "drops": drops}})


def _retransmits(text: str) -> int:
    """``RetransSegs`` of /proc/net/snmp: a line of names, then a line of values."""
    lines = [line.split() for line in re.findall(r"^/proc/net/snmp:Tcp: (.*)$", text, re.M)]
    if len(lines) < 2:
        return 0
    value = dict(zip(lines[0], lines[1], strict=False)).get("RetransSegs", "0")
    return int(value) if value.isdecimal() else 0


def _drops(text: str) -> int:
    """Packets dropped by queues (tc) and by interfaces."""
    in_queues = re.findall(r"\(dropped (\d+)", text)
    in_interfaces = re.findall(r"^/sys/class/net/\S+_dropped:(\d+)$", text, re.M)
    return sum(map(int, in_queues)) + sum(map(int, in_interfaces))


PLUGIN = Net()
