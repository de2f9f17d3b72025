"""Study 003 as an import: the page's deltas to the digit, its winners as bare figures, and no verdict on them."""

import re
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.compare.comparison import Comparison, compare
from fairlane.compare.deltas import percent
from fairlane.compare.mapping import parse_mapping
from fairlane.compare.takeaways import takeaways
from fairlane.errors import Exit
from fairlane.runs.read import load_run
from tests.words import noted

EXAMPLE = Path(__file__).parents[2] / "examples" / "study-003"

PAGE = {
    ("iops", "4k random"): """
        Best replicated     | 64,483 | 81,578 | -21.0
        Standard replicated | 71,966 | 80,851 | -11.0
        CephFS              | 59,956 | 80,851 | -25.8
        Erasure coded       | 49,058 | 69,361 | -29.3
        NFS high tier       | 53,506 | 25,668 | +108.5
        NFS mid tier        | 1,984  | 14,745 | -86.5
        NFS low tier        | 989    | 7,671  | -87.1""",
    ("bw", "1M sequential"): """
        Best replicated     | 7,599.2 | 1,229.6 | +518.0
        Standard replicated | 8,306.0 | 1,223.0 | +579.1
        CephFS              | 5,377.9 | 1,223.0 | +339.7
        Erasure coded       | 5,814.1 | 1,688.3 | +244.4
        NFS high tier       | 2,049.7 | 2,063.3 | -0.7
        NFS mid tier        | 125.9   | 999.0   | -87.4
        NFS low tier        | 63.3    | 502.4   | -87.4""",
    ("iops", "4k mixed 70/30"): """
        Best replicated     | 48,641 | 22,515 | +116.0
        Standard replicated | 53,574 | 23,397 | +129.0
        CephFS              | 45,126 | 23,397 | +92.9
        Erasure coded       | 31,405 | 23,049 | +36.3
        NFS high tier       | 34,502 | 10,963 | +214.7
        NFS mid tier        | 997    | 8,181  | -87.8
        NFS low tier        | 496    | 4,086  | -87.9""",
    ("lat_p99", "average p99"): """
        Best replicated     | 50.02    | 10.25 | +388.0
        Standard replicated | 49.10    | 10.25 | +379.0
        CephFS              | 123.21   | 10.25 | +1,102.0
        Erasure coded       | 85.41    | 13.33 | +540.7
        NFS high tier       | 53.05    | 15.17 | +249.7
        NFS mid tier        | 768.19   | 18.45 | +4,063.6
        NFS low tier        | 1,610.19 | 20.87 | +7,615.3""",
}
"""The four tables of the page: category, ROKS, VCF, delta in percent."""

WINNERS = {
    "Best replicated": ("vcf", "roks", "roks", "vcf"),
    "Standard replicated": ("vcf", "roks", "roks", "vcf"),
    "CephFS": ("vcf", "roks", "roks", "vcf"),
    "Erasure coded": ("vcf", "roks", "roks", "vcf"),
    "NFS high tier": ("roks", "roks", "neither", "vcf"),
    "NFS mid tier": ("vcf", "vcf", "vcf", "vcf"),
    "NFS low tier": ("vcf", "vcf", "vcf", "vcf"),
}
"""The page's scorecard: random IOPS, mixed IOPS, throughput, latency."""

ORDER = (
    ("iops", "4k random"),
    ("iops", "4k mixed 70/30"),
    ("bw", "1M sequential"),
    ("lat_p99", "average p99"),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both sides, imported with ``fairlane import``."""
    folder = tmp_path_factory.mktemp("runs")
    for side in ("roks", "vcf"):
        files = [str(EXAMPLE / f"{side}.csv"), "--map", str(EXAMPLE / f"{side}.yaml")]
        assert run(["import", *files, "--out", str(folder / side)]) == Exit.OK
    return folder


def compared(runs: Path, mapping: str = "mapping.yaml", **accepts: str) -> Comparison:
    loaded = {side: load_run(runs / side) for side in ("roks", "vcf")}
    lanes = {side: tuple(one.study.lanes) for side, one in loaded.items()}
    return compare(loaded, parse_mapping((EXAMPLE / mapping).read_text(), mapping, lanes), accepts)


@pytest.fixture(scope="module")
def comparison(runs: Path) -> Comparison:
    return compared(runs)


def rows(tables: dict[tuple[str, str], str]) -> list[tuple[str, str, list[str]]]:
    return [
        (metric, cell, [part.strip() for part in line.split("|")])
        for (metric, cell), table in tables.items()
        for line in table.strip().splitlines()
    ]


@pytest.mark.parametrize(("metric", "cell", "line"), rows(PAGE), ids=lambda x: x if isinstance(x, str) else x[0])
def test_every_row_of_the_page_is_printed_to_the_digit(
    comparison: Comparison, metric: str, cell: str, line: list[str]
) -> None:
    """All 28 deltas follow from the values printed beside them: none needs a figure that is not on the page."""
    category, roks, vcf, delta = line
    (table,) = (t for t in comparison.tables if t.metric.name == metric)
    (row,) = (r for r in table.rows if (r.category, r.cell) == (category, cell))
    (only,) = row.deltas
    assert (table.shown(only.value), table.shown(row.baseline)) == (roks, vcf)
    assert percent(only.ratio) == f"{delta} %".replace("-", "\u2212")
    assert table.unit == {"iops": "1/s", "bw": "MiB/s", "lat_p99": "ms"}[metric]


def test_the_table_has_the_page_s_rows_and_no_others(comparison: Comparison) -> None:
    assert sum(len(table.rows) for table in comparison.tables) == 28
    assert all(table.primary for table in comparison.tables)
    assert comparison.joined.alone == ()
    assert comparison.joined.unpaired == {}


def test_every_row_is_refused_and_says_why(comparison: Comparison) -> None:
    assert {v.verdict for v in comparison.verdicts} == {"refused"}
    assert not any(v.headline for v in comparison.verdicts)
    for v in comparison.verdicts:
        assert any("ramp" in note and "roks" in note for note in v.notes), v.key
        assert v.low is None


def test_the_page_s_winners_are_bare_figures_here(comparison: Comparison) -> None:
    """The direction of every delta is the page's; its tie is a difference below our margin; nobody is a winner."""
    assert {s.winner for s in comparison.scores} == {""}
    leans = {(s.category, s.metric, s.cell): s.leans for s in comparison.scores}
    assert leans == {
        (category, *place): winner
        for category, four in WINNERS.items()
        for place, winner in zip(ORDER, four, strict=True)
    }


def test_with_every_difference_accepted_it_is_still_one_result_a_side(runs: Path) -> None:
    names = ("ramp", "aio", "volume_mode", "copies", "provisioning")
    accepted = compared(runs, **dict.fromkeys(names, "for the sake of the argument"))
    assert {v.verdict for v in accepted.verdicts} == {"no-spread"}
    assert {noted(v.notes)[-1] for v in accepted.verdicts} == {"single-trials"}
    told = [f for f in accepted.findings if f.kind == "accepted"]
    assert {name for f in told for name in f.evidence} == set(names)
    assert all("for the sake of the argument" in f.message for f in told)


def found(comparison: Comparison, check: str, kind: str, figure: str = "") -> list[tuple[str, tuple[str, ...]]]:
    """Categories of the findings of this kind whose message has ``figure``, by severity."""
    titles = {cell.key: comparison.joined.categories[cell.workload].title for cell in comparison.evidence.cells()}
    return [
        (f.severity, tuple(dict.fromkeys(titles[key] for key in f.cells)))
        for f in comparison.findings
        if (f.check, f.kind) == (check, kind) and figure in f.message
    ]


def test_tiers_above_their_caps(comparison: Comparison) -> None:
    assert found(comparison, "above_cap", "iops", " 1,984 ") == [("critical", ("NFS mid tier",))]
    assert found(comparison, "above_cap", "iops", " 989 ") == [("critical", ("NFS low tier",))]
    told = [f for f in comparison.findings if f.check == "above_cap"]
    assert sorted((f.lanes, p["cap"]) for f in told for p in f.evidence.values()) == [
        (("roks",), 500),
        (("roks",), 1000),
    ]


def test_the_same_tiers_are_at_twice_their_mix_whatever_their_caps_are(comparison: Comparison) -> None:
    assert found(comparison, "doubled", "iops", " 997 ") == [("critical", ("NFS mid tier",))]
    assert found(comparison, "doubled", "iops", " 496 ") == [("critical", ("NFS low tier",))]
    assert len([f for f in comparison.findings if f.check == "doubled"]) == 2
    assert not [f for f in comparison.findings if f.check == "added_up"], "the page does not say what its figures are"


def test_no_prefill_is_known(comparison: Comparison) -> None:
    told = found(comparison, "unwritten_space", "unknown")
    assert [severity for severity, _ in told] == ["warning", "warning"]
    assert all(set(categories) == set(WINNERS) for _, categories in told)


def test_percentiles_are_averages(comparison: Comparison) -> None:
    told = found(comparison, "missing_percentile", "averaged")
    assert [(severity, set(categories)) for severity, categories in told] == [("warning", set(WINNERS))] * 2


def test_the_two_sides_were_not_interleaved_and_when(comparison: Comparison) -> None:
    (f,) = (f for f in comparison.findings if f.kind == "not-interleaved")
    assert "2026-02-27" in f.message
    assert "2026-02-25" in f.message


def test_no_takeaway_names_a_winner(comparison: Comparison) -> None:
    told = takeaways(comparison)
    assert {"roks", "vcf", "28"} <= set(re.findall(r"\w+", told[0]))
    assert re.findall(r"\b28\b", told[0]) == ["28", "28"], "of 28 as many are refused"
    for word in ("faster", "slower", "better", "worse", "wins", "dominates", "at least"):
        assert not any(word in sentence for sentence in told), word


CORRECTED = {
    ("iops", "4k random reads"): """
        Best replicated     | 52,170 | 81,578 | -36.0
        Standard replicated | 61,490 | 80,851 | -23.9
        CephFS              | 53,586 | 80,851 | -33.7
        Erasure coded       | 44,862 | 69,361 | -35.3
        NFS mid tier        | 997    | 14,745 | -93.2
        NFS low tier        | 497    | 7,671  | -93.5""",
    ("bw", "1M sequential reads"): """
        Best replicated     | 6,338 | 1,229.6 | +415.5
        Standard replicated | 5,737 | 1,223.0 | +369.1
        CephFS              | 4,980 | 1,223.0 | +307.2
        Erasure coded       | 3,668 | 1,688.3 | +117.3
        NFS mid tier        | 64    | 999.0   | -93.6
        NFS low tier        | 31    | 502.4   | -93.8""",
    ("iops", "4k mixed 70/30"): """
        Best replicated     | 49,054 | 22,515 | +117.9
        Standard replicated | 54,027 | 23,397 | +130.9
        CephFS              | 39,533 | 23,397 | +69.0
        Erasure coded       | 27,775 | 23,049 | +20.5
        NFS mid tier        | 997    | 8,181  | -87.8
        NFS low tier        | 496    | 4,086  | -87.9""",
}
"""Three tables of the correction. It prints four of these deltas otherwise: -36.1, +415.4, +369.0, +117.2."""


@pytest.fixture(scope="module")
def corrected(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The correction, imported and compared as the comments in its maps say."""
    folder = tmp_path_factory.mktemp("corrected")
    for side, table in (("roks", "roks-corrected.csv"), ("vcf", "vcf.csv")):
        files = [str(EXAMPLE / table), "--map", str(EXAMPLE / f"{side}-corrected.yaml")]
        assert run(["import", *files, "--out", str(folder / side)]) == Exit.OK
    return compared(folder, "mapping-corrected.yaml")


@pytest.mark.parametrize(("metric", "cell", "line"), rows(CORRECTED), ids=lambda x: x if isinstance(x, str) else x[0])
def test_every_row_of_the_correction_is_printed(corrected: Comparison, metric: str, cell: str, line: list[str]) -> None:
    category, roks, vcf, delta = line
    (table,) = (t for t in corrected.tables if t.metric.name == metric)
    (row,) = (r for r in table.rows if (r.category, r.cell) == (category, cell))
    (only,) = row.deltas
    figures = [float(table.shown(value).replace(",", "")) for value in (only.value, row.baseline)]
    assert figures == [float(text.replace(",", "")) for text in (roks, vcf)]
    assert percent(only.ratio) == f"{delta} %".replace("-", "\u2212")


def test_the_correction_has_no_sums_and_is_still_refused(corrected: Comparison) -> None:
    assert not [f for f in corrected.findings if f.check in ("above_cap", "doubled", "added_up")]
    assert {v.verdict for v in corrected.verdicts} == {"refused"}
    assert any("2026-05-26" in note and "2026-02-25" in note for v in corrected.verdicts for note in v.notes)


def test_the_command_prints_it_one_line_a_row(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    sides = [f"{side}={runs / side}" for side in ("roks", "vcf")]
    assert run(["compare", *sides, "--map", str(EXAMPLE / "mapping.yaml")]) == Exit.OK
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if "+1,102.0 %" in line]
    assert all(line == line.rstrip() for line in out.splitlines())
    assert run(["compare", *sides, "--map", str(EXAMPLE / "mapping.yaml"), "--strict"]) == Exit.NOT_DECIDED
