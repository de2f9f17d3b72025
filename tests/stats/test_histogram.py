import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.stats.histogram import BIN_ERROR, beyond, count, ecdf, latency, merge, percentile, reportable

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
    if msb <= 6:
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
