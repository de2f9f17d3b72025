"""The words of answers: what was found of a claim, and why it cannot be told."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlane.errors import FairlaneError
from fairlane.records import Finding
from fairlane_replication import render
from fairlane_replication.claims import read
from fairlane_replication.judge import Ran, answer
from tests.replication.fakes import NOISY, SOURCES, STUDY, carried_out, catalogue, lab_claim
from tests.replication.test_claims import WRONG

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

CLAIMS = (
    lab_claim("up faster than", size="{ least: 1.25, most: 1.35 }", number=1),
    lab_claim("up faster than", size="{ least: 4.0 }", number=2),
    lab_claim("down faster than", number=3),
    lab_claim("even ties", number=4),
    lab_claim("even > 0 % over", size="{ least: 1.01, most: 1.5 }", number=5),
    lab_claim("mixed not faster than", number=6),
    lab_claim("soft faster than", number=7),
    lab_claim("up faster than", "limit: another transport", number=8),
)


def test_the_table(ran: Ran, snapshot: "SnapshotAssertion") -> None:
    asked = catalogue(*CLAIMS)
    clean = dataclasses.replace(ran, findings=tuple(f for f in ran.findings if f.refuses))
    assert render.table(asked, [answer(claim, clean) for claim in asked.claims]) == snapshot


def test_what_stays_open(ran: Ran, tmp_path: Path, snapshot: "SnapshotAssertion") -> None:
    bad = Finding("some_check", "critical", "a disk was on fire")
    short = carried_out(STUDY, tmp_path / "short", quick=True)
    noisy = carried_out(NOISY, tmp_path / "noisy")
    up, wide = (
        catalogue(lab_claim(rule)).claims[0] for rule in ("up faster than", "mixed slower than base in iops on 64k")
    )
    other = catalogue(lab_claim("up faster than", study="noisy"), noisy=NOISY).claims[0]
    answers = [
        answer(up, dataclasses.replace(ran, findings=(bad,))),
        answer(up, dataclasses.replace(ran, findings=(dataclasses.replace(bad, severity="warning"),))),
        answer(wide, short),
        answer(other, noisy),
    ]
    assert "\n".join(f"{a.word}\n  here: {a.here or '-'}\n  why: {a.why or '-'}" for a in answers) == snapshot


def test_claims_that_are_wrong(snapshot: "SnapshotAssertion") -> None:
    words = []
    for old, new, _ in WRONG:
        with pytest.raises(FairlaneError) as caught:
            read((SOURCES + lab_claim("up faster than")).replace(old, new), "claims.yaml", {"truth": STUDY})
        words.append(f"{caught.value.labelled()}\n  hint: {caught.value.hint or '-'}")
    assert "\n".join(words) == snapshot
