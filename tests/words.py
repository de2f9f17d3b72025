"""Assertions that outlive a change of words: errors are asked for their kind, texts stand in snapshot files."""

import re
from collections.abc import Callable, Sequence


def kind(name: str, where: str | None = None) -> Callable[[BaseException], bool]:
    """For ``check`` of ``pytest.raises``: the error is of this kind, and at this place if ``where`` is given."""

    def check(error: BaseException) -> bool:
        actual = (getattr(error, "kind", None), getattr(error, "where", None) if where is not None else None)
        assert actual == (name, where), f"{actual} is not {(name, where)}: {error}"
        return True

    return check


def kinds(text: str) -> Sequence[str]:
    """The kinds that the command line printed behind its errors, in their order."""
    return re.findall(r" \[([a-z][a-z0-9-]*)\]", text)
