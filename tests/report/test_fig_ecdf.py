"""The latency figure says what the merged histograms say, as far as ten I/Os lie beyond."""

import re
from itertools import pairwise

import pytest

from fairlane.report import ecdf
from fairlane.report.phrases import value
from fairlane.stats.histogram import latency, merge, percentile
from tests.figures import figures
from tests.report.test_fig_evidence import NS, drawn, fake, placed, words


@pytest.fixture(scope="module")
def case():
    slow = 'nvme: {tail: 3, cells: {"4k randwrite*": 0.5}}'
    return fake("rw: [randread, randwrite, read], bs: [4k, 64k]", effects=slow, failures="5%")


def merged(case, view: ecdf.EcdfView, lane: str):
    key = next(c.key for c in case[0].cells() if c.name == view.cell)
    mine = [o for o in case[0].observations if (o.cell, o.lane) == (key, lane) and not o.failed]
    return merge(latency(o.histograms) for o in mine), len(mine)


def test_percentiles_are_those_of_all_ios(case):
    for view in ecdf.views(*case):
        figure = ecdf.figure(view, "f")
        for trace, lane, row in zip(view.traces, ("iscsi", "nvme", "local"), figure.table.rows, strict=True):
            bins, trials = merged(case, view, lane)
            assert (trace.ios, trace.trials) == (bins.total, trials)
            assert trace.marks == tuple(percentile(bins, q) for q in (0.5, 0.99, 0.999))
            assert row == (trace.lane, str(trials), f"{bins.total:,}", *(value("lat_p99", ns) for ns in trace.marks))
            assert set(row[3:]) <= set(words(figure))


def test_lines_rise_and_end_where_ten_remain(case):
    view = ecdf.views(*case)[0]
    figure = ecdf.figure(view, "f")
    for trace in view.traces:
        shares = [share for _, share in trace.points]
        assert shares == sorted(shares)
        assert (1 - shares[-1]) * trace.ios >= 10 - 1e-6
    lines = [e.attrib["d"] for e in drawn(figure).iter(f"{NS}path") if e.attrib["d"].count("V") > 20]
    assert len(lines) == 3
    for d in lines:
        across = [float(x) for x in re.findall(r"H([\d.]+)", d)]
        up = [float(y) for y in re.findall(r"V([\d.]+)", d)]
        assert across == sorted(across)
        assert up == sorted(up, reverse=True)


def test_each_nine_is_as_high_as_the_next(case):
    view = ecdf.views(*case)[0]
    texts = {e.text: float(e.attrib["y"]) for e in drawn(ecdf.figure(view, "f")).iter(f"{NS}text")}
    assert texts["0 %"] - texts["90 %"] == pytest.approx(texts["90 %"] - texts["99 %"], abs=0.2)
    assert texts["90 %"] - texts["99 %"] == pytest.approx(texts["99 %"] - texts["99.9 %"], abs=0.2)


def test_marks_stand_at_their_latency_and_share(case):
    view = ecdf.views(*case)[0]
    figure = ecdf.figure(view, "f")
    texts = {e.text: float(e.attrib["y"]) for e in drawn(figure).iter(f"{NS}text")}
    marks = placed(figure, "iSCSI, p")
    assert [x for x, _ in marks] == sorted(x for x, _ in marks)
    for (_, y), share in zip(marks[1:], ("99 %", "99.9 %"), strict=True):
        assert y == pytest.approx(texts[share] - 4, abs=0.2)
    middle = {lane: placed(figure, f"{lane}, p99:")[0][0] for lane in ("iSCSI", "NVMe/TCP")}
    by_lane = {t.lane: t.marks[1] or 0 for t in view.traces}
    assert (middle["iSCSI"] < middle["NVMe/TCP"]) == (by_lane["iSCSI"] < by_lane["NVMe/TCP"])


def test_four_cells_in_which_the_tails_differ_most_and_it_says_so(case):
    views = ecdf.views(*case)
    assert [v.cell for v in views] == [c.name for c in case[0].cells() if c.name in {v.cell for v in views}]
    assert {(v.drawn, v.of) for v in views} == {(4, 6)}
    assert "4k randwrite qd1" in {v.cell for v in views}
    left = [c.key for c in case[0].cells() if c.name not in {v.cell for v in views}]

    def differ(key: str) -> float:
        lanes = [merge(latency(o.histograms) for o in case[0].observations if (o.cell, o.lane) == (key, lane))
                 for lane in case[3]]  # fmt: skip
        at = [percentile(bins, 0.99) for bins in lanes]
        return max(at) / min(at)

    shown = [c.key for c in case[0].cells() if c.key not in left]
    assert max(map(differ, left)) <= min(map(differ, shown))
    assert ("4", "6") in pairwise(figures(ecdf.figure(views[0], "f").caption))
    (few,) = ecdf.views(*fake("rw: [randread], bs: [4k]"))
    assert len(figures(ecdf.figure(views[0], "f").caption)) - len(figures(ecdf.figure(few, "f").caption)) == 2


def test_too_few_ios_have_no_p999():
    (view,) = ecdf.views(*fake("rw: [randread], bs: [1m], iodepth: [1]", blocks=2))
    assert [t.ios for t in view.traces] < [10_000] * 3
    rare = [t for t in view.traces if t.ios < 10_000]
    assert rare
    assert all(t.marks[2] is None for t in rare)
    assert ecdf.figure(view, "f").table.rows[0][-1] == "\u2013"


def test_a_refused_lane_is_named_as_such(case):
    evidence, verdicts, findings, label = case
    changed = [v.__class__(**{**vars(v), "verdict": "refused"}) if v.lane == "local" else v for v in verdicts]
    view = ecdf.views(evidence, changed, findings, label)[0]
    figure = ecdf.figure(view, "f")
    assert re.fullmatch(r"local \W*✕ refused\W*", figure.table.rows[2][0])
    assert [w for w in words(figure) if w.startswith("local") and w.endswith("✕ refused")]
