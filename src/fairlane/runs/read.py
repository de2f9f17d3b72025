"""Read a run directory: turn journal and raw files into the evidence for checks, verdicts and reports."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.records import Evidence, Observation
from fairlane.runs import index, many, packs
from fairlane.runs import plan as plans
from fairlane.runs.files import storing, write_atomic
from fairlane.runs.journal import NAME, Event, stream
from fairlane.runs.plan import Plan
from fairlane.runs.raw import FOLDER
from fairlane.runs.units import Packed, Place, Unit, joined
from fairlane.stats.efficiency import efficient

OPENINGS = ("start", "resume", "provision")
"""Events of an opened platform: the run begins, another process continues it, the next provisioning begins."""
OF_FILES = frozenset({"trial", "original", "pack"})
"""Events of raw files, of which an import may have hundreds of thousands: ``Evidence.events`` is without them."""
DESCRIPTIONS = "descriptions"
"""Folder of the descriptions of further openings, by number; that of the first is ``description.json``."""


Death = tuple[str, int, str]
"""Cell key, block and lane of the trial under which a machine died."""


@dataclass(frozen=True)
class Done:
    """The finished trials and looks in the journal, checked against the raw files."""

    observations: Mapping[str, Observation]
    """Trial id -> figures, of the trials whose raw file is present and undamaged."""
    files: Mapping[str, tuple[str, str]]
    """Trial id -> (name, SHA-256) of the raw file, for the same trials."""
    damaged: tuple[str, ...]
    """Trial ids that were journaled but whose raw file is missing or changed: they count as not done."""
    opened: tuple[frozenset[str], ...]
    """For each look taken, the cells that continue."""
    ended: bool
    """The run has ended; with damaged raw files it is incomplete nevertheless."""
    events: tuple[Event, ...] = ()
    """The journal's other events: those of no raw file."""


def done(
    folder: Path, plan: Plan, events: Iterable[Event], *, whole: bool = False, kept: index.Index | None = None
) -> Done:
    """Evaluates the journal's events. ``whole``: they are all of a run that has ended, whose figures may be indexed.
    ``kept``: an index of the run that the caller has opened, and that is to be believed.

    Raises FairlaneError with file and line if an event does not fit the plan, and with the file if a pack of an import
    is missing or changed.
    """
    blocks = {(b.cell.key, b.index): b for b in plan.blocks}
    packed = Packed()
    found: dict[str, Unit] = {}
    opened: list[frozenset[str]] = []
    others: list[Event] = []
    for number, event in enumerate(events, start=1):
        if event["type"] not in OF_FILES:
            others.append(event)
        try:
            if event["type"] == "trial":
                block = blocks[event["cell"], event["block"]]
                block.order.index(event["lane"])
                trial = block.trial_id(event["lane"])
                place = Place(trial, block, event["lane"], int(event.get("record", 0)), str(event.get("load", "")))
                # a trial done again, because its raw file was damaged, has a later line: that one counts
                found[trial] = packed.unit(event, place)
            elif event["type"] == "retry":
                block = blocks[event["cell"], event["block"]]
                if "lane" in event:
                    block.order.index(event["lane"])
                for lane in event["unjudged"]:
                    found.pop(block.trial_id(lane), None)
            elif event["type"] == "look":
                if event["look"] != len(opened) or len(opened) == len(plan.looks):
                    raise ValueError(f"look {event['look']} is out of order")
                opened.append(frozenset(event["open"]))
            else:
                packed.add(event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FairlaneError(
                "journal-damaged",
                f"the journal does not fit the schedule: {error!r}",
                where=f"{folder / NAME}:{number}",
                hint="restore the run directory from a copy; its files belong together",
            ) from None
    packs.verify(folder, packed.packs)
    ended = any(event["type"] == "end" for event in others)
    bound = index.binding(folder) if whole and ended else ""
    observations = many.observations(folder, list(joined(found.values())), bound, kept)
    files = {trial: (unit.archive, unit.sha256) for trial, unit in found.items() if trial in observations}
    return Done(observations, files, tuple(sorted(found.keys() - files.keys())), tuple(opened), ended, tuple(others))


def in_order(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Sorted by cell, block, lane: the order of completion does not matter."""
    return tuple(sorted(observations, key=lambda o: (o.cell, o.block, o.lane)))


def losses(events: Iterable[Event]) -> Counter[Death]:
    """How often a machine died under a trial, before its block was begun anew."""
    again = (event for event in events if event["type"] == "retry" and event.get("lane"))
    return Counter((event["cell"], event["block"], event["lane"]) for event in again)


def with_losses(observations: Iterable[Observation], lost: Mapping[Death, int]) -> tuple[Observation, ...]:
    """``observations`` with ``Observation.lost``."""
    return tuple(replace(o, lost=n) if (n := lost.get((o.cell, o.block, o.lane), 0)) else o for o in observations)


def load_run(folder: Path) -> Evidence:
    """The evidence of a run, finished or not. Writes nothing but the index of a finished run. Raises FairlaneError with
    the place of the damage.

    A trial whose raw file is damaged is left out; the run is then incomplete, and ``events`` names the trial.
    """
    plan = plans.read(folder)
    return assemble(folder, plan, done(folder, plan, stream(folder), whole=True))


def assemble(folder: Path, plan: Plan, state: Done) -> Evidence:
    """The evidence of a run. Raises FairlaneError."""
    due = plan.due(state.opened)
    trials = {b.trial_id(lane) for b in due for lane in b.order}
    begun = next((e for e in state.events if e["type"] in OPENINGS), {})
    platform = registry.load("platforms", plan.study.platform.kind)
    return Evidence(
        name=folder.resolve().name,
        study=plan.study,
        study_text=plan.text,
        seed=plan.study.design.seed,
        blocks=due,
        observations=efficient(
            plan.study,
            in_order(
                with_losses(
                    (observation for trial, observation in state.observations.items() if trial in trials),
                    losses(state.events),
                )
            ),
        ),
        description=_description(folder / "description.json"),
        fingerprint=read_json(folder / "fingerprint.json"),
        events=state.events + tuple({"type": "damaged", "trial": trial} for trial in state.damaged),
        modelled=bool(begun.get("modelled", platform.modelled)),
        emulated=bool(begun.get("emulated", platform.emulated)),
        complete=state.ended and trials <= state.observations.keys(),
        raw={trial: f"{FOLDER}/{name}" for trial, (name, _) in state.files.items() if name != f"{trial}.tar.gz"},
    )


def _description(path: Path) -> Mapping[str, Any]:
    """The lanes as built: an object per lane under ``lanes``, and ``platform``. Raises FairlaneError."""
    description = read_json(path)
    lanes = description.get("lanes", {})
    if not isinstance(lanes, dict) or not all(
        isinstance(part, dict) for part in (*lanes.values(), *description.values())
    ):
        raise FairlaneError("run-damaged", "not a description of lanes and platform", where=str(path))
    return description


def read_json(path: Path) -> Mapping[str, Any]:
    """The object in ``path``; empty if there is no such file. Raises FairlaneError."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}  # the platform was never opened
    except (OSError, ValueError, RecursionError) as error:
        raise FairlaneError("unreadable", f"cannot be read: {error}", where=str(path)) from None
    if not isinstance(value, dict):
        raise FairlaneError("run-damaged", "not a JSON object", where=str(path))
    return value


def write_observations(folder: Path, observations: Iterable[Observation]) -> Path:
    """Writes ``observations.jsonl``: derived from the raw files alone, the same bytes for the same figures."""
    path = folder / "observations.jsonl"
    lines = [json.dumps(_plain(o), sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n" for o in observations]
    with storing(path):
        write_atomic(path, "".join(lines).encode())
    return path


def _plain(observation: Observation) -> dict[str, Any]:
    """Plain JSON data, histogram bins by latency: as text they would sort differently."""
    bins = {name: [[ns, bins[ns]] for ns in sorted(bins)] for name, bins in observation.histograms.items()}
    return {
        "cell": observation.cell,
        "block": observation.block,
        "lane": observation.lane,
        "position": observation.position,
        "failed": observation.failed,
        "metrics": dict(observation.metrics),
        "histograms": bins,
        "context": dict(observation.context),
        "steps": dict(observation.steps),
    }
