"""Lanes with ``copy_of``: A/A controls in the study file."""

import pytest

from fairlane.errors import FairlaneError
from fairlane.study.load import parse_study
from tests.words import kind

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
    ("copy", "error", "key"),
    [
        ("transport: iscsi, copy_of: bb", "lane-unknown", "copy_of"),
        ("transport: iscsi, copy_of: b, sessions: 1", "copy-differs", "sessions"),
        ("transport: local, copy_of: b", "copy-differs", "transport"),
        ("transport: iscsi, copy_of: b2", "copy-of-copy", "copy_of"),
    ],
)
def test_what_is_no_copy_is_told(copy, error, key):
    with pytest.raises(FairlaneError, check=kind(error)) as told:
        study(copy)
    assert told.value.message.startswith(f"lanes.b2.{key}: ")
    assert error != "lane-unknown" or ("'bb'" in told.value.message and "a, b" in told.value.message)


def test_the_baseline_is_no_copy():
    with pytest.raises(FairlaneError, check=kind("copy-of-copy")):
        parse_study(STUDY.format("transport: local, copy_of: a").replace("baseline: a", "baseline: b2"), "c.yaml")
