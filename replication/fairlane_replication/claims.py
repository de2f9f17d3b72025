"""The claims of published studies as data: statement, source, size, and the test that decides. See claims.yaml."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from fairlane import registry
from fairlane.errors import FairlaneError, nearest
from fairlane.metrics import METRICS
from fairlane.records import Cell
from fairlane.report import phrases
from fairlane.report.capabilities import TITLES
from fairlane.study import quick as quick_form
from fairlane.study import yaml_tree
from fairlane.study.base import MetricName
from fairlane.study.explain import Form
from fairlane.study.load import parse, parse_study
from fairlane.study.spec import Study
from fairlane.study.strict import Strict

Expects = Literal["faster", "slower", "same", "not-faster", "not-slower"]
"""Claimed outcome of the lane against the baseline, in verdict words: ``faster`` means fewer ns for a latency."""

Share = Literal["every", "most", "any"]
"""Share of the cells in which a claim must hold; one contradicting cell refutes a claim on ``every`` cell."""


class Size(Strict):
    """A published size as the ratio lane / baseline of the metric: 1.27 is 27 % more."""

    least: float | None = Field(None, gt=0)
    """Smallest claimed ratio."""
    most: float | None = Field(None, gt=0)
    """Largest claimed ratio."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.least is None and self.most is None:
            raise ValueError("expected least, most or both")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError("least is more than most")
        return self


class Sides(Strict):
    """A claim about one side against another, in some cells and one metric."""

    lane: str
    """The lane that the claim is about."""
    against: str
    """The other side: the study's baseline."""
    workloads: tuple[str, ...] = ("*",)
    """Patterns of the workloads' names."""
    cells: tuple[str, ...] = ("*",)
    """Patterns of the cells' names."""
    metric: MetricName
    expects: Expects

    def chosen(self, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
        """The claim's cells among ``cells``."""
        return tuple(
            c
            for c in cells
            if any(fnmatchcase(c.workload, p) for p in self.workloads)
            and any(fnmatchcase(c.name, p) for p in self.cells)
        )


class Compared(Sides):
    """Decided by verdicts."""

    of: Share = "every"
    limit: str = ""
    """Why the test does not match the claim: its result is shown but decides nothing."""
    constructed: str = ""
    """What in the lab forces the claimed outcome: if it comes, it is no confirmation, and its size is the lab's."""
    note: str = ""
    """Difference between the test and the published study that leaves the direction valid."""


class AsksLab(Compared):
    """Decided by a lab study's verdicts."""

    by: Literal["lab"]
    study: str
    """Name of a file in ``studies/``, without its ending."""


class AsksTable(Compared):
    """Decided by verdicts of `fairlane compare` on the study's own published tables."""

    by: Literal["table"]


Tables = Literal["first", "explained", "corrected"]
"""Study 003's tables: of its page; the same with what its author explained later; of its author's correction."""


class AsksFigures(Sides):
    """Contradicted by bare figures of the study's own tables. They confirm nothing: they are single results."""

    by: Literal["figures"]
    tables: Tables = "first"
    because: str = Field(min_length=20)
    """Why the figures speak against the claim, if they do."""

    @field_validator("expects")
    @classmethod
    def _one_way(cls, expects: Expects) -> Expects:
        if expects not in ("faster", "slower"):
            raise ValueError("bare figures have no margin: expected faster or slower")
        return expects


class AsksAbility(Strict):
    """Decided by a capability probed on a lane's volume: docs/capabilities.md."""

    by: Literal["ability"]
    study: str
    lane: str
    key: str
    """Row of the table of capabilities."""
    agrees: tuple[str, ...] = ()
    """Patterns of values that confirm the claim."""
    disagrees: tuple[str, ...] = ()
    """Patterns of values that contradict it."""
    fewer_than: str = ""
    """Claims that the lane has fewer than this one: both values are numbers, or ``at least`` one."""

    @model_validator(mode="after")
    def _known_key(self) -> Self:
        if self.key not in TITLES:
            near = nearest(self.key, TITLES)
            raise ValueError(f"key: no capability {self.key!r}" + (f"; did you mean {near}?" if near else ""))
        if bool(self.fewer_than) == bool(self.agrees or self.disagrees):
            raise ValueError("expected agrees and disagrees, or fewer_than")
        return self


class AsksFinding(Strict):
    """Decided by the checks on the study's published tables: a finding contradicts the claim."""

    by: Literal["finding"]
    checks: tuple[str, ...] = Field(min_length=1)
    """Names of the checks; one that has no critical finding leaves the claim open."""
    tables: Tables = "first"
    least: int = Field(default=1, ge=1)
    """Least number of cells in the findings of each check."""

    @field_validator("checks")
    @classmethod
    def _known_checks(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in (known := registry.names("checks")):
                near = nearest(name, known)
                raise ValueError(f"no check {name!r}" + (f"; did you mean {near}?" if near else ""))
        return names


class AsksComparable(Strict):
    """Decided by the guard: whether the two sides of the published tables are comparable at all."""

    by: Literal["comparable"]


class AsksNothing(Strict):
    """This lab cannot test the claim."""

    by: Literal["nothing"]
    because: str = Field(min_length=20)
    """The reason, as a sentence that a reader can check."""


Asks = Annotated[
    AsksLab | AsksTable | AsksFigures | AsksAbility | AsksFinding | AsksComparable | AsksNothing,
    Field(discriminator="by"),
]


class Claim(Strict):
    """One claim of a published study, in our words."""

    id: str = Field(pattern=r"^[0-9]{3}-[a-z0-9-]{2,40}$")
    where: str
    """Where its figures stand on the page: section, figure, table and row, takeaway."""
    says: str = Field(max_length=240)
    """The claim, in our words."""
    conditions: str
    """Conditions of the published measurement."""
    size: Size | None = None
    published: str = ""
    """The published size in words, if no ratio expresses it, or none does it well."""
    asks: Asks

    @property
    def study(self) -> str:
        return self.id[:3]


def size_text(claim: Claim) -> str:
    """The published size in words: ``+27.0 % to +30.0 %``, ``at least +300.0 %``; or the claim's own words."""
    size = claim.size
    if size is None or claim.published:
        return claim.published
    least, most = (None if end is None else _percent(end) for end in (size.least, size.most))
    if least and most:
        return least if least == most else f"{least} to {most}"
    return f"at least {least}" if least else f"at most {most}"


def _percent(ratio: float) -> str:
    """A percentage with no more decimals than published."""
    text = phrases.change(ratio, 2)
    return re.sub(r"\.?0+(?= %)", "", text) if "." in text else text


class Source(Strict):
    """A published study."""

    file: str
    title: str
    later: str = ""
    """What its author published of it later: where, and when."""


class _File(Strict):
    sources: dict[str, Source]
    claims: tuple[Claim, ...]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        ids = [c.id for c in self.claims]
        if twice := sorted({i for i in ids if ids.count(i) > 1}):
            raise ValueError(f"two claims are called {twice[0]}")
        if strange := sorted({c.study for c in self.claims} - self.sources.keys()):
            raise ValueError(f"claims of {strange[0]}, which is no source (sources: {', '.join(self.sources)})")
        return self


@dataclass(frozen=True)
class Lab:
    """A lab study of this package, in its two forms."""

    name: str
    text: str
    whole: Study
    quick: Study | None
    """The quick form; None: too long for a first try."""

    def form(self, *, quick: bool) -> Study | None:
        """The study in one form; None: not run."""
        return self.quick if quick else self.whole


@dataclass(frozen=True)
class Catalogue:
    """All claims, their sources, and the lab studies that test them."""

    sources: Mapping[str, Source]
    claims: tuple[Claim, ...]
    labs: Mapping[str, Lab]

    def of(self, studies: tuple[str, ...]) -> "Catalogue":
        """The part about ``studies`` (none: all). Raises FairlaneError for an unknown study."""
        for study in studies:
            if study not in self.sources:
                raise FairlaneError("study-unknown", f"no study {study!r}", hint=f"studies: {', '.join(self.sources)}")
        claims = tuple(c for c in self.claims if not studies or c.study in studies)
        needed = {c.asks.study for c in claims if isinstance(c.asks, AsksLab | AsksAbility)}
        sources = {name: source for name, source in self.sources.items() if not studies or name in studies}
        return Catalogue(sources, claims, {name: lab for name, lab in self.labs.items() if name in needed})


FORM = Form(_File.model_json_schema, {"claims": 3})


@cache
def catalogue() -> Catalogue:
    """The claims in this package."""
    folder = resources.files("fairlane_replication")
    texts = {
        f.name.removesuffix(".yaml"): f.read_text("utf-8")
        for f in sorted((folder / "studies").iterdir(), key=lambda f: f.name)
        if f.name.endswith(".yaml")
    }
    return read((folder / "claims.yaml").read_text("utf-8"), "claims.yaml", texts)


def read(text: str, where: str, studies: Mapping[str, str]) -> Catalogue:
    """Parse the catalogue in ``text``, with lab ``studies`` (name -> YAML text).

    Raises FairlaneError, with the line if a single claim is invalid, with the claim's id if its lab study lacks what
    the test needs.
    """
    file = parse(text, where, _File, FORM)
    labs = {name: _lab(name, body) for name, body in studies.items()}
    for claim in file.claims:
        if wrong := next(_wrong(claim, labs), None):
            raise FairlaneError("claims-invalid", wrong[0], where=f"{where}: {claim.id}", hint=wrong[1])
    return Catalogue(file.sources, file.claims, labs)


def _lab(name: str, text: str) -> Lab:
    where = f"studies/{name}.yaml"
    short = quick_form.KEY in (yaml_tree.read(text).data or {})
    return Lab(name, text, parse_study(text, where), parse_study(text, where, quick=True) if short else None)


def _wrong(claim: Claim, labs: Mapping[str, Lab]) -> Iterator[tuple[str, str]]:
    """Parts of the claim's test that its lab study lacks, or that make no sense: (problem, hint)."""
    asks = claim.asks
    if isinstance(asks, Sides) and claim.size and _contradicts(asks, claim.size):
        yield (
            f"size: of {asks.metric} it contradicts expects: {asks.expects}",
            "ratios are lane / baseline of the metric",
        )
    if not isinstance(asks, AsksLab | AsksAbility):
        return
    if asks.study not in labs:
        yield f"no lab study {asks.study!r}", f"studies: {', '.join(labs)}"
        return
    study = labs[asks.study].whole
    other = asks.against if isinstance(asks, AsksLab) else asks.fewer_than or asks.lane
    for lane in (asks.lane, other):
        if lane not in study.lanes:
            yield f"{lane!r} is no lane of {asks.study}", f"lanes: {', '.join(study.lanes)}"
    if isinstance(asks, AsksLab):
        yield from _mistakes(asks, study)
    elif not getattr(study.platform, "capabilities", False) or getattr(study.platform, "clock", "") != "wall":
        yield f"{asks.study} tries no capabilities", "they are tried under clock: wall with capabilities: true"


def _mistakes(asks: AsksLab, study: Study) -> Iterator[tuple[str, str]]:
    if asks.against != study.baseline:
        yield f"{asks.against!r} is not the baseline of {asks.study}", f"its baseline is {study.baseline}"
    cells = study.cells()
    for kind, patterns, names in (
        ("workload", asks.workloads, {c.workload for c in cells}),
        ("cell", asks.cells, {c.name for c in cells}),
    ):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                yield f"no {kind} of {asks.study} is called {pattern!r}", f"it has: {', '.join(sorted(names)[:12])}"
    if not asks.chosen(cells):
        yield f"{asks.study} has no cell that is in these workloads and of these names", ""


def _contradicts(asks: Sides, size: Size) -> bool:
    """Whether the published size lies wholly on the other side of 1 than the expected outcome."""
    if asks.expects not in ("faster", "slower"):
        return False
    up = (asks.expects == "faster") == (METRICS[asks.metric].better > 0)
    return (size.most is not None and size.most < 1) if up else (size.least is not None and size.least > 1)
