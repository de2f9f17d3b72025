"""Sent and stored: where the server's object is not as it was sent. Pure.

What was asked and is something else afterwards makes a lane another lane; what was not asked is a default, which the
run's description tells.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlane.platforms.kubevirt.capacity import quantity

Object = Mapping[str, Any]

_OURS = ("name", "namespace", "labels", "annotations")
"""Of an object's metadata: the rest is the server's bookkeeping."""
_SHARED = ("labels", "annotations")
"""Others put theirs beside ours."""
_AMOUNT = re.compile(r"(^|\.)(storage|memory|guest)$")
_LONGEST = 300


@dataclass(frozen=True)
class Change:
    """One value that is not as it was sent. ``sent`` None: the server's own default; ``stored`` None: it is gone."""

    path: str
    sent: Any
    stored: Any

    @property
    def added(self) -> bool:
        """Nothing was asked, so nothing was refused."""
        return self.sent is None

    def __str__(self) -> str:
        if self.added:
            return f"{self.path}: {shown(self.stored)} (default)"
        return f"{self.path}: {shown(self.stored)} in place of {shown(self.sent)}"


def changes(sent: Object, stored: Object) -> tuple[Change, ...]:
    """Where ``stored`` differs from ``sent``, by path. Bookkeeping and ``status`` are left out, and of labels and
    annotations those that others put beside ours. Lists of named things are compared by name; amounts as amounts."""
    return tuple(sorted(_differences("", sent, stored), key=lambda change: change.path))


def _differences(path: str, sent: Any, stored: Any) -> Iterator[Change]:
    if isinstance(sent, Mapping) and isinstance(stored, Mapping):
        for key in sorted({*sent, *stored}):
            here = f"{path}.{key}" if path else key
            if not _bookkeeping(path, key, sent):
                yield from _differences(here, sent.get(key), stored.get(key))
    elif isinstance(sent, list) and isinstance(stored, list):
        yield from _differences(path, _keyed(sent), _keyed(stored))
    elif sent is None and isinstance(stored, Mapping | list):
        for key, value in (stored if isinstance(stored, Mapping) else _keyed(stored)).items():
            yield from _differences(f"{path}.{key}" if path else key, None, value)
    elif not _same(path, sent, stored):
        yield Change(path, sent, stored)


def _bookkeeping(path: str, key: str, sent: Object) -> bool:
    if not path:
        return key == "status"
    above, _, last = path.rpartition(".")
    if last == "metadata":
        return key not in _OURS or (key in _SHARED and key not in sent)
    return last in _SHARED and above.endswith("metadata") and key not in sent


def _keyed(items: Sequence[Any]) -> Object:
    """A list as a mapping: by name where all have one of their own, else by position."""
    names = [_name_of(item) for item in items]
    own = all(names) and len(set(names)) == len(names)
    return dict(zip(names if own else map(str, range(len(items))), items, strict=True))


def _name_of(item: Any) -> str:
    named = item.get("metadata", item) if isinstance(item, Mapping) else {}
    return str(named.get("name") or "") if isinstance(named, Mapping) else ""


def _same(path: str, sent: Any, stored: Any) -> bool:
    return bool(sent == stored or (_AMOUNT.search(path) and quantity(sent) == quantity(stored)))


def shown(value: Any) -> str:
    """Text of a value from outside, at most so long."""
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
