"""Which cell of one run is which cell of another: by the load they ran, or by name. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from fairlane.records import Cell

LOAD = ("rw", "bs", "iodepth", "numjobs", "rwmixread", "rate_iops")
"""Parameters that make a cell; what else differs is for the guard to say."""


def match(ours: Sequence[Cell], theirs: Sequence[Cell]) -> Mapping[str, str]:
    """Keys of ``ours`` -> keys of ``theirs``, each used once; cells without a partner are not in it.

    Name and load decide, then the load alone, then the name alone: cells of one name under different loads are matched,
    so that the guard can say what differs rather than the cells be missing. A pair counts only if it is the only choice
    on both sides.
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
    """Both say what kind of I/O it is."""
    return all(cell.params.get(name) is not None for cell in (a, b) for name in ("rw", "bs"))


def _agree(a: Cell, b: Cell) -> bool:
    """No part of the load that both tell differs."""
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
