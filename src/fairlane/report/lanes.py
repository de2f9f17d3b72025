"""The lanes side by side: their paths, requested and read-back parameters, and the differences. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlane import registry
from fairlane.lanes.base import Site
from fairlane.records import Evidence
from fairlane.report.text import DASH, flatten

ASKED, READ_BACK = "asked: ", "read back: "
"""What a parameter's key begins with: from the study, or from the machines after set-up."""
_PATH = "path"
_ELSEWHERE = (_PATH, "capabilities", "steady", "conditions")
"""Parts of a lane's description that are shown elsewhere."""
_NAMES = re.compile(
    r"(device\.identity|volume\.volumeHandle|\.firmware\.(uuid|serial)|/sent|/pvc?/name"
    r"|volume\.attributes\.(imageName|subvolumeName|subvolumePath))$"
)
"""Keys of names and ids that are made anew for each volume or machine, so that they always differ."""
_MOMENT = re.compile(
    r"behind\.(.*\.)?(free_bytes|free_inodes|inode|allocated|volumes)$|probed\.(.*\.)?(seconds$|(read|write|disks)\.)"
)
"""Keys of a moment's figures, such as free space and the bytes of a probe: checks judge them, no lane is made so."""
_CHANGE = re.compile(r"([^\s:]+): (.*)", re.DOTALL)
"""A line of a server's defaults: path and value."""


@dataclass(frozen=True)
class Lane:
    """A lane for a reader."""

    name: str
    label: str
    transport: str
    baseline: bool
    path: tuple[str, ...]
    """Hops from the workload to the medium."""
    shared: frozenset[str] = frozenset()
    """Hops that the baseline has too."""
    described: bool = True
    """The path comes from the run's description; else from the transport."""

    @property
    def hops(self) -> tuple[tuple[str, bool], ...]:
        """Each hop, and whether only this lane has it and the baseline does not."""
        return tuple((hop, not self.baseline and hop not in self.shared) for hop in self.path)


@dataclass(frozen=True)
class LaneRow:
    """One parameter over all lanes; a dash where a lane does not have it."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class LaneTable:
    """Parameters of all lanes. ``asked``: from the study; ``read back``: from the machines after set-up."""

    labels: tuple[str, ...]
    differing: tuple[LaneRow, ...]
    """Lanes disagree on the parameter, or only some lanes of one transport have it."""
    own: tuple[LaneRow, ...]
    """Only some lanes, of several transports, have it, and those agree."""
    same: tuple[LaneRow, ...]
    names: tuple[LaneRow, ...] = ()
    """Names and ids, which always differ."""


def labels(study: Any) -> dict[str, str]:
    """Lane name -> label, in the study's order; a label that two lanes share gets the lane's name added, that of a
    reference its role."""
    raw = {name: lane.label or name for name, lane in study.lanes.items()}
    unique = {
        name: text if list(raw.values()).count(text) == 1 or text == name else f"{text} ({name})"
        for name, text in raw.items()
    }
    return {name: f"{text} (reference)" if name in study.references else text for name, text in unique.items()}


def views(evidence: Evidence) -> tuple[Lane, ...]:
    """The lanes in the study's order."""
    study = evidence.study
    named = labels(study)
    paths = {name: _path(evidence, index, name) for index, name in enumerate(named)}
    common = frozenset(paths[study.baseline])
    return tuple(
        Lane(
            name,
            label,
            study.lanes[name].transport,
            name == study.baseline,
            paths[name],
            common,
            _PATH in _described(evidence, name),
        )
        for name, label in named.items()
    )


def _described(evidence: Evidence, name: str) -> Mapping[str, Any]:
    lane = (evidence.description.get("lanes") or {}).get(name)
    return lane if isinstance(lane, Mapping) else {}


def _path(evidence: Evidence, index: int, name: str) -> tuple[str, ...]:
    """The path from the run's description, else from the transport for a nameless site."""
    path = _described(evidence, name).get(_PATH)
    if isinstance(path, list | tuple):
        return tuple(str(hop) for hop in path)
    if isinstance(path, str):
        return (path,)
    lane = evidence.study.lanes[name]
    site = Site(medium="medium", address="target", interface="link", index=index, secret="")
    hops: tuple[str, ...] = registry.load("lanes", lane.transport)(name, lane, site).path()
    return hops


def side_by_side(evidence: Evidence) -> LaneTable:
    """Every parameter of any lane, sorted into three: different, of some lanes only, common to all."""
    named = labels(evidence.study)
    columns = []
    for name in named:
        # conditions have a table of their own, roles stand in the labels; caps and cost appear only if set
        requested = evidence.study.lanes[name].model_dump(
            mode="json", exclude={"label", "conditions", "role", "cells"}, exclude_none=True
        )
        requested = {key: value for key, value in requested.items() if value not in ("", [])}
        read = _read_back(_described(evidence, name))
        columns.append(
            {f"{ASKED}{k}": v for k, v in flatten(requested).items()}
            | {f"{READ_BACK}{k}": v for k, v in flatten(read).items() if not _MOMENT.search(k)}
        )
    # lanes of one transport have the same keys, so that a missing one is a difference
    one_transport = len({lane.transport for lane in evidence.study.lanes.values()}) == 1
    parts: dict[str, list[LaneRow]] = {"differing": [], "own": [], "same": [], "names": []}
    for key in dict.fromkeys(k for column in columns for k in column):
        present = {column[key] for column in columns if key in column}
        everywhere = all(key in column for column in columns)
        part = (
            "differing" if len(present) > 1 or (one_transport and not everywhere) else "same" if everywhere else "own"
        )
        if part != "same" and _NAMES.search(key):
            part = "names"
        parts[part].append(LaneRow(key, tuple(column.get(key, DASH) for column in columns)))
    return LaneTable(tuple(named.values()), **{part: tuple(rows) for part, rows in parts.items()})


def _read_back(described: Mapping[str, Any]) -> dict[str, Any]:
    """A lane's description; lists and machines' names are made comparable with other lanes'."""
    read = {key: value for key, value in described.items() if key not in _ELSEWHERE}
    if isinstance(machines := read.get("machines"), Mapping):
        read["machines"] = _placed(machines)
    if isinstance(lines := read.get("server_defaults"), list | tuple):
        parts = [_CHANGE.fullmatch(str(line)) for line in lines]
        if all(parts):
            read["server_defaults"] = {part[1]: part[2] for part in parts if part}
    return read


def _placed(machines: Mapping[str, Any]) -> str:
    """``0, 2 on worker-0; 1 on worker-1``: machines are known by number, whatever their names."""

    def number(name: str) -> int:
        match = re.search(r"\d{1,9}$", name)
        return int(match[0]) if match else 0

    nodes: dict[str, list[str]] = {}
    for name in sorted(machines, key=number):
        nodes.setdefault(str(machines[name]) or "no node", []).append(str(number(name)))
    return "; ".join(f"{', '.join(numbers)} on {node}" for node, numbers in nodes.items())
