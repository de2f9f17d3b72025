"""Decide rules from intervals: a rule is met only if the interval proves it. Pure.

A rule has an outcome in each of its cells. All rules must be met, so that no adjustment for their number is needed: the
chance to pass although one is not met is at most the error of that one (intersection-union test: Berger, Technometrics
24, 1982, 295-300). Each is decided one-sided at the study's alpha over all looks: by the ends of the interval at twice
alpha, the same as the tie test's, whatever the rule's form. That a rule fails is a statement about any of its cells: of
two lanes it takes the interval that holds for all comparisons of the study together, the same as the verdict's.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fairlane.errors import FairlaneError
from fairlane.gate.absolute import Level, level_of
from fairlane.gate.cells import chosen, known_lane, shown
from fairlane.gate.intervals import Ends, Proof, against, by_intervals, flattered
from fairlane.gate.rules import Absolute, Clean, Compared, Relative, Rule
from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence, Finding, Severity, Verdict
from fairlane.report import phrases
from fairlane.stats.judge import claimed, doubts, factors, unseen, verdicts
from fairlane.stats.lopsided import burdens
from fairlane.stats.pairs import pair, shelve, upto

if TYPE_CHECKING:
    from fairlane.study.spec import Study

Word = Proof | Literal["refused"]
Check = Callable[[Evidence], Sequence[Finding]]

_GRAVER: dict[Severity, tuple[Severity, ...]] = {
    "critical": ("critical",),
    "warning": ("critical", "warning"),
    "info": ("critical", "warning", "info"),
}


@dataclass(frozen=True)
class Outcome:
    """One rule in one cell."""

    rule: Rule
    cell: str
    """``Cell.name``, with its workload if the study has several; empty: the rule covers the whole run."""
    word: Word
    observed: str
    """The run's figure and interval, in words."""
    reason: str = ""
    """Why the rule is not met."""
    key: str = ""
    """``Cell.key``; empty: the rule covers the whole run."""
    verdict: Verdict | None = None
    """Of a lane against another: the verdict whose intervals decide."""


def decide(rules: Sequence[Rule], evidence: Evidence, check: Check) -> tuple[Outcome, ...]:
    """The outcomes, rule by rule, cells in study order. ``check`` returns the findings of an evidence.

    Raises FairlaneError for a rule whose lanes, cells or direction make no sense for this study.
    """
    gate = Gate(evidence, check)
    return tuple(outcome for rule in rules for outcome in gate.decide(rule))


def undecided(rules: Sequence[Rule], evidence: Evidence, check: Check) -> tuple[frozenset[str], frozenset[str]]:
    """Keys of the cells that ``rules`` name, and of those in which one is not proven yet: more blocks may decide it."""
    outcomes = [outcome for outcome in decide(rules, evidence, check) if outcome.key]
    return frozenset(o.key for o in outcomes), frozenset(o.key for o in outcomes if o.word == "not proven")


def cells_of(rule: Rule, study: "Study") -> tuple[Cell, ...]:
    """The cells of a rule, in study order. Raises FairlaneError where its lanes, cells or direction make no sense for
    the study: also before a run."""
    try:
        cells = chosen(study, rule.cells)
        if not isinstance(rule, Clean):
            known_lane(study, rule.lane)
        if isinstance(rule, Compared):
            known_lane(study, rule.baseline)
        if isinstance(rule, Relative):
            for cell in cells:
                sensible(rule, _metric(rule, study, cell))
    except FairlaneError as error:
        raise FairlaneError(error.kind, f"{error.message}, in the rule: {rule}", hint=error.hint) from None
    return cells


def metrics_of(rules: Sequence[Rule], study: "Study") -> list[str]:
    """The metrics in which the rules compare two lanes."""
    return [_metric(r, study, cell) for r in rules if isinstance(r, Compared) for cell in cells_of(r, study)]


def _metric(rule: Compared, study: "Study", cell: Cell) -> str:
    """The metric in which two lanes are compared in a cell."""
    primary: str = study.workloads[cell.workload].primary
    return rule.metric or primary


class _Side:
    """The evidence with one lane as baseline, and the findings and verdicts that follow."""

    def __init__(self, evidence: Evidence, check: Check) -> None:
        self.evidence = evidence
        self.findings = check(evidence)
        self.claims = claimed(evidence, self.findings)
        self.verdicts = {(v.key, v.lane, v.metric): v for v in verdicts(self.claims, self.findings)}
        self.contests = {(c.cell.key, c.lane, c.metric): c for c in self.claims.contests}


class Gate:
    """Decides rules on one evidence, whose verdicts it makes once for every baseline that a rule names."""

    def __init__(self, evidence: Evidence, check: Check) -> None:
        self.check = check
        self.study = evidence.study
        self.own = _Side(evidence, check)
        self.sides: dict[str, _Side] = {}
        self.shelves = shelve(evidence.observations)

    def side(self, lane: str, baseline: str) -> _Side:
        """The same blocks with ``baseline`` as the study's; a copy or a reference that a rule names counts as any other
        lane."""
        if baseline == self.study.baseline and lane in self.study.rivals:
            return self.own
        if baseline not in self.sides:
            lanes = {
                n: spec.model_copy(update={"copy_of": "", "role": "contender"}) for n, spec in self.study.lanes.items()
            }
            study = self.study.model_copy(update={"baseline": baseline, "lanes": lanes})
            self.sides[baseline] = _Side(dataclasses.replace(self.own.evidence, study=study), self.check)
        return self.sides[baseline]

    def decide(self, rule: Rule) -> tuple[Outcome, ...]:
        """The rule's outcomes, cells in study order. Raises FairlaneError as the function ``decide`` does."""
        cells = cells_of(rule, self.study)
        if isinstance(rule, Clean):
            return (self._clean(rule, cells),)
        if isinstance(rule, Absolute):
            return tuple(self._absolute(rule, cell) for cell in cells)
        return tuple(self._compared(rule, cell) for cell in cells)

    def _outcome(self, rule: Rule, cell: Cell, word: Word, observed: str, reason: str = "") -> Outcome:
        return Outcome(rule, shown(self.study, cell), word, observed, "" if word == "met" else reason, cell.key)

    def _clean(self, rule: Clean, cells: Sequence[Cell]) -> Outcome:
        keys = {cell.key for cell in cells}
        findings = [
            f
            for f in self.own.findings
            if f.severity in _GRAVER[rule.severity] and (not f.cells or keys.intersection(f.cells))
        ]
        if not findings:
            return Outcome(rule, rule.cells, "met", "none")
        more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
        return Outcome(
            rule, rule.cells, "not met", phrases.count(len(findings), "finding"), f"{findings[0].message}{more}"
        )

    # --- a lane against another

    def _compared(self, rule: Compared, cell: Cell) -> Outcome:
        metric = _metric(rule, self.study, cell)
        side = self.side(rule.lane, rule.baseline)
        v = side.verdicts.get((cell.key, rule.lane, metric))
        if v is None:
            why = ": too few I/Os lie beyond it; lengthen runtime" if METRICS[metric].percentile else ""
            return self._outcome(rule, cell, "refused", "no verdict", f"no trial has {METRICS[metric].title}{why}")
        word, observed, reason = self._judged(rule, cell, side, v)
        return dataclasses.replace(self._outcome(rule, cell, word, observed, reason), verdict=v)

    def _judged(self, rule: Compared, cell: Cell, side: _Side, v: Verdict) -> tuple[Word, str, str]:
        """The outcome, the figure and the reason."""
        observed = _ratio_text(v)
        if v.verdict == "refused":
            return "refused", observed, v.notes[0] if v.notes else "see the findings"
        grave = (
            *side.findings,
            *(f for f in self.own.findings if not f.refuses),
        )  # which lane is refused depends on the side
        if stain := _stain(grave, cell, (rule.lane, rule.baseline)):
            return "refused", observed, stain
        if v.tie_low is None or v.tie_high is None:
            return "not proven", observed, "; ".join(v.notes) or "there is no interval"
        proof, reason = by_intervals(rule, v)
        if proof != "not proven" and (why := self._burden(rule, cell, v, proof) or self._doubt(rule, side, v, proof)):
            return "not proven", observed, why
        word: Word = proof
        if isinstance(rule, Relative) and rule.block is not None and word != "not met":
            word, reason, worst = self._blocks(rule, cell, v, word, reason)
            observed = f"{observed}; {worst}" if worst else observed
        if word == "met" and not self.own.evidence.modelled:
            observed += _unnoticed(v.blocks)
        if word == "not proven" and v.more_blocks:
            reason += f"; {phrases.further([v])} may"
        return word, observed, reason

    def _burden(self, rule: Compared, cell: Cell, v: Verdict, word: Proof) -> str:
        """Why failures or stalls of one lane take the outcome away, as they take a verdict's word; empty: they do not.

        That a lane is as good as something suffers from its own failures and stalls alone. A difference that is proven
        has them in its interval.
        """
        shelf, (sides, difference) = self.shelves.get(cell.key, {}), flattered(rule, v, word)
        if difference or self.own.evidence.modelled:  # the virtual clock has no failures and stalls by chance
            return ""
        if self.study.design.paired:
            shelf = upto(shelf, v.blocks + v.voided)  # later blocks wait for the next look
        return next((note for side, note in burdens(shelf, rule.lane, rule.baseline, v.metric) if side in sides), "")

    def _doubt(self, rule: Compared, side: _Side, v: Verdict, proof: Proof) -> str:
        """Why the intervals that give this outcome may be wrong, so that it could be another; empty: it holds all the
        same."""
        for doubt in doubts(side.claims, side.contests[v.key, v.lane, v.metric]):
            (low, high), (tie_low, tie_high) = map(factors, (doubt.joint, doubt.tie))
            other = dataclasses.replace(v, joint_low=low, joint_high=high, tie_low=tie_low, tie_high=tie_high)
            if by_intervals(rule, other)[0] != proof:
                return doubt.because
        return ""

    def _blocks(self, rule: Relative, cell: Cell, v: Verdict, word: Word, reason: str) -> tuple[Word, str, str]:
        """Apply ``no block below`` to a rule whose interval gave ``word``; also returns the worst block in words."""
        if not self.study.design.paired:
            return "refused", "the lanes ran at different times, so their trials form no blocks", ""
        assert rule.block is not None  # noqa: S101 - the caller asked
        pairing = pair(self.shelves.get(cell.key, {}), rule.lane, rule.baseline, v.metric)
        ratios = {row.block: row.lane.value / row.baseline.value for row in pairing.rows}
        limit = rule.factor(rule.block)
        return _worst(ratios, pairing.voided, limit, phrases.change, least=rule.least, else_=(word, reason))

    # --- a lane by itself

    def _absolute(self, rule: Absolute, cell: Cell) -> Outcome:
        evidence, metric = self.own.evidence, METRICS[rule.metric]
        if evidence.modelled or evidence.emulated:
            what = "modelled" if evidence.modelled else "emulated"
            return self._outcome(
                rule, cell, "refused", "", f"{what} figures are valid as ratios only, not as absolute values"
            )
        if stain := _stain(self.own.findings, cell, (rule.lane,)):
            return self._outcome(rule, cell, "refused", "", stain)
        level = level_of(evidence, self.shelves, cell, rule.lane, metric.name)
        if isinstance(level, str):
            return self._outcome(rule, cell, "refused", "", level)
        if level.ends is None:
            return self._outcome(rule, cell, "not proven", metric.format(level.mean), "the spread is unknown")
        low, high = level.ends
        observed = f"{metric.format(level.mean)} ({metric.format(low)} to {metric.format(high)})"
        word: Word
        word, reason = _by_level(rule, level.ends)
        for because, ends in level.doubts if word != "not proven" else ():
            if _by_level(rule, ends)[0] != word:
                word, reason = "not proven", because
                break
        if rule.block is not None and word != "not met":
            word, reason, worst = _levels(rule, level, word, reason)
            observed = f"{observed}; {worst}"
        if word == "met":
            observed += _unnoticed(len(level.blocks))
        return self._outcome(rule, cell, word, observed, reason)


def _unnoticed(blocks: int) -> str:
    """What a rule that is met says nothing of."""
    return f"; slow trials in up to {phrases.share(round(unseen(blocks), 2))} can go unnoticed"


def _by_level(rule: Absolute, ends: Ends) -> tuple[Proof, str]:
    (low, high), limit, strict = ends, rule.limit.value, len(rule.sign) == 1
    return against(
        least=rule.least, strict=strict, limit=limit, low=low, high=high, named=METRICS[rule.metric].format(limit)
    )


def _levels(rule: Absolute, level: Level, word: Word, reason: str) -> tuple[Word, str, str]:
    assert rule.block is not None  # noqa: S101 - the caller asked
    metric, limit = METRICS[rule.metric], rule.block.value
    return _worst(level.blocks, level.failed, limit, metric.format, least=rule.least, else_=(word, reason))


def _worst(
    blocks: Mapping[int, float], lost: int, limit: float, show: Callable[[float], str], *, least: bool,
    else_: tuple[Word, str],
) -> tuple[Word, str, str]:  # fmt: skip
    """The outcome of ``no block below`` (``least``) or ``above`` ``limit``, and the worst block in words. ``else_``:
    the outcome by the interval, returned if no block fails. ``lost``: blocks without a figure."""
    block, worst = (min if least else max)(blocks.items(), key=lambda item: item[1])
    worst_text = f"the worst of {phrases.count(len(blocks), 'block')} is {show(worst)}"
    if worst < limit if least else worst > limit:
        return "not met", f"block {block} is {show(worst)}", worst_text
    if lost and else_[0] == "met":
        return "not proven", f"{phrases.count(lost, 'block')} without a figure may exceed the limit", worst_text
    return *else_, worst_text


def sensible(rule: Relative, metric: str) -> None:
    """Reject ``>= 20 % over`` for a latency: the worse lane would meet it."""
    entry = METRICS[metric]
    worse, better = ("over", "lower") if entry.better < 0 else ("under", "higher")
    if rule.sign[0] == ">" and rule.side == worse:
        other = "under" if worse == "over" else "over"
        raise FairlaneError(
            "rule-direction",
            f"the rule requires a worse result ({better} {entry.title} is better)",
            hint=f"write {other} instead of {worse}, swap the lanes, or name another metric or cell",
        )


def _stain(findings: Sequence[Finding], cell: Cell, lanes: tuple[str, ...]) -> str:
    """The first critical finding on the cell and one of the lanes."""
    for f in findings:
        here = not f.cells or cell.key in f.cells
        if f.severity == "critical" and here and (not f.lanes or set(lanes) & set(f.lanes)):
            return f"critical finding ({f.check}): {f.message}"
    return ""


def _ratio_text(v: Verdict) -> str:
    """The ratio with the interval that decides rules."""
    if v.ratio is None:
        return "no figure"
    if v.tie_low is None:
        return phrases.change(v.ratio)
    interval = phrases.interval(v.tie_low, v.tie_high)
    return f"{phrases.change(v.ratio)} ({interval}, {phrases.count(v.blocks, 'block')})"
