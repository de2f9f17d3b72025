"""Lanes that ran on different machines: what differs between the machines is part of the result."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlane.checks._trials import at
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class OwnMachines(Check):
    """Lanes whose machines are not the baseline's (platform hosts, ``machines`` of a lane). A warning: CPUs, memory and
    kernels are matched, but no two machines are the same. Lanes that exchanged their machines between provisionings get
    a note, because each machine has carried each lane as often."""

    between = True

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        lanes = at(evidence.description, "lanes")
        own = {
            name: _names(lanes[name])
            for name in evidence.study.lanes
            if isinstance(lanes, Mapping) and isinstance(lanes.get(name), Mapping)
        }
        base = own.get(evidence.study.baseline, ())
        apart = [name for name in own if base and own[name] and own[name] != base]
        if not apart:
            return
        labels = {name: lane.label or name for name, lane in evidence.study.lanes.items()}
        exchanged = at(evidence.description, "platform", "exchange")
        places = "; ".join(f"{labels[n]} on {', '.join(own[n])}" for n in (evidence.study.baseline, *apart))
        if isinstance(exchanged, list) and set(apart) <= set(exchanged):
            yield self.finding(
                "exchanged", "info",
                f"the lanes exchanged their machines between provisionings (first: {places})",
                lanes=apart, evidence={"machines": {name: list(own[name]) for name in own}},
            )  # fmt: skip
            return
        yield self.finding(
            "machines-differ", "warning",
            f"the lanes ran on different machines ({places}): the machines are part of the difference",
            lanes=apart, evidence={"machines": {name: list(own[name]) for name in own}},
        )  # fmt: skip


def _names(lane: Mapping[str, Any]) -> tuple[str, ...]:
    names = lane.get("machines")
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


PLUGIN = OwnMachines()
