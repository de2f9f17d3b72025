"""Ways to arrays that are not what they should be: packets too large for the path, sessions that differ."""

from dataclasses import replace

import pytest

from fairlane.records import Figures

NEW_EACH_BLOCK = {"platform": {"sessions": "anew in every block"}}


@pytest.mark.parametrize(("arrives", "found"), [(False, 1), (True, 0), (None, 0), ("x", 0)])
def test_packets_that_a_path_does_not_carry(beside, run_check, arrives, found):
    way = {"interface": "ens1", "mtu": 9000, "mtu_arrives": arrives}
    described = {"lanes": {"odd": {"network": {"alpha": {"10.0.0.9": way, "10.1.0.9": {**way, "mtu_arrives": True}}}}}}
    findings = run_check("mtu_path", beside(Figures(), Figures(), "rw: [randread]", description=described))
    assert [(f.severity, f.kind, f.lanes) for f in findings] == [("warning", "mtu", ("odd",))] * found
    for finding in findings:
        assert finding.evidence == {"machine": "alpha", "address": "10.0.0.9", "mtu": 9000}


def sessions(beside, rates, samples=None, **fields):
    """A run in which the odd lane's IOPS are ``rates``, block by block."""
    made = beside(Figures({"iops": 100.0}), Figures({"iops": 100.0}), "rw: [randread]", blocks=len(rates), **fields)
    context = {"load": {"samples": {"read": samples}}} if samples else {}
    seen = [
        replace(o, metrics={"iops": rates[o.block]}, context=context) if o.lane == "odd" else o
        for o in made.observations
    ]
    return replace(made, observations=tuple(seen))


def test_sessions_that_differ(beside, run_check):
    """Rates 10 % apart: a standard deviation of ln(1.1) / 2 times the square root of 6 / 5."""
    made = sessions(beside, [100.0, 110.0] * 3, description=NEW_EACH_BLOCK)
    base, odd = run_check("session_spread", made)
    assert (base.severity, list(base.evidence.values())) == ("info", [0.0])
    (spread,) = odd.evidence.values()
    assert (odd.severity, odd.lanes, spread) == ("warning", ("odd",), pytest.approx(0.0522, abs=1e-4))


def test_noise_within_trials_is_none_of_the_sessions(beside, run_check):
    noisy = {"count": 4, "mean": 100.0, "stddev": 11.0}  # a mean of four is off by 5.5 % itself
    made = sessions(beside, [100.0, 110.0] * 3, noisy, description=NEW_EACH_BLOCK)
    odd = run_check("session_spread", made)[1]
    assert (odd.severity, list(odd.evidence.values())) == ("info", [0.0])


def test_too_few_sessions_or_one_for_the_whole_run(beside, run_check):
    assert run_check("session_spread", sessions(beside, [100.0, 110.0, 100.0], description=NEW_EACH_BLOCK)) == []
    assert run_check("session_spread", sessions(beside, [100.0, 110.0] * 3, description={})) == []
