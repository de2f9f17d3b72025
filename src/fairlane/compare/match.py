"""Match the cells of two runs, by load or by name. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from fairlane.records import Cell

LOAD = ("rw", "bs", "iodepth", "numjobs", "rwmixread", "rate_iops")
"""Parameters that define a cell; the guard reports other differences."""


def match(ours: Sequence[Cell], theirs: Sequence[Cell]) -> Mapping[str, str]:
    """Keys of ``ours`` -> keys of ``theirs``, one to one; unmatched cells are left out.

    Tries name and load, then load, then name: cells of one name under different loads are matched too, so that the
    guard reports the difference instead of dropping the cells. A pair counts only if neither side has another
    candidate.
    """
    partners: dict[str, str] = {}
    for fits in _WAYS:
        taken = set(partners.values())
        left = [a for a in ours if a.key not in partners]
        right = [b for b in theirs if b.key not in taken]
        choices = {a.key: [b.key for b in right if fits(a, b)] for a in left}
        demand = Counter(key for keys in choices.values() for key in keys)
        partners |= {a: keys[0] for a, keys in choices.items() if len(keys) == 1 and demand[keys[0]] == 1}
    return partners


def _same_kind(a: Cell, b: Cell) -> bool:
    """Whether both cells state their kind of I/O."""
    return all(cell.params.get(name) is not None for cell in (a, b) for name in ("rw", "bs"))


def _agree(a: Cell, b: Cell) -> bool:
    """Whether no load parameter that both cells state differs."""
    known = ((a.params.get(name), b.params.get(name)) for name in LOAD)
    return all(x == y for x, y in known if x is not None and y is not None)


def _named(a: Cell, b: Cell) -> bool:
    return a.name.casefold().split() == b.name.casefold().split()


_WAYS: tuple[Callable[[Cell, Cell], bool], ...] = (
    lambda a, b: a.workload == b.workload and _named(a, b) and _agree(a, b),
    lambda a, b: _named(a, b) and _agree(a, b),
    lambda a, b: _same_kind(a, b) and _agree(a, b),
    lambda a, b: a.workload == b.workload and _named(a, b),
    _named,
)
