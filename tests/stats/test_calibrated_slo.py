"""The bench of comparisons at an objective, small and seeded: it counts right, and can fail."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "bench" / "calibrated_slo.py"
SPEC = importlib.util.spec_from_file_location("bench_calibrated_slo", PATH)
assert SPEC is not None
assert SPEC.loader is not None
bench = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = bench  # dataclasses look themselves up
SPEC.loader.exec_module(bench)


@pytest.fixture(scope="module")
def unequal():
    return bench.measure("sd 3 % and 20 %", 10, 60, 2)


def test_no_promise_is_broken(unequal, capsys):
    assert list(bench.show("sd 3 % and 20 %", 10, unequal)) == []
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_power_is_not_thrown_away(unequal):
    """The interval is hardly wider than that of crossings in single blocks, and a lane 20 % faster is."""
    between = unequal["between rungs"]
    assert between.found / between.studies > 0.95
    assert between.open == 0
    calm = bench.measure("sd 5 %", 10, 40, 2)["between rungs"]
    assert calm.found == calm.studies


@pytest.mark.parametrize("field", ["error", "covered"])
def test_a_broken_promise_is_counted_as_missed(unequal, field):
    counts = {
        name: replace(c, error=c.studies // 4) if field == "error" else replace(c, covered=c.studies * 3 // 4)
        for name, c in unequal.items()
    }
    # every curve by itself, and the error over all curves
    assert len(list(bench.show("sd 3 % and 20 %", 10, counts))) == len(counts) + (field == "error")
    assert list(bench.show("stalls in one", 10, counts)) == []


def test_the_truth_is_that_of_the_curve():
    """Throughput at a latency: on the steep curve, where the throughput is given, only the latency moves it."""
    between, *_, latency = bench.cases()
    assert between.truth(0.0, 0.0) == latency.truth(0.0, 0.0) == 0
    assert between.truth(bench.FASTER, 0.0) > bench.FASTER  # less latency leaves room for more in flight
    assert latency.truth(bench.FASTER, 0.0) < -bench.FASTER
