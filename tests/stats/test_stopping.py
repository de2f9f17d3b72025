"""When a cell ends: with a word and a size, or without hope; and how the printed interval fits the word."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairlane.stats.answers import answer, word
from fairlane.stats.contests import Claims, Stage, lent
from fairlane.stats.effects import Effect
from fairlane.stats.looks import nominal_levels
from fairlane.stats.moderated import Common, Moderated
from fairlane.stats.stopping import chance, open_cells
from tests.stats.test_judge import around, primaries
from tests.words import noted

EDGE = math.log1p(0.05)
PLAN = tuple(range(4, 21, 2))
PATTERN = np.array((0.3, -1.1, 0.9, -0.4, 1.2, -0.9, 0.1, -0.1, 0.7, -0.7))


def cell(mean, sd, n):
    """Blocks whose log-ratios have exactly this mean and standard deviation, in no order."""
    d = np.resize(PATTERN, n)
    d = mean + sd * (d - d.mean()) / d.std(ddof=1)
    return {"base": [1000.0] * n, "new": list(1000 * np.exp(d))}


def claims_of(made, **options):
    found = Claims(made.study, made.observations, primary_only=True, **options)
    (contest,) = found.primaries
    return found, contest, found.stage(contest)


# --- what is printed

logs = st.lists(st.floats(-0.2, 0.2), min_size=20, max_size=20).filter(lambda d: np.std(d) > 1e-4).map(tuple)
lending = st.sampled_from([None, Common(0.0004, 6.0, 0.02, 6), Common(0.01, 2.0, 0.1, 4)])
rates = st.sampled_from([0.05, 0.025, 0.05 / 8, 0.05 / 24])


@given(logs, lending, st.integers(1, len(PLAN)), rates)
def test_what_is_printed_lies_within_what_decides(d, common, looks, rate):
    n = PLAN[looks - 1]
    own = Effect(d[:n])
    stage = Stage(Moderated.of(own, common) if common else own, PLAN, PLAN[:looks])
    (low, high), (least, most) = stage.printed(0.05, rate), stage.interval(rate)
    assert least <= low <= stage.effect.mean <= high <= most
    nominal = (0.4 if common else 0.3) * 0.05
    assert stage.printed_level(0.05) == pytest.approx(nominal)
    plain = stage.effect.interval(nominal)
    assert (low, high) == (stage.interval(rate) if stage.level(rate) > nominal else plain)
    if stage.rejects(rate):
        assert low > 0 or high < 0, "a difference by the word is one by what is printed"


@given(logs, rates)
def test_with_one_look_alpha_itself_is_printed(d, rate):
    stage = Stage(Effect(d), (20,), (20,))
    assert stage.printed_level(0.05) == 0.05
    assert stage.printed(0.05, rate) == Effect(d).interval(0.05)
    assert Stage(Effect(d), (20,), (20,), 0.75).printed_level(0.05) == pytest.approx(0.0375), "where width stops it"


@pytest.mark.slow
def test_what_is_printed_covers_over_studies_that_end_early(run):
    """Equal lanes and lanes with 4 % between them, ended as the runner ends them: 95 % of printed intervals hold."""
    rng = np.random.default_rng(3)
    held = []
    for i, d in enumerate(rng.normal(0, 0.03, (250, 20))):
        true = 0.04 * (i % 2)
        full = run([{"base": [1000.0] * 20, "new": list(1000 * np.exp(d + true))}])
        looks = full.study.design.looks
        n = next(n for k, n in enumerate(looks) if not open_cells(full.study, full.observations, k))
        v = primaries(replace(full, observations=tuple(o for o in full.observations if o.block < n)))[0]
        held.append(v.low <= math.exp(true) <= v.high)
    assert np.mean(held) > 0.95 - 3 * math.sqrt(0.05 * 0.95 / 250)


# --- a word, and a size


def goes_on(run, cells, look, plan, *, modelled=False):
    made = run(cells, looks=plan)
    keys = [c.key for c in made.cells()]
    ends = open_cells(made.study, made.observations, look, modelled=modelled)
    return [key in ends for key in keys]


def answered(run, cells, plan):
    return {v.verdict for v in primaries(run(cells, looks=plan))}


@pytest.mark.parametrize(
    ("mean", "sd", "on"),
    [
        (0.08, 0.04, True),  # faster, by 4 to 12 %: says little of the size
        (0.20, 0.03, False),  # all of it beyond the margin
        (0.08, 0.012, False),  # within half a margin of the estimate
        (0.07, 0.035, True),
        (-0.08, 0.04, True),
        (-0.20, 0.03, False),
    ],
)
def test_a_cell_goes_on_although_its_word_stands_where_its_size_is_not_clear(run, mean, sd, on):
    cells = [cell(mean, sd, 10)]
    half = stats.t.isf(0.3 * 0.05 / 2, 9) * sd / math.sqrt(10)
    assert on == (abs(mean) - half < EDGE and half > EDGE / 2), "by the printed interval"
    assert answered(run, cells, (10, 20)) == {"faster" if mean > 0 else "slower"}
    assert goes_on(run, cells, 0, (10, 20)) == [on]
    assert goes_on(run, cells, 0, (10, 20), modelled=True) == [False], "the virtual clock needs no more than the word"


def test_a_clear_word_waits_for_ten_blocks_unless_cells_lend(run):
    clear = cell(0.3, 0.005, 8)
    assert goes_on(run, [clear], 0, (8, 20)) == [True], "fewer do not show that they are alike"
    assert goes_on(run, [clear] * 3, 0, (8, 20)) == [False] * 3


def test_a_clear_word_of_less_than_six_blocks_waits_unless_cells_lend(run):
    clear = cell(0.3, 0.005, 4)
    assert goes_on(run, [clear], 0, (4, 8)) == [True]
    assert goes_on(run, [clear] * 6, 0, (4, 8)) == [False] * 6
    assert goes_on(run, [clear], 0, (4, 8), modelled=True) == [False]


# --- ties


@pytest.mark.parametrize(("mean", "said"), [(0.0, "tie"), (0.02, "different-but-small")])
@pytest.mark.parametrize("cells", [1, 6])
def test_no_tie_ends_a_cell_before_ten_blocks(run, mean, said, cells):
    """So few clean trials say too little of the slow ones, whether cells lend their spread or not."""
    plan = (6, 8, 10, 12)
    for look, n in enumerate(plan[:3]):
        some = [cell(mean, 0.004, n)] * cells
        assert answered(run, some, plan) == {said}
        assert goes_on(run, some, look, plan) == [n < 10] * cells
        assert goes_on(run, some, look, plan, modelled=True) == [False] * cells


def test_a_plan_that_ends_before_ten_blocks_may_end_with_a_tie(run):
    some = [cell(0.0, 0.004, 8)]
    assert goes_on(run, some, 1, (6, 8)) == [False]
    assert answered(run, some, (6, 8)) == {"tie"}


def test_blocks_that_failed_do_not_count_towards_the_ten(run):
    some = cell(0.0, 0.004, 10)
    some["new"][3] = some["base"][3] = None
    assert goes_on(run, [some], 0, (10, 20)) == [True], "nine count"


# --- without hope


@pytest.mark.parametrize(
    ("mean", "sd"), [(0.03, 0.05), (0.03, 0.12), (0.0, 0.06), (0.01, 0.08), (0.06, 0.12), (0.025, 0.035)]
)
def test_chance_is_about_that_of_the_blocks_to_come(run, mean, sd):
    """The same 10 blocks, and 4000 ways to go on, about a truth that they know to a standard error: how many have a
    word at the last look."""
    plan = (10, 20)
    made = run([cell(mean, sd, 10)], looks=plan)
    claims, contest, stage = claims_of(made)
    assert answer(claims, contest).word == "inconclusive"
    d = np.log(np.array(cell(mean, sd, 10)["new"]) / 1000)
    rng = np.random.default_rng(1)
    later = rng.normal(rng.normal(mean, sd / math.sqrt(10), (4000, 1)), sd, (4000, 10))
    whole = np.concatenate([np.broadcast_to(d, later.shape), later], axis=1)
    error = sd / math.sqrt(20)  # as it is now
    outer, inner = (stats.t.isf(nominal_levels(plan, alpha)[-1] / 2, 19) * error for alpha in (0.05, 0.10))
    m = whole.mean(1)
    words = [word(x, (x - outer, x + outer), (x - inner, x + inner), 0.05, 1) for x in m]
    share = np.mean([w != "inconclusive" for w in words])
    either = chance(claims, contest, stage)
    assert either == pytest.approx(share, abs=0.06)


def test_a_cell_is_parked_if_a_word_is_out_of_reach(run):
    """A spread that twenty blocks cannot overcome: eight of them do not exclude that chance will, ten do."""
    plan = (6, 8, 10, 20)
    for look, n in enumerate(plan[:3]):
        some = [cell(0.01, 0.3, n)]
        assert answered(run, some, plan) == {"inconclusive"}
        assert goes_on(run, some, look, plan) == [n < 10]
    hope, none = cell(0.06, 0.06, 10), cell(0.01, 0.3, 10)
    for some, on in ((hope, True), (none, False)):
        claims, contest, stage = claims_of(run([some], looks=plan))
        assert (chance(claims, contest, stage) >= 0.05) == on
        assert goes_on(run, [some], 2, plan) == [on]
        assert goes_on(run, [{lane: v[:6] for lane, v in some.items()}], 0, plan) == [True], "six blocks say too little"
    (v,) = primaries(run([none], looks=plan))
    assert v.more_blocks > 12, "it says how many it would take"


def test_chance_grows_with_the_difference_and_falls_with_the_spread(run):
    def of(mean, sd):
        return chance(*claims_of(run([cell(mean, sd, 10)], looks=(10, 20))))

    means = [of(mean, 0.06) for mean in (0.03, 0.04, 0.05, 0.08)]
    assert means == sorted(means)
    spreads = [of(0.001, sd) for sd in (0.02, 0.04, 0.06, 0.1)]
    assert spreads == sorted(spreads, reverse=True)
    assert all(0 <= each <= 1 for each in means + spreads)
    assert of(0.0, 0.0) == 1, "without spread any word is certain"


# --- what few blocks do not see


@pytest.mark.parametrize("n", [6, 10, 20])
def test_unseen_is_the_share_of_slow_trials_that_so_many_blocks_may_all_miss(run, n):
    v = primaries(run([{"base": around(1000, n), "new": around(1200, n, -0.004)}], looks=(n,)))[0]
    assert (1 - v.unseen) ** n == pytest.approx(0.05)
    assert v.unseen == pytest.approx({6: 0.39, 10: 0.26, 20: 0.14}[n], abs=0.005)


def test_unseen_speaks_of_words_that_were_measured(run):
    made = run([{"base": around(1000, 10), "new": around(1200, 10, -0.004)}], looks=(10,))
    assert primaries(replace(made, modelled=True))[0].unseen is None
    open_ = run([cell(0.03, 0.08, 10)], looks=(10,))
    assert primaries(open_)[0].unseen is None
    voided = {"base": around(1000, 10), "new": around(1200, 10, -0.004)}
    voided["base"][3] = voided["new"][3] = None
    assert (1 - primaries(run([voided], looks=(10,)))[0].unseen) ** 9 == pytest.approx(0.05), "blocks that count"


# --- headlines


@pytest.mark.parametrize(("cells", "headline"), [(1, False), (2, False), (3, True)])
def test_a_headline_needs_six_blocks_or_lent_spread(run, cells, headline):
    some = [cell(0.3, 0.005, 5)] * cells
    found = primaries(run(some, looks=(5,)))
    assert {v.verdict for v in found} == {"faster"}
    assert {v.headline for v in found} == {headline}
    assert {"single-trials"}.isdisjoint(k for v in found for k in noted(v.notes))
    assert primaries(run([cell(0.3, 0.005, 6)], looks=(6,)))[0].headline
    assert primaries(replace(run(some, looks=(5,)), modelled=True))[0].headline


def test_lent_is_what_other_cells_lend(run):
    for cells in (2, 3):
        made = run([cell(0.1, 0.01, 8)] * cells, looks=(8,))
        claims = Claims(made.study, made.observations)
        assert [lent(stage) for c in claims.primaries if (stage := claims.stage(c))] == [cells == 3] * cells
