"""Network traffic and losses during a trial: bytes of the busiest interface in each direction, TCP retransmits
of the machine, packets dropped by its queues and interfaces.

A cell with retransmits or drops measures a broken link, not a protocol: it gets a finding and no headline. A counter
that is missing in either snapshot is left out: "none lost" would be a claim.
"""

import re
from typing import ClassVar

from fairlane.probes.base import Probe, counter
from fairlane.records import Figures


class Net(Probe):
    capture: ClassVar[str] = (
        "grep -s . /proc/net/snmp /sys/class/net/*/statistics/*_dropped /sys/class/net/*/statistics/[rt]x_bytes; "
        "tc -s qdisc show"
    )

    # Without tc, which takes longest of all: netem's queues hold more than TCP's windows, and what a queue drops TCP
    # sends again.
    live: ClassVar[str] = (
        'while read -r l; do case $l in Tcp:*) echo "/proc/net/snmp:$l" ;; esac; done < /proc/net/snmp; '
        "for f in /sys/class/net/*/statistics/*_dropped /sys/class/net/*/statistics/[rt]x_bytes; do "
        'read -r l < $f && echo "$f:$l"; done'
    )

    def observe(self, before: str, after: str, load: Figures) -> Figures:  # noqa: ARG002
        lost = {}
        for name, read in (("retransmits", _retransmits), ("drops", _drops)):
            first, last = read(before), read(after)
            if first is not None and last is not None:
                lost[name] = max(0, last - first)  # a counter falls only if its interface was recreated
        net = lost | _carried(before, after)
        return Figures(context={"net": net} if net else {})


def _retransmits(text: str) -> int | None:
    """``RetransSegs`` of /proc/net/snmp: a line of names, then a line of values."""
    lines = [line.split() for line in re.findall(r"^/proc/net/snmp:Tcp: (.*)$", text, re.M)]
    if len(lines) < 2:
        return None
    return counter(dict(zip(lines[0], lines[1], strict=False)).get("RetransSegs", ""))


def _drops(text: str) -> int | None:
    """Packets dropped by queues (tc) and by interfaces; None if neither is in the snapshot."""
    matches = re.findall(r"\(dropped (\d+)|^/sys/class/net/\S+_dropped:(\d+)$", text, re.M)
    return sum(counter(queue or interface) or 0 for queue, interface in matches) if matches else None


def _carried(before: str, after: str) -> dict[str, int]:
    """``tx_bytes`` and ``rx_bytes`` of the interface that sent most, or received most. Not the sum: bonds, bridges and
    VLANs count their members' bytes again, and a link's speed is that of one interface."""
    first, last = _bytes(before), _bytes(after)
    moved: dict[str, int] = {}
    for (interface, name), count in last.items():
        if (interface, name) in first:
            moved[name] = max(moved.get(name, 0), count - first[interface, name])
    return moved


def _bytes(text: str) -> dict[tuple[str, str], int]:
    matches = re.findall(r"^/sys/class/net/([^/\s]+)/statistics/([rt]x_bytes):(\d+)$", text, re.M)
    return {(interface, name): count for interface, name, value in matches if (count := counter(value)) is not None}


PLUGIN = Net()
