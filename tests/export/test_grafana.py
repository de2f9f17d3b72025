"""The Grafana dashboard asks for nothing that ``fairlane export --to openmetrics`` does not write.

Its queries were also put to a Prometheus that scraped such exports; here each selector is held against the samples of
two real exports: a run, and an import that has CPU figures.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.records import Word

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy/grafana/fairlane.json").read_text(encoding="utf-8"))
TABLE = """\
lane,cell,block,iops,cpu
old,4k,0,1000,21
old,4k,1,1010,22
new,4k,0,1500,15
new,4k,1,1510,16
"""
MAP = """\
tool: table
baseline: old
table:
  lane: lane
  cell: cell
  block: block
  figures: [{metric: iops, column: iops}, {metric: cpu_per_io, column: cpu, unit: us}]
"""
SCRAPED = {"instance", "job"}
"""Labels that Prometheus adds."""

Samples = Mapping[str, Sequence[Mapping[str, str]]]
Selector = tuple[str, Sequence[tuple[str, str, str]]]
"""Name of the metric; (label, operator, value) of each matcher."""


@pytest.fixture(scope="module")
def samples(hostile, tmp_path_factory) -> Samples:
    """Name of a series -> the labels of its samples."""
    place = tmp_path_factory.mktemp("imported")
    (place / "table.csv").write_text(TABLE)
    (place / "map.yaml").write_text(MAP)
    assert run(["import", str(place / "table.csv"), "--map", str(place / "map.yaml"), "--out", str(place / "run")]) == 0
    found: dict[str, list[Mapping[str, str]]] = {}
    for folder, out in ((hostile.folder, place / "a"), (place / "run", place / "b")):
        assert run(["export", str(folder), "--to", "openmetrics", "--out", str(out)]) == Exit.OK
        for family in text_string_to_metric_families((out / "fairlane.prom").read_text()):
            for sample in family.samples:
                found.setdefault(sample.name, []).append(sample.labels)
    return found


def queries() -> Iterator[tuple[str, str, str]]:
    """(panel or variable, PromQL, legend)."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target.get("legendFormat", "")
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            asked = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            assert asked, variable
            yield f"variable {variable['name']}", asked[1], f"{{{{{asked[2]}}}}}"


def selectors(expression: str) -> Iterator[Selector]:
    for name, _, inside in re.findall(r"\b(fairlane_\w+)(\{([^}]*)\})?", expression):
        yield name, re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', inside)


def matching(samples: Samples, selector: Selector) -> list[Mapping[str, str]]:
    """The samples that a selector finds where every variable is All."""
    name, matchers = selector
    fixed = [(label, op, value) for label, op, value in matchers if "$" not in value]

    def fits(labels: Mapping[str, str]) -> bool:
        return all(
            (re.fullmatch(value if "~" in op else re.escape(value), labels[label]) is None) == op.startswith("!")
            for label, op, value in fixed
        )

    return [labels for labels in samples[name] if fits(labels)]


QUERIES = list(queries())


@pytest.mark.parametrize(("place", "expression", "legend"), QUERIES, ids=[f"{p}: {e[:40]}" for p, e, _ in QUERIES])
def test_a_query_finds_series_that_an_export_has(samples, place, expression, legend):
    found = list(selectors(expression))
    assert found
    for name, matchers in found:
        assert name in samples, f"{place}: no export has {name}"
        labels = set(samples[name][0])
        assert {label for label, _, _ in matchers} <= labels, f"{place}: {name}"
        assert matching(samples, (name, matchers)), f"{place}: nothing is {expression}"
        grouped = re.findall(r"\bby \(([^)]*)\)", expression)
        kept = set(re.split(r", ?", grouped[0])) if grouped else labels
        assert kept <= labels, f"{place}: {name} is grouped by labels that it does not have"
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= kept | SCRAPED, f"{place}: legend {legend}"


def test_verdicts_intervals_figures_and_warnings_have_panels(samples):
    asked = {name for _, expression, _ in QUERIES for name, _ in selectors(expression)}
    assert asked >= {
        "fairlane_verdict",
        "fairlane_ratio",
        "fairlane_ratio_low",
        "fairlane_ratio_high",
        "fairlane_value",
        "fairlane_findings",
        "fairlane_latency_seconds_bucket",
    }
    metrics = {v for _, e, _ in QUERIES for _, ms in selectors(e) for label, _, v in ms if label == "metric"}
    named = {name for value in metrics if "$" not in value for name in value.split("|")}
    assert {"iops", "lat_p99", "cpu_per_io"} <= named


def test_tables_name_columns_that_their_query_gives(samples):
    for panel in DASHBOARD["panels"]:
        for step in panel["transformations"]:
            if step["id"] == "filterFieldsByName":
                ((name, _),) = selectors(panel["targets"][0]["expr"])
                assert set(step["options"]["include"]["names"]) <= set(samples[name][0]), panel["title"]
    mapped = [p["value"][0]["options"] for panel in DASHBOARD["panels"] for o in panel["fieldConfig"]["overrides"]
              for p in o["properties"] if p["id"] == "mappings"]  # fmt: skip
    assert [set(words) for words in mapped] == [set(get_args(Word))]


def test_variables_that_queries_use_exist_and_names_are_unique():
    known = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"])))
    assert used - {"__all"} <= known
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_panels_do_not_overlap():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in cells) < 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("wrong", ["fairlane_ratios", 'fairlane_value{metric="iopss"}', 'fairlane_value{pod="a"}'])
def test_a_wrong_query_would_be_seen(samples, wrong):
    with pytest.raises(AssertionError):
        test_a_query_finds_series_that_an_export_has(samples, "x", wrong, "")
