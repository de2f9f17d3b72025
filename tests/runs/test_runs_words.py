"""The words of files that cannot be written."""

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlane.errors import FairlaneError
from fairlane.runs.files import creating, storing

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

CAUSES = (
    "ENOSPC",
    "EDQUOT",
    "EFBIG",
    "EROFS",
    "EACCES",
    "EPERM",
    "EISDIR",
    "ENOTDIR",
    "EEXIST",
    "ENOENT",
    "EIO",
    "EBUSY",
)


def test_every_cause_is_told(snapshot: "SnapshotAssertion") -> None:
    words = []
    for name in CAUSES:
        number = getattr(errno, name)
        for writing in (storing, creating):
            with pytest.raises(FairlaneError) as raised, writing(Path("none/run")):
                raise OSError(number, os.strerror(number))
            words.append(f"{raised.value.labelled()}\n  hint: {raised.value.hint}")
    assert "\n".join(words) == snapshot
