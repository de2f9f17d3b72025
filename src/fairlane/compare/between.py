"""The arguments of a comparison: names of the runs, and which lanes are paired. For commands and notebooks."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fairlane.compare.mapping import ALIAS, RESERVED, LaneMap, Lanes, by_name, parse_mapping
from fairlane.errors import FairlaneError
from fairlane.records import Evidence
from fairlane.study.load import read_text


def alias_of(run: Path) -> str:
    """The default alias: the folder's name, in the characters that an alias may have."""
    name = run.resolve().name.lower()
    return re.sub(r"[^a-z0-9-]+", "-", name).strip("-")[:31].rstrip("-")


def places(named: Iterable[tuple[str, Path]], rename: Callable[[Path, Path | None], str]) -> dict[str, Path]:
    """Alias -> run directory, of (alias, run directory). ``rename``: hint how to name a run, or two of equal name.

    Raises FairlaneError for invalid or equal aliases.
    """
    found: dict[str, Path] = {}
    for alias, path in named:
        if not ALIAS.fullmatch(alias) or alias in RESERVED:
            raise FairlaneError(
                "name-invalid",
                f"{alias!r} is not a valid run name",
                hint=f"{rename(path, None)}: lower-case letters, digits and dashes; not {' or '.join(RESERVED)}",
            )
        if alias in found:
            raise FairlaneError("name-twice", f"two runs are called {alias!r}", hint=rename(found[alias], path))
        found[alias] = path
    return found


def lanes_of(runs: Mapping[str, Evidence]) -> Lanes:
    """Alias -> lanes."""
    return {alias: tuple(run.study.lanes) for alias, run in runs.items()}


def lane_map(file: str | None, runs: Mapping[str, Evidence], baseline: str | None) -> LaneMap:
    """The mapping in ``file``, or that of equal names. ``baseline``: alias; None: the file's, or the first run.

    Raises FairlaneError for a missing or invalid file, and if no lanes can be paired.
    """
    lanes = lanes_of(runs)
    if file is not None:
        text = read_text(
            file, FairlaneError("file-missing", "no such file", where=file, hint="--print-map prints one to start from")
        )
        return parse_mapping(text, file, lanes, baseline)
    first = baseline or next(iter(runs))
    return by_name(lanes, first, {name: lane.label or name for name, lane in runs[first].study.lanes.items()})
