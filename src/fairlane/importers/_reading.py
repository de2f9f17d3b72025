"""Helpers of importers: lines, numbers and JSON trees of untrusted files. Raises only Unreadable."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

from fairlane.importers.base import Source, Unreadable
from fairlane.records import Histogram
from fairlane.stats.histogram import PERCENTILES, merge

LONGEST = 65536
"""Most bytes of a line; bounds the memory for a file without line ends."""
LARGEST_TREE = 64 * 2**20
"""Most bytes of a JSON or XML file: as objects it takes several times that."""
LARGEST_FIGURE = 1e18
"""Upper limit of every count, size and time."""
SMALLEST_FIGURE = 1e-9
"""Least figure above 0, so that reciprocals do not overflow."""
POINTS = 100_000
"""Most points of a series (a day in seconds); a longer series is left out."""

MS, US, MIB = 1e6, 1e3, 2**20
"""Nanoseconds of a milli- and a microsecond; bytes of a mebibyte."""

_NUMBER = re.compile(r"[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,3})?|\.[0-9]{1,30}")
_MAGNITUDE = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)


def lines(source: Source, longest: int = LONGEST) -> Iterator[tuple[int, str]]:
    """Number, from 1, and text of each line, without its end; bytes that are no UTF-8 become U+FFFD. Streams.

    Raises Unreadable for a line of more than ``longest`` bytes.
    """
    with source.text() as file:
        number = 0
        while raw := file.readline(longest + 1):
            number += 1
            if len(raw) > longest:
                raise Unreadable(
                    "line-too-long", f"a line of more than {longest} bytes: no text", where=f"{source.name}:{number}"
                )
            yield number, raw.decode(errors="replace").rstrip("\r\n")


def shown(value: object, most: int = 200) -> str:
    """``value`` as text for names and labels: one line of printable characters, no longer than ``most``."""
    text = str(value)[:most] if isinstance(value, str | int | float) else ""
    if text.isprintable():
        return " ".join(text.split())
    return " ".join("".join(c if c.isprintable() else "?" for c in text).split())


def number(text: str, where: str, what: str) -> float:
    """A finite, not negative decimal, thousands separated by commas or not."""
    plain = text.strip().replace(",", "")
    value = float(plain) if _NUMBER.fullmatch(plain) else math.inf
    if value and not SMALLEST_FIGURE <= value <= LARGEST_FIGURE:
        raise Unreadable("not-a-number", f"expected {what}, found {shown(text, 40)!r}", where=where)
    return value


def whole(text: str, where: str, what: str) -> int:
    """A not negative whole number."""
    value = number(text, where, what)
    if value != math.floor(value):
        raise Unreadable("not-a-number", f"expected {what}, a whole number, found {shown(text, 40)!r}", where=where)
    return int(value)


def size(text: str) -> int | None:
    """``16KiB``, ``64MB``, ``8G`` or a bare number in bytes, k being 1024 in these tools; None for anything else."""
    match = _SIZE.fullmatch(text.strip())
    return round(float(match[1]) * _MAGNITUDE[match[2].lower()]) if match else None


def tree(source: Source) -> Any:
    """The JSON document in a file."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON number")

    try:
        return json.loads(source.read(LARGEST_TREE), parse_constant=refuse)
    except RecursionError:
        raise Unreadable("nested", "JSON nested too deeply", where=source.name) from None
    except json.JSONDecodeError as error:
        raise Unreadable(
            "cut-off", f"cut off, or no JSON: {error.msg}", where=f"{source.name}:{error.lineno}"
        ) from None
    except ValueError as error:  # not text, NaN, integers of thousands of digits
        raise Unreadable("not-json", f"no JSON: {shown(str(error), 120)}", where=source.name) from None


def figure(parent: Mapping[str, Any], key: str, where: str) -> float | None:
    """A finite, not negative number of a JSON object, which some tools write as text; None if missing or empty."""
    value = parent.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return number(value, where, f"a number as {key}")
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if not numeric or (value and not SMALLEST_FIGURE <= value <= LARGEST_FIGURE):
        raise Unreadable(
            "not-a-number", f"{key}: expected a number, not negative, found {shown(value, 40)!r}", where=where
        )
    return float(value)


def percentile_name(percent: float) -> str:
    """Name of the registry's percentile metric, of all I/Os: 99.9 -> lat_p999; empty if it has none."""
    shares = PERCENTILES[""].items()
    return next((name for name, q in shares if math.isclose(q * 100, percent, abs_tol=1e-9)), "")


def histogram(counts: Mapping[int, int], where: str) -> Histogram:
    """Counts of distinct latencies in ns, as bins."""
    try:
        return merge([counts])
    except ValueError as error:
        raise Unreadable("histogram-damaged", f"no histogram of latencies: {error}", where=where) from None


def series(interval_ms: float | None, rates: list[float], key: str = "iops") -> dict[str, Any]:
    """``context["load"]["series"]`` of rates per interval, if the interval is known and the points are not too many."""
    if not interval_ms or not 1 < len(rates) <= POINTS:
        return {}
    return {"series": {"interval_ms": interval_ms, key: rates}}


def moment(text: Any) -> float | None:
    """Unix time of an ISO time with a zone; None for any other."""
    try:
        when = datetime.fromisoformat(text) if isinstance(text, str) and len(text) < 64 else None
        return when.timestamp() if when is not None and when.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def day(text: str) -> dict[str, float]:
    """``{"date": days since 1970}`` of a date without a zone, such as 2025-04-14 or 05/22/2018; empty for any other."""
    for form in ("%Y-%m-%d", "%m/%d/%Y"):
        try:
            when: date = datetime.strptime(text.strip()[:10], form).replace(tzinfo=UTC).date()
        except ValueError:
            continue
        return {"date": float(when.toordinal() - date(1970, 1, 1).toordinal())}
    return {}


def known(**values: Any) -> dict[str, Any]:
    """``values`` without None and empty text."""
    return {name: value for name, value in values.items() if value is not None and value != ""}
