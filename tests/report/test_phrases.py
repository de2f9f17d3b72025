import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from fairlane.records import Verdict
from fairlane.report import fleet, markdown, model, pareto, phrases, platform_facts, prose, storms, timeline
from tests.figures import figures
from tests.report import test_fig_pareto, test_fleet_sentences, test_storms, test_timeline
from tests.report.test_fig_evidence import fake

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


def test_a_report_as_a_whole(case: Any, snapshot: SnapshotAssertion) -> None:
    text = markdown.render(model.build(*case))
    assert re.sub(r"```.*?```", "```\n...\n```", text, flags=re.DOTALL) == snapshot


def test_what_is_told_of_storms_faults_costs_fleets_and_clusters(case: Any, snapshot: SnapshotAssertion) -> None:
    storm = storms.view(test_storms.evidence(cluster=True, waited=3.5), "main", test_storms.LABEL)
    assert storm
    (cost,) = pareto.views(*fake(test_fig_pareto.GRID, **test_fig_pareto.COSTS))
    started = test_fleet_sentences.started(case, test_fleet_sentences.WINDOWS, probes=test_fleet_sentences.COSTS)
    nodes = {"n0": {"zone": "z0"}, "n1": {"zone": "z1"}, "n2": {}}
    assert snapshot == {
        "storm": (storm.notes, storms.figure(storm, "s").caption, storms.figure(storm, "s").table.columns),
        "faults": [view.sentences for view in timeline.views(test_timeline.faults(), test_timeline.LABEL)],
        "cost": pareto.figure(cost, "f").caption,
        "fleet": fleet.sentences(started),
        "cluster": platform_facts.rows({"nodes": nodes, "boot_seconds": {"a-0": 36.56, "b-0": 63.91}}),
        "banners": [prose.INVENTED, prose.EMULATED, prose.QUICK],
    }


def test_the_sentence_of_a_win_names_lane_size_place_and_doubt():
    """The estimate first, then the interval."""
    text = said()
    assert figures(text) == ["12.0", "11.8", "12.2", "6"]
    assert [part for part in ("NVMe/TCP", "iSCSI", "faster", "4k randread qd16", "IOPS") if part not in text] == []


def test_the_sentence_of_a_loss_is_the_drop_of_the_metric_itself():
    text = said(verdict="slower", ratio=0.55, low=0.5, high=0.6)
    assert figures(text)[:3] == ["45.0", "40.0", "50.0"], "the nearer end first"
    assert "slower" in text


def test_latency_is_lower_not_faster():
    text = said(metric="lat_p99", ratio=0.8, low=0.75, high=0.849)
    assert figures(text)[:3] == ["20.0", "15.1", "25.0"]
    assert "lower" in text
    assert "p99" in text
    text = said(metric="lat_p99", verdict="slower", ratio=1.3, low=1.2, high=1.4)
    assert figures(text)[:3] == ["30.0", "20.0", "40.0"]
    assert "higher" in text


@pytest.mark.parametrize("metric", ["iops", "lat_p99"])
def test_from_twice_the_baseline_on_it_is_a_factor(metric):
    """Of the metric itself: a latency of a tenth is 90 % lower, and no factor."""
    text = said(metric=metric, verdict="faster" if metric == "iops" else "slower", ratio=2.7, low=2.62, high=2.78)
    assert figures(text)[:3] == ["2.7", "2.6", "2.8"]
    assert text.count("times") == 2
    assert "%" not in text
    text = said(metric=metric, ratio=1.994, low=1.9, high=2.1)
    assert figures(text)[:3] == ["99.4", "90.0", "110.0"]
    assert figures(said(metric="lat_p99", ratio=0.1, low=0.08, high=0.12))[:3] == ["90.0", "88.0", "92.0"]
    assert figures(said(ratio=1000.0, low=3.0, high=1e11))[:2] == ["1,000", "3.0"]
    assert "no limit" in said(ratio=1000.0, low=3.0, high=1e11)


@pytest.mark.parametrize(
    ("changes", "parts", "numbers"),
    [
        ({"verdict": "faster"}, "IOPS", "12.0 11.8 12.2 6"),
        ({"verdict": "tie", "low": 0.99, "high": 1.02}, "tie", "5 +11.90 +12.10 6"),
        ({"verdict": "different-but-small", "tie_low": 1.02, "tie_high": 1.03}, "IOPS", "5 +2.0 +3.0 6"),
        ({"verdict": "inconclusive", "low": 0.9, "high": 1.2, "more_blocks": 12}, "IOPS", "\u221210.0 +20.0 12 6"),
        ({"verdict": "inconclusive", "low": None, "high": None}, "\u2013", "6"),
        ({"verdict": "refused", "notes": ("every trial of iscsi failed",)}, "every trial of iscsi failed", ""),
        ({"verdict": "refused", "notes": ()}, "NVMe/TCP", ""),
        ({"verdict": "no-spread", "low": None, "high": None}, "IOPS", "+12.0 6"),
    ],
)
def test_every_verdict_word_has_its_sentence(changes, parts, numbers, snapshot):
    text = said(**changes)
    assert parts in text
    assert figures(text) == numbers.split()
    assert text == snapshot


def meant(text: str, higher: bool) -> list[tuple[float, float]]:
    """The ratios that a text in per cent or as factors stands for, each with the worth of its last digit."""
    ratios = []
    for number in re.findall(r"[\d,]+(?:\.\d+)?", text):
        digit = 10.0 ** -len(number.partition(".")[2])
        ratio = float(number.replace(",", ""))
        if "%" in text:
            ratio, digit = 1 + (ratio if higher else -ratio) / 100, digit / 100
        ratios.append((ratio, digit))
    return ratios


@given(st.floats(0.01, 50), st.floats(1.0, 3.0), st.floats(0, 1))
def test_sizes_and_intervals_are_true_to_their_last_digit(low, width, place):
    high = low * width
    ratio = low * width**place
    v = replace(BASE, ratio=ratio, low=low, high=high)
    ((estimate, digit),) = meant(phrases.size(v), ratio > 1)
    assert estimate == pytest.approx(ratio, abs=digit / 2 + 1e-9)
    if low <= 1 <= high:
        assert phrases.within(v) == phrases.interval(low, high)
        return
    ends = sorted(meant(phrases.within(v), low > 1))
    for (end, digit), true in zip(ends, (low, high), strict=True):
        assert end == pytest.approx(true, abs=digit + 1e-9)
    assert ("times" in phrases.within(v)) == ("times" in phrases.size(v)) == (ratio >= 2)


def test_without_figures_there_is_no_size():
    assert phrases.size(replace(BASE, ratio=None)) == ""
    assert phrases.within(replace(BASE, low=None, high=None)) == ""


@given(st.floats(0.01, 50), st.floats(1.0, 3.0))
def test_a_printed_interval_covers_the_real_one(low, width):
    text = phrases.interval(low, low * width).replace("\u2212", "-").replace("±", "").replace(",", "")
    first, last = (float(x) / 100 + 1 for x in re.findall(r"[-+]?[\d.]+", text))
    assert first <= low + 1e-7
    assert last >= low * width - 1e-7


def test_a_small_end_is_not_rounded_to_nothing():
    assert figures(phrases.interval(1.0003, 1.287)) == ["+0.03", "+28.7"]
    assert figures(phrases.within(replace(BASE, low=1.00037, high=1.3))) == ["0.03", "30.0"]
    assert figures(phrases.size(replace(BASE, ratio=1.00037))) == ["0.04"]
    assert figures(phrases.size(replace(BASE, ratio=1.00002))) == ["0.002"]


@pytest.mark.parametrize(
    ("level", "text"),
    [(0.05, "95 %"), (0.05 / 16, "99.6 %"), (6.78e-5, "99.993 %"), (0.00045 / 8, "99.994 %"), (0.1, "90 %")],
)
def test_coverage_is_rounded_down_and_never_certain(level, text):
    assert phrases.coverage(level) == text


def test_a_tie_shows_the_interval_that_proves_it():
    """The adjusted interval may be wider than the margin; a tie is shown by the narrower one of the tie test."""
    text = said(verdict="tie", low=0.93, high=1.08, tie_low=0.979, tie_high=1.041)
    assert figures(text)[:3] == ["5", "\u22122.1", "+4.1"]
    assert "tie" in text
    assert phrases.tie_interval(BASE) == ""


def test_an_interval_without_limit_says_so():
    assert figures(phrases.interval(1e-12, 1e12)) == ["\u2212100.0"]
    assert figures(phrases.interval(0.042, 21_934)) == ["\u221295.8"]
    assert figures(phrases.interval(4900, 5010)) == ["+489,900", "+500,900"]  # large, but known well


def test_large_changes_have_no_decimals():
    """A table cell of 22 characters holds them in one line."""
    assert figures(phrases.interval(38.3774, 40.6527)) == ["+3,737", "+3,966"]
    assert len(phrases.interval(38.3774, 40.6527)) <= 22
    assert phrases.change(39.498) == "+3,850 %"
    assert figures(phrases.size(replace(BASE, ratio=39.498))) == ["39"]
    assert figures(phrases.within(replace(BASE, ratio=39.498, low=38.3779, high=41))) == ["38", "41"]
    assert figures(phrases.interval(10.9, 11.05)) == ["+990.0", "+1,005"]


@pytest.mark.parametrize(
    ("blocks", "numbers"),
    [([1], ["1"]), ([3, 12], ["3", "12"]), ([3, 899], ["3", "100"]), ([100], ["100"]), ([101, 899], ["100"])],
)
def test_further_blocks_are_not_told_to_the_last_of_hundreds(blocks, numbers, snapshot):
    text = phrases.further([replace(BASE, more_blocks=n) for n in blocks])
    assert figures(text) == numbers
    assert text == snapshot


def test_further_provisionings_are_counted_as_such():
    assert phrases.further([]) == ""
    assert phrases.further([replace(BASE, more_blocks=6, blocks_per_unit=2)]) == "about 3 further provisionings"


def test_no_change_has_no_sign_of_its_own():
    assert phrases.change(1.0) == "±0.0 %"
    assert phrases.change(0.99999) == "±0.0 %"


def summed(*changes: dict[str, Any]) -> str:
    return phrases.summary([replace(BASE, **{"cell": f"c{i}", **c}) for i, c in enumerate(changes)], "N", "I")


def test_summary_of_a_clean_win_gives_the_smallest_and_largest_estimate(snapshot):
    text = summed({}, {"ratio": 1.35, "low": 1.3, "high": 1.4}, {"ratio": 1.25, "low": 1.2, "high": 1.3})
    assert figures(text) == ["3", "12.0", "35.0"]
    assert re.findall(r"\bfaster|higher|c\d", text) == ["faster", "higher", "c0", "c1"]
    assert text == snapshot


def test_summary_of_one_cell(snapshot):
    text = summed({})
    assert figures(text) == ["12.0", "11.8", "12.2"]
    assert re.findall(r"\bfaster|higher|c\d", text) == ["faster", "c0", "higher"]
    assert text == snapshot


def test_summary_of_mixed_verdicts_counts_and_names_them(snapshot):
    text = summed(
        {},
        {"ratio": 1.35, "low": 1.3, "high": 1.4},
        {"verdict": "slower", "ratio": 0.85, "low": 0.8, "high": 0.9},
        {"verdict": "tie", "low": 0.99, "high": 1.01},
        {"verdict": "inconclusive", "low": 0.9, "high": 1.2, "headline": False},
        {"headline": False},
    )
    assert figures(text) == [
        "6", "2", "12.0", "35.0", "1", "15.0", "10.0", "20.0", "1", "1", "+12.0", "+11.89", "+12.13"
    ]  # fmt: skip
    assert re.findall(r"c\d", text) == [f"c{n}" for n in range(6)]
    assert re.findall(r"faster|slower|tie|inconclusive|Not headlined", text) == [
        "faster", "slower", "tie", "inconclusive", "Not headlined"
    ]  # fmt: skip
    assert text == snapshot


def test_a_summary_says_why_verdicts_are_withheld(snapshot):
    few = {"headline": False, "held_because": "4 blocks, 6 are needed"}
    alike = {"headline": False, "held_because": "neighbouring blocks are correlated, +0.36"}
    text = summed({}, few, alike, {"headline": False}, few)
    assert re.findall(r"c\d", text) == ["c0", "c1", "c4", "c2", "c3"], "by reason"
    assert text == snapshot
    assert summed(few) == snapshot(name="one cell")


def test_summary_says_better_where_faster_would_be_odd(snapshot):
    cost = {"metric": "cpu_per_io"}
    text = summed({**cost, "ratio": 0.75, "low": 0.7, "high": 0.8}, {**cost, "ratio": 0.65, "low": 0.6, "high": 0.7})
    assert figures(text) == ["2", "25.0", "35.0"]
    assert re.findall(r"faster|better|lower|CPU", text) == ["better", "CPU", "lower"]
    assert text == snapshot


def test_summary_of_refusals_gives_the_common_reason(snapshot):
    why = {"verdict": "refused", "notes": ("no trial yet",), "low": None, "high": None}
    text = summed(why, why)
    assert figures(text) == ["2"]
    assert "no trial yet" in text
    assert text == snapshot


def test_a_summary_from_twice_the_baseline_on_gives_factors():
    text = summed({}, {"ratio": 2.7, "low": 2.62, "high": 2.78})
    assert figures(text) == ["2", "12.0", "2.7"]
    assert text.count("times") == 1
    text = summed({"ratio": 3.1, "low": 3.02, "high": 3.18}, {"ratio": 2.7, "low": 2.62, "high": 2.78})
    assert figures(text) == ["2", "2.7", "3.1"]
    assert text.count("times") == 2
    assert figures(summed({"ratio": 2.7, "low": 2.62, "high": 2.78})) == ["2.7", "2.6", "2.8"]


def test_an_unknown_metric_is_shown_not_hidden():
    assert phrases.value("wobbles", 1234.5) == "1234"
    assert phrases.value("iops", None) == "\u2013"


def test_summary_of_mixed_costs_says_better_and_worse():
    cost = {"metric": "cpu_per_io", "primary": False, "headline": False}
    text = summed(
        {**cost, "ratio": 0.75, "low": 0.7, "high": 0.8},
        {**cost, "verdict": "slower", "ratio": 1.15, "low": 1.1, "high": 1.2},
    )
    assert figures(text) == ["2", "1", "25.0", "20.0", "30.0", "1", "15.0", "10.0", "20.0"]
    assert re.findall(r"better|worse|c\d", text)[:3] == ["better", "c0", "worse"]
