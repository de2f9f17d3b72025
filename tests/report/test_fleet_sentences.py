"""What a report says of a fleet's start, and of what watching costs."""

from dataclasses import replace
from typing import Any

from fairlane.report import fleet

WINDOWS = [(12.0, 0.999), (31.0, 0.981), (4.0, 0.9995)]
COSTS = {
    "guest": {"cpu_ms": 87.2, "wall_ms": 86.69}, "array": {"cpu_ms": 89.8, "wall_ms": 90.25}, "host": {"cpu_ms": 1.6},
}  # fmt: skip


def started(case: Any, windows: list[tuple[float, float]], **platform: Any) -> Any:
    evidence = case[0]
    seen = [
        replace(o, context={"vms": [{}] * 4, "window": {"skew_ms": skew, "within_ms": 6.25, "share": share}})
        for o, (skew, share) in zip(evidence.observations, windows, strict=False)
    ]
    described = {"lanes": {}, "platform": platform}
    return replace(evidence, observations=tuple(seen), description=described)


def test_how_far_apart_machines_started(case: Any) -> None:
    (said,) = fleet.sentences(started(case, WINDOWS))
    assert said.startswith("4 VMs started within 12 ms of each other (the median of 3 trials; at most 31 ms)")
    assert "known to 6.2 ms" in said
    assert "at least 98.1 % of the time" in said
    (one,) = fleet.sentences(started(case, WINDOWS[:1]))
    assert one.startswith("4 VMs started within 12 ms of each other, by clocks")


def test_what_watching_costs_as_far_as_it_is_known(case: Any) -> None:
    (said,) = fleet.sentences(started(case, [], probes=COSTS))
    assert "87.2 ms of CPU time on a guest (86.7 ms), 89.8 ms of CPU time on the array (90.2 ms)" in said
    assert "this machine" not in said  # its wall time is not told
    assert fleet.sentences(started(case, [], probes="odd")) == ()
    assert fleet.sentences(started(case, [])) == ()
