"""Judge whether measurements confirm a published claim. Pure: a claim and the evidence of a run give an answer on its
direction and, where a size was published, one on its size.

A claim about two lanes is a rule of the gate, which decides it cell by cell: ``agree`` where the rule is met in every
cell, ``disagree`` where it is not met in one (``fairlane.gate`` has the error rates), without critical findings. What
the lab's own settings force is ``true by construction``, and confirms nothing. All else is ``cannot tell here``, with
its reason. The size has an answer of its own: the sign alone never confirms it.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal

from fairlane.checks.base import run_all
from fairlane.errors import FairlaneError
from fairlane.gate.cells import chosen
from fairlane.gate.decide import Gate, Outcome
from fairlane.gate.rules import Compared, Directed, Relative, Within
from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding, Verdict
from fairlane.report import phrases
from fairlane.report.capabilities import TITLES
from fairlane.stats.answers import DECIDED
from fairlane.verdicts.scorecard import withheld
from fairlane_replication.claims import (
    AsksAbility,
    AsksComparable,
    AsksFigures,
    AsksFinding,
    AsksLab,
    AsksNothing,
    AsksTable,
    Claim,
    Decided,
    Size,
)
from fairlane_replication.sizes import EVEN, Side, way, within

Word = Literal["agree", "disagree", "true by construction", "cannot tell here"]
WORDS: tuple[Word, ...] = ("agree", "disagree", "true by construction", "cannot tell here")
BUILT: Word = "true by construction"
"""The outcome came, and the lab's settings force it."""
UNKNOWN: Word = "cannot tell here"
"""Neither proven nor contradicted."""
FITS, SMALLER, LARGER = "of the published size", "smaller here than published", "larger here than published"
MIXED, POSSIBLE = "smaller and larger here than published", "published size not excluded"
"""How the measured size lies to the published one."""
WHOLE_ONLY = "only the whole form tests it"
ROUNDING = 0.01
"""Published ratios and figures are rounded: bare figures contradict a ratio only beyond this."""


@dataclass(frozen=True)
class Ran:
    """A finished run or comparison, as input of the judge."""

    evidence: Evidence
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]

    @cached_property
    def gate(self) -> Gate:
        """Decides the rules of claims on this run."""
        return Gate(self.evidence, lambda one: self.findings if one is self.evidence else run_all(one))

    @property
    def figures(self) -> str:
        """Kind of its figures."""
        if self.evidence.study.platform.invented:
            return "invented"
        return "modelled" if self.evidence.modelled else "emulated" if self.evidence.emulated else "measured"


@dataclass(frozen=True)
class Answer:
    """A claim and the judgement on it."""

    claim: Claim
    word: Word
    """On the direction; of a claim without one, on what it states."""
    size: Word | None = None
    """On the published size; None: none was published."""
    here: str = ""
    """The measured result with its interval; empty: none."""
    sizes: str = ""
    """How the measured size lies to the published one, if both are known."""
    why: str = ""
    """Why the claim stays open, or the basis of the word."""
    figures: str = ""
    """modelled, emulated, measured, invented, tried, published or corrected; empty: none."""
    cells: int = 0
    """Cells tested."""
    proven: int = 0
    """Cells that confirm the direction."""
    contradicted: int = 0
    """Cells that contradict it."""


def answer(claim: Claim, ran: Ran | str) -> Answer:
    """Judge ``claim`` by ``ran``; text: why there is no run."""
    asks = claim.asks
    if isinstance(asks, AsksNothing) or isinstance(ran, str):
        return _open(claim, asks.because if isinstance(asks, AsksNothing) else str(ran))
    if isinstance(asks, AsksAbility):
        return _able(claim, asks, ran)
    if isinstance(asks, AsksFinding):
        return _by_finding(claim, asks, ran)
    if isinstance(asks, AsksComparable):
        return _comparable(claim, ran)
    if isinstance(asks, AsksFigures):
        return _by_figures(claim, asks, ran)
    return _compared(claim, asks, ran)


def _open(claim: Claim, why: str) -> Answer:
    return Answer(claim, UNKNOWN, _size_word(claim), why=why)


def _size_word(claim: Claim, word: Word = UNKNOWN) -> Word | None:
    """``word`` for a claim with a published size, UNKNOWN if no ratio expresses that, None for one without."""
    return word if claim.size else UNKNOWN if claim.published else None


# --- verdicts


@dataclass(frozen=True)
class _Judged:
    """One cell of a claim."""

    verdict: Verdict | None
    side: Side
    """Of the claimed direction."""
    why: str
    """Why ``side`` is open."""
    size: Side
    """Of the published size; open if there is none."""


def _compared(claim: Claim, asks: Decided, ran: Ran) -> Answer:
    rule = asks.compared
    try:
        outcomes = ran.gate.decide(rule)
    except FairlaneError as error:  # the whole form has the lanes and cells: the catalogue looked
        return _open(claim, WHOLE_ONLY if isinstance(asks, AsksLab) else error.message)
    if not any(outcome.verdict for outcome in outcomes):
        return _open(claim, outcomes[0].reason)
    judged = [_judged(claim.size, outcome) for outcome in outcomes]
    count = Counter(j.side for j in judged)
    proof, size = _word(count), _word(Counter(j.size for j in judged))
    deciding = _verdicts(j for j in judged if j.side == _DECIDES.get(proof, j.side))
    word = UNKNOWN if asks.limit else BUILT if asks.constructed and proof == "agree" else proof
    judges_size = claim.size and not asks.limit and not asks.constructed
    reasons = [asks.limit, asks.constructed]
    reasons += ["" if proof != UNKNOWN else _mixed(count, [j.why for j in judged if j.side == "open"])]
    reasons += ["" if all(v.primary for v in _verdicts(judged)) else "exploratory metric", asks.note]
    if proof == "agree" and _differs(rule):
        reasons.append(_small(deciding))
    if word != UNKNOWN and (warned := _warned(ran, deciding)):
        reasons.append(f"warnings: {', '.join(warned)}")
    return Answer(
        claim,
        word,
        _size_word(claim, size if judges_size else UNKNOWN),
        here=_here_text(rule, judged),
        sizes=_sizes(claim.size, judged, size) if claim.size and judges_size else "",
        why="; ".join(part for part in reasons if part),
        figures="published" if isinstance(asks, AsksTable) else ran.figures,
        cells=len(judged),
        proven=count["for"],
        contradicted=count["against"],
    )


_DECIDES: Mapping[Word, Side] = {"agree": "for", "disagree": "against"}
_SIDES: Mapping[str, Side] = {"met": "for", "not met": "against"}


def _judged(size: Size | None, outcome: Outcome) -> _Judged:
    side, v = _SIDES.get(outcome.word, "open"), outcome.verdict
    why = f"{outcome.observed}; {outcome.reason}" if outcome.word == "not proven" else outcome.reason
    if v is None or size is None or (side == "open" and v.verdict not in DECIDED):
        return _Judged(v, side, why, "open")
    of_size = "against" if side == "against" else within(size, v)
    return _Judged(v, side, why, "open" if of_size == "for" and side == "open" else of_size)


def _verdicts(judged: Iterable[_Judged]) -> list[Verdict]:
    return [j.verdict for j in judged if j.verdict]


def _differs(rule: Compared) -> bool:
    """Whether the rule claims a difference."""
    return isinstance(rule, Relative) or (isinstance(rule, Directed) and not rule.negated)


def _warned(ran: Ran, deciding: Sequence[Verdict]) -> list[str]:
    """Checks that warn of a deciding cell and one of its lanes: the proof stands, but readers should know."""
    cells = {v.key for v in deciding}
    lanes = {lane for v in deciding for lane in (v.lane, v.baseline)}
    return sorted(
        {
            f.check
            for f in ran.findings
            if f.severity == "warning"
            and (not f.cells or cells & set(f.cells))
            and (not f.lanes or lanes & set(f.lanes))
        }
    )


def _word(count: Counter[Side]) -> Word:
    return "disagree" if count["against"] else "agree" if count["for"] == count.total() else UNKNOWN


def _small(deciding: Sequence[Verdict]) -> str:
    """That a confirmed direction is too small to matter; empty: it is not."""
    small = [v for v in deciding if within(EVEN, v) == "for"]
    where = f" in {len(small)} of {phrases.count(len(deciding), 'cell')}" if len(small) < len(deciding) else ""
    return f"difference proven smaller than the margin of {phrases.share(small[0].margin)}{where}" if small else ""


def _mixed(count: Counter[Side], reasons: Sequence[str]) -> str:
    """Why nothing is proven: the cells by state, and the commonest reason of the open ones."""
    mixed = f"{count['for']} for, {count['against']} against, {count['open']} open"
    if not count["for"] + count["against"]:
        mixed = ""
    first = Counter(reasons).most_common(1)[0][0] if reasons else ""
    return "; ".join(part for part in (mixed, first) if part)


def _in_words(rule: Compared) -> tuple[str, str]:
    """Words for cells that confirm the claim, and for cells that contradict it."""
    match rule:
        case Within():
            within_what = "the margin" if rule.percent is None else f"{rule.percent} %"
            return f"equal within {within_what}", f"different beyond {within_what}"
        case Directed():
            word = "better" if rule.way == "faster" else "worse"
            plain, beyond = (word, f"not {word}"), (f"not {word} beyond the margin", f"{word} beyond the margin")
            return beyond if rule.negated else plain
        case Relative():
            bound = f"{rule.sign} {rule.percent} % {rule.side}"
            return bound, f"not {bound}"


def _here_text(rule: Compared, judged: Sequence[_Judged]) -> str:
    """``IOPS of a against b: better in 2 of 2 cells (+26.1 % to +44.0 %)``."""
    names: Mapping[Side, str] = dict(zip(("for", "against"), _in_words(rule), strict=True))
    groups: dict[str, list[_Judged]] = {word: [] for word in (*names.values(), "withheld", "not decided")}
    for j in judged:
        held = j.side == "open" and j.verdict is not None and withheld(j.verdict)
        groups["withheld" if held else names.get(j.side, "not decided")].append(j)
    parts = [
        f"{word} in {len(some)} of {phrases.count(len(judged), 'cell')}{_range(_verdicts(some))}"
        for word, some in groups.items()
        if some
    ]
    return f"{METRICS[rule.metric].title} of {rule.lane} against {rule.baseline}: {'; '.join(parts)}"


def _range(verdicts: Sequence[Verdict]) -> str:
    """The hull of the intervals; of the bare figures if there are none."""
    if hull := _hull(verdicts):
        return f" ({phrases.interval(*hull)})"
    ends = dict.fromkeys(phrases.change(r) for r in sorted(v.ratio for v in verdicts if v.ratio is not None))
    return f" (single figures: {' to '.join(list(ends)[:: max(1, len(ends) - 1)])})" if ends else ""


def _hull(verdicts: Sequence[Verdict]) -> tuple[float, float] | None:
    """From the lowest to the highest end of the intervals; for ties, of the tie tests."""
    ends = [(v.tie_low, v.tie_high) if v.verdict == "tie" else (v.low, v.high) for v in verdicts]
    lows, highs = [a for a, _ in ends if a is not None], [b for _, b in ends if b is not None]
    return (min(lows), max(highs)) if lows and highs else None


def _sizes(size: Size, judged: Sequence[_Judged], word: Word) -> str:
    """How the measured size lies to the published one."""
    if word == "disagree":
        ways = {way(size, v) for v in _verdicts(j for j in judged if j.size == "against")}
        return MIXED if len(ways) > 1 else LARGER if "larger" in ways else SMALLER
    if word == "agree":
        return FITS
    return POSSIBLE if any(v.verdict in DECIDED for v in _verdicts(judged)) else ""


# --- other tests


def _able(claim: Claim, asks: AsksAbility, ran: Ran) -> Answer:
    lanes: Any = ran.evidence.description.get("lanes") or {}

    def capability(lane: str) -> tuple[str, str]:
        entry = ((lanes.get(lane) or {}).get("capabilities") or {}).get(asks.key) or {}
        return str(entry.get("value", "")), str(entry.get("evidence", ""))

    value, proof = capability(asks.lane)
    if not value:
        return _open(claim, "this run did not test it: only the whole form tests capabilities")
    here = f"{TITLES[asks.key]} of {asks.lane}: {value}"
    if asks.fewer_than:
        other, other_proof = capability(asks.fewer_than)
        here += f"; of {asks.fewer_than}: {other or 'not tested'}"
        word, proof = _fewer(value, other), f"{proof}; {other_proof}"
    else:
        good = any(fnmatchcase(value, p) for p in asks.agrees)
        bad = any(fnmatchcase(value, p) for p in asks.disagrees)
        word = UNKNOWN if good == bad else "agree" if good else "disagree"
    return Answer(claim, word, _size_word(claim), here, why=proof, figures="tried")


_NUMBER = re.compile(r"(at least )?(\d+)")


def _fewer(ours: str, theirs: str) -> Word:
    """Whether one value is smaller: ``at least 64`` exceeds 28; two ``at least`` values cannot be compared."""
    a, b = _NUMBER.fullmatch(ours), _NUMBER.fullmatch(theirs)
    if not a or not b:
        return UNKNOWN
    if not a[1] and int(a[2]) < int(b[2]):
        return "agree"
    if not b[1] and int(b[2]) <= int(a[2]):
        return "disagree"
    return UNKNOWN


def _by_finding(claim: Claim, asks: AsksFinding, ran: Ran) -> Answer:
    findings = [f for f in ran.findings if f.check in asks.checks and f.severity == "critical"]
    cells = {check: {key for f in findings if f.check == check for key in f.cells} for check in asks.checks}
    silent = [check for check, keys in cells.items() if len(keys) < asks.least]
    if silent:
        return _open(claim, f"not contradicted by the checks {', '.join(silent)}")
    return Answer(
        claim,
        "disagree",
        _size_word(claim, "disagree"),
        here="; ".join(f"{f.check}: {f.message.rpartition(': ')[0] or f.message}" for f in findings),
        figures="published",
        contradicted=len(set().union(*cells.values())),
    )


def _by_figures(claim: Claim, asks: AsksFigures, ran: Ran) -> Answer:
    """What the study's own figures contradict. They are single results, and cannot confirm anything."""
    ratios = figures(asks, ran.evidence)
    if not ratios:
        return _open(claim, "the tables lack figures for it")
    rule = asks.directed
    up = rule.upwards(METRICS[rule.metric].better)
    against = [r for _, r in ratios if (r < 1 - ROUNDING if up else r > 1 + ROUNDING)]
    least, most = (claim.size.least or 0.0, claim.size.most or math.inf) if claim.size else (0.0, math.inf)
    beyond = [r for _, r in ratios if r < least * (1 - ROUNDING) or r > most * (1 + ROUNDING)]
    return Answer(
        claim,
        "disagree" if against else UNKNOWN,
        _size_word(claim, "disagree" if beyond else UNKNOWN),
        here=f"{METRICS[rule.metric].title} of {rule.lane} against {rule.baseline}: "
        + ", ".join(f"{title} {phrases.change(r)}" for title, r in ratios),
        why=asks.because
        if against or beyond
        else "single figures, which do not contradict the claim and cannot confirm it",
        figures="corrected" if asks.tables == "corrected" else "published",
        cells=len(ratios),
        contradicted=len(against or beyond),
    )


def figures(asks: AsksFigures, evidence: Evidence) -> list[tuple[str, float]]:
    """(category, lane / baseline) of the bare figures in the claim's cells, where both sides have one."""
    rule = asks.directed
    try:
        cells = chosen(evidence.study, rule.cells)
    except FairlaneError:  # another version of the tables
        return []
    values = {
        (o.cell, o.lane): o.metrics[rule.metric]
        for o in evidence.observations
        if not o.failed and rule.metric in o.metrics
    }
    primary = {name: workload.primary for name, workload in evidence.study.workloads.items()}
    return [
        (cell.workload.removesuffix(f"-{primary[cell.workload].replace('_', '-')}"), values[cell.key, rule.lane] / base)
        for cell in cells
        if (base := values.get((cell.key, rule.baseline))) and (cell.key, rule.lane) in values
    ]


def _comparable(claim: Claim, ran: Ran) -> Answer:
    primary = [v for v in ran.verdicts if v.primary]
    refused = [v for v in primary if v.verdict == "refused"]
    here = f"{len(refused)} of {phrases.count(len(primary), 'comparison')} refused by the guard"
    if not refused:
        word: Word = "agree" if primary else UNKNOWN
        return Answer(claim, word, here=here, figures="published", cells=len(primary), proven=len(primary))
    reasons = Counter(v.notes[0] for v in refused if v.notes)
    why = reasons.most_common(1)[0][0] if reasons else ""
    return Answer(
        claim, "disagree", here=here, why=why, figures="published", cells=len(primary), contradicted=len(refused)
    )
