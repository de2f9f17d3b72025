"""Read a run directory: turn journal and raw files into the evidence for checks, verdicts and reports."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.records import Block, Evidence, Observation
from fairlane.runs import many
from fairlane.runs import plan as plans
from fairlane.runs.files import storing, write_atomic
from fairlane.runs.journal import NAME, Event, read
from fairlane.runs.plan import Plan
from fairlane.stats.efficiency import efficient

OPENINGS = ("start", "resume", "provision")
"""Events of an opened platform: the run begins, another process continues it, the next provisioning begins."""
DESCRIPTIONS = "descriptions"
"""Folder of the descriptions of further openings, by number; that of the first is ``description.json``."""


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


def done(folder: Path, plan: Plan, events: Sequence[Event]) -> Done:
    """Evaluates the journal's events. Raises FairlaneError with file and line if an event does not fit the plan."""
    blocks = {(b.cell.key, b.index): b for b in plan.blocks}
    files: dict[str, tuple[str, str]] = {}
    trials: dict[str, tuple[Block, str]] = {}
    opened: list[frozenset[str]] = []
    for number, event in enumerate(events, start=1):
        try:
            if event["type"] == "trial":
                block = blocks[event["cell"], event["block"]]
                block.order.index(event["lane"])
                trial = block.trial_id(event["lane"])
                trials[trial] = (block, event["lane"])
                # a trial done again, because its raw file was damaged, has a later line: that one counts
                files[trial] = (str(event["raw"]), str(event["sha256"]))
            elif event["type"] == "look":
                if event["look"] != len(opened) or len(opened) == len(plan.looks):
                    raise ValueError(f"look {event['look']} is out of order")
                opened.append(frozenset(event["open"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FairlaneError(
                "journal-damaged",
                f"the journal does not fit the schedule: {error!r}",
                where=f"{folder / NAME}:{number}",
                hint="restore the run directory from a copy; its files belong together",
            ) from None
    observations = many.observations(folder, trials, files)
    whole = {trial: file for trial, file in files.items() if trial in observations}
    ended = any(event["type"] == "end" for event in events)
    return Done(observations, whole, tuple(sorted(files.keys() - whole.keys())), tuple(opened), ended)


def in_order(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Sorted by cell, block, lane: the order of completion does not matter."""
    return tuple(sorted(observations, key=lambda o: (o.cell, o.block, o.lane)))


def load_run(folder: Path) -> Evidence:
    """The evidence of a run, finished or not. Changes no file. Raises FairlaneError with the place of the damage.

    A trial whose raw file is damaged is left out; the run is then incomplete, and ``events`` names the trial.
    """
    plan = plans.read(folder)
    events = read(folder)
    state = done(folder, plan, events)
    return assemble(folder, plan, state, [e for e in events if e["type"] != "trial"])


def assemble(folder: Path, plan: Plan, state: Done, other_events: Sequence[Event]) -> Evidence:
    """The evidence of a run. ``state``: the finished trials and looks; ``other_events``: the journal's other events.
    Raises FairlaneError."""
    due = plan.due(state.opened)
    trials = {b.trial_id(lane) for b in due for lane in b.order}
    begun = next((e for e in other_events if e["type"] in OPENINGS), {})
    platform = registry.load("platforms", plan.study.platform.kind)
    return Evidence(
        name=folder.resolve().name,
        study=plan.study,
        study_text=plan.text,
        seed=plan.study.design.seed,
        blocks=due,
        observations=efficient(
            plan.study, in_order(observation for trial, observation in state.observations.items() if trial in trials)
        ),
        description=_description(folder / "description.json"),
        fingerprint=read_json(folder / "fingerprint.json"),
        events=tuple(other_events) + tuple({"type": "damaged", "trial": trial} for trial in state.damaged),
        modelled=bool(begun.get("modelled", platform.modelled)),
        emulated=bool(begun.get("emulated", platform.emulated)),
        complete=state.ended and trials <= state.observations.keys(),
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
