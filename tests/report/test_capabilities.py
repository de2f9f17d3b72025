"""The table of what lanes can do: values in the table, evidence below it, and nothing from outside runs."""

from dataclasses import replace
from typing import Any

from fairlane.report import capabilities, html, lanes, markdown, model

HOSTILE = "<script>alert(1)</script>"


def with_lanes(case: Any, **told: Any) -> Any:
    evidence, verdicts, findings = case
    lanes = {name: dict(lane) for name, lane in evidence.description["lanes"].items()}
    for lane in lanes:
        lanes[lane] |= told.get(lane.replace("-", "_"), {})
    return replace(evidence, description={**evidence.description, "lanes": lanes}), verdicts, findings


def answer(value: str, evidence: str = "seen") -> dict[str, str]:
    return {"value": value, "evidence": evidence}


def test_nothing_known_is_no_table(case: Any) -> None:
    assert capabilities.parts(case[0]) == ()


def test_what_differs_is_marked_and_what_was_seen_is_told(case: Any) -> None:
    names = list(case[0].study.lanes)
    able: dict[str, Any] = {
        names[0]: {"discard": answer("yes", "1 MiB"), "resize": answer("no"), "new": answer("7")},
        names[1]: {"discard": answer("no", "max is 0"), "resize": answer("no")},
    }
    told = {name.replace("-", "_"): {"capabilities": one} for name, one in able.items()}
    (table,) = capabilities.parts(with_lanes(case, **told)[0])
    assert [row[0] for row in table.rows] == ["discard", capabilities.TITLES["resize"], "new"]
    assert table.rows[0][1:3] == ("yes", "no")
    assert 0 in table.marked
    assert 1 not in table.marked
    assert tuple(seen for what, seen in table.proof if what.startswith("discard")) == ("1 MiB", "max is 0")


def test_steady_state_is_a_table_of_its_own(case: Any) -> None:
    name = next(iter(case[0].study.lanes))
    steady = {"reached": False, "rounds": 6, "seconds": 6.0, "range": 0.31, "slope": -0.2, "what": "4k randwrite qd16"}
    (table,) = capabilities.parts(with_lanes(case, **{name.replace("-", "_"): {"steady": steady}})[0])
    assert table.rows[0][1:] == ("no", "6", "6s", "31.0%", "-20.0%", "4k randwrite qd16")


def test_damaged_descriptions_break_nothing(case: Any) -> None:
    name = next(iter(case[0].study.lanes)).replace("-", "_")
    damaged: tuple[Any, ...] = ({"discard": "yes"}, {"discard": {}}, "yes", {"discard": {"value": None}})
    for bad in damaged:
        capabilities.parts(with_lanes(case, **{name: {"capabilities": bad, "steady": bad}})[0])


def test_page_and_markdown_carry_it_and_stay_harmless(case: Any) -> None:
    name = next(iter(case[0].study.lanes)).replace("-", "_")
    told = {name: {"capabilities": {"discard": answer(HOSTILE, HOSTILE)}}}
    report = model.build(*with_lanes(case, **told))
    page, text = html.render(report), markdown.render(report)
    (table,) = report.capabilities
    assert f">{table.title}</h2>" in page
    assert f"## {table.title}" in text
    assert HOSTILE not in page
    assert HOSTILE not in text
    assert f"{lanes.READ_BACK}capabilities" not in page
