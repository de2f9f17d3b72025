"""Gather the known parameters of every lane and cell from study, description, journal and trials. Pure."""

import hashlib
import math
import re
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlane.guard.parameters import parameter
from fairlane.guard.values import EXISTING, MIXED, Scalar, date, size
from fairlane.records import Cell, Evidence, Observation

Known = Mapping[str, Any]
"""Parameter -> value in the registry's unit; absent: not known."""

Place = tuple[str, str]
"""Lane, key of the cell."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_LONGEST = 200
_LARGEST = 2**63
_MOST = 8
"""Different values of one parameter that are listed; the rest are counted."""
_MANY = 100
"""Parameters of one lane and cell that are taken from trials; no tool reports as many."""

_FROM_LANE = {"device.bytes": ("disk_size", lambda text: size(int(text)))}
_FROM_PLATFORM = {"link.mtu": ("mtu", int)}
"""Key that scripts read back (``machines/script.py``, ``platforms/lab/modelled.py``) -> parameter and its parser."""

_last: list[tuple["weakref.ref[Evidence]", Mapping[Place, Known]]] = []


def conditions(evidence: Evidence) -> Mapping[Place, Known]:
    """``(lane, cell key)`` -> its known parameters. Later sources win over earlier ones:

    the platform's and the study's conditions; the workload's of the cell; the lane's; read-back values (description,
    fingerprint, journal); values reported by trials (``context["conditions"]``, fio's version).

    Raises nothing, whatever trials and description hold: only scalars count, long text is cut. The result
    for the last evidence is cached, because every check needs it.
    """
    if _last and _last[0][0]() is evidence:
        return _last[0][1]
    result = _gather(evidence)
    _last[:] = [(weakref.ref(evidence), result)]
    return result


def declared(study: Any, lane: str, cell: Cell | None = None) -> Known:
    """The study's own parameters of ``lane`` in ``cell``; without a cell, without the workload's."""
    spec = study.lanes[lane]
    load = study.workloads[cell.workload].known(cell) if cell else {}
    if load.get("prefill") is not None and spec.existing and not spec.destroy:
        load = {**load, "prefill": EXISTING}  # nothing fills it
    return {**study.platform.known(), **study.conditions, **load, **spec.known(), **spec.conditions}


def stated(study: Any) -> Mapping[Place, Known]:
    """``(lane, cell key)`` -> parameters from the study alone, before anything has run."""
    return _places(study, {}, {})


def _gather(evidence: Evidence) -> Mapping[Place, Known]:
    back = {name: _read_back(evidence, name) for name in evidence.study.lanes}
    return _places(evidence.study, back, _from_trials(evidence.observations))


def _places(study: Any, back: Mapping[str, Known], reported: Mapping[Place, Known]) -> Mapping[Place, Known]:
    """Parameters from the study, then those read back from each lane, then those reported by trials."""
    result: dict[Place, Known] = {}
    for cell in study.cells():
        for name in study.lanes:
            settings = declared(study, name, cell)
            known = {key: value for key, given in settings.items() if (value := _value(key, given)) is not None}
            known |= {**back.get(name, {}), **reported.get((name, cell.key), {})}
            if known.get("rw") in _ONE_WAY:
                known.pop("rwmixread", None)  # has no meaning there, yet some tools write it
            result[name, cell.key] = known
    return result


_ONE_WAY = frozenset({"read", "randread", "write", "randwrite"})


def _from_trials(observations: Iterable[Observation]) -> dict[Place, dict[str, Any]]:
    """Parameters that successful trials report; a value that differs between them begins with ``MIXED``."""
    by_place: dict[Place, dict[str, dict[Any, Any]]] = {}
    read: dict[Any, Any] = {}
    known: dict[Any, Any] = {}
    for trial in observations:
        if trial.failed:
            continue
        given, fio = trial.context.get("conditions"), trial.context.get("fio")
        version = fio.get("version") if type(fio) is dict else None
        same = (trial.lane, trial.cell, id(given), version if isinstance(version, str) else id(fio))
        if given is not None and known.get(same, known) is given:
            continue  # thousands of trials of a lane and cell share one object (``runs.index``)
        known[same] = given
        values = by_place.setdefault((trial.lane, trial.cell), {})
        for name, given in _context_values(trial):
            if name not in values and len(values) >= _MANY:
                continue
            key = (name, type(given), given)  # True and 1, 1 and 1.0 are equal, but not as text
            if key not in read:
                read[key] = _value(name, given)
            if (value := read[key]) is not None:
                values.setdefault(name, {})[type(value), value] = value
    return {
        place: {name: _agreed(name, list(distinct.values())) for name, distinct in values.items()}
        for place, values in by_place.items()
    }


def _context_values(trial: Observation) -> Iterator[tuple[str, Scalar]]:
    """Names and scalars from a trial's context; anything else in it is ignored."""
    fio = trial.context.get("fio")
    given = trial.context.get("conditions")
    values = given if isinstance(given, Mapping) else {}
    if isinstance(fio, Mapping) and isinstance(fio.get("version"), str) and "tool_version" not in values:
        yield "tool_version", fio["version"]
    for name, value in values.items():
        if isinstance(name, str) and isinstance(value, Scalar) and _NAME.fullmatch(name):
            yield name, value


def _agreed(name: str, values: list[Any]) -> Any:
    """The value that all trials agree on, or text that lists the different ones."""
    about = parameter(name)
    if about.tolerance and all(isinstance(v, int | float) for v in values):
        low, high = min(values), max(values)
        if about.match(low, high):
            return (low + high) / 2
        values = [low, high]
    elif all(about.match(values[0], other) for other in values[1:]):
        return values[0]
    some = sorted(dict.fromkeys(about.shown(v).removeprefix(MIXED) for v in values))
    return MIXED + ", ".join(some[:_MOST]) + (f" and {len(some) - _MOST} more" if len(some) > _MOST else "")


def _value(name: str, given: Any) -> Any:
    """``given`` in the registry's unit; unchanged where the registry cannot read it; None: no value."""
    if isinstance(given, str):
        if len(given) > _LONGEST:
            digest = hashlib.sha256(given.encode(errors="replace")).hexdigest()[:12]
            given = f"{given[:_LONGEST]}… ({len(given)} characters, SHA-256 {digest})"
        given = " ".join(given.split()) if not given.startswith(MIXED) else given
        if not given:
            return None
    elif not isinstance(given, bool | int | float) or not abs(given) < _LARGEST:
        return None
    try:
        return parameter(name).read(given)
    except (ValueError, OverflowError):
        return given


def _read_back(evidence: Evidence, lane: str) -> dict[str, Any]:
    """Parameters of a lane from description, fingerprint and journal; built here only."""
    result: dict[str, Any] = {}
    if evidence.study.platform.measured_here:
        kernel, qemu = evidence.fingerprint.get("kernel"), evidence.fingerprint.get("qemu")
        result |= {"guest_kernel": kernel, "hypervisor": f"QEMU {qemu}" if isinstance(qemu, str) else None}
        result["date"] = began(evidence)
    built = evidence.description.get("lanes")
    own = built.get(lane) if isinstance(built, Mapping) else None
    for part, table in ((evidence.description.get("platform"), _FROM_PLATFORM), (own, _FROM_LANE)):
        for key, (name, reads) in table.items():
            raw = part.get(key) if isinstance(part, Mapping) else None
            if isinstance(raw, str | int) and re.fullmatch(r"\d{1,18}", str(raw)[:20]):
                result[name] = reads(raw)
    back = own.get("conditions") if isinstance(own, Mapping) else None
    if isinstance(back, Mapping):
        result |= {name: value for name, value in back.items() if isinstance(name, str) and _NAME.fullmatch(name)}
    return {name: value for name, given in result.items() if (value := _value(name, given)) is not None}


def began(evidence: Evidence) -> float | None:
    """When the run began to measure, in days since 1970, by its journal; None: not known."""
    return min(days(evidence), default=None)


def days(evidence: Evidence) -> list[float]:
    """Times of the journal's events, in days since 1970; events without a valid time are left out."""
    result = []
    for event in evidence.events:
        at = event.get("at")
        if isinstance(at, str) and len(at) < 40:
            try:
                result.append(date(at))
            except (ValueError, OverflowError):
                continue
    return [day for day in result if math.isfinite(day)]
