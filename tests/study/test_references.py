"""Lanes with ``role: reference`` in the study file."""

import pytest

from fairlane.errors import FairlaneError
from fairlane.study.load import parse_study
from fairlane.study.spec import Study
from tests.words import kind

STUDY = """\
name: references
platform: {{kind: fake}}
baseline: a
lanes:
  a: {{transport: iscsi{a}}}
  b: {{transport: nvme_tcp{b}}}
  c: {{transport: local{c}}}
workloads: {{main: {{kind: fio, runtime: 1s}}}}
"""
REFERENCE = ", role: reference"


def study(a: str = "", b: str = "", c: str = REFERENCE) -> Study:
    return parse_study(STUDY.format(a=a, b=b, c=c), "r.yaml")


def test_a_reference_is_no_rival() -> None:
    assert (study().rivals, study().references) == (("b",), ("c",))
    assert (study(c="").rivals, study(c="").references) == (("b", "c"), ())
    assert study(c=", role: contender").rivals == ("b", "c")


@pytest.mark.parametrize(
    ("roles", "error", "key"),
    [
        ({"a": REFERENCE}, "reference-baseline", "lanes.a.role"),
        ({"b": REFERENCE}, "no-contender", "lanes"),
        ({"b": ", copy_of: a", "c": REFERENCE}, "copy-differs", "lanes.b.transport"),
    ],
)
def test_somebody_must_compete(roles: dict[str, str], error: str, key: str) -> None:
    with pytest.raises(FairlaneError, check=kind(error)) as raised:
        study(**roles)
    assert raised.value.message.startswith(f"{key}: ")


@pytest.mark.parametrize("copy", ["copy_of: ref", "copy_of: b, role: reference", "copy_of: ref, role: reference"])
def test_a_reference_has_no_copy_and_is_none(copy: str) -> None:
    text = STUDY.format(a="", b="", c="").replace(
        "workloads:",
        f"  ref: {{transport: nvme_tcp, role: reference}}\n  d: {{transport: nvme_tcp, {copy}}}\nworkloads:",
    )
    with pytest.raises(FairlaneError, check=kind("reference-copy")) as raised:
        parse_study(text, "r.yaml")
    assert raised.value.message.startswith("lanes.d.copy_of: ")


def test_copies_alone_do_not_compete() -> None:
    text = STUDY.format(a="", b="", c=REFERENCE).replace(
        "b: {transport: nvme_tcp}", "b: {transport: iscsi, copy_of: a}"
    )
    with pytest.raises(FairlaneError, check=kind("no-contender")):
        parse_study(text, "r.yaml")


def test_a_role_is_one_of_two() -> None:
    with pytest.raises(FairlaneError):
        study(c=", role: judge")
