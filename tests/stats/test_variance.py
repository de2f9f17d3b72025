import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.stats import f as f_distribution
from statsmodels.stats.anova import anova_lm

from fairlane.stats.variance import Split, Table, split, splits


def simulate(rng, k, sizes, block, trial, *, provision=0.0, lane_provision=0.0):
    """A table of logs with the given standard deviations; ``sizes``: blocks of each provisioning."""
    n, p = sum(sizes), len(sizes)
    of = np.repeat(np.arange(p), sizes)
    y = rng.normal(0, 1, (k, 1)) + rng.normal(0, block, n) + rng.normal(0, trial, (k, n))
    y += rng.normal(0, provision, p)[of] + rng.normal(0, lane_provision, (k, p))[:, of]
    return Table(y, tuple(f"p{i}" for i in of) if p > 1 else ())


def parts(*tables) -> Split:
    found = split(tables)
    assert found is not None
    return found


def frame(table):
    k, n = table.logs.shape
    return pd.DataFrame(
        {
            "y": table.logs.ravel(),
            "lane": np.repeat([f"l{i}" for i in range(k)], n),
            "block": np.tile([f"b{i}" for i in range(n)], k),
            "provision": np.tile(table.provisions or ("p",) * n, k),
        }
    )


@pytest.mark.parametrize(("k", "n"), [(2, 6), (3, 20), (5, 9)])
def test_two_way_layout_as_anova_has_it(k, n):
    table = simulate(np.random.default_rng(k), k, [n], 0.2, 0.1)
    squares = anova_lm(smf.ols("y ~ C(lane) + C(block)", frame(table)).fit())["mean_sq"]
    found = parts(table)
    assert found.trial == pytest.approx(squares["Residual"])
    assert found.block == pytest.approx((squares["C(block)"] - squares["Residual"]) / k)
    assert (found.provision, found.lane_provision, found.blocks) == (None, None, n)


def test_restricted_likelihood_agrees_where_nothing_is_cut():
    """For balanced data and positive estimates REML is the method of moments."""
    table = simulate(np.random.default_rng(5), 3, [40], 0.2, 0.1)
    fit = smf.mixedlm("y ~ C(lane)", frame(table), groups="block").fit(reml=True)
    found = parts(table)
    assert found.trial == pytest.approx(fit.scale, rel=1e-3)
    assert found.block == pytest.approx(float(fit.cov_re.iloc[0, 0]), rel=1e-3)


@pytest.mark.filterwarnings("ignore:The design matrix is rank-deficient")
@pytest.mark.parametrize("sizes", [[5, 5, 5], [3, 8, 4, 2]])
def test_nested_layout_as_anova_has_it(sizes):
    k = 3
    table = simulate(np.random.default_rng(7), k, sizes, 0.1, 0.05, provision=0.3, lane_provision=0.2)
    data = frame(table)

    def left(terms):
        fit = smf.ols(f"y ~ {terms}", data).fit()
        return fit.ssr, round(fit.df_resid)

    def mean_square(fewer, more):
        (s0, df0), (s1, df1) = left(fewer), left(more)
        return (s0 - s1) / (df0 - df1)

    whole = left("C(lane) * C(provision) + C(block)")
    trial = whole[0] / whole[1]
    provisions = mean_square("C(lane)", "C(lane) + C(provision)")
    blocks = mean_square("C(lane) + C(provision)", "C(lane) + C(block)")
    lanes = mean_square("C(lane) + C(block)", "C(lane) * C(provision) + C(block)")
    n0 = (sum(sizes) - sum(n * n for n in sizes) / sum(sizes)) / (len(sizes) - 1)
    found = parts(table)
    assert found.trial == pytest.approx(trial)
    assert found.block == pytest.approx((blocks - trial) / k)
    assert found.lane_provision == pytest.approx((lanes - trial) / n0)
    df = ((k - 1) * (len(sizes) - 1), (k - 1) * (sum(sizes) - len(sizes)))
    assert found.lane_provision_p == pytest.approx(float(f_distribution.sf(lanes / trial, *df)))
    assert found.provision == pytest.approx(max(0, (provisions - blocks - (lanes - trial)) / (k * n0)))


def test_estimates_are_right_on_average_in_unequal_provisionings():
    """Before cutting at 0, so with components large enough never to be cut."""
    rng = np.random.default_rng(8)
    runs = [
        parts(simulate(rng, 3, [12, 9, 15, 10, 14, 12, 8, 16], 0.2, 0.1, provision=0.6, lane_provision=0.2))
        for _ in range(1500)
    ]
    for name, sd in (("trial", 0.1), ("block", 0.2), ("lane_provision", 0.2), ("provision", 0.6)):
        seen = np.array([getattr(r, name) for r in runs])
        assert seen.mean() == pytest.approx(sd**2, abs=4 * seen.std() / math.sqrt(len(seen)))


def test_the_interval_of_the_share_covers_as_it_says():
    rng = np.random.default_rng(9)
    truth = 0.2**2 / (0.2**2 + 0.1**2)
    shares = [parts(simulate(rng, 3, [10], 0.2, 0.1)).share for _ in range(4000)]
    covered = np.mean([low <= truth <= high for low, high in shares])
    assert covered == pytest.approx(0.95, abs=3 * math.sqrt(0.05 * 0.95 / 4000))


def test_nothing_shared_is_zero_and_not_negative():
    rng = np.random.default_rng(10)
    found = [parts(simulate(rng, 2, [8], 0.0, 0.1)) for _ in range(200)]
    assert all(f.block >= 0 for f in found)
    assert 0.3 < np.mean([f.block == 0 for f in found]) < 0.7
    assert all(f.narrower == 1 for f in found if f.block == 0)


def test_cells_are_added_up_with_their_own_means():
    rng = np.random.default_rng(11)
    cells = [simulate(rng, 3, [6], 0.2, 0.1) for _ in range(400)]
    found = parts(*(Table(t.logs + 100 * i) for i, t in enumerate(cells)))
    assert (found.block, found.trial) == pytest.approx((0.04, 0.01), rel=0.15)
    assert found.blocks == 2400


def test_paired_intervals_are_narrower_by_the_factor_told():
    """Standard errors of the difference of two lanes' means: 40 blocks paired, against two independent samples."""
    table = simulate(np.random.default_rng(12), 2, [4000], 0.2, 0.1)
    a, b = table.logs
    paired = np.std(a - b, ddof=1)
    independent = math.sqrt(a.var(ddof=1) + b.var(ddof=1))
    assert parts(table).narrower == pytest.approx(independent / paired, rel=1e-3)


@pytest.mark.parametrize("logs", [np.zeros((2, 6)), np.ones((1, 6)), np.ones((3, 1)), np.zeros((0, 0))])
def test_no_spread_or_nothing_to_compare(logs):
    assert split([Table(logs)]) is None


def test_blocks_that_shift_all_lanes_alike_are_all_shared():
    found = parts(Table(np.log(np.array([[1.0, 2, 4, 3], [2, 4, 8, 6]]))))
    assert found.correlation == pytest.approx(1)


def test_of_a_run_failed_trials_take_their_block(run):
    rng = np.random.default_rng(13)
    shared = rng.normal(0, 0.1, 12)
    lanes = {name: list(1000 * np.exp(shared + rng.normal(0, 0.02, 12))) for name in "abc"}
    lanes["b"][3] = None
    evidence = run([lanes])
    logs = np.array([[math.log(v) for i, v in enumerate(lanes[name]) if i != 3] for name in "abc"])
    assert splits(evidence)["main"] == parts(Table(logs))
    unpaired = evidence.study.model_copy(update={"design": evidence.study.design.model_copy(update={"paired": False})})
    assert splits(replace(evidence, study=unpaired)) == {}


def test_provisionings_come_from_the_design(run):
    rng = np.random.default_rng(14)
    values = {"a": list(np.exp(rng.normal(7, 0.1, 12))), "b": list(np.exp(rng.normal(7, 0.1, 12)))}
    evidence = run([values])

    def designed(provisionings):
        design = evidence.study.design.model_copy(update={"provisionings": provisionings, "looks": (12,)})
        return splits(replace(evidence, study=evidence.study.model_copy(update={"design": design})))["main"]

    logs = np.log(np.array([values["a"], values["b"]]))
    assert designed(3) == parts(Table(logs, tuple(i // 4 for i in range(12))))
    assert designed(1).provision is None
