"""The words of footnotes: where an interval leans on something, waits, or is not there."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fairlane.records import Evidence, Verdict
from fairlane.stats.capacity import Objective, capacities
from fairlane.stats.effects import Effect
from fairlane.stats.footnotes import robustness
from fairlane.stats.judge import judge
from tests.stats.test_curves import observed
from tests.stats.test_curves import study as ladder_of
from tests.stats.test_footnotes import dependence
from tests.stats.test_judge import around, growing
from tests.stats.test_judge_apart import BASE, NEW, apart, with_copies

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

Run = Callable[..., Evidence]


def shown(name: str, evidence: Evidence, metric: str = "iops") -> str:
    """The footnotes of the first verdict in this metric."""
    verdict: Verdict = next(v for v in judge(evidence, ()) if v.metric == metric)
    return "\n  ".join((f"{name}: {verdict.verdict}", *verdict.notes))


def listed(name: str, notes: Iterable[str]) -> str:
    return "\n  ".join((name, *notes))


def test_of_single_effects(snapshot: "SnapshotAssertion") -> None:
    first = [i % 2 == 0 for i in range(20)]
    carried = tuple(0.05 + 0.001 * math.sin(i * 7) - (0.0305 if f else 0) for i, f in enumerate(first))
    wave = tuple(0.05 * math.sin(i / 3) for i in range(20))
    words = [
        listed("a stall", robustness(Effect((0.10, 0.11, 0.09, 0.10, 0.12, 0.11, 0.10, 0.09, 0.10, -0.60), 0.0), 0.05)),
        listed("skewed", robustness(Effect((0.02, 0.03, 0.02, 0.04, 0.03, 0.02, 0.9), 0.0), 0.05)),
        listed("coarse", robustness(Effect((0.0100, 0.0101, 0.0099, 0.0100), 0.0156), 0.05)),
        listed("order", dependence(Effect(carried), "new", "base", first, 8)),
        listed("a slow wave", dependence(Effect(wave), "new", "base", first, 8)),
    ]
    assert "\n".join(words) == snapshot


def test_of_verdicts(run: Run, snapshot: "SnapshotAssertion") -> None:
    six = {"base": around(1000, 6), "new": around(1200, 6)}
    measured = run([six], looks=(6,))
    told = {"lat_p99": 1e6}
    few = run([six], looks=(6,), latency=lambda lane, block: {1000: 999}, primary="lat_p99")
    words = [
        shown("no spread", run([{"base": [1000.0] * 3, "new": [1100.0] * 3}], looks=(3,))),
        shown("all failed", run([{"base": around(1000, 6), "new": [None] * 6}], looks=(6,))),
        shown("no block", run([{"base": [None, 1.0] * 3, "new": [1.0, None] * 3}], looks=(6,))),
        shown("one block", run([{"base": [1000.0, None], "new": [1200.0, 1.0]}], looks=(2,))),
        shown("few beyond", few, "lat_p99"),
        shown(
            "not measured", replace(measured, observations=tuple(replace(o, metrics={}) for o in measured.observations))
        ),
        shown("no tenfold", run([{"base": [1000.0, 1300.0], "new": [1400.0, 900.0]}], looks=(2,))),
        shown("waiting", run([growing(8)], complete=False)),
        shown("before the first look", run([growing(5)], complete=False)),
        shown("as told", run([six], looks=(6,), others=lambda lane, block, value: told), "lat_p99"),
        shown("apart", apart(run([{"base": BASE, "new": NEW}]))),
        shown("apart, one trial", apart(run([{"base": BASE, "new": [1500.0]}]))),
        shown("apart, more to come", apart(run([{"base": BASE, "new": NEW}], complete=False))),
    ]
    copies = with_copies(run, np.random.default_rng(5))
    words += [listed(f"copy {v.lane}", v.notes) for v in judge(copies, ()) if v.control][:1]
    assert "\n".join(words) == snapshot


def test_of_capacities(snapshot: "SnapshotAssertion") -> None:
    asked = ladder_of(depths="[1, 2, 4, 8]")
    found = capacities(asked, observed(asked, {"a": 1.0, "b": 3.0}), [Objective("lat_mean", 100_000)])
    both = capacities(asked, observed(asked, {"a": 1.0, "b": 1.5}), [Objective("lat_mean", 10**9)])
    low = capacities(asked, observed(asked, {"a": 1.0, "b": 1.5}), [Objective("lat_mean", 1)])
    assert "\n".join(listed(c.verdict, c.notes) for c in (*found, *both, *low)) == snapshot
