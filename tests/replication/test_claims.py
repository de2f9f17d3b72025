"""The claims that come with Fairlane, and what is said of a file that is wrong."""

import re
from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane.gate.cells import chosen
from fairlane.gate.rules import Compared
from fairlane.metrics import METRICS
from fairlane_replication.claims import Ruled, catalogue, read, size_text
from fairlane_replication.judge import UNKNOWN, Answer, answer
from fairlane_replication.published import VERSIONS, overview, published, tables_of
from fairlane_replication.runner import plan
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


def tabled() -> dict[str, Answer]:
    """The answers of study 003 that its own tables give."""
    return {c.id: answer(c, published(version)) for c in catalogue().claims if (version := tables_of(c))}


def test_what_the_published_tables_decide() -> None:
    answers = tabled()
    assert {name for name, a in answers.items() if a.word == "disagree"} == {
        "003-comparable",
        "003-tiers",
    }
    assert {a.word for a in answers.values()} == {"disagree", UNKNOWN}, "a single figure confirms nothing"
    comparable, mixed = answers["003-comparable"], answers["003-mixed"]
    assert (comparable.cells, comparable.contradicted) == (28, 28)
    assert (mixed.cells, mixed.proven, mixed.contradicted, mixed.size) == (2, 0, 0, UNKNOWN)
    assert all(figure in answers["003-tiers"].here for figure in ("1,984", "1,000", "989", "500", "997", "496"))


def test_percentages_of_the_wrong_base_contradict_their_own_table() -> None:
    """VCF's 81,578 are 26.5 % more than ROKS's 64,483, which are 21.0 % less: the page calls them 21 % higher."""
    given = tabled()["003-random-percentages"]
    assert (given.word, given.size) == (UNKNOWN, "disagree")
    assert re.findall(r"\+\d+\.\d", given.here) == ["+26.5", "+12.3", "+41.4"]


def test_the_guard_refuses_the_p99_of_writes_against_an_average_of_p99s() -> None:
    """Of the corrected tables both sides have a p99, but not the same one: no claim is judged by them."""
    assert {v.verdict for v in published("corrected").verdicts if v.metric == "lat_write_p99"} == {"refused"}
    assert all(c.asks.by == "nothing" for c in catalogue().claims if c.id.startswith("003-tail"))


def test_which_finding_needed_which_version() -> None:
    rows = {(row.check, row.kind): tuple(row.cells[version] for version in VERSIONS) for row in overview()}
    assert VERSIONS == ("first", "explained", "corrected")
    assert rows["above_cap", "iops"] == rows["doubled", "iops"] == (2, 2, 0)
    assert rows["added_up", "definition"] == (0, 14, 0), "seven classes, two columns: their author told it later"
    assert rows["unwritten_space", "none"] == (0, 21, 0)
    assert rows["unmatched", "refused"] == (28, 28, 24)


def test_published_sizes_are_told_as_the_studies_tell_them() -> None:
    told = {c.id: size_text(c) for c in catalogue().claims}
    assert told["000-randread-small"] == "at least +300 %"
    assert told["000-write-small"] == "+27 % to +30 %"
    assert told["001-read-load"] == "+1 % to +105 %"
    assert told["003-erasure"] == "\N{MINUS SIGN}31.8 %"
    assert told["000-single-queue"] == ""


WRONG = [
    ("up faster", "upp faster", "claims-invalid 'upp' truth"),
    ("than base", "than bsae", "claims-invalid 'bsae' truth"),
    ("study: truth", "study: trut", "claims-invalid 'trut'"),
    ("in iops", "in iops on 8k", "claims-invalid truth '8k'"),
    ("in iops", "in iops on other/", "claims-invalid truth 'other/'"),
    ("in iops", "in iosp", "value claims.0.asks.rule: 'iosp'"),
    (" in iops", "", "value claims.0.asks.rule: metric"),
    ("faster than", "quicker than", "value claims.0.asks.rule: quicker"),
    ("up faster than base in iops", "no critical finding", "value claims.0.asks.rule: lane"),
    ("faster than base in iops", ">= 5 % over base in iops, no block below 1 %", "value claims.0.asks.rule: block"),
    ("faster than base in iops", ">= 5 % over base in lat_mean", "claims-invalid worse truth"),
    ("conditions: none", "conditions: none\n    size: { least: 1.05, most: 1.5 }", "claims-invalid size: margin 5"),
    ("by: lab", "by: magic", "kind-unknown claims.0.asks"),
    ("where: here", "wehre: here", "several-problems claims.0"),
    ("id: 900-claim-1", "id: claim", "name-invalid claims.0.id:"),
    ("id: 900-claim-1", "id: 901-claim-1", "value 901"),
    (
        "conditions: none",
        "conditions: none\n    size: { least: 0.5, most: 0.8 }",
        "claims-invalid size: up faster",
    ),
    ("conditions: none", "conditions: none\n    size: { least: 2, most: 1.5 }", "value claims.0.size least most"),
    ("conditions: none", "conditions: none\n    size: {}", "value claims.0.size least most"),
    ("by: lab", "by: ability", "several-problems claims.0.asks"),
]
"""What is replaced in a claim, by what, and kind and names of the error."""


@pytest.mark.parametrize(("old", "new", "told"), WRONG)
def test_a_claim_that_is_wrong_is_named(old: str, new: str, told: str) -> None:
    text = SOURCES + lab_claim("up faster than")
    assert text.count(old) == 1
    with pytest.raises(FairlaneError) as caught:
        read(text.replace(old, new), "claims.yaml", {"truth": STUDY})
    kind_, *tokens = told.split()
    assert caught.value.kind == kind_
    assert [token for token in tokens if token not in str(caught.value)] == []
    assert "claims.yaml" in str(caught.value)


def test_the_line_of_a_wrong_key_is_told() -> None:
    text = SOURCES + lab_claim("up faster than").replace("where: here", "wehre: here")
    with pytest.raises(FairlaneError, match=r"claims\.yaml:\d+"):
        read(text, "claims.yaml", {"truth": STUDY})


def test_two_claims_of_one_name_are_refused() -> None:
    with pytest.raises(FairlaneError, check=kind("value")) as caught:
        read(SOURCES + lab_claim("up faster than") * 2, "claims.yaml", {"truth": STUDY})
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
    text = SOURCES + lab_claim("up faster than").partition("asks:")[0] + asks + "\n"
    expected, *tokens = told.split()
    with pytest.raises(FairlaneError, check=kind(expected)) as caught:
        read(text, "claims.yaml", {"truth": STUDY})
    shown = str(caught.value) + caught.value.hint
    assert [token for token in tokens if token not in shown] == []


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        ("by: finding, checks: [abovecap]", "value checks abovecap above_cap"),
        ("by: finding, checks: []", "too-few checks"),
        ("by: finding, checks: [above_cap], tables: last", "value tables last"),
        ("by: figures, rule: a faster than b in iops", "key-missing because"),
        (f"by: figures, rule: a ties b in iops, because: {'x' * 20}", "value faster"),
    ],
)
def test_a_claim_about_published_tables_that_is_wrong_is_named(asks: str, told: str) -> None:
    text = SOURCES + lab_claim("up faster than").partition("asks:")[0] + f"asks: {{ {asks} }}\n"
    expected, *tokens = told.split()
    with pytest.raises(FairlaneError, check=kind(expected)) as caught:
        read(text, "claims.yaml", {"truth": STUDY})
    shown = str(caught.value) + caught.value.hint
    assert [token for token in tokens if token not in shown] == []


def test_what_the_lab_forces_is_marked() -> None:
    forced = {c.id for c in catalogue().claims if getattr(c.asks, "constructed", "")}
    assert forced == {
        "001-sessions",
        "002-split-iops",
        "002-split-latency",
        "003-three-copies",
        "003-three-copies-writes",
    }


def rules() -> dict[str, Compared]:
    return {c.id: c.asks.compared for c in catalogue().claims if isinstance(c.asks, Ruled)}


def test_io_threads_gain_in_reads_and_cost_in_mixes_as_the_page_has_it() -> None:
    study = catalogue().labs["virtio-bus"].whole
    for lane, reads, mixes in (
        ("blk-io4", "004-io-threads-4", "004-io-threads-mixed"),
        ("blk-io8", "004-io-threads-8", "004-io-threads-mixed-8"),
    ):
        gains, costs = rules()[reads], rules()[mixes]
        assert str(gains).startswith(f"{lane} faster than blk")
        assert str(costs).startswith(f"{lane} slower than blk")
        cells = chosen(study, gains.cells)
        assert {(c.params["rw"], c.params["iodepth"]) for c in cells} == {("randread", 4), ("randread", 8)}
        assert {c.params["rwmixread"] for c in chosen(study, costs.cells)} == {75, 50}


def test_what_is_said_of_reads_or_writes_of_a_mix_is_asked_of_them_alone() -> None:
    asked = {name: rule.metric for name, rule in rules().items() if METRICS[rule.metric].way}
    assert asked == {
        "004-read-heavy-reads": "bw_read",
        "004-read-heavy-writes": "bw_write",
        "004-write-heavy-reads": "bw_read",
        "004-write-heavy-writes": "bw_write",
    }
