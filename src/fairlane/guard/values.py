"""Parse parameter values as people and tools write them; each function reads one kind into a plain JSON scalar.

All raise ValueError for what they cannot read, take ``none`` (or ``n/a``) as "does not apply", and give a value back
that they read as itself.
"""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any

from fairlane import units

Scalar = str | int | float | bool
Read = Callable[[Any], Any]

NONE = "none"
"""Value of a parameter that does not apply (IO threads, where nothing is virtual): known, and equal to itself."""
EXISTING = "existing data"
"""Value of ``prefill`` where a volume is read as it is."""
MIXED = "differs between trials: "
"""Begins the value of a parameter that was not the same in all trials of a lane and cell."""

_NOTHING = frozenset({"none", "n/a", "not applicable"})
_YES, _NO = frozenset({"yes", "true", "on", "1"}), frozenset({"no", "false", "off", "0"})


def _reader(read: Read) -> Read:
    """Handle what all readers share: blanks at the ends, ``none``, empty text, NaN and infinity."""

    @wraps(read)
    def whole(value: Any) -> Any:
        if isinstance(value, str):
            value = value.strip()
            if not value:
                raise ValueError("empty value; leave the parameter out if you do not know it")
            if value.lower() in _NOTHING:
                return NONE
            if value.startswith(MIXED):
                return value
        elif not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError("expected text, a number, yes or no")
        elif abs(value) >= units.LARGEST:
            raise ValueError("the number is too large")
        return read(value)

    return whole


@_reader
def text(value: Any) -> str:
    """Words: ``Block``, ``after all copies``. A YAML true or false becomes yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


@_reader
def version(value: Any) -> str:
    """``fio-3.33``, ``v3.33`` and ``3.33`` are one version. Versions are equal as text or not at all."""
    if isinstance(value, bool | float):
        raise ValueError(f'write a version in quotes ("{value}"): as numbers 6.1 and 6.10 are the same')
    return re.sub(r"^(?:[A-Za-z]+[- ])?v?(?=\d)", "", str(value))


@_reader
def yes_no(value: Any) -> bool:
    """True or False from yes, no, true, false, on, off, 1, 0 (fio's ``direct=1``)."""
    word = str(value).lower()
    if word not in _YES | _NO:
        raise ValueError("expected yes or no")
    return word in _YES


def _count(value: Any) -> Any:
    """A whole number; other text unchanged."""
    if isinstance(value, bool):
        raise ValueError("expected a whole number, not true or false")
    if isinstance(value, str) and re.fullmatch(r"\d{1,15}", value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str) and (not isinstance(value, int) or value < 0):
        raise ValueError("expected a whole number")
    return value


@_reader
def count(value: Any) -> int:
    """A whole number, 0 or more: 4, ``"4"``."""
    number = _count(value)
    if not isinstance(number, int):
        raise ValueError("expected a whole number")
    return number


@_reader
def count_or_text(value: Any) -> int | str:
    """A whole number, or words: 4, ``one per CPU``; copies: 3, ``4+2``."""
    number: int | str = _count(value)
    return re.sub(r"\s*\+\s*", "+", number) if isinstance(number, str) else number


@_reader
def percent(value: Any) -> float:
    """A share of reads in percent: 70, ``70 %``, ``70/30``."""
    if isinstance(value, bool):
        raise ValueError("expected a percentage such as 70, not true or false")
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:%|/\s*(\d+(?:\.\d+)?))?", value)
        if not match or (match[2] and abs(float(match[1]) + float(match[2]) - 100) > 1e-9):
            raise ValueError("expected a percentage such as 70, 70 % or 70/30")
        value = float(match[1])
    if not 0 <= value <= 100:
        raise ValueError("expected 0 to 100 percent")
    return _int_if_whole(value)


@_reader
def number(value: Any) -> float:
    """A number, 0 or more."""
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")
    if isinstance(value, str):
        if not re.fullmatch(r"\d{1,15}(\.\d{1,15})?", value):
            raise ValueError("expected a number")
        value = float(value)
    if value < 0:
        raise ValueError("expected 0 or more")
    return _int_if_whole(value)


def _int_if_whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _quantity(parse: Read, least: int, unit: str) -> Read:
    """Parse text with ``parse``; a number is in ``unit`` already and must be at least ``least`` (or 0): a ramp of 10
    is not meant in nanoseconds."""

    def read(value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("expected a quantity, not true or false")
        if isinstance(value, str):
            return parse(value)
        if value and value < least:
            raise ValueError(f"{value:g} would be {unit}: write the unit")
        return _int_if_whole(value)

    return _reader(read)


size = _quantity(units.parse_size, 512, "bytes")
"""Bytes: ``150GiB``, 4096."""
duration = _quantity(units.parse_duration, 10**6, "nanoseconds")
"""Nanoseconds: ``10s``."""
delay = _quantity(units.parse_duration, 100, "nanoseconds")
"""Nanoseconds: ``10us``."""
bitrate = _quantity(units.parse_bitrate, 1000, "bits per second")
"""Bits per second: ``25gbit``."""


@_reader
def size_or_text(value: Any) -> int | str:
    """Bytes, or words: ``4GiB``, ``whole disk``."""
    if isinstance(value, str) and not value[0].isdigit():
        return value
    parsed: int = size(value)
    return parsed


_LAST_DAY = 100_000
"""Last day accepted, in the year 2243; a larger number is a date without dashes, or seconds."""


@_reader
def date(value: Any) -> float:
    """A date or time in ISO form (``2026-01-31``, UTC unless it has an offset) to days since 1970-01-01."""
    if isinstance(value, bool):
        raise ValueError("expected a date such as 2026-01-31")
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value)
            value = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() / 86400
        except (ValueError, OverflowError):
            raise ValueError("expected a date such as 2026-01-31") from None
    if not 0 <= value <= _LAST_DAY:
        raise ValueError("expected a date such as 2026-01-31, after 1970")
    return float(value)


def date_shown(days: float) -> str:
    """Days since 1970 as ``2026-01-31``."""
    return datetime.fromtimestamp(float(days) * 86400, UTC).strftime("%Y-%m-%d")


@_reader
def plain(value: Any) -> Scalar:
    """Any scalar, unchanged."""
    read: Scalar = value
    return read
