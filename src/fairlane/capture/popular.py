"""How often each block was accessed, in bounded memory: a sample of blocks by the hash of their address.

Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST '15: a block is counted if the hash of its address
lies below a threshold, which falls as the table fills. Every counted block is counted completely, so that shares,
repeats and the number of blocks follow from the sample.
"""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

BLOCK = 4096
"""Addresses are counted in blocks of this many bytes."""
_BITS = 24
_MIX = np.uint64(0x9E3779B97F4A7C15)
COLUMNS = 4
"""Counters of a block: reads in either half of the sample, writes in either half."""


def mixed(values: Ints) -> Ints:
    """Hash of ``_BITS`` bits; multiplications and shifts as in SplitMix64."""
    x = values.astype(np.uint64) + np.uint64(1)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * _MIX
    return (x >> np.uint64(64 - _BITS)).astype(np.int64)


class Popularity:
    """Counters per block. ``threshold``: blocks whose hash lies below it are in the sample."""

    def __init__(self, most: int = 1 << 19) -> None:
        self._most = most
        self.threshold = 1 << _BITS
        self._keys = np.zeros(0, np.int64)
        self._counts = np.zeros((0, COLUMNS), np.int64)
        self._seen = 0

    def add(self, blocks: Ints, columns: Ints) -> None:
        """Counts one I/O for each of ``blocks``; ``columns``: 0 for reads, 1 for writes."""
        # Halves by a hash of the I/O's number: a load that alternates would otherwise fall into one half.
        half = mixed(np.arange(self._seen, self._seen + len(blocks))) & 1
        self._seen += len(blocks)
        mine = mixed(blocks) < self.threshold
        keys, inverse = np.unique(blocks[mine], return_inverse=True)
        cell = inverse * COLUMNS + (columns * 2 + half)[mine]
        counts = np.bincount(cell, minlength=len(keys) * COLUMNS).reshape(-1, COLUMNS)
        at = np.searchsorted(self._keys, keys)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == keys[known]
        self._counts[at[known]] += counts[known]
        self._keys = np.insert(self._keys, at[~known], keys[~known])
        self._counts = np.insert(self._counts, at[~known], counts[~known], axis=0)
        while len(self._keys) > self._most:
            self.threshold //= 2
            stay = mixed(self._keys) < self.threshold
            self._keys, self._counts = self._keys[stay], self._counts[stay]

    @property
    def share(self) -> float:
        """Share of all blocks that is in the sample."""
        return self.threshold / (1 << _BITS)

    def repeats(self, columns: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """(I/Os in the first half, in the second, number of sampled blocks with these), of reads (0), writes (1) or
        both."""
        halves = [sum(self._counts[:, c * 2 + half] for c in columns) for half in (0, 1)]
        pairs = np.stack([np.asarray(h, np.int64) for h in halves], 1).reshape(-1, 2)
        unique, number = np.unique(pairs[pairs.any(axis=1)], axis=0, return_counts=True)
        return [(int(a), int(b), int(n)) for (a, b), n in zip(unique, number, strict=True)]
