"""The scorecard counts verdicts, and nothing but verdicts."""

from fairlane.report import markdown, model
from fairlane.report.scorecard import views


def test_every_verdict_is_counted_once(make_case):
    evidence, verdicts, findings = make_case()
    (view,) = model.build(evidence, verdicts, findings).scores
    shown = [v for v in verdicts if v.lane != v.baseline]
    assert sum(n for row in view.rows for s in row.scores for _, _, n in s.counts) == len(shown)
    better = {"better": ("faster",), "worse": ("slower",), "even": ("tie", "different-but-small")}
    primary = next(row for row in view.rows if row.primary)
    lanes = [lane for lane in evidence.study.lanes if lane != evidence.study.baseline]
    for lane, score in zip(lanes, primary.scores, strict=True):
        mine = [v for v in shown if v.lane == lane and v.primary]
        for outcome, words in better.items():
            told = next((n for name, _, n in score.counts if name == outcome), 0)
            assert told == sum(v.verdict in words and v.headline for v in mine), (lane, outcome)


def test_a_withheld_verdict_is_counted_as_that(make_case):
    evidence, verdicts, _ = make_case()
    decided = ("faster", "slower", "tie", "different-but-small")
    held = [v for v in verdicts if v.primary and v.verdict in decided and not v.headline and v.lane != v.baseline]
    (view,) = views(evidence, verdicts, {lane: lane for lane in evidence.study.lanes})
    primary = next(row for row in view.rows if row.primary)
    assert sum(n for s in primary.scores for name, _, n in s.counts if name == "withheld") == len(held) > 0


def test_one_number_is_no_scorecard(make_case):
    evidence, verdicts, _ = make_case()
    one = [v for v in verdicts if v.primary and v.lane == "nvme-tcp"][:1]
    assert views(evidence, one, {lane: lane for lane in evidence.study.lanes}) == ()


def test_markdown_says_it_in_words(make_case):
    text = markdown.render(model.build(*make_case()))
    assert "## Scorecard" in text
    assert "IOPS (primary)" in text
