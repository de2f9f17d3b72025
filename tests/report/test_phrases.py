import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.records import Verdict
from fairlane.report import phrases

BASE = Verdict(
    workload="main",
    cell="4k randread qd16",
    key="main.4k-randread-qd16",
    lane="nvme-tcp",
    baseline="iscsi",
    metric="iops",
    primary=True,
    verdict="faster",
    ratio=1.12,
    low=1.1189,
    high=1.1213,
    tie_low=1.119,
    tie_high=1.121,
    margin=0.05,
    level=0.003,
    blocks=6,
    voided=0,
    lane_value=14525.0,
    baseline_value=12970.0,
    headline=True,
)


def said(**changes: Any) -> str:
    return phrases.sentence(replace(BASE, **changes), "NVMe/TCP", "iSCSI")


def test_the_sentence_of_a_win_names_lane_size_place_and_doubt():
    assert said() == "NVMe/TCP is at least 11.8 % faster than iSCSI at 4k randread qd16 (IOPS, 99.7 %, 6 blocks)"


def test_the_sentence_of_a_loss_is_the_drop_of_the_metric_itself():
    text = said(verdict="slower", ratio=0.55, low=0.5, high=0.6)
    assert text.startswith("NVMe/TCP is at least 40.0 % slower than iSCSI at")


def test_latency_is_lower_not_faster():
    text = said(metric="lat_p99", ratio=0.8, low=0.75, high=0.849)
    assert text.startswith("p99 latency of NVMe/TCP is at least 15.1 % lower than iSCSI's at 4k randread qd16 (p99")
    text = said(metric="lat_p99", verdict="slower", ratio=1.3, low=1.2, high=1.4)
    assert "at least 20.0 % higher" in text


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"verdict": "tie", "low": 0.99, "high": 1.02}, "NVMe/TCP and iSCSI tie: any difference is smaller than 5 %"),
        (
            {"verdict": "different-but-small", "tie_low": 1.02, "tie_high": 1.03},
            "less than the 5 % that matters (tie test: +2.0 % to +3.0 %)",
        ),
        (
            {"verdict": "inconclusive", "low": 0.9, "high": 1.2, "more_blocks": 12},
            "about 12 further blocks to reach the margin",
        ),
        ({"verdict": "inconclusive", "low": None, "high": None}, "no conclusion for NVMe/TCP against iSCSI (\u2013)"),
        ({"verdict": "refused", "notes": ("every trial of iscsi failed",)}, "qd16: every trial of iscsi failed"),
        ({"verdict": "refused", "notes": ()}, "see the findings"),
    ],
)
def test_every_verdict_word_has_its_sentence(changes, part):
    assert part in said(**changes)


@given(st.floats(0.01, 50), st.floats(1.0, 3.0))
def test_at_least_never_promises_more_than_the_interval(low, width):
    high = low * width
    text = phrases.at_least(replace(BASE, low=low, high=high))
    if low <= 1 <= high:
        assert text == ""
        return
    end = abs((low if low > 1 else high) - 1) * 100
    number = float(re.findall(r"[\d.]+", text.replace(",", ""))[0])
    assert number <= end + 1e-4
    assert end - number < (0.1 if end < 1000 else 1) + 1e-4


@given(st.floats(0.01, 50), st.floats(1.0, 3.0))
def test_a_printed_interval_covers_the_real_one(low, width):
    text = phrases.interval(low, low * width).replace("\u2212", "-").replace("±", "").replace(",", "")
    first, last = (float(x) / 100 + 1 for x in re.findall(r"[-+]?[\d.]+", text))
    assert first <= low + 1e-7
    assert last >= low * width - 1e-7


def test_a_small_end_is_not_rounded_to_nothing():
    assert phrases.interval(1.0003, 1.287) == "+0.03 % to +28.7 %"
    assert phrases.at_least(replace(BASE, low=1.00037, high=1.3)) == "at least 0.03 %"
    assert phrases.at_least(replace(BASE, low=1.000001, high=1.3)) == "more than 0 %"


@pytest.mark.parametrize(
    ("level", "text"),
    [(0.05, "95 %"), (0.05 / 16, "99.6 %"), (6.78e-5, "99.993 %"), (0.00045 / 8, "99.994 %"), (0.1, "90 %")],
)
def test_coverage_is_rounded_down_and_never_certain(level, text):
    assert phrases.coverage(level) == text


def test_a_tie_shows_the_interval_that_proves_it():
    """The adjusted interval may be wider than the margin; a tie is shown by the narrower one of the tie test."""
    text = said(verdict="tie", low=0.93, high=1.08, tie_low=0.979, tie_high=1.041)
    assert "any difference is smaller than 5 % (tie test: \u22122.1 % to +4.1 %)" in text
    assert phrases.tie_interval(BASE) == ""


def test_an_interval_without_limit_says_so():
    assert phrases.interval(1e-12, 1e12) == "\u2212100.0 % to no limit"
    assert phrases.interval(0.042, 21_934) == "\u221295.8 % to no limit"
    assert phrases.interval(4900, 5010) == "+489,900 % to +500,900 %"  # large, but known well


def test_large_changes_have_no_decimals():
    """A table cell of 22 characters holds them in one line."""
    assert phrases.interval(38.3774, 40.6527) == "+3,737 % to +3,966 %"
    assert phrases.change(39.498) == "+3,850 %"
    assert phrases.at_least(replace(BASE, low=38.3779, high=41)) == "at least 3,737 %"
    assert phrases.interval(10.9, 11.05) == "+990.0 % to +1,005 %"


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ([1], "about 1 further block"),
        ([3, 12], "about 3 to 12 further blocks"),
        ([3, 899], "about 3 to more than 100 further blocks"),
        ([100], "about 100 further blocks"),
        ([101, 899], "more than 100 further blocks"),
    ],
)
def test_further_blocks_are_not_told_to_the_last_of_hundreds(blocks, text):
    assert phrases.further(blocks) == text


def test_no_change_has_no_sign_of_its_own():
    assert phrases.change(1.0) == "±0.0 %"
    assert phrases.change(0.99999) == "±0.0 %"


def summed(*changes: dict[str, Any]) -> str:
    return phrases.summary([replace(BASE, **{"cell": f"c{i}", **c}) for i, c in enumerate(changes)], "N", "I")


def test_summary_of_a_clean_win_gives_the_smallest_and_largest_promise():
    text = summed({}, {"low": 1.3, "high": 1.4}, {"low": 1.2, "high": 1.3})
    assert text == "N is faster than I in all 3 cells: IOPS higher by at least 11.8 % at c0 to at least 30.0 % at c1."


def test_summary_of_one_cell():
    assert summed({}) == "N is faster than I in c0: IOPS higher by at least 11.8 %."


def test_summary_of_mixed_verdicts_counts_and_names_them():
    text = summed(
        {},
        {"low": 1.3, "high": 1.4},
        {"verdict": "slower", "low": 0.8, "high": 0.9},
        {"verdict": "tie", "low": 0.99, "high": 1.01},
        {"verdict": "inconclusive", "low": 0.9, "high": 1.2, "headline": False},
        {"headline": False},
    )
    assert text == (
        "N against I in 6 cells: faster in 2 (IOPS higher by at least 11.8 % at c0 to at least 30.0 % at c1), "
        "slower in 1 (c2; IOPS lower by at least 10.0 %), tie in 1 (c3), inconclusive in 1 (c4), "
        "withheld in 1 because of a critical finding (c5)."
    )


def test_summary_says_better_where_faster_would_be_odd():
    text = summed({"metric": "cpu_per_io", "low": 0.7, "high": 0.8}, {"metric": "cpu_per_io", "low": 0.6, "high": 0.7})
    assert text.startswith("N is better than I in all 2 cells: CPU per I/O lower by at least 20.0 %")


def test_summary_of_refusals_gives_the_common_reason():
    why = {"verdict": "refused", "notes": ("no trial yet",), "low": None, "high": None}
    assert summed(why, why) == "N cannot be compared with I in all 2 cells: no trial yet."


def test_an_unknown_metric_is_shown_not_hidden():
    assert phrases.value("wobbles", 1234.5) == "1234"
    assert phrases.value("iops", None) == "\u2013"


def test_summary_of_mixed_costs_says_better_and_worse():
    cost = {"metric": "cpu_per_io", "primary": False, "headline": False}
    text = summed({**cost, "low": 0.7, "high": 0.8}, {**cost, "verdict": "slower", "low": 1.1, "high": 1.2})
    assert text.startswith("N against I in 2 cells: better in 1 (c0; CPU per I/O lower by at least 20.0 %), worse in 1")
