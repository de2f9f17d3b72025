"""The order of blocks and of lanes within them: balanced, randomised, a pure function of the study and one seed.

Lanes are ordered in *replicates*. Two lanes: the pair AB, BA. An even number k of lanes: the k rows of a Williams
square, in which every lane stands once in every place and follows every other lane once (Williams, Aust. J. Sci. Res.
A 2, 1949). An odd number: two such squares, one the mirror of the other; each is complete before the next begins, so
that every k blocks are balanced for place and every 2k blocks for carry-over. Within a replicate the rows and the
lanes' names are shuffled.

A study of one cell has nothing between its blocks. There short replicates would keep step with a load on the array that
comes and goes (a period of four trials made 74 % of equal lanes different), so that the rows of several are shuffled
together: balanced at 20 blocks, and free of any pattern before.

With several provisionings (``design.provisionings``), each must be balanced by itself: a row
is followed by its mirror, so that in every two blocks each lane runs once before and once after every other one. The
rows of a replicate are the same, and complete after as many blocks. Blocks come in rounds of one block of every cell,
and a provisioning is a number of whole rounds: no block of a provisioning comes before one of an earlier one.

Random numbers come from SHA-256 in counter mode and an own Fisher-Yates shuffle: Python does not promise that
``random`` gives the same sequence in every version, and a schedule must stay reproducible as long as a run is kept.
"""

import hashlib
import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from fairlane.records import Block, Cell

if TYPE_CHECKING:  # the model joins all plugins; a schedule needs none of them
    from fairlane.study.spec import Study

T = TypeVar("T")

_LONG = 20
"""Blocks of the default plan."""


def schedule(study: "Study", blocks: int, seed: int | None = None) -> tuple[Block, ...]:
    """The rounds 0 to ``blocks`` - 1; every round holds one block of every cell, in random order.

    A longer schedule has the shorter one as its prefix. ``seed`` (default: the study's) decides everything; the order
    of lanes and cells in the study file does not matter.
    """
    seed = study.design.seed if seed is None else seed
    cells = sorted(study.cells(), key=lambda cell: cell.key)
    lanes = {cell.key: tuple(sorted(study.lanes_of(cell))) for cell in cells}
    anew = study.design.provisionings > 1
    order = mirrored_order if anew else lane_order if len(cells) > 1 else patternless_order
    return tuple(
        Block(cell, index, order(lanes[cell.key], seed, cell.key, index), lba_seed(seed, cell, index))
        for index in range(blocks)
        for cell in Stream(seed, "round", index).shuffled(cells)
        if index < study.blocks_of(cell, blocks)
    )


def lba_seed(seed: int, cell: Cell, block: int) -> int:
    """Seed of the block's addresses: 1 .. 2**31 - 1, which any load generator takes (fio's ``randseed``: 64 bits)."""
    return 1 + Stream(seed, "lba", cell.key, block).below(2**31 - 1)


def lane_order(lanes: tuple[str, ...], seed: int, cell: str, block: int) -> tuple[str, ...]:
    """The order of ``lanes`` in block number ``block`` of the cell with key ``cell``."""
    size = len(design_rows(len(lanes)))
    replicate, row = divmod(block, size)
    return _replicate(lanes, seed, cell, replicate)[row]


def patternless_order(lanes: tuple[str, ...], seed: int, cell: str, block: int) -> tuple[str, ...]:
    """The same where a replicate has ``_LONG`` blocks, or a few more."""
    rows = design_rows(len(lanes))
    size = len(rows) * math.ceil(_LONG / len(rows))
    replicate, row = divmod(block, size)
    return _shuffled_rows(lanes, seed, cell, replicate)[row]


@cache
def _shuffled_rows(lanes: tuple[str, ...], seed: int, cell: str, replicate: int) -> tuple[tuple[str, ...], ...]:
    rows = design_rows(len(lanes))
    labels = Stream(seed, "labels", cell, replicate).shuffled(lanes)
    shuffled = Stream(seed, "patternless", cell, replicate).shuffled(rows * math.ceil(_LONG / len(rows)))
    return tuple(tuple(labels[i] for i in row) for row in shuffled)


def mirrored_order(lanes: tuple[str, ...], seed: int, cell: str, block: int) -> tuple[str, ...]:
    """The same where the blocks 2n and 2n + 1 of a cell mirror each other."""
    size = len(design_rows(len(lanes)))
    replicate, row = divmod(block, size)
    return _mirrored(lanes, seed, cell, replicate)[row]


@cache
def _mirrored(lanes: tuple[str, ...], seed: int, cell: str, replicate: int) -> tuple[tuple[str, ...], ...]:
    rows = design_rows(len(lanes))
    labels = Stream(seed, "labels", cell, replicate).shuffled(lanes)
    pairs = [(row, row[::-1]) for row in rows if row < row[::-1]]  # the mirror of a row is a row
    pairs = Stream(seed, "pairs", cell, replicate).shuffled(pairs)
    each = (Stream(seed, "mirror", cell, replicate, n).shuffled(pair) for n, pair in enumerate(pairs))
    return tuple(tuple(labels[i] for i in row) for pair in each for row in pair)


@cache
def _replicate(lanes: tuple[str, ...], seed: int, cell: str, replicate: int) -> tuple[tuple[str, ...], ...]:
    k = len(lanes)
    rows = design_rows(k)
    labels = Stream(seed, "labels", cell, replicate).shuffled(lanes)
    squares = [rows[i : i + k] for i in range(0, len(rows), k)]
    squares = Stream(seed, "squares", cell, replicate).shuffled(squares)
    shuffled = (Stream(seed, "rows", cell, replicate, n).shuffled(square) for n, square in enumerate(squares))
    return tuple(tuple(labels[i] for i in row) for square in shuffled for row in square)


@cache
def design_rows(k: int) -> tuple[tuple[int, ...], ...]:
    """The rows of one replicate for ``k`` >= 1 treatments, as indices: k rows, or 2k for odd k > 1 (square, mirror)."""
    first = [0]
    for step in range(1, k):  # 0, 1, k-1, 2, k-2, ...: all differences between neighbours are different
        first.append((first[-1] + (step if step % 2 else -step)) % k)
    square = tuple(tuple((i + shift) % k for i in first) for shift in range(k))
    return square + tuple(row[::-1] for row in square) if k % 2 and k > 1 else square


class Stream:
    """Uniform whole numbers from SHA-256 in counter mode, keyed by their purpose."""

    def __init__(self, *purpose: int | str) -> None:
        self._key = "\0".join(str(part) for part in purpose).encode()
        self._count = 0

    def below(self, limit: int) -> int:
        """A number from 0 to ``limit`` - 1, exactly uniform; ``limit`` up to 2**64."""
        while True:
            digest = hashlib.sha256(self._key + b"\0%d" % self._count).digest()
            self._count += 1
            number = int.from_bytes(digest[:8], "big")
            if number < 2**64 - 2**64 % limit:  # otherwise the lowest numbers would come a little more often
                return number % limit

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """A random permutation (Fisher and Yates; Durstenfeld, CACM 7, 1964)."""
        result = list(items)
        for last in range(len(result) - 1, 0, -1):
            chosen = self.below(last + 1)
            result[last], result[chosen] = result[chosen], result[last]
        return result
