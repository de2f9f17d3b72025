"""Tables of the lanes' capabilities (discard, flush, resize, ...) and of their steady state before the trials. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from fairlane.records import Evidence
from fairlane.report.lanes import labels
from fairlane.report.parts import Part, part
from fairlane.report.text import DASH
from fairlane.units import format_duration

TITLES: Mapping[str, str] = {
    "discard": "discard",
    "write_zeroes": "write zeroes",
    "flush": "flush",
    "fua": "forced unit access",
    "reservations": "persistent reservations",
    "queues": "hardware queues",
    "block_size": "block size, logical / physical",
    "largest_io": "largest I/O",
    "naming": "device name",
    "disks": "disks in one machine",
    "hot_plug": "plugged while it runs",
    "resize": "resized while it runs",
}
"""Capability -> its title, in the order of the table."""


def parts(evidence: Evidence) -> tuple[Part, ...]:
    """The tables for which the run has data."""
    return (*_capabilities(evidence), *_steady(evidence))


def _described(evidence: Evidence, key: str) -> dict[str, Mapping[str, Any]]:
    """Lane -> the mapping under ``key`` in its description; lanes without one are left out."""
    lanes = evidence.description.get("lanes") or {}
    by_lane = {name: lanes.get(name) for name in labels(evidence.study)}
    inner = {name: lane.get(key) for name, lane in by_lane.items() if isinstance(lane, Mapping)}
    return {name: value for name, value in inner.items() if isinstance(value, Mapping)}


def _field(described: Mapping[str, Any], key: str, field: str) -> str:
    answer = described.get(key)
    return str(answer.get(field, DASH)) if isinstance(answer, Mapping) else DASH


def _capabilities(evidence: Evidence) -> Iterator[Part]:
    described, label = _described(evidence, "capabilities"), labels(evidence.study)
    if not described:
        return
    known = [*TITLES, *sorted({key for lane in described.values() for key in lane} - {*TITLES})]
    keys = [key for key in known if any(key in lane for lane in described.values())]
    rows = [(TITLES.get(key, key), *(_field(described.get(lane, {}), key, "value") for lane in label)) for key in keys]
    proof = [
        (f"{TITLES.get(key, key)}, {label[lane]}", _field(described[lane], key, "evidence"))
        for key in keys
        for lane in label
        if key in described.get(lane, {})
    ]
    yield part(
        "Capabilities of the lanes",
        sentences=("Tried on a volume of each lane before the first trial, not only read from settings.",),
        columns=("Capability", *label.values()),
        rows=rows,
        marked=[n for n, row in enumerate(rows) if len(set(row[1:]) - {DASH}) > 1 and keys[n] != "naming"],
        proof=proof,
        folded=True,
    )


def _steady(evidence: Evidence) -> Iterator[Part]:
    described, label = _described(evidence, "steady"), labels(evidence.study)
    if not described:
        return
    rows = []
    for lane, title in label.items():
        if (state := described.get(lane)) is not None:
            shares = [
                f"{state[key]:.1%}" if isinstance(state.get(key), int | float) else DASH for key in ("range", "slope")
            ]
            seconds = state.get("seconds")
            took = format_duration(int(seconds * 1e9)) if isinstance(seconds, int | float) else DASH
            reached = "yes" if state.get("reached") is True else "no"
            rows.append((title, reached, str(state.get("rounds", DASH)), took, *shares, str(state.get("what", DASH))))
    yield part(
        "Steady state before the first trial",
        sentences=(
            "SNIA's rule: the range of the last five rounds is at most 20 % of their mean, and the line fitted through "
            "them moves by at most 10 %.",
        ),
        columns=("Lane", "Reached", "Rounds", "Under load", "Range", "Slope", "Load"),
        rows=rows,
        numbers=(2, 3, 4, 5),
        folded=True,
    )
