"""Lanes with ``copy_of``: A/A controls in the study file."""

import pytest

from fairlane.errors import FairlaneError
from fairlane.study.load import parse_study

STUDY = """\
name: copies
platform: {{kind: fake}}
baseline: a
lanes:
  a: {{transport: local, label: A}}
  b: {{transport: iscsi, sessions: 2, label: B, cap_iops: 500}}
  b2: {{{}}}
workloads: {{main: {{kind: fio, runtime: 1s}}}}
"""


def study(copy):
    return parse_study(STUDY.format(copy), "c.yaml")


@pytest.mark.parametrize("more", ["", ", sessions: 2"])
def test_a_copy_takes_what_it_does_not_say(more):
    lanes = study(f"transport: iscsi, copy_of: b, label: B again{more}").lanes
    own = {"label": "B again", "copy_of": "b"}
    assert lanes["b2"] == lanes["b"].model_copy(update=own)
    assert lanes["b"].copy_of == ""


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        ("transport: iscsi, copy_of: bb", r"'bb' is not a lane \(lanes: a, b\)"),
        ("transport: iscsi, copy_of: b, sessions: 1", "sessions: differs from b"),
        ("transport: local, copy_of: b", "transport: differs from b"),
        ("transport: iscsi, copy_of: b2", "a copy is of a lane that is none"),
    ],
)
def test_what_is_no_copy_is_told(copy, message):
    with pytest.raises(FairlaneError, match=message):
        study(copy)


def test_the_baseline_is_no_copy():
    with pytest.raises(FairlaneError, match="is not the baseline"):
        parse_study(STUDY.format("transport: local, copy_of: a").replace("baseline: a", "baseline: b2"), "c.yaml")
