"""Ways to damage a file, for the tests of hostile files and for bench/fuzz_importers.py."""

import random
import re

HOSTILE_NUMBERS = (
    "-1", "0", "-0", "NaN", "nan", "inf", "-Infinity", "1e400", "1e308", "9" * 30, "9" * 400, "9" * 5000, "0x10",
    "-" + "9" * 20, "1_000", "1,5", "٣", "", " ", "18446744073709551616", "9223372036854775807", "1e-320",
)  # fmt: skip
HOSTILE_TEXTS = (
    "\x1b[2J",
    "\x00",
    "\u202e",
    "\ufeff",
    '"',
    "{",
    "]",
    "<!DOCTYPE x>",
    "\r",
    "|" * 50,
    "\\ud800",
    "%s",
    "../",
)
_NUMBER = re.compile(rb"[0-9]+(?:\.[0-9]+)?")
_FIELD = re.compile(rb"[^\s,|;:=<>\"]+")


def _numbers(data: bytes, choose: random.Random) -> bytes:
    return _replaced(_NUMBER, data, choose, [text.encode() for text in HOSTILE_NUMBERS])


def _texts(data: bytes, choose: random.Random) -> bytes:
    return _replaced(_FIELD, data, choose, [text.encode() for text in (*HOSTILE_TEXTS, "")])


def _replaced(what: re.Pattern[bytes], data: bytes, choose: random.Random, by: list[bytes]) -> bytes:
    found = list(what.finditer(data))
    if not found:
        return data
    one = choose.choice(found)
    return data[: one.start()] + choose.choice(by) + data[one.end() :]


def _flip(data: bytes, choose: random.Random) -> bytes:
    if not data:
        return data
    place = choose.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << choose.randrange(8))]) + data[place + 1 :]


def _lines(data: bytes, choose: random.Random) -> bytes:
    """A line doubled, lost, moved, or repeated very often."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    place = choose.randrange(len(lines))
    kind = choose.randrange(4)
    if kind == 0:
        lines.insert(place, lines[place])
    elif kind == 1:
        del lines[place]
    elif kind == 2:
        lines.insert(choose.randrange(len(lines)), lines.pop(place))
    else:
        lines[place] *= 200
    return b"".join(lines)


def _cut(data: bytes, choose: random.Random) -> bytes:
    """The end, the beginning, or a part of the middle is missing."""
    low, high = sorted(choose.randrange(len(data) + 1) for _ in range(2))
    return choose.choice((data[:high], data[low:], data[:low] + data[high:]))


def _inserted(data: bytes, choose: random.Random) -> bytes:
    place = choose.randrange(len(data) + 1)
    return data[:place] + choose.randbytes(choose.randrange(40)) + data[place:]


MUTATIONS = (_numbers, _numbers, _texts, _flip, _lines, _cut, _inserted)


def damaged(data: bytes, choose: random.Random) -> bytes:
    """``data``, damaged in one way."""
    return choose.choice(MUTATIONS)(data, choose)
