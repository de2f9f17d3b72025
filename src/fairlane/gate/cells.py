"""Select the cells and lanes of a rule. Pure."""

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from fairlane.errors import FairlaneError, nearest
from fairlane.records import Cell

if TYPE_CHECKING:
    from fairlane.study.spec import Study


def patterns(text: str) -> list[str]:
    """The patterns of ``4k randread and 8k randread``; of an empty text one that matches all cells."""
    return re.split(r"\s+and\s+", text, flags=re.IGNORECASE)


def shown(study: "Study", cell: Cell) -> str:
    """The cell's name; with its workload where the study has several."""
    return f"{cell.workload}/{cell.name}" if len(study.workloads) > 1 else cell.name


def chosen(study: "Study", text: str) -> tuple[Cell, ...]:
    """The cells that match a pattern in ``text``, in study order; all cells if it is empty.

    ``4k randread`` matches every cell whose name has both words, never ``64k randread``. A word may have ``*`` and
    ``?``; ``WORKLOAD/`` in front selects one workload; ``and`` stands between patterns. Raises FairlaneError for a
    pattern that no cell matches.
    """
    cells = study.judged
    matching = {cell.key for pattern in patterns(text) for cell in _chosen(study, cells, pattern)}
    return tuple(cell for cell in cells if cell.key in matching)


def _chosen(study: "Study", cells: tuple[Cell, ...], pattern: str) -> tuple[Cell, ...]:
    workload, slash, words = pattern.partition("/")
    matching = tuple(c for c in cells if not pattern or _matches(pattern, c.name) or (
        slash and fnmatchcase(c.workload, workload.strip().lower()) and (not words.strip() or _matches(words, c.name))
    ))  # fmt: skip
    if not matching:
        names = [shown(study, c) for c in cells]
        near = nearest(pattern, names)
        some = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        raise FairlaneError(
            "cell-unknown",
            f"no cell is called {pattern!r}",
            hint=f"did you mean {near!r}? " * bool(near) + f"cells: {some}",
        )
    return matching


def _matches(pattern: str, name: str) -> bool:
    words = name.lower().split()
    return all(any(fnmatchcase(word, part) for word in words) for part in pattern.lower().split())


def known_lane(study: "Study", name: str) -> None:
    """Raise FairlaneError with the nearest lane if the study has no lane ``name``."""
    lanes = study.lanes
    if name not in lanes:
        near = nearest(name, lanes)
        raise FairlaneError(
            "lane-unknown",
            f"no lane is called {name!r}",
            hint=f"did you mean {near}?" if near else f"lanes: {', '.join(lanes)}",
        )
