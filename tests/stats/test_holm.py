from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from fairlane.stats.holm import benjamini_hochberg, holm


@dataclass(frozen=True)
class P:
    """A hypothesis with a known p-value (over all looks)."""

    p: float

    def rejects(self, alpha: float) -> bool:
        return self.p <= alpha


p_values = st.lists(st.floats(1e-6, 1).map(lambda p: round(p, 7)), min_size=1, max_size=12)


@given(p_values)
def test_one_look_rejects_what_holm_rejects(ps):
    rates = holm([[P(p) for p in ps]], 0.05)
    ranked = sorted(ps)
    failing = next((i for i, p in enumerate(ranked) if p > 0.05 / (len(ps) - i)), len(ps))
    assert [p <= rate for p, rate in zip(ps, rates, strict=True)] == [p in ranked[:failing] for p in ps]


@given(p_values)
def test_rates_lie_between_bonferroni_and_none(ps):
    rates = holm([[P(p) for p in ps]], 0.05)
    assert all(0.05 / len(ps) <= rate <= 0.05 for rate in rates)


def test_all_rejected_at_once_hold_simultaneously():
    assert holm([[P(1e-9)] * 4], 0.05) == (0.0125,) * 4


def test_the_rejected_pass_their_share_on():
    assert holm([[P(1e-9), P(0.02), P(0.9)]], 0.05) == pytest.approx((0.05 / 3, 0.025, 0.05))


def test_a_rejection_is_not_taken_back_and_the_stopped_may_gain():
    looks = [[P(0.01), P(0.04)], [P(0.3), P(0.04)]]
    assert holm(looks, 0.05) == (0.025, 0.05)


def test_nothing_to_test_yet():
    assert holm([[None, P(0.001)], [P(0.04), P(0.001)]], 0.05) == (0.05, 0.025)
    assert holm([[None, None]], 0.05) == (0.025, 0.025)
    assert holm([], 0.05) == ()
    assert holm([[]], 0.05) == ()


@given(p_values)
def test_benjamini_hochberg_is_scipys(ps):
    rate = benjamini_hochberg([P(p) for p in ps], 0.05)
    known = false_discovery_control(ps) <= 0.05
    assert [p <= rate for p in ps] == known.tolist()
    assert rate == pytest.approx(0.05 * max(1, int(known.sum())) / len(ps))


def test_benjamini_hochberg_of_nothing():
    assert benjamini_hochberg([], 0.05) == 0.05


def test_no_false_claim_in_more_than_one_study_of_twenty():
    """Six hypotheses, four true, looked at twice with a share of the error each; p-values uniform and independent."""
    rng = np.random.default_rng(8)
    wrong = 0
    for _ in range(4000):
        ps = rng.uniform(size=(2, 6)) * 2  # a look with half the rate: overall p-value twice the nominal one
        ps[:, 4:] *= 1e-4
        rates = holm([[P(p) for p in row] for row in ps], 0.05)
        ever = np.minimum.accumulate(ps)[-1]
        wrong += any(p <= rate for p, rate in zip(ever[:4], rates[:4], strict=True))
    assert wrong / 4000 < 0.05 + 3 * (0.05 * 0.95 / 4000) ** 0.5
