"""HdrHistogram's compressed V2 encoding, as a log of intervals holds it: base64, zlib, counts as ZigZag LEB128.

Format: ``EncodableHistogram``, ``AbstractHistogram.encodeIntoByteBuffer`` and ``ZigZagEncoding`` of HdrHistogram's
source. Read here and not by a library: the one for Python brings a C decoder, which untrusted files would reach.
"""

import base64
import binascii
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlane.errors import Garbage

Ints = np.ndarray[Any, np.dtype[np.int64]]
_COMPRESSED, _PLAIN = 0x1C849314, 0x1C849313
_OLDER = {0x1C849302: "V1", 0x1C849309: "V0", 0x1C849308: "V0"}
_HEADER = struct.Struct(">iiiiqqd")
_LARGEST = 2**24
"""Most bytes of an unpacked histogram."""
_LONGEST_WORD = 9


@dataclass(frozen=True)
class Decoded:
    """The bins of one histogram that hold something."""

    values: Ints
    """Their midpoints, in the unit of what was recorded; int64."""
    counts: Ints
    digits: int
    """Significant digits to which values are kept apart."""


def decode(text: str) -> Decoded:
    """The histogram in ``text``. Raises Garbage."""
    try:
        data = base64.b64decode(text, validate=True)
        cookie, length = struct.unpack_from(">iI", data)
        if cookie != _COMPRESSED:
            if older := _OLDER.get(cookie & ~0xF0):
                raise Garbage("histogram-old", f"unsupported histogram encoding {older}, of HdrHistogram before 2.1.5")
            raise Garbage("histogram-damaged", "not a compressed HdrHistogram")
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(data[8 : 8 + length], _LARGEST)
        if unpacker.unconsumed_tail:
            raise Garbage("too-large", f"a histogram that unpacks to more than {_LARGEST >> 20} MiB")
        cookie, size, offset, digits, lowest, _, _ = _HEADER.unpack_from(plain)
    except (binascii.Error, ValueError, struct.error, zlib.error) as error:
        raise Garbage("histogram-damaged", f"a damaged histogram: {str(error)[:80]}") from None
    words = plain[_HEADER.size :]
    if cookie != _PLAIN or offset or not 0 <= digits <= 5 or not 0 < lowest < 2**40 or size != len(words):
        raise Garbage("histogram-damaged", "a damaged histogram: its header is invalid")
    at, counts = _words(words)
    return Decoded(_midpoints(at, digits, lowest), counts, digits)


def _words(data: bytes) -> tuple[Ints, Ints]:
    """Indices and counts: a negative word is so many empty bins."""
    places: list[int] = []
    counts: list[int] = []
    place = at = 0
    while at < len(data):
        word = 0
        for n in range(_LONGEST_WORD):
            if at >= len(data):
                raise Garbage("histogram-damaged", "a damaged histogram: its counts are cut off")
            byte = data[at]
            at += 1
            if n == _LONGEST_WORD - 1:  # the ninth byte has all its bits
                word |= byte << (7 * n)
            else:
                word |= (byte & 0x7F) << (7 * n)
                if byte < 0x80:
                    break
        count = (word >> 1) ^ -(word & 1)
        if count < 0:
            place -= count
        else:
            if count:
                places.append(place)
                counts.append(count)
            place += 1
        if place > 2**24 or count >= 2**48:
            raise Garbage("histogram-damaged", "a damaged histogram: impossibly many bins or counts")
    return np.array(places, np.int64), np.array(counts, np.int64)


def _midpoints(at: Ints, digits: int, lowest: int) -> Ints:
    """Middles of the bins at the indices ``at`` (``valueFromIndex``, ``medianEquivalentValue``)."""
    half_magnitude = max((2 * 10**digits - 1).bit_length(), 1) - 1
    half = 1 << half_magnitude
    unit = lowest.bit_length() - 1
    bucket = (at >> half_magnitude) - 1
    sub = (at & (half - 1)) + half
    first = bucket < 0
    sub, shift = np.where(first, sub - half, sub), np.where(first, 0, bucket) + unit
    if len(shift) and int(shift.max()) + half_magnitude > 61:
        raise Garbage("histogram-damaged", "a damaged histogram: values beyond 63 bits")
    middles: Ints = (sub << shift) + ((1 << shift) >> 1)
    return middles
