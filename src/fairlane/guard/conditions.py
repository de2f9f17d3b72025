"""The conditions of every trial's lane and cell, gathered from all that a run knows. Pure."""

import hashlib
import math
import re
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlane.guard.parameters import parameter
from fairlane.guard.values import MIXED, Scalar, date, size
from fairlane.records import Cell, Evidence, Observation

Known = Mapping[str, Any]
"""Parameter -> value in the registry's unit; what is not in it is not known."""

Place = tuple[str, str]
"""Lane, key of the cell."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_LONGEST = 200
_LARGEST = 2**63
_MOST = 8
"""Different values of one parameter that are kept apart: more would only make the same sentence longer."""
_MANY = 100
"""Parameters of one lane and cell that are taken from trials; no tool says so much of itself."""

_FROM_LANE = {"device.bytes": ("disk_size", lambda told: size(int(told)))}
_FROM_PLATFORM = {"link.mtu": ("mtu", int)}
"""What scripts read back (``machines/script.py``, ``platforms/lab/modelled.py``) -> parameter, and how it is read."""

_last: list[tuple["weakref.ref[Evidence]", Mapping[Place, Known]]] = []


def conditions(evidence: Evidence) -> Mapping[Place, Known]:
    """``(lane, cell key)`` -> what is known of it. Later sources win over earlier ones:

    the platform's and the study's conditions; the workload's of the cell; the lane's; what was read back
    (description, fingerprint, journal); what the trials say themselves (``context["conditions"]``, fio's version).

    Raises nothing, whatever trials and description hold: what is no scalar is not known, long text is cut. The answer
    for the evidence asked for last is kept, because every check asks.
    """
    if _last and _last[0][0]() is evidence:
        return _last[0][1]
    result = _gather(evidence)
    _last[:] = [(weakref.ref(evidence), result)]
    return result


def declared(study: Any, lane: str, cell: Cell | None = None) -> Known:
    """What the study itself says of ``lane``: in ``cell``, or without the workload's part."""
    spec = study.lanes[lane]
    load = study.workloads[cell.workload].known(cell) if cell else {}
    return {**study.platform.known(), **study.conditions, **load, **spec.known(), **spec.conditions}


def stated(study: Any) -> Mapping[Place, Known]:
    """``(lane, cell key)`` -> what the study alone says of it, before anything has run."""
    return _places(study, {}, {})


def _gather(evidence: Evidence) -> Mapping[Place, Known]:
    back = {name: _read_back(evidence, name) for name in evidence.study.lanes}
    return _places(evidence.study, back, _told(evidence.observations))


def _places(study: Any, back: Mapping[str, Known], told: Mapping[Place, Known]) -> Mapping[Place, Known]:
    """What the study says, then what was read back of each lane, then what the trials tell."""
    result: dict[Place, Known] = {}
    for cell in study.cells():
        for name in study.lanes:
            said = declared(study, name, cell)
            known = {key: value for key, given in said.items() if (value := _value(key, given)) is not None}
            known |= {**back.get(name, {}), **told.get((name, cell.key), {})}
            if known.get("rw") in _ONE_WAY:
                known.pop("rwmixread", None)  # says nothing there, and some tools write it all the same
            result[name, cell.key] = known
    return result


_ONE_WAY = frozenset({"read", "randread", "write", "randwrite"})


def _told(observations: Iterable[Observation]) -> dict[Place, dict[str, Any]]:
    """What successful trials say; a value that differs between them begins with ``MIXED``."""
    seen: dict[Place, dict[str, dict[Any, Any]]] = {}
    read: dict[Any, Any] = {}
    for trial in observations:
        if trial.failed:
            continue
        here = seen.setdefault((trial.lane, trial.cell), {})
        for name, given in _said(trial):
            if name not in here and len(here) >= _MANY:
                continue
            key = (name, type(given), given)  # True and 1, 1 and 1.0 are equal, but not as text
            if key not in read:
                read[key] = _value(name, given)
            if (value := read[key]) is not None:
                here.setdefault(name, {})[type(value), value] = value
    return {
        place: {name: _one(name, list(found.values())) for name, found in here.items()} for place, here in seen.items()
    }


def _said(trial: Observation) -> Iterator[tuple[str, Scalar]]:
    """Names and scalars in a trial's context, whatever else is in it."""
    fio = trial.context.get("fio")
    told = trial.context.get("conditions")
    said = told if isinstance(told, Mapping) else {}
    if isinstance(fio, Mapping) and isinstance(fio.get("version"), str) and "tool_version" not in said:
        yield "tool_version", fio["version"]
    for name, value in said.items():
        if isinstance(name, str) and isinstance(value, Scalar) and _NAME.fullmatch(name):
            yield name, value


def _one(name: str, found: list[Any]) -> Any:
    """The one value of all trials, or what they disagree in."""
    about = parameter(name)
    if about.tolerance and all(isinstance(v, int | float) for v in found):
        low, high = min(found), max(found)
        if about.match(low, high):
            return (low + high) / 2
        found = [low, high]
    elif all(about.match(found[0], other) for other in found[1:]):
        return found[0]
    some = sorted(dict.fromkeys(about.shown(v).removeprefix(MIXED) for v in found))
    return MIXED + ", ".join(some[:_MOST]) + (f" and {len(some) - _MOST} more" if len(some) > _MOST else "")


def _value(name: str, given: Any) -> Any:
    """``given`` in the registry's unit; as it stands where the registry cannot read it; None: it says nothing."""
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
    """What description, fingerprint and journal say of a lane that was built here."""
    found: dict[str, Any] = {}
    if evidence.study.platform.measured_here:
        kernel, qemu = evidence.fingerprint.get("kernel"), evidence.fingerprint.get("qemu")
        found |= {"guest_kernel": kernel, "hypervisor": f"QEMU {qemu}" if isinstance(qemu, str) else None}
        found["date"] = began(evidence)
    built = evidence.description.get("lanes")
    own = built.get(lane) if isinstance(built, Mapping) else None
    for part, table in ((evidence.description.get("platform"), _FROM_PLATFORM), (own, _FROM_LANE)):
        for key, (name, reads) in table.items():
            told = part.get(key) if isinstance(part, Mapping) else None
            if isinstance(told, str | int) and re.fullmatch(r"\d{1,18}", str(told)[:20]):
                found[name] = reads(told)
    back = own.get("conditions") if isinstance(own, Mapping) else None
    if isinstance(back, Mapping):
        found |= {name: value for name, value in back.items() if isinstance(name, str) and _NAME.fullmatch(name)}
    return {name: value for name, given in found.items() if (value := _value(name, given)) is not None}


def began(evidence: Evidence) -> float | None:
    """Days since 1970 when the run began to measure, by its journal; None: it does not say."""
    return min(days(evidence), default=None)


def days(evidence: Evidence) -> list[float]:
    """When the events of the journal were, in days since 1970; what is no time is left out."""
    found = []
    for event in evidence.events:
        at = event.get("at")
        if isinstance(at, str) and len(at) < 40:
            try:
                found.append(date(at))
            except (ValueError, OverflowError):
                continue
    return [day for day in found if math.isfinite(day)]
