"""The words of values that nobody can mean."""

from typing import TYPE_CHECKING

import pytest

from fairlane.guard.parameters import parameter
from tests.guard.test_values import REFUSED

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


def test_refused_values(snapshot: "SnapshotAssertion") -> None:
    words = []
    for name, written, _ in REFUSED:
        with pytest.raises(ValueError, match=r"\w") as raised:
            parameter(name).read(written)
        words.append(f"{name}: {written!r}\n  {raised.value}")
    assert "\n".join(words) == snapshot
