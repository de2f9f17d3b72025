"""A stall that is longer than its short trial: more latency than time, and still no error."""

from dataclasses import replace

import pytest

from fairlane.records import Observation


def stalled(longest: int) -> Observation:
    """100 ms in which I/Os of up to ``longest`` ns ended, 25 in flight by IOPS x latency where 16 were asked for."""
    bins = {"write.lat": {1_000_000: 900, longest: 10}}
    metrics = {"iops": 9100.0, "lat_mean": 25 / 9100.0 * 1e9}
    return Observation("", 0, "new", 0, "", metrics, bins, {"load": {"runtime_ms": 100}})


@pytest.mark.parametrize(("longest", "told"), [(200_000_000, False), (2_000_000, True)])
def test_latencies_that_began_before_the_trial_are_allowed_for(build, run_check, longest, told):
    shape = stalled(longest)

    def odd(o: Observation) -> Observation:
        if o.lane != "new" or not o.cell.endswith("qd16"):
            return o
        return replace(o, metrics=shape.metrics, histograms=shape.histograms, context=shape.context)

    found = [f for f in run_check("littles_law", build(odd)) if f.severity == "critical"]
    assert [f.lanes for f in found] == ([("new",)] if told else [])
