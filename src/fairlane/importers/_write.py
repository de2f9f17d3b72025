"""Write an import as a run directory: the study that describes it, its schedule, its journal."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from fairlane import __version__
from fairlane.errors import FairlaneError
from fairlane.guard.parameters import parameter
from fairlane.importers._map import ImportMap
from fairlane.importers._place import Layout, Placed
from fairlane.importers._read import LeftOut, Original
from fairlane.importers._walk import natural
from fairlane.records import Block
from fairlane.runs import journal, raw
from fairlane.runs.journal import Event
from fairlane.runs.plan import Plan
from fairlane.study.load import parse_study
from fairlane.study.yaml_tree import IMPLICIT, MAX_BYTES

MAX_CELLS = 1000
"""Most cells of a run: with more, its study would exceed the limit of a study file."""


def plan_of(layout: Layout, chosen: ImportMap, name: str, baseline: str) -> Plan:
    """The study of an import and its blocks. Raises FairlaneError."""
    if len(layout.points) > MAX_CELLS:
        raise FairlaneError(
            "too-large",
            f"{len(layout.points)} cells: a run holds up to {MAX_CELLS}",
            hint="import parts of it, each into a run of its own",
        )
    text = study_text(layout, chosen, name, baseline)
    study = parse_study(text, "study of the import")
    cells = {cell.name: cell for cell in study.cells()}
    blocks: dict[tuple[str, int], list[str]] = defaultdict(list)
    for place in layout.placed:
        blocks[place.cell, place.block].append(place.lane)
    return Plan(
        study, text, tuple(Block(cells[cell], block, tuple(order), 0) for (cell, block), order in blocks.items())
    )


def study_text(layout: Layout, chosen: ImportMap, name: str, baseline: str) -> str:
    """The generated study, for readers too."""
    most = max((place.block + 1 for place in layout.placed), default=0)
    design: dict[str, Any] = {"looks": [max(2, most)], "alpha": chosen.alpha, "paired": layout.paired}
    design |= {
        key: value
        for key, value in (
            ("margins", {name: f"{share * 100:.12g}%" for name, share in chosen.margins.items()}),
            ("vary", list(chosen.vary)),
            ("accept", dict(chosen.accept)),
        )
        if value
    }
    tree: dict[str, Any] = {
        "name": name,
        **({"question": chosen.question} if chosen.question else {}),
        "platform": {"kind": "imported", "tools": sorted({place.trial.tool for place in layout.placed})},
        "baseline": baseline,
        **({"conditions": _conditions(chosen.conditions)} if chosen.conditions else {}),
        "lanes": {lane: _lane(lane, layout, chosen) for lane in layout.lanes},
        "workloads": dict(_workloads(layout, chosen)),
        "design": design,
    }
    body = yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=118)
    text = f"# Written by fairlane import: others measured this, and it can be judged, not run.\n{body}"
    if len(text.encode()) > MAX_BYTES:
        raise FairlaneError(
            "too-large",
            f"the study of this import would be larger than {MAX_BYTES >> 10} KiB",
            hint="import parts of it, each into a run of its own",
        )
    return text


class _Dumper(yaml.SafeDumper):
    """Leaves in one line; text that Fairlane's own reader would take for a number is quoted."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the form of PyYAML's own class
        first: [*yaml.SafeDumper.yaml_implicit_resolvers.get(first, []), *IMPLICIT.get(first, [])]
        for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *IMPLICIT}
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs | {"default_flow_style": None})

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _lane(name: str, layout: Layout, chosen: ImportMap) -> dict[str, Any]:
    mapped = chosen.lanes.get(name)
    lane: dict[str, Any] = {"transport": "imported"}
    if layout.lanes[name] not in ("", name):
        lane["label"] = layout.lanes[name]
    lane["source"] = (mapped and mapped.source) or _source([place for place in layout.placed if place.lane == name])
    if mapped:
        if mapped.conditions:
            lane["conditions"] = _conditions(mapped.conditions)
        caps = {"cap_iops": mapped.cap_iops, "cap_mibs": mapped.cap_mibs, "cost": mapped.cost}
        lane |= {key: value for key, value in caps.items() if value is not None}
    return lane


def _source(placed: Sequence[Placed]) -> str:
    """``6 trials (fio_json: iscsi/1.json to iscsi/6.json)``."""
    tools = "; ".join(
        f"{tool}: {_shown(names[0])}{f' to {_shown(names[-1])}' if len(names) > 1 else ''}"
        for tool in dict.fromkeys(place.trial.tool for place in placed)
        if (names := sorted({p.trial.files[0] for p in placed if p.trial.tool == tool}, key=natural))
    )
    return f"{len(placed)} trial{'s' if len(placed) > 1 else ''} ({tools})"


def _shown(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)[-80:]


def _workloads(layout: Layout, chosen: ImportMap) -> Iterator[tuple[str, Any]]:
    """Workloads of the study, one per primary metric of the cells."""
    metrics = list(dict.fromkeys(point.primary for point in layout.points))
    for metric in metrics:
        name = chosen.workload if metric == metrics[0] else f"{chosen.workload[:12]}-{metric.replace('_', '-')}"
        points = [point for point in layout.points if point.primary == metric]
        cells = [{"name": p.name, **({"params": dict(p.params)} if p.params else {})} for p in points]
        yield name[:31], {"kind": "imported", "primary": metric, "points": cells}


def _conditions(known: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions as a user writes them (``150g``), if that parses back to the same value."""
    return {name: _written(name, value) for name, value in known.items()}


def _written(name: str, value: Any) -> Any:
    entry = parameter(name)
    try:
        text = entry.shown(value)
        same = isinstance(value, bool) or text == str(value) or entry.read(text) != value
        return value if same else text
    except (ValueError, TypeError):
        return value


def events(
    layout: Layout,
    plan: Plan,
    originals: Sequence[Original],
    left_out: Sequence[LeftOut],
    chosen: ImportMap,
    *,
    readers: Mapping[str, Any],
    packs: Mapping[str, str],
) -> Iterator[Event]:
    """The journal of an import. ``readers``: importer -> its options; ``packs``: name -> SHA-256."""
    yield {
        "type": "start",
        "fairlane": __version__,
        "modelled": False,
        "emulated": False,
        "workers": 1,
        "readers": dict(readers),
    }
    yield {
        "type": "order",
        "paired": layout.paired,
        "told": chosen.paired is not None,
        "interleaved": layout.interleaved,
        "spans": {lane: [_time(first), _time(last)] for lane, (first, last) in layout.spans.items()},
    }
    for name, sha256 in packs.items():
        yield {"type": "pack", "name": name, "sha256": sha256}
    for file in originals:
        yield {
            "type": "original",
            "name": file.name,
            "tool": file.tool,
            "sha256": file.sha256,
            "size": file.size,
            **({"kept": f"{raw.FOLDER}/{file.pack}", "member": file.member} if file.pack else {}),
        }
    for gone in left_out:
        yield {"type": "left-out", "files": list(gone.files), "reason": gone.reason, "where": gone.where}
    yield {"type": "files", "read": len(originals), "left_out": sum(len(g.files) for g in left_out if g.reason)}
    keys = {cell.name: cell.key for cell in plan.study.cells()}
    for place in layout.placed:
        yield _trial(place, keys[place.cell])
    yield {"type": "look", "look": 0, "blocks": plan.looks[0], "open": []}
    yield {"type": "end"}


def _trial(place: Placed, cell: str) -> Event:
    trial = place.trial
    event = {"type": "trial", "cell": cell, "block": place.block, "lane": place.lane, "raw": trial.pack}
    event |= {"sha256": trial.sha256, "from": trial.files[0]}
    if trial.member:
        return event | {"member": trial.member}
    event |= {"tool": trial.tool, "load": trial.load}
    if len(trial.files) > 1:
        event["files"] = list(trial.files)
    return event | ({"record": trial.number, "of": trial.of} if trial.of > 1 else {})


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def write_journal(folder: Path, lines: Iterator[Event]) -> None:
    """All of it at once. Raises RunFailed."""
    journal.write(folder, lines)
