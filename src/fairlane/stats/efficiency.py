"""Throughput per resource: IOPS of a lane per Gbit/s of its link and per unit of its cost. Pure.

A lane with twice the link is not better because it moves twice as much (study 002 compares FC at 16 and 32 Gbit/s with
Ethernet at 25): dividing by the link speed compares the protocols.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairlane.guard.conditions import declared
from fairlane.records import Observation

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_GBIT = 1e9


def efficient(study: "Study", observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """The observations, with ``iops_per_gbit`` and ``iops_per_cost`` where link and cost are known. Idempotent."""
    trials = tuple(observations)
    links = {name: declared(study, name).get("link_speed") for name in study.lanes}
    speeds = {link for o in trials if (link := _link(o, links))}
    several = len(speeds) > 1
    costs = {name: lane.cost for name, lane in study.lanes.items() if lane.cost}
    if not several and not costs:
        return trials
    return tuple(_with(o, _link(o, links) if several else None, costs.get(o.lane)) for o in trials)


def _link(o: Observation, links: Mapping[str, Any]) -> float | None:
    """Link speed in bit/s, from the trial or else from the study; None: not known."""
    conditions = o.context.get("conditions")
    value = conditions.get("link_speed") if isinstance(conditions, Mapping) else None
    value = links.get(o.lane) if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value > 0 else None


def _with(o: Observation, link: float | None, cost: float | None) -> Observation:
    iops = o.metrics.get("iops")
    if not iops:
        return o
    per = {"iops_per_gbit": link and iops / (link / _GBIT), "iops_per_cost": cost and iops / cost}
    figures = {name: value for name, value in per.items() if value}
    # counted in the same steps as the IOPS they are made of
    steps = dict.fromkeys(figures, o.steps["iops"]) if "iops" in o.steps else {}
    return replace(o, metrics={**o.metrics, **figures}, steps={**o.steps, **steps}) if figures else o
