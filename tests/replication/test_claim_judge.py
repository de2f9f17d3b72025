"""The judge of claims, on verdicts whose truth is known."""

import dataclasses
import re
from pathlib import Path

import pytest

from fairlane.checks.base import run_all
from fairlane.gate.decide import decide
from fairlane.gate.grammar import parse
from fairlane.records import Finding
from fairlane.report import phrases
from fairlane.report.text import MINUS
from fairlane_replication.judge import (
    BUILT,
    FITS,
    LARGER,
    MIXED,
    POSSIBLE,
    SMALLER,
    UNKNOWN,
    WHOLE_ONLY,
    WORDS,
    Ran,
    Word,
    answer,
)
from tests.replication.fakes import NOISY, STUDY, carried_out, catalogue, claim, lab_claim

ABLE = """\
name: able
platform: { kind: lab, clock: wall }
lanes:
  blk: { transport: local, device: { bus: virtio-blk } }
  scsi: { transport: local, device: { bus: virtio-scsi } }
baseline: blk
workloads: { main: { kind: fio, rw: [randread], bs: [4k], iodepth: [1], runtime: 1s } }
design: { vary: [bus], looks: [6] }
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "more", "size", "word"),
    [
        ("up faster than", "", "", "agree"),
        ("down slower than", "", "", "agree"),
        ("down faster than", "", "", "disagree"),
        ("up slower than", "", "", "disagree"),
        ("even ties", "", "", "agree"),
        ("even not faster than", "", "", "agree"),
        ("even not slower than", "", "", "agree"),
        ("up ties", "", "", "disagree"),
        ("up not faster than", "", "", "disagree"),
        ("down not faster than", "", "", "agree"),
        ("up not slower than", "", "", "agree"),
        # a tie contradicts a claimed difference that is larger than the margin, and no smaller one
        ("even faster than", "", "", "disagree"),
        ("even faster than", "", "{ least: 1.2 }", "disagree"),
        ("even > 0 % over", "", "{ least: 1.01, most: 1.5 }", UNKNOWN),
        # a difference proven too small to matter has its direction; its size has an answer of its own
        ("small faster than", "", "", "agree"),
        ("small faster than", "", "{ least: 1.2 }", "agree"),
        ("small slower than", "", "", "disagree"),
        ("small > 0 % over", "", "{ least: 1.01, most: 1.07 }", "agree"),
        ("small > 0 % under base in lat_mean", "", "{ least: 0.9, most: 0.99 }", "agree"),
        ("small >= 10 % over", "", "", "disagree"),
        ("down > 0 % over", "", "", "disagree"),
        ("even within 3 % of", "", "", "agree"),
        ("up within 3 % of", "", "", "disagree"),
        ("small ties", "", "", "agree"),
        ("small not faster than", "", "", "agree"),
        # faster in one cell, slower in the other
        ("mixed faster than", "", "", "disagree"),
        ("mixed faster than base in iops on 4k", "", "", "agree"),
        ("mixed slower than base in iops on main/64k", "", "", "agree"),
        ("mixed faster than base in iops on 4k and 64k", "", "", "disagree"),
        # any lane may be the other side
        ("base slower than up in iops", "", "", "agree"),
        ("up faster than down in iops", "", "", "agree"),
        # nothing is ranked against a stand-in
        ("soft faster than", "", "", UNKNOWN),
        ("soft ties", "", "", UNKNOWN),
        # what is shown and was not claimed decides nothing
        ("up faster than", "limit: another transport", "", UNKNOWN),
        ("up slower than", "limit: another transport", "", UNKNOWN),
        # what the lab's settings force is no confirmation; that it did not come is a contradiction
        ("up faster than", "constructed: slow links", "", BUILT),
        ("up slower than", "constructed: slow links", "", "disagree"),
        ("soft faster than", "constructed: slow links", "", UNKNOWN),
        ("up faster than", "constructed: slow links, limit: another transport", "", UNKNOWN),
    ],
)
def test_the_word_follows_the_truth(ran: Ran, rule: str, more: str, size: str, word: str) -> None:
    assert answer(claim(lab_claim(rule, more, size=size)), ran).word == word


def test_what_was_found_is_told_with_its_interval_and_cells(ran: Ran) -> None:
    told = answer(claim(lab_claim("up faster than", size="{ least: 1.25, most: 1.35 }")), ran)
    assert {"IOPS", "up", "base"} <= set(re.findall(r"\w+", told.here))
    assert "(+2" in told.here
    assert (told.cells, told.proven, told.contradicted, told.figures) == (2, 2, 0, "invented")
    assert (told.size, told.sizes) == ("agree", FITS)


@pytest.mark.parametrize(
    ("rule", "size", "word", "told"),
    [
        ("up faster than", "{ least: 1.25, most: 1.35 }", "agree", FITS),
        ("up faster than", "{ least: 1.2 }", "agree", FITS),
        ("up faster than", "{ least: 1.3, most: 1.3 }", "agree", FITS),
        ("up faster than", "{ least: 1.37, most: 1.37 }", UNKNOWN, POSSIBLE),  # 5.1 % off, and no interval is a point
        ("up faster than", "{ least: 4.0 }", "disagree", SMALLER),
        ("up > 0 % over", "{ least: 1.01, most: 1.07 }", "disagree", LARGER),
        ("down slower than", "{ most: 0.5 }", "disagree", SMALLER),
        ("down slower than", "{ least: 0.9, most: 0.94 }", "disagree", LARGER),
        ("down faster than", "{ least: 1.2 }", "disagree", SMALLER),  # the other direction is another size
        ("even faster than", "{ least: 1.4 }", "disagree", SMALLER),
        ("even > 0 % over", "{ least: 1.01, most: 1.5 }", UNKNOWN, POSSIBLE),  # a tie: not even its direction is shown
        ("mixed faster than", "{ least: 1.1, most: 1.2 }", "disagree", MIXED),
        ("soft faster than", "{ least: 1.2 }", UNKNOWN, ""),
        ("up faster than", "", None, ""),
    ],
)
def test_the_size_has_an_answer_of_its_own(ran: Ran, rule: str, size: str, word: Word | None, told: str) -> None:
    given = answer(claim(lab_claim(rule, size=size)), ran)
    assert (given.size, given.sizes) == (word, told)


def test_a_size_without_a_ratio_stays_open(ran: Ran) -> None:
    told = claim(lab_claim("up faster than").replace("    asks:", "    published: +42,000 IOPS\n    asks:"))
    assert (answer(told, ran).word, answer(told, ran).size) == ("agree", UNKNOWN)


def test_the_sign_alone_confirms_no_size(ran: Ran) -> None:
    told = answer(claim(lab_claim("up faster than", size="{ least: 4.0 }")), ran)
    assert (told.word, told.size) == ("agree", "disagree")


def test_a_forced_outcome_says_so_and_has_no_size_of_its_own(ran: Ran) -> None:
    told = answer(claim(lab_claim("up faster than", "constructed: slow links", size="{ least: 1.2 }")), ran)
    assert (told.word, told.size, told.sizes) == (BUILT, UNKNOWN, "")
    assert told.why.startswith("slow links")


def test_a_stand_in_is_shown_and_its_size_is_compared_with_nothing(ran: Ran) -> None:
    told = answer(claim(lab_claim("up faster than", "limit: another transport", size="{ least: 1.2 }")), ran)
    assert (told.size, told.why, told.figures) == (UNKNOWN, "another transport", "invented")
    assert (told.cells, told.proven, told.contradicted) == (2, 2, 0)
    assert "(+2" in told.here


def test_a_stand_in_whose_verdict_is_withheld_says_both(ran: Ran) -> None:
    bad = Finding("some_check", "critical", "a disk was on fire")
    told = answer(
        claim(lab_claim("up faster than", "limit: another transport")), dataclasses.replace(ran, findings=(bad,))
    )
    assert told.why.startswith("another transport; ")
    assert bad.check in told.why
    assert bad.message in told.why


def test_inconclusive_cells_are_open_and_say_how_many_blocks(tmp_path: Path) -> None:
    noisy = carried_out(NOISY, tmp_path / "run")
    told = answer(catalogue(lab_claim("up faster than", study="noisy"), noisy=NOISY).claims[0], noisy)
    assert told.word == UNKNOWN
    (verdict,) = (v for v in noisy.verdicts if v.primary)
    assert (verdict.verdict, told.cells, told.proven, told.contradicted) == ("inconclusive", 1, 0, 0)
    assert phrases.count(verdict.blocks, "block") in told.why
    assert phrases.further([verdict]) in told.why


def test_a_refused_verdict_gives_its_reason(ran: Ran) -> None:
    assert "soft-RoCE" in answer(claim(lab_claim("soft faster than")), ran).why


@pytest.mark.parametrize(
    ("cells", "lanes", "word"),
    [
        ((), (), UNKNOWN),
        (("main.4k-randread-qd16",), ("up",), UNKNOWN),
        (("main.4k-randread-qd16",), ("base",), UNKNOWN),
        (("main.4k-randread-qd16",), ("down",), "agree"),
        (("main.elsewhere",), (), "agree"),
    ],
)
def test_a_critical_finding_takes_the_proof_away(
    ran: Ran, cells: tuple[str, ...], lanes: tuple[str, ...], word: str
) -> None:
    bad = Finding("some_check", "critical", "a disk was on fire", cells, lanes)
    told = answer(claim(lab_claim("up faster than")), dataclasses.replace(ran, findings=(*ran.findings, bad)))
    assert told.word == word
    assert (bad.message in told.why) == (word != "agree")


def test_a_withheld_cell_contradicts_nothing_either(ran: Ran) -> None:
    bad = Finding("some_check", "critical", "a disk was on fire", ("main.64k-randread-qd16",))
    stained = dataclasses.replace(ran, findings=(bad,))
    assert answer(claim(lab_claim("mixed faster than")), stained).word == UNKNOWN


def test_warnings_stand_beside_what_is_proven(ran: Ran) -> None:
    clean = dataclasses.replace(ran, findings=())
    asked = claim(lab_claim("up faster than base in iops on 4k"))
    assert answer(asked, clean).why == ""
    for cells, lanes, told in (
        ((), (), True),
        (("main.4k-randread-qd16",), ("up",), True),
        (("main.4k-randread-qd16",), ("base",), True),
        (("main.4k-randread-qd16",), ("down",), False),
        (("main.64k-randread-qd16",), (), False),
    ):
        warned = dataclasses.replace(ran, findings=(Finding("some_check", "warning", "odd", cells, lanes),))
        found = answer(asked, warned)
        assert (found.word, found.why) == ("agree", "warnings: some_check" if told else "")


def test_exploratory_metrics_say_so(ran: Ran) -> None:
    text = lab_claim("up faster than base in lat_mean")
    told = answer(claim(text), ran)
    assert told.word == "agree"
    assert "exploratory" in told.why


def test_latencies_are_better_when_they_are_lower(ran: Ran) -> None:
    text = lab_claim("up faster than base in lat_mean", size="{ least: 0.7, most: 0.9 }")
    told = answer(claim(text), ran)
    assert (told.word, told.size) == ("agree", "agree")
    assert (told.cells, told.proven) == (2, 2)
    assert f"({MINUS}" in told.here


def test_the_quick_form_judges_the_cells_that_it_has(tmp_path: Path) -> None:
    short = carried_out(STUDY, tmp_path / "run", quick=True)
    assert answer(claim(lab_claim("mixed faster than")), short).cells == 1
    told = answer(claim(lab_claim("mixed slower than base in iops on 64k")), short)
    assert (told.word, told.why) == (UNKNOWN, WHOLE_ONLY)


def test_without_a_run_the_reason_is_passed_on() -> None:
    reason = "the lab study did not run: no QEMU"
    told = answer(claim(lab_claim("up faster than")), reason)
    assert (told.word, told.why) == (UNKNOWN, reason)


def able(rule: str) -> str:
    return (
        "  - id: 900-able\n    where: here\n    says: something\n    conditions: none\n"
        f"    asks: {{ by: ability, study: able, lane: blk, {rule} }}\n"
    )


@pytest.mark.parametrize(
    ("rule", "values", "word"),
    [
        ('key: discard, agrees: ["no"], disagrees: ["yes", "accepted*"]', {"blk": "yes"}, "disagree"),
        ('key: discard, agrees: ["no"], disagrees: ["yes", "accepted*"]', {"blk": "accepted, no effect"}, "disagree"),
        ('key: discard, agrees: ["no"], disagrees: ["yes", "accepted*"]', {"blk": "no"}, "agree"),
        ('key: discard, agrees: ["no"], disagrees: ["yes", "accepted*"]', {"blk": "not probed"}, UNKNOWN),
        ('key: discard, agrees: ["no"], disagrees: ["yes", "accepted*"]', {}, UNKNOWN),
        ("key: disks, fewer_than: scsi", {"blk": "28", "scsi": "at least 64"}, "agree"),
        ("key: disks, fewer_than: scsi", {"blk": "28", "scsi": "256"}, "agree"),
        ("key: disks, fewer_than: scsi", {"blk": "at least 64", "scsi": "28"}, "disagree"),
        ("key: disks, fewer_than: scsi", {"blk": "28", "scsi": "28"}, "disagree"),
        ("key: disks, fewer_than: scsi", {"blk": "at least 64", "scsi": "at least 64"}, UNKNOWN),
        ("key: disks, fewer_than: scsi", {"blk": "28", "scsi": "not probed"}, UNKNOWN),
    ],
)
def test_what_was_tried_decides_on_abilities(ran: Ran, rule: str, values: dict[str, str], word: str) -> None:
    key = "disks" if "disks" in rule else "discard"
    lanes = {lane: {"capabilities": {key: {"value": v, "evidence": "tried"}}} for lane, v in values.items()}
    seen = dataclasses.replace(ran, evidence=dataclasses.replace(ran.evidence, description={"lanes": lanes}))
    told = answer(catalogue(able(rule), able=ABLE).claims[0], seen)
    assert told.word == word
    if word != UNKNOWN:
        assert "tried" in told.why


def test_findings_on_published_tables_contradict(ran: Ran) -> None:
    text = (
        "  - id: 900-found\n    where: here\n    says: something\n    conditions: none\n"
        "    asks: { by: finding, checks: [above_cap], least: 2 }\n"
    )
    asked = claim(text)
    two = Finding("above_cap", "critical", "twice the cap", ("a", "b"))
    for findings, word in (
        ((), UNKNOWN),
        ((dataclasses.replace(two, cells=("a",)),), UNKNOWN),
        ((dataclasses.replace(two, severity="warning"),), UNKNOWN),
        ((dataclasses.replace(two, check="other"),), UNKNOWN),
        ((two,), "disagree"),
    ):
        assert answer(asked, dataclasses.replace(ran, findings=findings)).word == word


def test_refusals_contradict_comparability(ran: Ran) -> None:
    text = (
        "  - id: 900-same\n    where: here\n    says: something\n    conditions: none\n    asks: { by: comparable }\n"
    )
    assert answer(claim(text), ran).word == "disagree"  # soft is refused
    fair = tuple(v for v in ran.verdicts if v.lane != "soft")
    assert answer(claim(text), dataclasses.replace(ran, verdicts=fair)).word == "agree"
    assert answer(claim(text), dataclasses.replace(ran, verdicts=())).word == UNKNOWN


@pytest.mark.parametrize(
    "rule",
    [
        "up faster than base in iops",
        "down faster than base in lat_mean on 4k",
        "even ties base in iops on 4k and 64k",
        "mixed not slower than base in iops",
        "mixed not slower than up in iops on main/4k",
        "soft faster than base in iops",
        "small > 0 % over base in iops",
    ],
)
def test_the_gate_gives_the_same_answer_to_a_claims_rule(ran: Ran, rule: str) -> None:
    outcomes = [outcome.word for outcome in decide([parse(rule)], ran.evidence, run_all)]
    given = answer(claim(lab_claim(rule)), ran)
    assert (given.cells, given.proven, given.contradicted) == (
        len(outcomes),
        outcomes.count("met"),
        outcomes.count("not met"),
    )
    passes = all(word == "met" for word in outcomes)
    assert given.word == ("agree" if passes else "disagree" if "not met" in outcomes else UNKNOWN)


def test_there_are_four_words() -> None:
    assert WORDS == ("agree", "disagree", BUILT, UNKNOWN)
