"""Ratios, intervals and verdicts in words, as all reports print them. Pure."""

import math
from collections.abc import Sequence

from fairlane.metrics import METRICS, Metric
from fairlane.records import Verdict, Word
from fairlane.report.text import DASH, MINUS
from fairlane.verdicts.scorecard import withheld

SYMBOL: dict[Word, str] = {
    "faster": "▲",
    "slower": "▼",
    "different-but-small": "◆",
    "tie": "=",
    "inconclusive": "?",
    "no-spread": "○",
    "refused": "✕",
}
"""Symbol before the verdict word, so that colour is never the only mark."""

MEANING: dict[Word, str] = {
    "faster": "better than the baseline beyond doubt (the whole interval is on the better side), and not proven to be "
    "smaller than the margin. “At least” is the interval's end nearest to no difference, rounded down.",
    "slower": "the same, on the worse side.",
    "different-but-small": "a real difference that is proven to be smaller than the margin: it does not matter.",
    "tie": "proven equal within the margin by two one-sided tests: the narrower interval of that test lies within it. "
    "Not merely “no difference found”.",
    "inconclusive": "the interval allows for both: neither a difference nor a tie is proven. "
    "Further blocks may decide it.",
    "no-spread": "compared, but from so few trials that nothing is known of how they vary: no claim can stand on it.",
    "refused": "the two lanes cannot be compared here; the reason stands beside it.",
}

ORDER: tuple[Word, ...] = ("faster", "slower", "different-but-small", "tie", "inconclusive", "no-spread", "refused")


_BOUND = 1e3
"""An interval that spans a larger factor comes from two or three wild blocks: its upper end is printed as no limit."""


_LARGE = 11.0
"""Ratio (+1,000 %) from which on changes have no decimals."""


def change(ratio: float, decimals: int = 1) -> str:
    """A ratio as a signed change: 1.118 -> ``+11.8 %``."""
    text = f"{(ratio - 1) * 100:+,.{decimals if ratio < _LARGE else 0}f}".replace("-", MINUS)
    return f"{'±' + text[1:] if not text[1:].strip('0.') else text} %"


def interval(low: float | None, high: float | None) -> str:
    """Both ends as changes, rounded outwards; a digit more where the interval is narrow: ``+11.72 % to +11.94 %``."""
    if low is None or high is None:
        return DASH
    least = 2 if high - low < 0.01 else 1
    endless = high > _BOUND and high / low > _BOUND
    return f"{_end(low, least, -1)} to {'no limit' if endless else _end(high, least, +1)}"


def _end(ratio: float, least: int, side: int) -> str:
    """``ratio`` as a change with at least ``least`` decimals, rounded down (side -1) or up (+1)."""
    decimals = max(least, _decimals(ratio - 1)) if ratio < _LARGE else 0
    unit: int = 10 ** (decimals + 2)
    steps = round((ratio - 1) * unit, 6)  # 1.1 - 1 is a hair more than a tenth
    return change(1 + (math.floor(steps) if side < 0 else math.ceil(steps)) / unit, decimals)


def _decimals(part: float) -> int:
    """Decimals of a percentage that keep ``part`` from looking like nothing, 1 to 3."""
    return next((d for d in (1, 2) if abs(part) * 10 ** (d + 2) >= 1 - 1e-6), 3)


def nearest(verdict: Verdict) -> float | None:
    """The end of the interval nearest to no difference, None if the interval contains it."""
    if verdict.low is None or verdict.high is None or verdict.low <= 1 <= verdict.high:
        return None
    return verdict.low if verdict.low > 1 else verdict.high


def at_least(verdict: Verdict) -> str:
    """``at least 11.7 %``: size of the difference that the interval guarantees, rounded towards none; may be empty.

    It is the relative change of the metric itself: 40 % fewer IOPS is a ratio of 0.6.
    """
    end = nearest(verdict)
    if end is None:
        return ""
    decimals = _decimals(end - 1) if end < _LARGE else 0
    steps = math.floor(round(abs(end - 1) * 10 ** (decimals + 2), 6))
    return f"at least {steps / 10**decimals:,.{decimals}f} %" if steps else "more than 0 %"


def coverage(level: float) -> str:
    """1 - ``level``, rounded down, with as many digits as keep it from looking certain: ``99.994 %``."""
    decimals = max(1, math.ceil(-math.log10(level * 100) - 1e-9)) if 0 < level < 1 else 1
    unit: int = 10**decimals
    return f"{math.floor(round((1 - level) * 100 * unit, 6)) / unit:.{decimals}f} %".replace(".0 %", " %")


def tie_interval(verdict: Verdict) -> str:
    """The narrower interval that proves a tie, where it does: ``tie test: +0.2 % to +0.8 %``."""
    if verdict.verdict not in {"tie", "different-but-small"}:
        return ""
    return f"tie test: {interval(verdict.tie_low, verdict.tie_high)}"


def share(value: float) -> str:
    """0.05 -> ``5 %``, 0.9944 -> ``99.44 %``."""
    return f"{value * 100:.4g} %"


def count(n: int, noun: str) -> str:
    """``1 block``, ``6 blocks``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


_ABSURD = 100
"""Further blocks beyond which the number is not printed."""


def further(blocks: Sequence[int]) -> str:
    """``About 8 further blocks``, ``About 3 to 12 further blocks``, ``More than 100 further blocks``."""
    low, high = min(blocks), max(blocks)
    if low > _ABSURD:
        return f"more than {count(_ABSURD, 'further block')}"
    if high > _ABSURD:
        return f"about {low} to more than {count(_ABSURD, 'further block')}"
    return f"about {count(low, 'further block') if low == high else f'{low} to ' + count(high, 'further block')}"


def metric_of(name: str) -> Metric:
    """The metric's registry entry, or a bare one for a name that this version does not know."""
    return METRICS.get(name) or Metric(name, name, "", +1, 0.05, "not in this version's registry", lambda v: f"{v:.4g}")


def value(metric: str, figure: float | None) -> str:
    """A figure with its unit; a dash where there is none."""
    return DASH if figure is None else metric_of(metric).format(figure)


def comparison(verdict: Verdict, lane: str, baseline: str) -> str:  # noqa: PLR0911 - one sentence a word
    """The verdict without the cell: ``NVMe/TCP is at least 11.8 % faster than iSCSI``."""
    metric, sized = metric_of(verdict.metric), at_least(verdict)
    margin = share(verdict.margin)
    span = interval(verdict.low, verdict.high)
    match verdict.verdict:
        case "faster" | "slower" if verdict.metric in {"iops", "bw"}:
            return f"{lane} is {sized} {verdict.verdict} than {baseline}"
        case "faster" | "slower":
            higher = (verdict.verdict == "faster") == (metric.better > 0)
            return f"{metric.title} of {lane} is {sized} {'higher' if higher else 'lower'} than {baseline}'s"
        case "different-but-small":
            return f"{lane} differs from {baseline} by less than the {margin} that matters ({tie_interval(verdict)})"
        case "tie":
            return f"{lane} and {baseline} tie: any difference is smaller than {margin} ({tie_interval(verdict)})"
        case "inconclusive":
            more = f"; {further([verdict.more_blocks])} to reach the margin" if verdict.more_blocks else ""
            return f"no conclusion for {lane} against {baseline} ({span}{more})"
        case "no-spread":
            span = change(verdict.ratio) if verdict.ratio else "nothing"
            return f"{lane} against {baseline} is {span} in single results, and nothing is known of their spread"
        case "refused":
            return f"{lane} cannot be compared with {baseline}"


def sentence(verdict: Verdict, lane: str, baseline: str) -> str:
    """One cell: ``NVMe/TCP is at least 11.8 % faster than iSCSI at 4k randread qd16 (IOPS, 99.6 %, 6 blocks)``; the
    percentage is the coverage of this cell's own interval."""
    text = f"{comparison(verdict, lane, baseline)} at {verdict.cell}"
    if verdict.verdict == "refused":
        return f"{text}: {verdict.notes[0] if verdict.notes else 'see the findings'}"
    sure = "" if verdict.low is None else f"{coverage(verdict.level)}, "
    return f"{text} ({metric_of(verdict.metric).title}, {sure}{count(verdict.blocks, 'block')})"


def reason(verdict: Verdict) -> str:
    """Why there is no interval, else empty: the first note of a refusal, the last of other verdicts."""
    if verdict.low is not None or not verdict.notes:
        return ""
    return verdict.notes[0 if verdict.verdict == "refused" else -1]


def _where(verdicts: Sequence[Verdict]) -> str:
    return ", ".join(v.cell for v in verdicts) if len(verdicts) <= 3 else count(len(verdicts), "cell")


def _range(verdicts: Sequence[Verdict]) -> str:
    """Guaranteed sizes under one word: ``IOPS higher by at least 5.1 % at CELL to at least 48.1 % at CELL``."""
    sized = sorted((v for v in verdicts if nearest(v) is not None), key=lambda v: abs((nearest(v) or 1) - 1))
    if not sized:
        return ""
    first, last = sized[0], sized[-1]
    metric = metric_of(first.metric)
    higher = (first.verdict == "faster") == (metric.better > 0)
    head = f"{metric.title} {'higher' if higher else 'lower'} by {at_least(first)}"
    return head if len(sized) == 1 else f"{head} at {first.cell} to {at_least(last)} at {last.cell}"


def _plainly(word: Word, metric: Metric) -> str:
    """The verdict word as it fits the metric: CPU time is not faster but better."""
    plain = {"faster": "better", "slower": "worse"}
    return word if metric.name in {"iops", "bw"} else plain.get(word, word)


def _uniform(word: Word, verdicts: Sequence[Verdict], lane: str, baseline: str, places: str) -> str:
    """The sentence for cells that all have the same verdict."""
    metric, margin = metric_of(verdicts[0].metric), share(verdicts[0].margin)
    match word:
        case "faster" | "slower":
            return f"{lane} is {_plainly(word, metric)} than {baseline} in {places}: {_range(verdicts)}."
        case "tie":
            return f"{lane} and {baseline} tie in {places}: no difference in {metric.title} of {margin} or more."
        case "different-but-small":
            return f"{lane} and {baseline} differ in {metric.title}, but by less than {margin}, in {places}."
        case "inconclusive":
            return f"No conclusion on {metric.title} of {lane} against {baseline} in {places}."
        case "no-spread":
            return f"{lane} against {baseline} in {places}: single results without spread; no claim on {metric.title}."
        case "refused":
            reasons = {note for v in verdicts for note in v.notes[:1]}
            why = reasons.pop() if len(reasons) == 1 else "see the findings"
            return f"{lane} cannot be compared with {baseline} in {places}: {why}."


def summary(verdicts: Sequence[Verdict], lane: str, baseline: str) -> str:
    """One sentence for a lane in a workload: how many cells have which verdict, and the guaranteed sizes."""
    groups = {word: [v for v in verdicts if v.verdict == word and not withheld(v)] for word in ORDER}
    held = [v for v in verdicts if withheld(v)]
    total = len(verdicts)
    for word in ORDER:
        if len(groups[word]) == total:
            places = f"all {total} cells" if total > 1 else verdicts[0].cell
            return _uniform(word, verdicts, lane, baseline, places)
    parts = []
    for word in ORDER:
        if group := groups[word]:
            size = _range(group) if word in {"faster", "slower"} else ""
            named = _where(group) if len(group) <= 3 and not (size and len(group) > 1) else ""
            reasons = {note for v in group for note in v.notes[:1]} if word == "refused" else set()
            why = reasons.pop() if len(reasons) == 1 else ""
            detail = "; ".join(x for x in (named, size, why) if x)
            adjective = _plainly(word, metric_of(group[0].metric))
            parts.append(f"{adjective} in {len(group)}" + (f" ({detail})" if detail else ""))
    if held:
        parts.append(f"withheld in {len(held)} because of a critical finding ({_where(held)})")
    return f"{lane} against {baseline} in {count(total, 'cell')}: {', '.join(parts)}."
