"""The words of bad study files: what the command line prints of each."""

from typing import TYPE_CHECKING

import pytest

from fairlane.errors import FairlaneError
from fairlane.study.load import parse_study
from tests.study.test_bounds import HEAD, LOAD
from tests.study.test_copies import STUDY as COPIES
from tests.study.test_load import BAD, GOOD
from tests.study.test_parts_of_platforms import CLUSTER

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


def told(text: str) -> str:
    """Error and hint, as the command line has them."""
    with pytest.raises(FairlaneError) as caught:
        parse_study(text, "s.yaml")
    return f"{caught.value.labelled()}\n  hint: {caught.value.hint or '-'}"


def test_bad_files(snapshot: "SnapshotAssertion") -> None:
    words = []
    for case in BAD:
        old, new = (str(value) for value in case.values[:2])
        words.append(f"{case.id}\n  {told(GOOD.replace(old, new, 1))}")
    assert "\n".join(words) == snapshot


def test_several_problems(snapshot: "SnapshotAssertion") -> None:
    text = GOOD.replace("bs: [4k]", "bs: [4q], runtime: 5").replace("iscsi}", "iscsi, sesions: 2}")
    assert told(text + "".join(f"key{i}: 1\n" for i in range(40))) == snapshot


def test_designs_platforms_and_copies(snapshot: "SnapshotAssertion") -> None:
    texts = [
        f"{HEAD}{LOAD}design: {{looks: [6, 999999999999]}}\n",
        f"{HEAD}{LOAD}design: {{stop: {{width: 1%, least: 999999999999}}}}\n",
        f"{HEAD}{LOAD}design: {{margins: {{iops: 1001%}}}}\n",
        CLUSTER,
        COPIES.format("transport: iscsi, copy_of: bb"),
        COPIES.format("transport: local, copy_of: b"),
        COPIES.format("transport: iscsi, copy_of: b2"),
    ]
    assert "\n".join(map(told, texts)) == snapshot
