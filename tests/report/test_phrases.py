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
    text = said()
    assert figures(text) == ["11.8", "99.7", "6"]
    assert [part for part in ("NVMe/TCP", "iSCSI", "faster", "4k randread qd16", "IOPS") if part not in text] == []


def test_the_sentence_of_a_loss_is_the_drop_of_the_metric_itself():
    text = said(verdict="slower", ratio=0.55, low=0.5, high=0.6)
    assert figures(text)[0] == "40.0"
    assert "slower" in text


def test_latency_is_lower_not_faster():
    text = said(metric="lat_p99", ratio=0.8, low=0.75, high=0.849)
    assert figures(text)[0] == "15.1"
    assert "lower" in text
    assert "p99" in text
    text = said(metric="lat_p99", verdict="slower", ratio=1.3, low=1.2, high=1.4)
    assert figures(text)[0] == "20.0"
    assert "higher" in text


@pytest.mark.parametrize(
    ("changes", "parts", "numbers"),
    [
        ({"verdict": "faster"}, "IOPS", "11.8 99.7 6"),
        ({"verdict": "tie", "low": 0.99, "high": 1.02}, "tie", "5 +11.90 +12.10 99.7 6"),
        ({"verdict": "different-but-small", "tie_low": 1.02, "tie_high": 1.03}, "IOPS", "5 +2.0 +3.0 99.7 6"),
        ({"verdict": "inconclusive", "low": 0.9, "high": 1.2, "more_blocks": 12}, "IOPS", "\u221210.0 +20.0 12 99.7 6"),
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


@given(st.floats(0.01, 50), st.floats(1.0, 3.0))
def test_size_never_promises_more_than_the_interval(low, width):
    high = low * width
    text = phrases.size(replace(BASE, low=low, high=high))
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
    assert figures(phrases.interval(1.0003, 1.287)) == ["+0.03", "+28.7"]
    assert figures(phrases.size(replace(BASE, low=1.00037, high=1.3))) == ["0.03"]
    assert figures(phrases.size(replace(BASE, low=1.000001, high=1.3))) == ["0"]


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
    assert phrases.size(replace(BASE, low=38.3779, high=41)).endswith(" 3,737 %")
    assert figures(phrases.interval(10.9, 11.05)) == ["+990.0", "+1,005"]


@pytest.mark.parametrize(
    ("blocks", "numbers"),
    [([1], ["1"]), ([3, 12], ["3", "12"]), ([3, 899], ["3", "100"]), ([100], ["100"]), ([101, 899], ["100"])],
)
def test_further_blocks_are_not_told_to_the_last_of_hundreds(blocks, numbers, snapshot):
    text = phrases.further(blocks)
    assert figures(text) == numbers
    assert text == snapshot


def test_more_than_a_hundred_is_not_told_as_a_hundred():
    assert phrases.further([101]) != phrases.further([100])


def test_no_change_has_no_sign_of_its_own():
    assert phrases.change(1.0) == "±0.0 %"
    assert phrases.change(0.99999) == "±0.0 %"


def summed(*changes: dict[str, Any]) -> str:
    return phrases.summary([replace(BASE, **{"cell": f"c{i}", **c}) for i, c in enumerate(changes)], "N", "I")


def test_summary_of_a_clean_win_gives_the_smallest_and_largest_promise(snapshot):
    text = summed({}, {"low": 1.3, "high": 1.4}, {"low": 1.2, "high": 1.3})
    assert figures(text) == ["3", "11.8", "30.0"]
    assert re.findall(r"\bfaster|higher|c\d", text) == ["faster", "higher", "c0", "c1"]
    assert text == snapshot


def test_summary_of_one_cell(snapshot):
    text = summed({})
    assert figures(text) == ["11.8"]
    assert re.findall(r"\bfaster|higher|c\d", text) == ["faster", "c0", "higher"]
    assert text == snapshot


def test_summary_of_mixed_verdicts_counts_and_names_them(snapshot):
    text = summed(
        {},
        {"low": 1.3, "high": 1.4},
        {"verdict": "slower", "low": 0.8, "high": 0.9},
        {"verdict": "tie", "low": 0.99, "high": 1.01},
        {"verdict": "inconclusive", "low": 0.9, "high": 1.2, "headline": False},
        {"headline": False},
    )
    assert figures(text) == ["6", "2", "11.8", "30.0", "1", "10.0", "1", "1", "1"]
    assert re.findall(r"c\d", text) == [f"c{n}" for n in range(6)]
    assert re.findall(r"faster|slower|tie|inconclusive|withheld", text) == [
        "faster", "slower", "tie", "inconclusive", "withheld"
    ]  # fmt: skip
    assert text == snapshot


def test_summary_says_better_where_faster_would_be_odd(snapshot):
    text = summed({"metric": "cpu_per_io", "low": 0.7, "high": 0.8}, {"metric": "cpu_per_io", "low": 0.6, "high": 0.7})
    assert figures(text)[:2] == ["2", "20.0"]
    assert re.findall(r"faster|better|lower|CPU", text) == ["better", "CPU", "lower"]
    assert text == snapshot


def test_summary_of_refusals_gives_the_common_reason(snapshot):
    why = {"verdict": "refused", "notes": ("no trial yet",), "low": None, "high": None}
    text = summed(why, why)
    assert figures(text) == ["2"]
    assert "no trial yet" in text
    assert text == snapshot


def test_an_unknown_metric_is_shown_not_hidden():
    assert phrases.value("wobbles", 1234.5) == "1234"
    assert phrases.value("iops", None) == "\u2013"


def test_summary_of_mixed_costs_says_better_and_worse():
    cost = {"metric": "cpu_per_io", "primary": False, "headline": False}
    text = summed({**cost, "low": 0.7, "high": 0.8}, {**cost, "verdict": "slower", "low": 1.1, "high": 1.2})
    assert figures(text)[:4] == ["2", "1", "20.0", "1"]
    assert re.findall(r"better|worse|c\d", text)[:3] == ["better", "c0", "worse"]
