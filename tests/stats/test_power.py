"""Power of the t test, against scipy's noncentral t and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairlane.stats.effects import Effect
from fairlane.stats.power import detectable, power


@given(st.floats(2, 200), st.sampled_from([0.2, 0.05, 0.0042]), st.floats(0, 12))
def test_power_is_that_of_the_noncentral_t(df, level, delta):
    known = stats.nct.sf(stats.t.isf(level / 2, df), df, delta)
    assert power(df, level, delta) == pytest.approx(float(known), abs=2e-5)


@given(st.floats(1, 1e5), st.sampled_from([0.2, 0.05, 0.0042, 1e-4, 1e-9]), st.sampled_from([0.5, 0.8, 0.95]))
def test_detectable_is_where_the_power_is_as_asked(df, level, chance):
    assert power(df, level, detectable(df, level, chance)) == pytest.approx(chance, abs=1e-6)


def test_of_many_trials_it_is_the_normals():
    known = stats.norm.isf(0.025) + stats.norm.ppf(0.8)
    assert detectable(1e6, 0.05, 0.8) == pytest.approx(known, rel=1e-4)


def test_ten_blocks():
    """Cohen's d for a paired test of 10 at 5 %, two-sided, with 80 %: 0.996 (G*Power, R's power.t.test)."""
    assert detectable(9, 0.05, 0.8) / math.sqrt(10) == pytest.approx(0.996, abs=5e-4)


def test_effects_scale_it_by_their_spread_and_never_go_below_the_resolution():
    logs = tuple(0.02 * x for x in np.linspace(-1, 1, 10))
    effect = Effect(logs)
    error = effect.sd / math.sqrt(10)
    assert effect.detectable(0.05) == pytest.approx(detectable(9, 0.05, 0.8) * error)
    assert Effect(logs, 1.0).detectable(0.05) == pytest.approx(1 + float(stats.norm.ppf(0.8)) * error)
    assert Effect((0.1,) * 5, 0.01).detectable(0.05) == pytest.approx(0.01)
