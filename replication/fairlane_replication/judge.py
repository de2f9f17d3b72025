"""Judge whether measurements confirm a published claim. Pure: a claim and the evidence of a run give one of three
words.

``agree`` and ``disagree`` need proof: verdicts whose intervals exclude the other answer, without critical findings, in
enough of the claim's cells. A tie within the margin contradicts a claimed difference larger than the margin, and
confirms a claim of none. All else is ``cannot tell here``, with its reason. Sizes are compared for information and
never decide: one modelled core is not the study's hardware.

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
    AsksFinding,
    AsksNothing,
    AsksTable,
    Claim,
    Compared,
    Expects,
    Share,
    Size,
)

Word = Literal["agree", "disagree", "cannot tell here"]
WORDS: tuple[Word, ...] = ("agree", "disagree", "cannot tell here")
UNKNOWN: Word = "cannot tell here"
"""Neither proven nor contradicted."""
OVERLAPS, SMALLER, LARGER = "published size overlaps", "smaller here than published", "larger here than published"
"""How the published size lies to the measured one."""
WHOLE_ONLY = "only the whole form asks it"

_Side = Literal["for", "against", "open"]


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
    here: str = ""
    """The measured result with its interval; empty: none."""
    size: str = ""
    """The published size against the measured one, if both are known."""
    why: str = ""
    """Why the claim stays open, or the basis of the word."""
    figures: str = ""
    """modelled, emulated, measured, invented, or published; empty: none."""
    cells: int = 0
    """Cells tested."""
    proven: int = 0
    """Cells that confirm the claim."""
    contradicted: int = 0
    """Cells that contradict it."""


def answer(claim: Claim, ran: Ran | str) -> Answer:
    """Judge ``claim`` by ``ran``; text: why there is no run."""
    asks = claim.asks
    if isinstance(asks, AsksNothing):
        return Answer(claim, UNKNOWN, why=asks.because)
    if isinstance(ran, str):
        return Answer(claim, UNKNOWN, why=ran)
    if isinstance(asks, AsksAbility):
        return _able(claim, asks, ran)
    if isinstance(asks, AsksFinding):
        return _by_finding(claim, asks, ran)
    if isinstance(asks, AsksComparable):
        return _comparable(claim, ran)
    return _compared(claim, asks, ran)


# --- verdicts


def _compared(claim: Claim, asks: Compared, ran: Ran) -> Answer:
    chosen = asks.chosen(ran.evidence.cells())
    keys = {cell.key for cell in chosen}
    sides = (asks.lane, asks.against)
    verdicts = [v for v in ran.verdicts if v.key in keys and (v.lane, v.baseline) == sides and v.metric == asks.metric]
    if not verdicts:
        present = chosen and set(sides) <= ran.evidence.study.lanes.keys()
        why = f"no trial has a figure for {METRICS[asks.metric].title}" if present else WHOLE_ONLY
        return Answer(claim, UNKNOWN, why=why)
    judged = [(v, *_side(asks.expects, v, claim.size, ran)) for v in verdicts]
    count = Counter(side for _, side, _ in judged)
    word = _word(asks.of, count["for"], count["against"], len(verdicts))
    deciding = [v for v, side, _ in judged if side == {"agree": "for", "disagree": "against"}.get(word, side)]
    reasons = [asks.limit, "" if word != UNKNOWN else _open(count, [why for _, side, why in judged if side == "open"])]
    reasons += ["" if all(v.primary for v in verdicts) else "exploratory metric", asks.note]
    if word != UNKNOWN and not asks.limit and (warned := _warned(ran, deciding)):
        reasons.append(f"warnings: {', '.join(warned)}")
    return Answer(
        claim,
        UNKNOWN if asks.limit else word,
        here=_here_text(asks, [(v, side) for v, side, _ in judged]),
        size=_sizes(claim.size, deciding) if claim.size and not asks.limit else "",
        why="; ".join(part for part in reasons if part),
        figures="published" if isinstance(asks, AsksTable) else ran.figures,
        cells=len(verdicts),
        proven=count["for"],
        contradicted=count["against"],
    )


def _side(expects: Expects, v: Verdict, size: Size | None, ran: Ran) -> tuple[_Side, str]:
    """Whether a verdict confirms the claim, contradicts it or leaves it open; if open, the reason."""
    if v.verdict not in DECIDED:
        return "open", _undecided(v)
    if stain := _stain(ran, v):
        return "open", stain
    better = ((v.ratio or 1.0) > 1) == (METRICS[v.metric].better > 0)
    if v.verdict in ("tie", "different-but-small"):
        return _small(expects, 0 if v.verdict == "tie" else 1 if better else -1, v, size)
    true = {"faster": better, "slower": not better, "same": False, "not-faster": not better, "not-slower": better}
    return ("for" if true[expects] else "against"), ""


def _undecided(v: Verdict) -> str:
    if v.verdict == "refused":
        return f"refused: {v.notes[0] if v.notes else 'see the findings'}"
    if v.verdict == "no-spread":
        return "single results: nothing is known of their spread"
    more = f"; {phrases.further([v.more_blocks])} may decide" if v.more_blocks else ""
    return f"inconclusive, {phrases.interval(v.low, v.high)} after {phrases.count(v.blocks, 'block')}{more}"


def _small(expects: Expects, sign: int, v: Verdict, size: Size | None) -> tuple[_Side, str]:
    """A difference proven smaller than the margin; ``sign``: +1 better, -1 worse, 0 not distinguished from none.

    It contradicts a claimed difference, unless the smallest claimed size lies within the margin itself.
    """
    if expects not in ("faster", "slower"):
        return "for", ""
    wanted = 1 if expects == "faster" else -1
    if size is None or _smallest(size) > math.log1p(v.margin):
        return "against", ""
    if sign == 0:
        return "open", f"a tie within {phrases.share(v.margin)}, and the published size may be as small"
    return ("for" if sign == wanted else "against"), ""


def _smallest(size: Size) -> float:
    """The claimed size nearest to no difference, as a distance on the log scale."""
    ends = [math.log(end) for end in (size.least, size.most) if end is not None]
    if len(ends) == 2 and ends[0] <= 0 <= ends[1]:
        return 0.0
    return min(abs(end) for end in ends)


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


def _word(of: Share, good: int, bad: int, total: int) -> Word:
    match of:
        case "every":
            return "disagree" if bad else "agree" if good == total else UNKNOWN
        case "most":
            return "agree" if 2 * good > total else "disagree" if 2 * bad > total else UNKNOWN
        case "any":
            return "agree" if good else "disagree" if bad == total else UNKNOWN


def _open(count: Counter[_Side], reasons: Sequence[str]) -> str:
    """Why nothing is proven: the cells by state, and the commonest reason of the open ones."""
    mixed = f"{count['for']} for, {count['against']} against, {count['open']} open"
    if not count["for"] + count["against"]:
        mixed = ""
    first = Counter(reasons).most_common(1)[0][0] if reasons else ""
    return "; ".join(part for part in (mixed, first) if part)


_IN_WORDS: Mapping[Expects, tuple[str, str]] = {
    "faster": ("better", "not better"),
    "slower": ("worse", "not worse"),
    "same": ("equal within the margin", "different"),
    "not-faster": ("not better", "better"),
    "not-slower": ("not worse", "worse"),
}
"""Words for cells that confirm the claim, and for cells that contradict it."""


def _here_text(asks: Compared, judged: Sequence[tuple[Verdict, _Side]]) -> str:
    """``IOPS of a against b: better in 2 of 2 cells (+26.1 % to +44.0 %)``."""
    names: Mapping[_Side, str] = dict(zip(("for", "against"), _IN_WORDS[asks.expects], strict=True))
    parts = []
    for side in ("for", "against", "open"):
        some = [v for v, s in judged if s == side]
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


def _sizes(size: Size, verdicts: Sequence[Verdict]) -> str:
    """The published size relative to the hull of the intervals; decides nothing."""
    hull = _hull(verdicts)
    if hull is None:
        return ""
    low, high = size.least or 0.0, size.most or math.inf
    if hull[0] <= high and low <= hull[1]:
        return OVERLAPS
    nearest_here = 0.0 if hull[0] <= 1 <= hull[1] else min(abs(math.log(end)) for end in hull)
    return SMALLER if nearest_here < _smallest(size) else LARGER


def published(claim: Claim) -> str:
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


# --- other tests


def _able(claim: Claim, asks: AsksAbility, ran: Ran) -> Answer:
    lanes: Any = ran.evidence.description.get("lanes") or {}

    def capability(lane: str) -> tuple[str, str]:
        entry = ((lanes.get(lane) or {}).get("capabilities") or {}).get(asks.key) or {}
        return str(entry.get("value", "")), str(entry.get("evidence", ""))

    value, proof = capability(asks.lane)
    if not value:
        return Answer(claim, UNKNOWN, why="the run did not try it: it tries capabilities in its whole form only")
    here = f"{TITLES[asks.key]} of {asks.lane}: {value}"
    if asks.fewer_than:
        other, other_proof = capability(asks.fewer_than)
        here += f"; of {asks.fewer_than}: {other or 'not tried'}"
        word, proof = _fewer(value, other), f"{proof}; {other_proof}"
    else:
        good = any(fnmatchcase(value, p) for p in asks.agrees)
        bad = any(fnmatchcase(value, p) for p in asks.disagrees)
        word = UNKNOWN if good == bad else "agree" if good else "disagree"
    return Answer(claim, word, here, why=proof, figures="tried")


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
    findings = [f for f in ran.findings if f.check == asks.check and f.severity == "critical"]
    cells = {key for f in findings for key in f.cells}
    if len(cells) < asks.least:
        return Answer(
            claim, UNKNOWN, why=f"the check {asks.check} finds nothing that contradicts it", figures="published"
        )
    messages = "; ".join(f.message for f in findings)
    return Answer(claim, "disagree", f"{asks.check}: {messages}", figures="published", contradicted=len(cells))


def _comparable(claim: Claim, ran: Ran) -> Answer:
    primary = [v for v in ran.verdicts if v.primary]
    refused = [v for v in primary if v.verdict == "refused"]
    here = f"{len(refused)} of {phrases.count(len(primary), 'comparison')} refused by the guard"
    if not refused:
        word: Word = "agree" if primary else UNKNOWN
        return Answer(claim, word, here, figures="published", cells=len(primary), proven=len(primary))
    reasons = Counter(v.notes[0] for v in refused if v.notes)
    why = reasons.most_common(1)[0][0] if reasons else ""
    return Answer(claim, "disagree", here, why=why, figures="published", cells=len(primary), contradicted=len(refused))
