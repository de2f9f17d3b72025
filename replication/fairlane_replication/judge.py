"""Judge whether measurements confirm a published claim. Pure: a claim and the evidence of a run give an answer on its
direction and, where a size was published, one on its size.

``agree`` and ``disagree`` need proof: verdicts whose intervals exclude the other answer (``sides``), without critical
findings, in enough of the claim's cells. What the lab's own settings force is ``true by construction``, and confirms
nothing. All else is ``cannot tell here``, with its reason. The size has an answer of its own: the sign alone never
confirms it.

Verdicts are adjusted for the number of a study's primary comparisons (Holm), so that all its claims together hold at
the study's error rate; claims about other metrics rest on exploratory verdicts, which the answer states.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding, Verdict
from fairlane.report import phrases
from fairlane.report.capabilities import TITLES
from fairlane.stats.answers import DECIDED
from fairlane.stats.contests import stains
from fairlane_replication.claims import (
    AsksAbility,
    AsksComparable,
    AsksFigures,
    AsksFinding,
    AsksNothing,
    AsksTable,
    Claim,
    Compared,
    Expects,
    Share,
    Size,
)
from fairlane_replication.sides import Side, direction, undecided, way, within

Word = Literal["agree", "disagree", "true by construction", "cannot tell here"]
WORDS: tuple[Word, ...] = ("agree", "disagree", "true by construction", "cannot tell here")
BUILT: Word = "true by construction"
"""The outcome came, and the lab's settings force it."""
UNKNOWN: Word = "cannot tell here"
"""Neither proven nor contradicted."""
FITS, SMALLER, LARGER = "of the published size", "smaller here than published", "larger here than published"
MIXED, POSSIBLE = "smaller and larger here than published", "published size not excluded"
"""How the measured size lies to the published one."""
WHOLE_ONLY = "only the whole form asks it"
ROUNDING = 0.01
"""Published ratios and figures are rounded: bare figures contradict a ratio only beyond this."""


@dataclass(frozen=True)
class Ran:
    """A finished run or comparison, as input of the judge."""

    evidence: Evidence
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]

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
    """One verdict of a claim."""

    verdict: Verdict
    side: Side
    """Of the claimed direction."""
    why: str
    """Why ``side`` is open."""
    size: Side
    """Of the published size; open if there is none."""


def _compared(claim: Claim, asks: Compared, ran: Ran) -> Answer:
    chosen = asks.chosen(ran.evidence.cells())
    keys = {cell.key for cell in chosen}
    sides = (asks.lane, asks.against)
    verdicts = [v for v in ran.verdicts if v.key in keys and (v.lane, v.baseline) == sides and v.metric == asks.metric]
    if not verdicts:
        present = chosen and set(sides) <= ran.evidence.study.lanes.keys()
        return _open(claim, f"no trial has a figure for {METRICS[asks.metric].title}" if present else WHOLE_ONLY)
    judged = [_judged(claim.size, asks.expects, v, ran) for v in verdicts]
    count = Counter(j.side for j in judged)
    proof = _word(asks.of, count)
    size = _word(asks.of, Counter(j.size for j in judged))
    deciding = [j.verdict for j in judged if j.side == _DECIDES.get(proof, j.side)]
    word = UNKNOWN if asks.limit else BUILT if asks.constructed and proof == "agree" else proof
    judges_size = claim.size and not asks.limit and not asks.constructed
    reasons = [asks.limit, asks.constructed]
    reasons += ["" if proof != UNKNOWN else _mixed(count, [j.why for j in judged if j.side == "open"])]
    reasons += ["" if all(v.primary for v in verdicts) else "exploratory metric", asks.note]
    if proof == "agree" and asks.expects in ("faster", "slower"):
        reasons.append(_small(deciding))
    if word != UNKNOWN and (warned := _warned(ran, deciding)):
        reasons.append(f"warnings: {', '.join(warned)}")
    return Answer(
        claim,
        word,
        _size_word(claim, size if judges_size else UNKNOWN),
        here=_here_text(asks, judged),
        sizes=_sizes(claim.size, judged, size) if claim.size and judges_size else "",
        why="; ".join(part for part in reasons if part),
        figures="published" if isinstance(asks, AsksTable) else ran.figures,
        cells=len(verdicts),
        proven=count["for"],
        contradicted=count["against"],
    )


_DECIDES: Mapping[Word, Side] = {"agree": "for", "disagree": "against"}


def _judged(size: Size | None, expects: Expects, v: Verdict, ran: Ran) -> _Judged:
    if why := undecided(v) or _stain(ran, v):
        return _Judged(v, "open", why, "open")
    side, why = direction(expects, v, size)
    of_size = "open" if size is None else "against" if side == "against" else within(size, v)
    return _Judged(v, side, why, "open" if of_size == "for" and side == "open" else of_size)


def _stain(ran: Ran, v: Verdict) -> str:
    cell = next(c for c in ran.evidence.cells() if c.key == v.key)
    bad = next((f for f in ran.findings if stains(f, cell, v.lane, v.baseline)), None)
    return f"withheld, critical finding ({bad.check}): {bad.message}" if bad else ""


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


def _word(of: Share, count: Counter[Side]) -> Word:
    good, bad, total = count["for"], count["against"], count.total()
    match of:
        case "every":
            return "disagree" if bad else "agree" if good == total else UNKNOWN
        case "most":
            return "agree" if 2 * good > total else "disagree" if 2 * bad > total else UNKNOWN
        case "any":
            return "agree" if good else "disagree" if bad == total else UNKNOWN


def _small(deciding: Sequence[Verdict]) -> str:
    """That a confirmed direction is too small to matter; empty: it is not."""
    small = [v for v in deciding if v.verdict == "different-but-small"]
    where = f" in {len(small)} of {phrases.count(len(deciding), 'cell')}" if len(small) < len(deciding) else ""
    return f"proven to be smaller than the margin of {phrases.share(small[0].margin)}{where}" if small else ""


def _mixed(count: Counter[Side], reasons: Sequence[str]) -> str:
    """Why nothing is proven: the cells by state, and the commonest reason of the open ones."""
    mixed = f"{count['for']} for, {count['against']} against, {count['open']} open"
    if not count["for"] + count["against"]:
        mixed = ""
    first = Counter(reasons).most_common(1)[0][0] if reasons else ""
    return "; ".join(part for part in (mixed, first) if part)


_IN_WORDS: Mapping[Expects, tuple[str, str]] = {
    "faster": ("better", "not better"),
    "slower": ("worse", "not worse"),
    "same": ("equal within the margin", "different beyond the margin"),
    "not-faster": ("not better beyond the margin", "better beyond the margin"),
    "not-slower": ("not worse beyond the margin", "worse beyond the margin"),
}
"""Words for cells that confirm the claim, and for cells that contradict it."""


def _here_text(asks: Compared, judged: Sequence[_Judged]) -> str:
    """``IOPS of a against b: better in 2 of 2 cells (+26.1 % to +44.0 %)``."""
    names: Mapping[Side, str] = dict(zip(("for", "against"), _IN_WORDS[asks.expects], strict=True))
    parts = []
    for side in ("for", "against", "open"):
        some = [j.verdict for j in judged if j.side == side]
        if some:
            word = names.get(side, "not decided")
            parts.append(f"{word} in {len(some)} of {phrases.count(len(judged), 'cell')}{_range(some)}")
    return f"{METRICS[asks.metric].title} of {asks.lane} against {asks.against}: {'; '.join(parts)}"


def _range(verdicts: Sequence[Verdict]) -> str:
    """The hull of the intervals; of the bare figures if there are none."""
    if hull := _hull(verdicts):
        return f" ({phrases.interval(*hull)})"
    ends = dict.fromkeys(phrases.change(r) for r in sorted(v.ratio for v in verdicts if v.ratio is not None))
    return f" (bare figures: {' to '.join(list(ends)[:: max(1, len(ends) - 1)])})" if ends else ""


def _hull(verdicts: Sequence[Verdict]) -> tuple[float, float] | None:
    """From the lowest to the highest end of the intervals; for ties, of the tie tests."""
    ends = [(v.tie_low, v.tie_high) if v.verdict == "tie" else (v.low, v.high) for v in verdicts]
    lows, highs = [a for a, _ in ends if a is not None], [b for _, b in ends if b is not None]
    return (min(lows), max(highs)) if lows and highs else None


def _sizes(size: Size, judged: Sequence[_Judged], word: Word) -> str:
    """How the measured size lies to the published one."""
    if word == "disagree":
        ways = {way(size, j.verdict) for j in judged if j.size == "against"}
        return MIXED if len(ways) > 1 else LARGER if "larger" in ways else SMALLER
    if word == "agree":
        return FITS
    return POSSIBLE if any(j.verdict.verdict in DECIDED for j in judged) else ""


# --- other tests


def _able(claim: Claim, asks: AsksAbility, ran: Ran) -> Answer:
    lanes: Any = ran.evidence.description.get("lanes") or {}

    def capability(lane: str) -> tuple[str, str]:
        entry = ((lanes.get(lane) or {}).get("capabilities") or {}).get(asks.key) or {}
        return str(entry.get("value", "")), str(entry.get("evidence", ""))

    value, proof = capability(asks.lane)
    if not value:
        return _open(claim, "the run did not try it: it tries capabilities in its whole form only")
    here = f"{TITLES[asks.key]} of {asks.lane}: {value}"
    if asks.fewer_than:
        other, other_proof = capability(asks.fewer_than)
        here += f"; of {asks.fewer_than}: {other or 'not tried'}"
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
        return _open(claim, f"nothing contradicts it by {', '.join(silent)}")
    return Answer(
        claim,
        "disagree",
        _size_word(claim, "disagree"),
        here="; ".join(f"{f.check}: {f.message.rpartition(': ')[0] or f.message}" for f in findings),
        figures="published",
        contradicted=len(set().union(*cells.values())),
    )


def _by_figures(claim: Claim, asks: AsksFigures, ran: Ran) -> Answer:
    """What the study's own figures contradict. They are single results, and confirm nothing."""
    ratios = figures(asks, ran.evidence)
    if not ratios:
        return _open(claim, "the tables have no such figures")
    up = (asks.expects == "faster") == (METRICS[asks.metric].better > 0)
    against = [r for _, r in ratios if (r < 1 - ROUNDING if up else r > 1 + ROUNDING)]
    least, most = (claim.size.least or 0.0, claim.size.most or math.inf) if claim.size else (0.0, math.inf)
    beyond = [r for _, r in ratios if r < least * (1 - ROUNDING) or r > most * (1 + ROUNDING)]
    return Answer(
        claim,
        "disagree" if against else UNKNOWN,
        _size_word(claim, "disagree" if beyond else UNKNOWN),
        here=f"{METRICS[asks.metric].title} of {asks.lane} against {asks.against}: "
        + ", ".join(f"{title} {phrases.change(r)}" for title, r in ratios),
        why=asks.because if against or beyond else "bare figures, which contradict nothing here and confirm nothing",
        figures="corrected" if asks.tables == "corrected" else "published",
        cells=len(ratios),
        contradicted=len(against or beyond),
    )


def figures(asks: AsksFigures, evidence: Evidence) -> list[tuple[str, float]]:
    """(category, lane / baseline) of the bare figures in the claim's cells, where both sides have one."""
    values = {
        (o.cell, o.lane): o.metrics[asks.metric]
        for o in evidence.observations
        if not o.failed and asks.metric in o.metrics
    }
    return [
        (cell.workload.removesuffix(f"-{asks.metric.replace('_', '-')}"), values[cell.key, asks.lane] / base)
        for cell in asks.chosen(evidence.cells())
        if (base := values.get((cell.key, asks.against))) and (cell.key, asks.lane) in values
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
