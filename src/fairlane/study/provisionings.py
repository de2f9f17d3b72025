"""Blocks of a study by provisioning (newly created volumes and machines): default looks, and misfits. Pure."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

MOST_PROVISIONINGS = 100
"""Provisionings of a study."""
_EACH = 2
"""Blocks per provisioning by default: each order of two lanes once. More blocks of one provisioning tell little of the
next one (Kalibera and Jones, ISMM 2013: repeat where the variance arises, at the highest level)."""
_FIRST_LOOK = 4
"""Provisionings before the first look by default: fewer do not show their spread."""


def default_looks(provisionings: int) -> tuple[int, ...]:
    """Looks in blocks per cell for ``provisionings`` > 1: after 4 of them, or all if there are fewer, and after each
    further one."""
    return tuple(_EACH * p for p in range(min(_FIRST_LOOK, provisionings), provisionings + 1))


def misfit(looks: Sequence[int], provisionings: int) -> str:
    """Why ``looks`` (rising numbers of blocks per cell) cannot be divided among ``provisionings``; empty: they can.

    Every provisioning must have the same, even number of blocks, so that both orders of any two lanes are in it equally
    often, and looks are taken between provisionings."""
    if provisionings == 1:
        return ""
    each, rest = divmod(looks[-1], provisionings)
    if rest or each % 2:
        return (
            f"{looks[-1]} blocks cannot be divided among {provisionings} provisionings: each needs the same even number"
        )
    if between := [n for n in looks if n % each]:
        return f"a look at {between[0]} blocks lies within a provisioning, which has {each} blocks"
    return ""


def rotated(items: Sequence[T], provisioning: int) -> list[T]:
    """``items`` (lanes that are dealt to slots) from another one on in each provisioning."""
    first = provisioning % len(items) if items else 0
    return [*items[first:], *items[:first]]


def fitting(blocks: int, provisionings: int) -> int:
    """The smallest number of blocks from ``blocks`` on that ``provisionings`` can be divided into."""
    step = provisionings * 2
    return -(-blocks // step) * step
