"""Numbers that nobody can mean: refused with their line, soon, and in little memory."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlane.cli.study import describe
from fairlane.errors import FairlaneError
from fairlane.runs import plan as plans
from fairlane.study.base import MOST_BLOCKS, MOST_CELLS, MOST_LANES, MOST_TRIALS
from fairlane.study.load import parse_study, presets

HEAD = """
name: x
platform: {kind: fake}
baseline: a
lanes: {a: {transport: iscsi}, b: {transport: nvme_tcp}}
"""
LOAD = "workloads: {main: {kind: fio, runtime: 1s}}\n"


def refused(text: str) -> FairlaneError:
    with pytest.raises(FairlaneError) as raised:
        parse_study(text, "x.yaml")
    return raised.value


def figures(message: str) -> list[str]:
    """The numbers of a message, in their order."""
    return re.findall(r"(?<![\w.-])\d+(?:e-\d+)?\b", message)


@pytest.mark.parametrize(
    ("design", "kind", "key", "told"),
    [
        ("looks: [6, 10, 999999999999]", "limit", "design.looks", [MOST_BLOCKS, 999999999999]),
        (f"looks: [{MOST_BLOCKS + 1}]", "limit", "design.looks", [MOST_BLOCKS, MOST_BLOCKS + 1]),
        (f"looks: {list(range(2, 150))}", "limit", "design.looks", [100, 148]),
        ("stop: {width: 1%, most: 999999999999}", "limit", "design.stop.most", [1000, 999999999999]),
        ("stop: {width: 1%, least: 999999999999}", "limit", "design.stop", [40, 999999999999]),
        ("alpha: 1e-300", "limit", "design.alpha", ["1e-06"]),
        ("margins: {iops: 1001%}", "value", "design.margins.iops", []),
    ],
)
def test_designs_that_never_end(design: str, kind: str, key: str, told: list[int | str]) -> None:
    error = refused(f"{HEAD}{LOAD}design: {{{design}}}\n")
    assert (error.kind, error.where) == (kind, "x.yaml:7")
    assert error.message.startswith(key)
    assert figures(error.message)[: len(told)] == [str(figure) for figure in told]


def test_lists_that_multiply_are_counted_and_not_made() -> None:
    keys = {
        "bs": [f"{512 * n}b" for n in range(1, 1001)], "iodepth": list(range(1, 1001)),
        "numjobs": list(range(1, 101)), "rate_iops": list(range(100, 10100, 100)), "size": "1g",
    }  # fmt: skip
    load = json.dumps({"main": {"kind": "fio", **keys}})
    error = refused(f"{HEAD}workloads: {load}\n")
    assert (error.kind, error.where) == ("limit", "x.yaml:6")
    assert error.message.startswith("workloads.main: ")
    assert figures(error.message) == [str(MOST_CELLS), "10000000000"]


def test_lanes_and_trials_have_an_end() -> None:
    lanes = json.dumps({f"l{n}": {"transport": "iscsi"} for n in range(MOST_LANES + 1)})
    head = HEAD.replace("lanes: {a: {transport: iscsi}, b: {transport: nvme_tcp}}", f"lanes: {lanes}")
    error = refused(head.replace("baseline: a", "baseline: l0") + LOAD)
    assert (error.kind, error.message.partition(":")[0]) == ("limit", "lanes")
    assert figures(error.message) == [str(MOST_LANES), str(MOST_LANES + 1)]
    depths = list(range(1, 101))
    load = json.dumps({"main": {"kind": "fio", "iodepth": depths}})
    text = f"{HEAD}workloads: {load}\n"
    error = refused(f"{text}design: {{looks: [1001]}}\n")
    assert (error.kind, error.message.partition(":")[0]) == ("limit", "design")
    assert figures(error.message) == [str(MOST_TRIALS), "1001", "100", "2", "200200"]
    study = parse_study(f"{text}design: {{looks: [1000]}}\n", "x.yaml")
    with pytest.raises(FairlaneError, check=lambda e: str(e).startswith("--blocks 1001: ")):
        plans.make(study, text, blocks=1001)


@pytest.mark.parametrize("written", ["1e999", "-1e999", ".inf", ".nan", "!!float .nan", "!!int many", "1" * 400])
@pytest.mark.parametrize("field", ["seed", "alpha", "looks: [{}]", "stop: {{width: {}}}", "margins: {{iops: {}}}"])
def test_what_is_no_number_is_told_with_its_line(written: str, field: str) -> None:
    design = field.format(written) if "{" in field else f"{field}: {written}"
    error = refused(f"{HEAD}{LOAD}design: {{{design}}}\n")
    assert (error.where, error.kind in ("value", "type", "limit")) == ("x.yaml:7", True), error.kind
    assert error.message.startswith("design.")


# --- every number of every preset


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where numbers and quantities stand."""
    if isinstance(value, dict | list):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(below, (*path, key))
    elif (isinstance(value, str) and value[:1].isdigit()) or type(value) in (int, float):
        yield path


ADDED = """
platform: {effects: {iscsi: {speed: 1.5, tail: 2, cells: {"4k *": 1.2}}}, noise: {sd: 2%}, failures: 1%, deaths: 1%,
  latency: 80us}
lanes: {iscsi: {cap_iops: 100, cap_mibs: 100, cost: 5, sessions: 2,
  conditions: {copies: 3, vm_memory: 4g, link_speed: 10gbit, ramp: 1s, rwmixread: 70, rate_iops: 10, date: 20000}}}
workloads: {main: {kind: fio, rate_iops: [10], numjobs: [1], ramp: 1s, size: 1g, slo: {lat_p99: 2ms},
  steady: {round: 60s, limit: 1h, iodepth: 4, bs: 4k}}}
design: {seed: 1, alpha: 0.05, looks: [4, 8], margins: {iops: 5%}}
"""
"""Numbers that no preset has."""


def merged(whole: Any, added: Any) -> Any:
    if not isinstance(whole, dict) or not isinstance(added, dict):
        return added
    return {**whole, **{key: merged(whole.get(key), value) for key, value in added.items()}}


TREES = {name: yaml.safe_load(text) for name, text in presets().items()}
TREES["added"] = merged(TREES["fake"], yaml.safe_load(ADDED))
PLACES = [(name, path) for name, tree in TREES.items() for path in leaves(tree)]

NUMBERS = st.one_of(
    st.sampled_from(
        ["1e999", "-1e999", ".inf", "-.inf", ".nan", "NaN", "Infinity", "0", "-0.0", "5e-324", "1e308", "-1", "1e-300",
         "!!float x", "!!int 1.5", "9" * 19, "9" * 30, "9" * 5000, "9" * 400 + "%", "1e999%", "1e5s", "0x10", "1_000"]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(repr),
    st.tuples(st.integers(0, 10**30), st.sampled_from(["ns", "s", "h", "k", "t", "gbit", "%", "EiB", "b"])).map(
        lambda pair: f"{pair[0]}{pair[1]}"
    ),
)  # fmt: skip


def put(tree: Any, path: tuple[Any, ...], written: str) -> str:
    """The study with ``written``, unquoted, in place of the value at ``path``."""
    tree = json.loads(json.dumps(tree, default=str))
    at = tree
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = "@here@"
    return str(yaml.safe_dump(tree, width=10**6)).replace("'@here@'", written).replace("@here@", written)


@given(place=st.sampled_from(PLACES), written=NUMBERS)
@example(place=("added", ("lanes", "iscsi", "cost")), written="5e-324")
@example(place=("added", ("design", "looks", 1)), written="999999999999")
@settings(max_examples=250)
def test_any_number_anywhere_is_planned_or_refused_with_its_line(
    place: tuple[str, tuple[Any, ...]], written: str
) -> None:
    text = put(TREES[place[0]], place[1], written)
    try:
        study = parse_study(text, "x.yaml")
    except FairlaneError as error:
        assert re.search(r"x\.yaml:\d+: ", str(error)), error  # noqa: PT017 - refused or planned, one of the two
        return
    report = describe(study, 2)
    json.dumps(report, allow_nan=False)
    assert all(math.isfinite(look["wall_seconds"]) for look in report["looks"])
    assert report["looks"][-1]["trials"] <= MOST_TRIALS
