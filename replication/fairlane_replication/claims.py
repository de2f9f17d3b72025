"""The claims of published studies as data: statement, source, size, and the test that decides. See claims.yaml."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from fairlane import registry
from fairlane.errors import FairlaneError, nearest
from fairlane.gate.cells import chosen, known_lane
from fairlane.gate.decide import sensible
from fairlane.gate.grammar import parse as parse_rule
from fairlane.gate.rules import Compared, Directed, Relative
from fairlane.metrics import METRICS
from fairlane.report import phrases
from fairlane.report.capabilities import TITLES
from fairlane.study import quick as quick_form
from fairlane.study import yaml_tree
from fairlane.study.explain import Form
from fairlane.study.load import parse, parse_study
from fairlane.study.schema import schema_of
from fairlane.study.spec import Study
from fairlane.study.strict import Strict


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


class Ruled(Strict):
    """A claim about one lane against another, as a rule of the gate: docs/gate.md."""

    rule: str
    """``nvme-tcp faster than iscsi in iops on matrix/4k randread``. It names its metric."""

    @field_validator("rule")
    @classmethod
    def _about_two_lanes(cls, text: str) -> str:
        try:
            rule = parse_rule(text)
        except FairlaneError as error:
            raise ValueError(f"{error.message}; {error.hint}") from None
        if not isinstance(rule, Compared):
            raise ValueError("expected a rule about two lanes: LANE faster than BASELINE")
        if not rule.metric:
            raise ValueError("the rule must name its metric: LANE faster than BASELINE in iops")
        if isinstance(rule, Relative) and rule.block is not None:
            raise ValueError("the rule must be about lanes, not single blocks")
        return str(rule)

    @property
    def compared(self) -> Compared:
        """The rule, parsed."""
        rule = parse_rule(self.rule)
        assert isinstance(rule, Compared)  # noqa: S101 - the validator looked
        return rule


class Decided(Ruled):
    """Decided as the gate decides the rule: in every cell that it names."""

    limit: str = ""
    """Why the test does not match the claim: its result is shown but decides nothing."""
    constructed: str = ""
    """Settings of the lab that force the claimed outcome, which then confirms nothing; its size is the lab's."""
    note: str = ""
    """Difference between the test and the published study that leaves the direction valid."""


class AsksLab(Decided):
    """Decided by a lab study."""

    by: Literal["lab"]
    study: str
    """Name of a file in ``studies/``, without its ending."""


class AsksTable(Decided):
    """Decided by `fairlane compare` on the study's own published tables."""

    by: Literal["table"]


Tables = Literal["first", "explained", "corrected"]
"""Study 003's tables: of its page; the same with what its author explained later; of its author's correction."""


class AsksFigures(Ruled):
    """Contradicted by single figures of the study's own tables, which cannot confirm it: they have no intervals."""

    by: Literal["figures"]
    tables: Tables = "first"
    because: str = Field(min_length=20)
    """Why the figures speak against the claim, if they do."""

    @field_validator("rule")
    @classmethod
    def _one_way(cls, text: str) -> str:
        rule = parse_rule(text)
        if not isinstance(rule, Directed) or rule.negated:
            raise ValueError("single figures have no margin: expected LANE faster than BASELINE, or slower")
        return text

    @property
    def directed(self) -> Directed:
        """The rule, parsed."""
        rule = self.compared
        assert isinstance(rule, Directed)  # noqa: S101 - the validator looked
        return rule


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
    """Place of its figures on the page: section, figure, table and row, takeaway."""
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
    """Later publications of its author about it: where, and when."""


class _File(Strict):
    sources: dict[str, Source]
    claims: tuple[Claim, ...]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        ids = [c.id for c in self.claims]
        if twice := sorted({i for i in ids if ids.count(i) > 1}):
            raise ValueError(f"two claims have the id {twice[0]}")
        if strange := sorted({c.study for c in self.claims} - self.sources.keys()):
            raise ValueError(f"claims of unknown source {strange[0]} (sources: {', '.join(self.sources)})")
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


FORM = Form(partial(schema_of, _File, "claims"), {"claims": 3})


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
    if isinstance(asks, Ruled) and claim.size and _contradicts(asks.compared, claim.size):
        yield f"size: contradicts the rule {asks.rule}", "ratios are LANE / BASELINE of the rule's metric"
    if not isinstance(asks, AsksLab | AsksAbility):
        return
    if asks.study not in labs:
        yield f"no lab study {asks.study!r}", f"studies: {', '.join(labs)}"
        return
    study = labs[asks.study].whole
    if isinstance(asks, AsksLab):
        yield from _mistakes(asks.compared, study, claim.size)
        return
    for lane in (asks.lane, asks.fewer_than or asks.lane):
        if lane not in study.lanes:
            yield f"{lane!r} is not a lane of {asks.study}", f"lanes: {', '.join(study.lanes)}"
    if not getattr(study.platform, "capabilities", False) or getattr(study.platform, "clock", "") != "wall":
        yield f"{asks.study} does not test capabilities", "set clock: wall and capabilities: true in its platform"


def _mistakes(rule: Compared, study: Study, size: Size | None) -> Iterator[tuple[str, str]]:
    try:
        for lane in (rule.lane, rule.baseline):
            known_lane(study, lane)
        chosen(study, rule.cells)
        if isinstance(rule, Relative):
            sensible(rule, rule.metric)
    except FairlaneError as error:
        yield f"{error.message}, in {study.name}", error.hint
    margin = study.design.margins.get(rule.metric, METRICS[rule.metric].margin)
    if size and isinstance(rule, Directed) and not rule.negated and _nearest(size) <= math.log1p(margin) + 1e-9:
        yield (
            f"size: within the margin of {phrases.share(margin)}, where the test contradicts {rule.way!r}",
            "write LANE > 0 % over BASELINE (or under, where less is better)",
        )


def _contradicts(rule: Compared, size: Size) -> bool:
    """Whether the published size lies wholly on the other side of 1 than the rule asks for."""
    match rule:
        case Directed(negated=False):
            up = rule.upwards(METRICS[rule.metric].better)
        case Relative():
            up = rule.least
            if rule.factor(rule.percent) < 1 if up else rule.factor(rule.percent) > 1:
                return False  # a bound on a loss, which leaves both sides
        case _:
            return False
    return (size.most is not None and size.most < 1) if up else (size.least is not None and size.least > 1)


def _nearest(size: Size) -> float:
    """The published size nearest to no difference, as a distance on the log scale."""
    ends = [math.log(end) for end in (size.least, size.most) if end is not None]
    if len(ends) == 2 and ends[0] <= 0 <= ends[1]:
        return 0.0
    return min(abs(end) for end in ends)
