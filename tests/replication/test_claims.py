"""The claims that come with Fairlane, and what is said of a file that is wrong."""

from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane_replication.claims import AsksTable, catalogue, read
from fairlane_replication.judge import answer, published
from fairlane_replication.runner import plan, published_tables
from tests.replication.fakes import SOURCES, STUDY, lab_claim
from tests.words import kind

ROOT = Path(__file__).parents[2]


def test_every_study_is_covered_by_claims_enough() -> None:
    known = catalogue()
    assert tuple(known.sources) == ("000", "001", "002", "003", "004")
    counts = {study: sum(c.study == study for c in known.claims) for study in known.sources}
    assert sum(counts.values()) >= 25
    assert min(counts.values()) >= 4


def test_most_claims_ask_something() -> None:
    known = catalogue()
    assert sum(c.asks.by != "nothing" for c in known.claims) >= 25
    asked = {getattr(c.asks, "study", "") for c in known.claims} - {""}
    assert asked == set(known.labs), "a lab study that no claim asks, or the other way round"


def test_the_quick_form_is_quick_on_two_cores(tmp_path: Path) -> None:
    assert sum(step.seconds for step in plan(catalogue(), tmp_path, quick=True, jobs=2)) < 20 * 60


def test_a_part_of_the_claims_asks_a_part_of_the_lab() -> None:
    part = catalogue().of(("004",))
    assert {c.study for c in part.claims} == {"004"}
    assert set(part.labs) == {"virtio-bus"}
    with pytest.raises(FairlaneError, check=kind("study-unknown")) as caught:
        catalogue().of(("004", "007"))
    assert "'007'" in str(caught.value)


def test_the_published_tables_are_those_of_the_example() -> None:
    for file in sorted((ROOT / "examples/study-003").iterdir()):
        packaged = ROOT / "replication/fairlane_replication/tables" / file.name
        assert packaged.read_bytes() == file.read_bytes()


def test_what_the_published_tables_decide() -> None:
    tables = published_tables()
    answers = {c.id: answer(c, tables) for c in catalogue().claims if c.asks.by in ("table", "finding", "comparable")}
    assert {name for name, a in answers.items() if a.word == "disagree"} == {"003-comparable", "003-tiers"}
    for name, told in answers.items():
        if isinstance(told.claim.asks, AsksTable):
            assert told.cells >= 2, f"{name} selects no cells"
            assert (told.proven, told.contradicted) == (0, 0)
            assert told.why.startswith("refused")
    comparable = answers["003-comparable"]
    assert (comparable.cells, comparable.contradicted) == (28, 28)
    proofs = [proof for f in tables.findings if f.check == "above_cap" for proof in f.evidence.values()]
    assert sorted((proof["value"], proof["cap"]) for proof in proofs) == [(989, 500), (1984, 1000)]
    assert all(figure in answers["003-tiers"].here for figure in ("1,984", "1,000", "989", "500"))


def test_published_sizes_are_told_as_the_studies_tell_them() -> None:
    told = {c.id: published(c) for c in catalogue().claims}
    assert told["000-randread-small"] == "at least +300 %"
    assert told["000-write-small"] == "+27 % to +30 %"
    assert told["001-read-load"] == "+1 % to +105 %"
    assert told["003-erasure"] == "\N{MINUS SIGN}31.8 %"
    assert told["000-single-queue"] == ""


WRONG = [
    ("lane: up", "lane: upp", "claims-invalid 'upp' truth"),
    ("against: base", "against: down", "claims-invalid 'down' truth"),
    ("study: truth", "study: trut", "claims-invalid 'trut'"),
    ("expects: faster", 'expects: faster, cells: ["8k *"]', "claims-invalid truth '8k *'"),
    ("expects: faster", "expects: faster, workloads: [other]", "claims-invalid truth 'other'"),
    ("metric: iops", "metric: iosp", "value claims.0.asks.metric: 'iosp'"),
    ("expects: faster", "expects: quicker", "value claims.0.asks.expects: quicker"),
    ("by: lab", "by: magic", "kind-unknown claims.0.asks"),
    ("where: here", "wehre: here", "several-problems claims.0"),
    ("id: 900-claim-1", "id: claim", "name-invalid claims.0.id:"),
    ("id: 900-claim-1", "id: 901-claim-1", "value 901"),
    ("conditions: none", "conditions: none\n    size: { least: 0.5, most: 0.8 }", "claims-invalid size: faster"),
    ("conditions: none", "conditions: none\n    size: { least: 2, most: 1.5 }", "value claims.0.size least most"),
    ("conditions: none", "conditions: none\n    size: {}", "value claims.0.size least most"),
    ("by: lab", "by: ability", "several-problems claims.0.asks"),
]
"""What is replaced in a claim, by what, and kind and names of the error."""


@pytest.mark.parametrize(("old", "new", "told"), WRONG)
def test_a_claim_that_is_wrong_is_named(old: str, new: str, told: str) -> None:
    text = SOURCES + lab_claim("up", "faster")
    assert text.count(old) == 1
    with pytest.raises(FairlaneError) as caught:
        read(text.replace(old, new), "claims.yaml", {"truth": STUDY})
    kind_, *tokens = told.split()
    assert caught.value.kind == kind_
    assert [token for token in tokens if token not in str(caught.value)] == []
    assert "claims.yaml" in str(caught.value)


def test_the_line_of_a_wrong_key_is_told() -> None:
    text = SOURCES + lab_claim("up", "faster").replace("where: here", "wehre: here")
    with pytest.raises(FairlaneError, match=r"claims\.yaml:\d+"):
        read(text, "claims.yaml", {"truth": STUDY})


def test_two_claims_of_one_name_are_refused() -> None:
    with pytest.raises(FairlaneError, check=kind("value")) as caught:
        read(SOURCES + lab_claim("up", "faster") * 2, "claims.yaml", {"truth": STUDY})
    assert "900-claim-1" in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("key: dicsard, agrees: [x]", "value dicsard discard"),
        ("key: discard", "value agrees disagrees fewer_than"),
        ("key: disks, fewer_than: up, agrees: [x]", "value agrees disagrees fewer_than"),
        ("key: disks, fewer_than: down", "claims-invalid truth"),
        ("key: disks, fewer_than: nobody", "claims-invalid 'nobody' truth"),
    ],
)
def test_a_claim_about_abilities_that_is_wrong_is_named(rule: str, told: str) -> None:
    asks = f"asks: {{ by: ability, study: truth, lane: up, {rule} }}"
    text = SOURCES + lab_claim("up", "faster").partition("asks:")[0] + asks + "\n"
    expected, *tokens = told.split()
    with pytest.raises(FairlaneError, check=kind(expected)) as caught:
        read(text, "claims.yaml", {"truth": STUDY})
    shown = str(caught.value) + caught.value.hint
    assert [token for token in tokens if token not in shown] == []
