"""How much of the spread comparing within blocks has cancelled, in a sentence per workload. Pure."""

from fairlane.records import Evidence
from fairlane.report.phrases import metric_of
from fairlane.stats.variance import Split, splits


def sentences(evidence: Evidence) -> tuple[str, ...]:
    """One for each workload whose blocks tell it, and one more where provisionings do."""
    several = len(evidence.study.workloads) > 1
    said: list[str] = []
    for name, parts in splits(evidence).items():
        what = metric_of(evidence.study.workloads[name].primary).title + (f" of {name}" if several else "")
        said.append(_blocks(parts, what))
        if parts.lane_provision is not None:
            own = parts.lane_provision / parts.total
            said.append(
                f"{_percent(own)} of the spread of {what} is a lane's own in each provisioning: more blocks do not "
                "average it out, only more provisionings do, and no interval here contains it."
                if own >= _TOLD and (parts.lane_provision_p or 0.0) <= 0.05
                else f"Nothing shows that provisioning a lane again changes {what}."
            )
    return tuple(said)


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


_TOLD = 0.005
"""Shares that would be printed as 0 %."""


_GAINED = 1.05
"""Factors that would be printed as 1.0."""


def _blocks(parts: Split, what: str) -> str:
    low, high = parts.share
    range_ = f"{_percent(low)} to {_percent(high)}"
    if parts.narrower < _GAINED:
        share = f"next to no spread of {what}" if parts.shared >= _TOLD else f"no spread of {what}"
        return (
            f"The lanes of a block share {share} ({_percent(parts.shared)}, 95 % interval {range_}): comparing within "
            "blocks guards against drift, and makes no interval narrower here."
        )
    factor = f"{min(parts.narrower, 99):.1f} times" if parts.narrower < 99 else "more than 99 times"
    return (
        f"{_percent(parts.shared)} (95 % interval {range_}) of the spread of {what} is shared by the lanes of a block "
        f"and cancels by pairing: intervals are {factor} narrower than those of independent samples."
    )
