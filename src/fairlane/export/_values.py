"""Make values from outside safe for a table. Pure."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from numbers import Integral, Real
from typing import Any

from fairlane.report.text import clean

_LARGEST = 2**63


def harmless(value: Any) -> Any:  # noqa: PLR0911 - one line a type
    """A copy of ``value`` of None, bool, int, float, str, datetime, tuples, lists and dicts only; strings are
    ``clean``, numbers fit JSON and 64 bits."""
    match value:
        case None | bool() | datetime():
            return value
        case str():
            return clean(value)
        case Integral():
            return int(value) if abs(int(value)) < _LARGEST else str(int(value))
        case Real():
            return float(value) if math.isfinite(value) else None
        case Mapping():
            return {clean(str(key)): harmless(inner) for key, inner in value.items()}
        case tuple():
            return tuple(harmless(inner) for inner in value)
        case list() | set() | frozenset():
            return [harmless(inner) for inner in (value if isinstance(value, list) else sorted(value, key=str))]
        case _:
            return clean(str(value))


def instant(text: Any) -> datetime | None:
    """A time of journal or run.json in UTC; None if invalid."""
    try:
        when = datetime.fromisoformat(text)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def of_days(days: Any) -> datetime | None:
    """The time of a day number since 1970 (parameter ``date``); None if invalid."""
    if isinstance(days, bool) or not isinstance(days, int | float):
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=round(days * 86_400_000))
    except (ValueError, OverflowError):
        return None
