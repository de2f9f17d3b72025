"""The mapping file: which lane of one run is compared with which lane of another; and the default mapping by name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, create_model, model_validator

from fairlane.errors import FairlaneError
from fairlane.guard.parameters import Accepted, ParameterName
from fairlane.study.explain import Form
from fairlane.study.load import parse
from fairlane.study.schema import schema_of
from fairlane.study.spec import Name
from fairlane.study.strict import Strict

Lanes = Mapping[str, Sequence[str]]
"""Alias of a run -> its lanes."""

ALIAS = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
RESERVED = ("title", "rationale")
"""Keys of a pair, so not allowed as aliases."""


@dataclass(frozen=True)
class Pair:
    """Lanes compared with each other: one category of the comparison."""

    name: str
    title: str
    lanes: Mapping[str, str]
    """Alias of a run -> lane of that run; the baseline's is always there."""
    rationale: str = ""


@dataclass(frozen=True)
class LaneMap:
    """Pairs of lanes, baseline, and the parameters that may differ."""

    baseline: str
    """Alias of the baseline run."""
    pairs: tuple[Pair, ...]
    question: str = ""
    vary: tuple[str, ...] = ()
    """Controlled parameters in which the runs differ on purpose."""
    accept: Mapping[str, str] = field(default_factory=dict)
    """Accepted mismatches: parameter -> reason."""
    text: str = ""
    """The file as written; empty if pairs are made by name."""


class _File(Strict):
    """The keys of every mapping file; ``_form`` adds the keys that depend on the runs."""

    question: str = ""
    """The question in the reader's words; the report opens with it."""
    vary: tuple[ParameterName, ...] = ()
    """Parameters in which the runs are meant to differ: they are reported and not required to match."""
    accept: Accepted = Field(default_factory=dict)
    """Parameters that do not match, or are not known, and are accepted: name and reason. The report prints both."""


class _Pair(Strict):
    """One category: a lane of each run."""

    title: str = ""
    """Its name in reports; the key if empty."""
    rationale: str = ""
    """Why these lanes are each other's counterpart."""

    @model_validator(mode="after")
    def _two(self) -> Self:
        named = [alias for alias in self.model_dump(by_alias=True, exclude_none=True) if alias not in RESERVED]
        if len(named) < 2:
            raise ValueError("expected lanes of at least two runs")
        return self


def parse_mapping(text: str, where: str, lanes: Lanes, baseline: str | None = None) -> LaneMap:
    """Parse the mapping file ``text`` for the runs ``lanes``. ``baseline`` overrides the file's; the default is the
    first run.

    Raises one FairlaneError with ``where``, the lines and all problems, such as unknown runs, lanes and keys.
    """
    model = _model(lanes)
    read: Any = parse(text, where, model, Form(lambda: schema_of(model, "Fairlane mapping")))
    baseline = baseline or read.baseline or next(iter(lanes))
    pairs = []
    for name, entry in read.pairs.items():
        given = entry.model_dump(by_alias=True, exclude_none=True)
        pair = Pair(name, given["title"] or name, {a: given[a] for a in lanes if a in given}, given["rationale"])
        if baseline not in pair.lanes:
            raise FairlaneError(
                "lane-unknown",
                f"pairs.{name}: no lane of the baseline run {baseline}",
                where=where,
                hint=f"add a lane of {baseline}, or name another run under baseline:",
            )
        pairs.append(pair)
    return LaneMap(baseline, tuple(pairs), read.question, read.vary, read.accept, text)


def _model(lanes: Lanes) -> type[BaseModel]:
    """A pydantic model for these runs: aliases are keys, lanes their values, so that errors can list both."""
    fields: dict[str, Any] = {
        f"run_{n}": (Literal[tuple(sorted(names))] | None, Field(None, alias=alias, description=f"Lane of {alias}."))
        for n, (alias, names) in enumerate(lanes.items())
    }
    pair = create_model("Pair", __base__=_Pair, **fields)
    own: dict[str, Any] = {
        "baseline": (
            Literal[tuple(sorted(lanes))] | None,  # typing caches Literal regardless of order: the first order it got
            Field(None, description="The run that the others are compared with."),
        ),
        "pairs": (dict[Name, pair], Field(min_length=1, description="Categories: pairs of matching lanes.")),  # type: ignore[valid-type]
    }
    return create_model("Mapping", __base__=_File, **own)


def by_name(lanes: Lanes, baseline: str, titles: Mapping[str, str]) -> LaneMap:
    """Lanes of equal name are pairs, in the order of the baseline run; ``titles``: lane -> label.

    Raises FairlaneError with all lanes if no name is in the baseline run and another.
    """
    pairs = []
    for lane in lanes[baseline]:
        namesakes = {alias: lane for alias in lanes if lane in lanes[alias]}
        if len(namesakes) > 1:
            pairs.append(Pair(lane, titles.get(lane, lane), namesakes))
    if not pairs:
        listed = "; ".join(f"{alias} has {', '.join(names)}" for alias, names in lanes.items())
        raise FairlaneError(
            "lanes-unpaired",
            f"no lane of {baseline} has the same name in another run: {listed}",
            hint="pair the lanes in a file: add --print-map > mapping.yaml to this command, edit the file, use --map "
            "mapping.yaml",
        )
    return LaneMap(baseline, tuple(pairs))


def starter(lanes: Lanes, baseline: str) -> str:
    """A commented mapping file to start from: pairs lanes of equal name, or else lanes in their order."""
    others = [alias for alias in lanes if alias != baseline]
    rows = [
        "# Which lane of one run is compared with which lane of another.",
        f"baseline: {baseline}",
        '# question: "Which platform should these machines use?"',
        "# vary: [copies]                      # intended differences between the runs, besides the path",
        '# accept: {ramp: "why it does not matter"}',
        "pairs:",
    ]
    free = {alias: [lane for lane in lanes[alias] if lane not in lanes[baseline]] for alias in others}
    for lane in lanes[baseline]:
        rows += [f"  {lane}:", f'    title: "{lane}"', f'    {baseline}: "{lane}"']
        for alias in others:
            partner = lane if lane in lanes[alias] else free[alias].pop(0) if free[alias] else ""
            rows.append(f'    {alias}: "{partner}"' if partner else f"    # {alias}: (no lane left)")
        rows.append('    rationale: ""')
    for alias, names in free.items():
        rows += [f"# not paired: {', '.join(names)} of {alias}"] if names else []
    return "\n".join(rows) + "\n"
