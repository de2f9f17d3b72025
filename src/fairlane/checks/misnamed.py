"""Lanes that are named after another transport than theirs: readers take the name for what ran."""

import re
from collections.abc import Iterable
from typing import Any

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_NAMES = {
    "iscsi": ("iscsi",),
    "nvme_tcp": ("nvme-tcp", "nvmetcp", "nvmeotcp"),
    "nvme_rdma": ("nvme-rdma", "rdma", "nvme-roce", "roce"),
    "fcoe": ("fcoe", "fc"),
    "nfs": ("nfs",),
    "rbd": ("rbd",),
    "cephfs": ("cephfs",),
}
"""What network transports are called. Others, such as a storage class, may stand for any of them."""


class Misnamed(Check):
    """Info per lane whose name or label has the name of a transport, and not of its own."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        return self.foresee(evidence.study)

    def foresee(self, study: Any) -> Iterable[Finding]:
        for name, lane in study.lanes.items():
            named = _transports(f"{name} {lane.label}")
            if lane.transport in _NAMES and named and lane.transport not in named:
                yield self.finding(
                    "misnamed",
                    "info",
                    f"{lane.label or name} runs over {_title(lane.transport)}, though its name says "
                    f"{' and '.join(map(_title, named))}",
                    lanes=[name],
                    evidence={"transport": lane.transport, "name": name, "label": lane.label},
                )


def _title(transport: str) -> str:
    return transport.replace("_", "-")


def _transports(text: str) -> list[str]:
    """The transports that a lane's name speaks of: ``NVMe/TCP, 2 paths`` -> ``nvme_tcp``."""
    words = f"-{re.sub('[^a-z0-9]+', '-', text.lower())}-"
    return [transport for transport, names in _NAMES.items() if any(f"-{name}-" in words for name in names)]


PLUGIN = Misnamed()
