"""Parse comma-separated rows of whole numbers, as in fio's logs, block by block: a log may have any length."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import BinaryIO

import numpy as np

from fairlane.errors import Garbage
from fairlane.stats.histogram import Ints

_BLOCK = 2**20
"""Bytes per read, and upper limit of a line."""
_ALLOWED = b"0123456789, \t\r\n"
_TOO_LONG = re.compile(rb"[0-9]{19}")
_PRIORITY = re.compile(rb"\b0x([0-9a-fA-F]{1,8})\b")  # log_prio


def rows(file: BinaryIO, least: int) -> Iterator[tuple[int, Ints]]:
    """(number of the first line, rows x columns) of one block after the other; all have the same number of columns,
    at least ``least``. Empty files have no blocks.

    Raises Garbage with the line: no whole numbers below 10^18, a changing number of columns, the last line cut off.
    """
    line, columns, rest = 1, 0, b""
    while block := file.read(_BLOCK):
        text, newline, rest = (rest + block).rpartition(b"\n")
        if len(rest) > _BLOCK:
            raise Garbage("line-too-long", f"line {line}: more than {_BLOCK} bytes without an end of line")
        if not newline:
            continue
        table = _parse(text, line, columns, least)
        columns = table.shape[1]
        yield line, table
        line += len(table)
    if rest.strip():
        raise Garbage("cut-off", f"line {line}: cut off: {_shown(rest)}")


def _parse(text: bytes, line: int, columns: int, least: int) -> Ints:
    """Lines without the last newline. ``columns``: of those before, 0 if there were none."""
    if b"x" in text:
        text = _PRIORITY.sub(lambda match: str(int(match[1], 16)).encode(), text)
    if text.translate(None, _ALLOWED) or _TOO_LONG.search(text):
        raise _bad(text, line, columns, least)
    commas = _commas(text)
    columns = columns or int(commas[0]) + 1
    if columns < least or (commas != columns - 1).any():
        raise _bad(text, line, columns, least)
    numbers = np.fromstring(text.replace(b",", b" "), dtype=np.int64, sep=" ")
    if numbers.size != len(commas) * columns:  # two numbers without a comma, or none between two
        raise _bad(text, line, columns, least)
    table: Ints = numbers.reshape(-1, columns)
    return table


def jobs(time: Ints, line: int, earlier: Sequence[int], *, most: int, back: int = 0) -> Iterator[tuple[int, int, bool]]:
    """(first row, row after the last, whether it begins a log): the parts of a table in which time never goes back by
    more than ``back``. fio's jobs that share a file write one log after the other.

    ``time``: of the table's rows, the first on ``line``; ``earlier``: last times of the logs before. Raises Garbage
    for more than ``most`` logs.
    """
    starts = set(np.flatnonzero(np.diff(time, prepend=earlier[-1] if earlier else 0) < -back).tolist())
    if len(earlier) + len(starts) > most:
        at = line + sorted(starts)[max(most - len(earlier), 0)]
        raise Garbage("time-back", f"line {at}: time goes back for the {most}th time: the rows are not in order")
    if not earlier:
        starts.add(0)
    for first, last in pairwise(sorted({0, *starts, len(time)})):
        yield first, last, first in starts


def _commas(text: bytes) -> Ints:
    """Commas in each line."""
    data = np.frombuffer(text, dtype=np.uint8)
    ends = np.append(np.flatnonzero(data == ord("\n")), len(data))
    places = np.flatnonzero(data == ord(","))
    counts: Ints = np.diff(places.searchsorted(ends), prepend=0)
    return counts


_ROW = re.compile(rb"[ \t]*[0-9]{1,18}[ \t]*(?:,[ \t]*[0-9]{1,18}[ \t]*)*\r?")


def _bad(text: bytes, line: int, columns: int, least: int) -> Garbage:
    """The error for the first wrong line."""
    for number, row in enumerate(text.split(b"\n"), start=line):
        if not _ROW.fullmatch(row):
            return Garbage("not-numbers", f"line {number}: expected whole numbers between commas, found {_shown(row)}")
        here = row.count(b",") + 1
        columns = columns or here
        if here != columns or here < least:
            return Garbage("columns", f"line {number}: expected {max(columns, least)} columns, found {here}")
    return Garbage("not-numbers", f"line {line}: expected whole numbers between commas")


def _shown(row: bytes) -> str:
    return repr(row[:40].decode(errors="replace"))
