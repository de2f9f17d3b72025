"""Kinds of errors and findings: what tests and scripts go by when the words change."""

import ast
import copy
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import fairlane
from fairlane.errors import SEVERAL, FairlaneError, Garbage, RunFailed
from fairlane.records import Note
from tests.words import kinds

SOURCE = Path(fairlane.__file__).parent
CALLS = {
    "FairlaneError",
    "RunFailed",
    "Unfinished",
    "Refused",
    "Unreadable",
    "Damaged",
    "Garbage",
    "Problem",
    "Invalid",
    "Note",
    "finding",
}


def literals() -> Iterator[tuple[str, str]]:
    """(place, kind) of every error and finding whose kind is written out."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in CALLS:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", str(node.args[0].value)


def test_kinds_are_words_with_dashes() -> None:
    found = dict(literals())
    assert len(found) > 300
    assert {
        place: kind for place, kind in found.items() if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", kind)
    } == {}


def test_the_kind_stands_behind_the_first_line() -> None:
    error = FairlaneError("set-up", "a step failed:\nstderr", where="lanes.a")
    assert error.labelled() == "lanes.a: a step failed: [set-up]\nstderr"
    assert kinds(error.labelled()) == ["set-up"]
    several = FairlaneError(SEVERAL, "2 problems\n  one [key-unknown]\n  two [yaml]")
    assert kinds(several.labelled()) == ["key-unknown", "yaml"]


def test_errors_come_back_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(RunFailed("timeout", "no answer", hint="wait", where="a")))  # noqa: S301 - our own
    assert (error.kind, str(error), error.hint) == ("timeout", "a: no answer", "wait")
    garbage = pickle.loads(pickle.dumps(Garbage("cut-off", "fio.json is cut off")))  # noqa: S301
    assert (garbage.kind, str(garbage)) == ("cut-off", "fio.json is cut off")


def test_a_footnote_is_its_text_and_keeps_its_kind() -> None:
    note = Note("pulled", "a few blocks")
    for again in (note, copy.deepcopy(note), pickle.loads(pickle.dumps(note))):  # noqa: S301 - our own
        assert (again, again.kind, json.dumps([again])) == ("a few blocks", "pulled", '["a few blocks"]')
