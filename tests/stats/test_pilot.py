import math

import numpy as np
import pytest
from scipy.stats import chi2, norm
from statsmodels.stats.weightstats import DescrStatsW

from fairlane.stats.effects import Effect, blocks_needed
from fairlane.stats.pilot import level, needs, upper_limit


def figures(rng, sd, blocks=6):
    d = rng.normal(0.1, 1, blocks)
    d = 0.1 + sd * (d - d.mean()) / d.std(ddof=1)  # exactly this spread
    return {"a": [1000.0] * blocks, "b": list(1000 * np.exp(d))}


@pytest.mark.parametrize(("sd", "blocks"), [(0.01, 4), (0.02, 7), (0.05, 27), (0.10, 99)])
def test_the_design_notes_table(run, sd, blocks):
    """+-2 % at 95 %, on the log scale."""
    (need,) = needs(run([figures(np.random.default_rng(1), sd)]), half_width=math.expm1(0.02))
    assert need.sd == pytest.approx(sd)
    assert need.needed == blocks


def test_that_many_blocks_of_that_spread_give_the_half_width_by_another_implementation(run):
    rng = np.random.default_rng(2)
    (need,) = needs(run([figures(rng, 0.05)]), half_width=0.02)
    assert need.needed is not None
    d = np.log(figures(rng, 0.05, blocks=need.needed)["b"])
    low, high = DescrStatsW(d).tconfint_mean(0.05)
    assert (high - low) / 2 <= math.log(1.02)
    d = np.log(figures(rng, 0.05, blocks=need.needed - 1)["b"])
    low, high = DescrStatsW(d).tconfint_mean(0.05)
    assert (high - low) / 2 > math.log(1.02)


@pytest.mark.parametrize("n", [2, 4, 6, 20])
def test_the_upper_limit_is_the_chi_square_one(n):
    assert upper_limit(0.03, n) == pytest.approx(0.03 * math.sqrt((n - 1) / chi2.ppf(0.10, n - 1)))


def test_the_upper_limit_holds_in_nine_pilots_of_ten():
    rng = np.random.default_rng(3)
    below = np.mean([upper_limit(Effect(tuple(x)).sd, 5) >= 1 for x in rng.normal(0, 1, (4000, 5))])
    assert below == pytest.approx(0.90, abs=3 * math.sqrt(0.09 / 4000))


def test_the_margin_is_the_default_and_the_primaries_share_alpha(run):
    rng = np.random.default_rng(4)
    evidence = run([figures(rng, 0.05) for _ in range(4)], margins={"iops": 0.03})
    assert level(evidence.study) == 0.05 / 4
    found = needs(evidence)
    assert [need.half_width for need in found] == [0.03] * 4
    assert found[0].needed == blocks_needed(0.05, math.log(1.03), 0.05 / 4)
    assert found[0].needed is not None
    assert found[0].needed > (norm.ppf(1 - 0.05 / 8) * 0.05 / math.log(1.03)) ** 2


def test_failed_trials_and_unfinished_runs(run):
    rng = np.random.default_rng(5)
    cell = figures(rng, 0.05, blocks=7)
    cell["b"][2] = None
    (need,) = needs(run([cell], complete=False))
    d = [math.log(v) for v in cell["b"] if v]
    assert need.blocks == 6
    assert need.sd == pytest.approx(np.std(d, ddof=1))
    (early,) = needs(run([{"a": [5.0], "b": [6.0]}], complete=False))
    assert (early.blocks, early.sd, early.needed, early.needed_upper) == (1, None, None, None)


def test_what_the_figures_cannot_resolve_takes_no_number_of_blocks(run):
    bins = {1000: 5000, 1300: 300}
    evidence = run([{"a": [1.0] * 6, "b": [1.0] * 6}], primary="lat_p50", latency=lambda lane, block: bins, margins={})
    (need,) = needs(evidence, half_width=0.01)  # both bins are 0.78 % wide to either side
    assert need.needed is None


@pytest.mark.parametrize("bad", [0.0, -0.1, math.nan])
def test_no_half_width(run, bad):
    with pytest.raises(ValueError, match="above 0"):
        needs(run([figures(np.random.default_rng(6), 0.05)]), half_width=bad)
