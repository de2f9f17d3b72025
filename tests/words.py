"""Assertions that outlive a change of words: errors are asked for their kind, texts stand in snapshot files."""

import re
from collections.abc import Callable, Sequence

from pydantic import ValidationError

from fairlane.records import Note


def kind(name: str, where: str | None = None) -> Callable[[BaseException], bool]:
    """For ``check`` of ``pytest.raises``: the error is of this kind, and at this place if ``where`` is given."""

    def check(error: BaseException) -> bool:
        actual = (getattr(error, "kind", None), getattr(error, "where", None) if where is not None else None)
        assert actual == (name, where), f"{actual} is not {(name, where)}: {error}"
        return True

    return check


def refused(key: str, *tokens: str) -> Callable[[BaseException], bool]:
    """For ``check`` of ``pytest.raises``: pydantic's first error is at this key, and has these names and figures.

    A validator of a whole model begins its message with the key."""

    def check(error: BaseException) -> bool:
        assert isinstance(error, ValidationError)
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"])) or first["msg"].partition(", ")[2].partition(":")[0]
        assert at == key, error
        assert [token for token in tokens if token not in first["msg"]] == [], error
        return True

    return check


def noted(notes: Sequence[str]) -> Sequence[str]:
    """The kinds of footnotes, in their order; of the messages of findings, which are notes too, there is none."""
    return [note.kind for note in notes if isinstance(note, Note)]


def note(notes: Sequence[str], kind: str) -> str:
    """The only footnote of this kind."""
    (found,) = (each for each in notes if isinstance(each, Note) and each.kind == kind)
    return found


def kinds(text: str) -> Sequence[str]:
    """The kinds that the command line printed behind its errors, in their order."""
    return re.findall(r" \[([a-z][a-z0-9-]*)\]", text)
