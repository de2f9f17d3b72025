import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.stats.histogram import (
    BIN_ERROR,
    Bins,
    beyond,
    binned,
    count,
    ecdf,
    latency,
    mean,
    merge,
    midpoints,
    percentile,
    reportable,
)

bins = st.dictionaries(st.integers(1, 10**9), st.integers(0, 500), max_size=30)
full = bins.filter(lambda h: sum(h.values()) > 0)
shares = st.sampled_from(["0.5", "0.9", "0.99", "0.999", "1"])


@given(st.lists(bins, max_size=5))
def test_merging_adds_bins_and_nothing_else(histograms):
    merged = merge(histograms)
    assert list(merged) == sorted(merged)
    assert all(merged.values())
    for ns in {ns for h in histograms for ns in h}:
        assert merged.get(ns, 0) == sum(h.get(ns, 0) for h in histograms)


@given(full, shares)
def test_percentile_is_the_nearest_rank_of_the_sorted_ios(histogram, q):
    ios = sorted(ns for ns, n in histogram.items() for _ in range(n))
    rank = math.ceil(Fraction(q) * len(ios))
    assert percentile(histogram, float(q)) == ios[rank - 1]
    assert beyond(histogram, float(q)) == len(ios) - rank


def test_ten_beyond():
    assert reportable({100: 1000}, 0.99)
    assert not reportable({100: 999}, 0.99)
    assert not reportable({}, 0.5)


@pytest.mark.parametrize("q", [0, -0.1, 1.01])
def test_a_share_outside_is_refused(q):
    with pytest.raises(ValueError, match="share"):
        percentile({1: 1}, q)


def test_empty_has_no_percentile():
    with pytest.raises(ValueError, match="empty"):
        percentile({}, 0.5)


def test_merged_percentile_is_not_the_mean_of_percentiles():
    """A 90/10 mixture: 90 % of the I/Os are fast. The mean of the two p99s says 5.5 ms, the truth is 10 ms."""
    fast, slow = {1_000_000: 9000}, {10_000_000: 1000}
    assert percentile(merge([fast, slow]), 0.99) == 10_000_000
    assert (percentile(fast, 0.99) + percentile(slow, 0.99)) / 2 == 5_500_000


def test_only_total_latency_counts_all_directions():
    histograms = {"read.lat": {10: 1}, "write.lat": {20: 2}, "read.clat": {5: 9}, "write.slat": {1: 9}}
    assert latency(histograms) == {10: 1, 20: 2}


def _fio_midpoint(ns: int) -> int:
    """fio's plat_val_to_idx and plat_idx_to_val (stat.c) with FIO_IO_U_PLAT_BITS 6."""
    msb = ns.bit_length() - 1
    if msb <= 6:  # and of 0
        return ns
    shift = msb - 6
    return (1 << msb) + int(((ns >> shift & 63) + 0.5) * (1 << shift))


@given(st.integers(1, 10**11))
def test_bin_error_is_that_of_fios_bins(ns):
    assert abs(_fio_midpoint(ns) - ns) <= BIN_ERROR * ns


@given(full)
def test_ecdf_rises_to_one_through_true_points(histogram):
    points = ecdf(histogram, points=8)
    assert points[-1] == (max(ns for ns, n in histogram.items() if n), 1.0)
    assert points == sorted(points)
    total = count(histogram)
    for ns, share in points:
        assert share == sum(n for at, n in histogram.items() if at <= ns) / total


def test_ecdf_keeps_the_tail_and_is_small():
    rng = np.random.default_rng(5)
    values, counts = np.unique((rng.lognormal(12, 0.6, 200_000) // 64).astype(int), return_counts=True)
    histogram = dict(zip(values.tolist(), counts.tolist(), strict=True))
    points = ecdf(histogram, points=100)
    assert len(points) < 220 < len(histogram)
    for q in (0.5, 0.9, 0.99, 0.999, 0.9999):
        reached = next(ns for ns, share in points if share >= q)
        assert reached == pytest.approx(percentile(histogram, q), rel=0.05)
    assert ecdf({}) == []


# --- the compact form


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**6)), max_size=40))
def test_bins_are_the_mapping_that_they_were_made_of(pairs):
    expected: dict[int, int] = {}
    for ns, n in pairs:
        expected[ns] = expected.get(ns, 0) + n
    expected = {ns: n for ns, n in sorted(expected.items()) if n}
    bins = Bins([ns for ns, _ in pairs], [n for _, n in pairs])
    assert bins == expected
    assert dict(bins) == expected
    assert list(bins) == list(expected)
    assert len(bins) == len(expected)
    assert bins.total == sum(expected.values())
    assert all(bins[ns] == n and ns in bins for ns, n in expected.items())
    assert Bins.of(expected) == bins == Bins.of(bins)
    assert pickle.loads(pickle.dumps(bins)) == copy.deepcopy(bins) == bins  # noqa: S301


@pytest.mark.parametrize("missing", [-1, 0, 11, 10**30, "10", 10.5])
def test_what_is_no_bin_is_not_in_it(missing):
    bins = Bins([10, 20], [1, 2])
    assert missing not in bins
    assert bins.get(missing) is None


def test_bins_differ_where_mappings_differ():
    assert Bins([1], [2]) != {1: 3}
    assert Bins([1], [2]) != Bins([2], [2])
    assert Bins([1], [2]) != [1, 2]
    with pytest.raises(TypeError, match="unhashable"):
        hash(Bins())


def test_bins_cannot_be_changed():
    bins = Bins([1, 2], [3, 4])
    with pytest.raises(ValueError, match="read-only"):
        bins.counts[0] = 9
    assert merge([bins]) is bins


@pytest.mark.parametrize(
    ("ns", "counts"),
    [
        ([1], [1, 2]), ([1.5], [1]), ([None], [1]), ([1], [1.5]), ([1], [True]), ([-1], [1]), ([1], [-1]), (["1"], [1]),
        ([[1]], [[1]]), ([10**19], [1]), ([10**30], [1]), ([1], [10**30]), ([1, 2], [2**62, 2**62]), ([[1], 2], [1, 2]),
    ],
)  # fmt: skip
def test_what_is_no_histogram_is_refused(ns, counts):
    with pytest.raises(ValueError, match=r"bin|whole|more I/Os|inhomogeneous"):
        Bins(ns, counts)


@given(st.lists(st.integers(0, 2 * 10**10), min_size=1, max_size=200))
def test_latencies_are_counted_in_fios_bins(values):
    bins = binned(np.array(values))
    expected: dict[int, int] = {}
    for ns in values:
        at = _fio_midpoint(ns) if ns < 2**34 else int(midpoints()[-1])
        expected[at] = expected.get(at, 0) + 1
    assert bins == expected


def test_a_latency_beyond_all_bins_is_in_the_last():
    for ns in (2**34, 2**62):
        assert binned(np.array([ns])) == {int(midpoints()[-1]): 1}
    assert midpoints(19)[-1] == midpoints()[19 * 64 - 1]


@given(full)
def test_mean_is_weighted_by_ios(histogram):
    ios = [ns for ns, n in histogram.items() for _ in range(n)]
    assert mean(histogram) == pytest.approx(sum(ios) / len(ios))


def test_no_ios_have_no_mean():
    with pytest.raises(ValueError, match="empty"):
        mean({})
