"""Pydantic field types for quantities as people write them: ``500ms``, ``64k``, ``25gbit``, ``5%``.

A duration, size or rate without its unit is refused: fio reads ``runtime=0.5`` as nothing and ``runtime=5`` as seconds.
"""

import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

LARGEST = 2**63
"""No quantity reaches it: 292 years, 8 EiB; kernel and tools count in 64 bits."""
MOST_SHARE = 10
"""1000 %."""
_DIGITS = 40
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-zµ%]*)\s*")

_DURATION = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
_SIZE = {"b": 1} | {
    name: 1024**power
    for power, letter in enumerate("kmgt", start=1)
    for name in (letter, f"{letter}b", f"{letter}i", f"{letter}ib")
}
_BITRATE = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


def _parse(value: Any, units: dict[str, int], what: str, example: str) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"expected {what} such as {example}")
    match = _NUMBER.fullmatch(str(value))
    if not match:
        raise ValueError(f"expected {what} such as {example}")
    number, unit = match[1], match[2].lower()
    if not unit:
        raise ValueError(f"the unit is missing: expected {what} such as {example}")
    if unit not in units:
        raise ValueError(f"unknown unit {match[2]!r}: expected {what} such as {example} (units: {', '.join(units)})")
    quantity = round(Fraction(number) * units[unit]) if len(number) <= _DIGITS else LARGEST
    if quantity >= LARGEST:
        raise ValueError(f"too large: expected {what} such as {example}")
    return quantity


def parse_duration(value: Any) -> int:
    """Text to nanoseconds."""
    return _parse(value, _DURATION, "a duration", "500ms, 10s or 5m")


def parse_size(value: Any) -> int:
    """Text to bytes; k, m, g are powers of 1024 as in fio."""
    return _parse(value, _SIZE, "a size", "4k, 1m or 16GiB")


def parse_bitrate(value: Any) -> int:
    """Text to bits per second; powers of 1000, as network engineers and tc count."""
    return _parse(value, _BITRATE, "a link rate", "10gbit or 25gbit")


def parse_share(value: Any) -> float:
    """``5%`` or ``0.05`` to 0.05; a bare number above 1 is refused, because it could be meant either way."""
    match = _NUMBER.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if match and match[2] == "%":
        if float(match[1]) > 100 * MOST_SHARE:
            raise ValueError(f"too large: expected a share such as 5%, at most {100 * MOST_SHARE}%")
        return float(match[1]) / 100
    if match and not match[2] and float(match[1]) <= 1:
        return float(match[1])
    raise ValueError("expected a share such as 5% or 0.05")


def format_duration(ns: int) -> str:
    """Nanoseconds to the shortest exact text that ``parse_duration`` reads back."""
    for unit in ("h", "m", "s", "ms", "us"):
        if ns and ns % _DURATION[unit] == 0:
            return f"{ns // _DURATION[unit]}{unit}"
    return f"{ns}ns" if ns else "0s"


def format_size(size: int) -> str:
    """Bytes to the shortest exact text that ``parse_size`` reads back: 4k, 1m, 16g."""
    for unit in ("t", "g", "m", "k"):
        if size and size % _SIZE[unit] == 0:
            return f"{size // _SIZE[unit]}{unit}"
    return f"{size}b"


def about_size(size: float) -> str:
    """Bytes to three digits for a reader: 931 GiB, 1.82 TiB, 512 bytes."""
    for power, name in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size >= 0.9995 * 1024**power:
            value = size / 1024**power
            return f"{value:,.0f} {name}" if value >= 99.95 else f"{value:.3g} {name}"
    return f"{size:.0f} bytes"


def format_bitrate(rate: int) -> str:
    """Bits per second to the shortest exact text that tc and ``parse_bitrate`` read: 25gbit."""
    for unit in ("gbit", "mbit", "kbit"):
        if rate and rate % _BITRATE[unit] == 0:
            return f"{rate // _BITRATE[unit]}{unit}"
    return f"{rate}bit"


def _schema(pattern: str, description: str) -> WithJsonSchema:
    # $comment keeps the kind of quantity where a field's own description takes the place of this one
    return WithJsonSchema({"type": "string", "pattern": pattern, "description": description, "$comment": description})


Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration),
    _schema(r"^\s*\d+(\.\d+)?\s*(ns|us|µs|ms|s|m|min|h)\s*$", "a duration: 80µs, 500ms, 10s, 5m"),
]
"""Nanoseconds."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size),
    _schema(r"^\s*\d+(\.\d+)?\s*([bB]|[kKmMgGtT]([iI]?[bB]|[iI])?)\s*$", "a size: 4k, 1m, 16GiB (powers of 1024)"),
]
"""Bytes."""

Bitrate = Annotated[
    int,
    BeforeValidator(parse_bitrate),
    PlainSerializer(format_bitrate),
    _schema(r"^\s*\d+(\.\d+)?\s*[kmg]?bit\s*$", "a link rate: 10gbit, 25gbit"),
]
"""Bits per second."""

Share = Annotated[
    float,
    BeforeValidator(parse_share),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*%\s*$"}, {"type": "number", "maximum": 1}],
            "description": "a share: 5% or 0.05",
            "$comment": "a share: 5% or 0.05",
        }
    ),
]
"""A plain factor: 0.05 = 5 %."""
