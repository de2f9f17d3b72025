"""The words in names of files and folders: which only count, which say what the load is. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from fairlane.guard.parameters import PARAMETERS
from fairlane.units import parse_duration, parse_size

COUNTED = frozenset({
    "run", "runs", "repeat", "repetition", "iter", "iteration", "trial", "try", "attempt", "loop",
    "pass", "round", "sample", "take", "part", "index", "test", "tests",
    "bench", "benchmark", "result", "results", "output", "out", "log", "logs", "fio", "json",
    "mon", "tue", "wed", "thu", "fri", "sat", "sun", "monday", "tuesday", "wednesday", "thursday", "friday",
    "saturday", "sunday",
})  # fmt: skip
"""Words of repetitions, and of results as such: neither they nor a number behind them tell lanes apart."""
MACHINES = frozenset({
    "vm", "vms", "host", "node", "client", "pod", "guest", "worker", "instance", "machine", "server", "job",
    "thread", "process", "proc",
})  # fmt: skip
"""Words of which a number behind them names one of several machines or processes under the same load."""

_UNSURE = frozenset({"rep", "reps", *"abcdefghijklmnopqrstuvwxyz"})
"""Words that may be of repetitions (rep1 rep2, r1 r2) or of names (rep2 rep3 of copies): it depends on the numbers."""

_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATES = re.compile(
    r"""(?<![0-9A-Za-z])(?:
        (?:19|20)\d\d[-_.]?[01]\d[-_.]?[0-3]\d(?:[-_.T ]*[0-2]\d[-_.:h]?[0-5]\d(?:[-_.:m]?[0-5]\d)?(?:[.,]\d+)?)?Z?
      | [0-3]?\d[-_.][01]?\d[-_.](?:19|20)\d\d
      | [0-2]\d[-:h][0-5]\d[-:m][0-5]\ds?
      | 1\d{9}(?:\d{3}|\d{6}|\d{9})?
      | [0-3]?\d(?:[snrt][tdh])?[-_. ]?MONTH(?:[-_. ]?(?:19|20)?\d\d)?
      | MONTH[-_. ]?[0-3]?\d(?:[snrt][tdh])?(?:[-_. ,]+(?:19|20)\d\d)?
      | [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}
    )(?![0-9A-Za-z])""".replace("MONTH", _MONTH),
    re.VERBOSE | re.IGNORECASE,
)
"""Dates, times, seconds since 1970, UUIDs."""
_PIECES = re.compile(r"[\W_]+")
_GLUED = re.compile(r"([^\W\d_]+)(\d+)")
_RANDOM = re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{7,}|[bcdf-hj-np-tv-xz2-9]{8,10}")
"""Hashes, and what Kubernetes puts behind the names of pods."""


@dataclass(frozen=True)
class Word:
    """One word of a name: ``iscsi``, ``raid5``, ``4k``, ``007``."""

    text: str
    key: str
    """In lower case."""
    letters: str = ""
    number: str = ""
    """``raid`` and ``5`` of ``raid5``; only a number: of a number by itself; both empty: of any other word."""

    @property
    def bare(self) -> bool:
        return bool(self.number) and not self.letters

    @property
    def stem(self) -> str:
        return (self.letters or self.text).lower()

    @property
    def padded(self) -> bool:
        return len(self.number) > 1 and self.number.startswith("0")


@cache
def words(text: str) -> tuple[Word, ...]:
    """The words of ``text``, without dates and random ids."""
    row = []
    for piece in _PIECES.split(_DATES.sub(" ", text)):
        key = piece.lower()
        if not piece or _RANDOM.fullmatch(key):
            continue
        if piece.isdecimal():
            row.append(Word(piece, key, number=piece))
        elif match := _GLUED.fullmatch(piece):
            row.append(Word(piece, key, match[1], match[2]))
        else:
            row.append(Word(piece, key))
    return tuple(row)


def is_counter(texts: Iterable[str]) -> bool:
    """Whether numbers count: they begin at 0 or 1 and more than half of them up to the largest are there, or have
    leading zeros, or are long. Not so 1, 2, 4, 8, which are settings."""
    texts = set(texts)
    if any(len(text) > 4 or (len(text) > 1 and text.startswith("0")) for text in texts):
        return True
    numbers = sorted(map(int, texts))
    if not numbers or numbers[0] > 1:
        return False
    span = numbers[-1] - numbers[0] + 1
    doubled = len(numbers) > 2 and not any(n & (n - 1) for n in numbers)
    return span == len(numbers) or (span < 2 * len(numbers) and not doubled)


def glued_counters(every: Iterable[Word]) -> frozenset[str]:
    """Letters with numbers behind them that count: ``iscsi1 iscsi2 nvme1 nvme2``. Of one kind of letters alone
    (``raid1 raid2``) they may as well be names, unless it is a single letter or ``rep``."""
    numbers: dict[str, set[str]] = defaultdict(set)
    for word in every:
        if word.number and word.letters:
            numbers[word.stem].add(word.number)
    counting = {letters for letters, texts in numbers.items() if len(texts) > 1 and is_counter(texts)}
    return frozenset(counting if len(counting) > 1 else counting & _UNSURE)


def says(word: str, params: Mapping[str, Any]) -> bool:
    """Whether ``word`` is the value of a parameter of the load: ``10g`` of size, ``60s`` of runtime."""
    if not word[:1].isdigit() or word.isdecimal():
        return any(
            isinstance(value, str) and value.lower() == word
            for name, value in params.items()
            if name in PARAMETERS and not PARAMETERS[name].tells_lanes
        )
    readings = _readings(word)
    return bool(readings) and any(value in readings for value in params.values() if not isinstance(value, str | bool))


@cache
def _readings(word: str) -> Sequence[float]:
    """What a number with a unit may mean, in bytes and ns."""
    readings: list[float] = []
    for parse in (parse_size, parse_duration):
        try:
            readings.append(parse(word))
        except ValueError:
            continue
    return readings
