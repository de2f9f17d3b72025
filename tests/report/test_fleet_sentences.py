"""What a report says of a fleet's start, and of what watching costs."""

from dataclasses import replace
from typing import Any

from fairlane.report import fleet
from tests.figures import figures

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
    assert figures(said) == ["4", "12", "3", "31", "6.2", "98.1"]
    (one,) = fleet.sentences(started(case, WINDOWS[:1]))
    assert figures(one) == ["4", "12", "6.2", "99.9"]


def test_what_watching_costs_as_far_as_it_is_known(case: Any) -> None:
    (said,) = fleet.sentences(started(case, [], probes=COSTS))
    assert figures(said) == ["87.2", "86.7", "89.8", "90.2"]  # not of the host, whose wall time is not told
    guest, array, host = fleet._PLACES.values()
    assert 0 < said.index(guest) < said.index(array)
    assert host not in said
    assert fleet.sentences(started(case, [], probes="odd")) == ()
    assert fleet.sentences(started(case, [])) == ()
