"""Ratios, intervals and verdicts in words, as all reports print them. Pure."""

import math
from collections.abc import Callable, Sequence

from fairlane.metrics import METRICS, Metric
from fairlane.records import Verdict, Word
from fairlane.report.text import DASH, MINUS
from fairlane.verdicts.scorecard import by_reason, withheld

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
    "faster": "better than the baseline: where blocks are independent, at most 5 % of studies (by default) have a "
    "false one, over all primary comparisons and interim analyses. The difference may be below the margin; its "
    "interval shows the size.",
    "slower": "the same, worse than the baseline.",
    "different-but-small": "a difference, and smaller than the margin.",
    "tie": "equal within the margin by two one-sided tests: the interval of that test lies within it. It holds for "
    "the trials that ran; How sure is it says how many stalls they may have missed.",
    "inconclusive": "neither a difference nor a tie is proven, or failures or stalls withhold the "
    "verdict. An interval that excludes zero may still be inconclusive, because the study makes many comparisons.",
    "no-spread": "compared from so few trials that their spread is unknown: no claim is possible.",
    "refused": "the two lanes are not comparable here; the reason is given beside it.",
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


_TIMES = 2.0
"""Ratio from which on a change is printed as a factor."""


def size(verdict: Verdict) -> str:
    """The estimate without its sign: ``13.5 %``, and from twice the baseline on ``2.7 times``; empty: no figure.

    It is the relative change of the metric itself: 40 % fewer IOPS is a ratio of 0.6.
    """
    ratio = verdict.ratio
    if ratio is None or not math.isfinite(ratio):  # a file from elsewhere may hold anything
        return ""
    return f"{_factor(ratio)} times" if ratio >= _TIMES else f"{_percent(ratio)} %"


def within(verdict: Verdict) -> str:
    """The interval in the form of ``size``: ``12.1 to 14.8 %``, ``2.6 to 2.8 times``; empty: there is none."""
    ratio, low, high = verdict.ratio, verdict.low, verdict.high
    if ratio is None or low is None or high is None or not all(map(math.isfinite, (ratio, low))):
        return ""
    if low <= 1 <= high:
        return interval(low, high)
    if ratio >= _TIMES:
        endless = high > _BOUND and high / low > _BOUND
        return f"{_factor(low, math.floor)} to {'no limit' if endless else f'{_factor(high, math.ceil)} times'}"
    near, far = sorted((abs(low - 1), abs(high - 1)))
    return f"{_share_of(near, math.floor)} to {_share_of(far, math.ceil)} %"


Rounding = Callable[[float], int]


def _percent(ratio: float) -> str:
    return _share_of(abs(ratio - 1), round)


def _share_of(part: float, rounding: Rounding) -> str:
    """``part`` (0.135) in percent without its sign; intervals are rounded outwards."""
    unit: int = 10 ** _decimals(part)
    return f"{rounding(round(part * 100 * unit, 6)) / unit:,.{_decimals(part)}f}"


def _factor(ratio: float, rounding: Rounding = round) -> str:
    decimals = 0 if ratio >= _LARGE else 1 if ratio >= _TIMES else 2
    unit: int = 10**decimals
    return f"{rounding(round(ratio * unit, 6)) / unit:,.{decimals}f}"


def coverage(level: float) -> str:
    """1 - ``level``, rounded down, with as many digits as keep it from looking certain: ``99.994 %``."""
    decimals = max(1, math.ceil(-math.log10(level * 100) - 1e-9)) if 0 < level < 1 else 1
    unit: int = 10**decimals
    return f"{math.floor(round((1 - level) * 100 * unit, 6)) / unit:.{decimals}f} %".replace(".0 %", " %")


def tie_interval(verdict: Verdict) -> str:
    """The tie test's interval, where it shows a tie: ``tie test: +0.2 % to +0.8 %``."""
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


def further(verdicts: Sequence[Verdict]) -> str:
    """How many blocks, or provisionings, would decide them: ``about 8 further blocks``, ``about 3 to 12 further
    provisionings``, ``more than 100 further blocks``; empty: not known of any."""
    units = [v.more_blocks // v.blocks_per_unit for v in verdicts if v.more_blocks]
    if not units:
        return ""
    noun = "further provisioning" if any(v.blocks_per_unit > 1 for v in verdicts) else "further block"
    low, high = min(units), max(units)
    if low > _ABSURD:
        return f"more than {count(_ABSURD, noun)}"
    if high > _ABSURD:
        return f"about {low} to more than {count(_ABSURD, noun)}"
    return f"about {count(low, noun) if low == high else f'{low} to ' + count(high, noun)}"


def metric_of(name: str) -> Metric:
    """The metric's registry entry, or a bare one for a name that this version does not know."""
    return METRICS.get(name) or Metric(name, name, "", +1, 0.05, "unknown to this version", lambda v: f"{v:.4g}")


def value(metric: str, figure: float | None) -> str:
    """A figure with its unit; a dash where there is none."""
    return DASH if figure is None else metric_of(metric).format(figure)


def effect(verdict: Verdict) -> str:
    """The estimate with its direction and interval: ``12.0 % higher (11.0 to 13.1 %)``, ``2.7 times (2.6 to 2.8
    times)``; ``+1.2 % (-3 % to +5.5 %)`` where the interval holds no difference; empty: no figure."""
    sized, span, ratio = size(verdict), within(verdict), verdict.ratio or 1.0
    if not sized or not span:
        return ""
    if (verdict.low or 0) <= 1 <= (verdict.high or 0):
        return f"{change(ratio)} ({span})"
    return f"{sized} ({span})" if ratio >= _TIMES else f"{sized} {'higher' if ratio > 1 else 'lower'} ({span})"


def column(metric: str, figures: Sequence[float | None]) -> tuple[str, list[str]]:
    """The unit that all figures of a column share, and the figures in it with the same decimals; without a unit where
    they lie more than a factor of 1,000 apart, and each brings its own."""
    known = [abs(f) for f in figures if f and math.isfinite(f)]
    unit = metric_of(metric).unit
    if not known or max(known) > 1000 * min(known) or unit not in _SCALES:
        return "", [value(metric, f) for f in figures]
    large, name = next((s for s in _SCALES[unit] if min(known) >= 0.9995 * s[0]), _SCALES[unit][-1])
    digits = (3 if max(known) <= 10 * min(known) else 2) + (unit == "B/s")  # of the smallest
    decimals = max(0, digits - 1 - math.floor(math.log10(min(known) / large) + 1e-9))
    return name, [DASH if f is None else f"{f / large:,.{decimals}f}" for f in figures]


def aligned(metric: str, figures: Sequence[float | None]) -> list[str]:
    """The figures of a ``column``, each with its unit."""
    unit, texts = column(metric, figures)
    return [f"{text} {unit}" if unit and text != DASH else text for text in texts]


_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")),
    "1/s": ((1.0, ""),),
    "B/s": ((2.0**20, "MiB/s"),),
}
"""Unit of a metric -> sizes and names in which its figures are printed."""


def comparison(verdict: Verdict, lane: str, baseline: str) -> str:  # noqa: PLR0911 - one sentence a word
    """The verdict without the cell: ``NVMe/TCP is 13.5 % faster than iSCSI (12.1 to 14.8 %)``."""
    metric, sized, span = metric_of(verdict.metric), size(verdict), within(verdict)
    margin = share(verdict.margin)
    times = (verdict.ratio or 1) >= _TIMES
    match verdict.verdict:
        case "faster" | "slower" if verdict.metric in {"iops", "bw"}:
            change_ = f"{sized} as fast as" if times else f"{sized} {verdict.verdict} than"
            return f"{lane} is {change_} {baseline} ({span})"
        case "faster" | "slower" if times:
            return f"{metric.title} of {lane} is {sized} that of {baseline} ({span})"
        case "faster" | "slower":
            higher = (verdict.verdict == "faster") == (metric.better > 0)
            return f"{metric.title} of {lane} is {sized} {'higher' if higher else 'lower'} than {baseline}'s ({span})"
        case "different-but-small":
            return f"{lane} differs from {baseline} by less than the {margin} that matters ({tie_interval(verdict)})"
        case "tie":
            return f"{lane} and {baseline} tie: they differ by less than {margin} ({tie_interval(verdict)})"
        case "inconclusive":
            more = f"; {further([verdict])} may decide it" if verdict.more_blocks else ""
            both = interval(verdict.low, verdict.high)
            return f"no conclusion for {lane} against {baseline} ({both}{more})"
        case "no-spread":
            span = change(verdict.ratio) if verdict.ratio else "nothing"
            return f"{lane} against {baseline} is {span} in single results of unknown spread"
        case "refused":
            return f"{lane} cannot be compared with {baseline}"


def sentence(verdict: Verdict, lane: str, baseline: str) -> str:
    """One cell: ``NVMe/TCP is 13.5 % faster than iSCSI (12.1 to 14.8 %) at 4k randread qd16 (IOPS, 6 blocks)``."""
    text = f"{comparison(verdict, lane, baseline)} at {verdict.cell}"
    if verdict.verdict == "refused":
        return f"{text}: {verdict.notes[0] if verdict.notes else 'see the findings'}"
    return f"{text} ({metric_of(verdict.metric).title}, {count(verdict.blocks, 'block')})"


def reason(verdict: Verdict) -> str:
    """Why there is no interval, else empty: the first note of a refusal, the last of other verdicts."""
    if verdict.low is not None or not verdict.notes:
        return ""
    return verdict.notes[0 if verdict.verdict == "refused" else -1]


def _where(verdicts: Sequence[Verdict]) -> str:
    return ", ".join(v.cell for v in verdicts) if len(verdicts) <= 3 else count(len(verdicts), "cell")


def _range(verdicts: Sequence[Verdict]) -> str:
    """Sizes under one word: ``IOPS higher by 5.1 % at CELL to 48.1 % at CELL``, or ``IOPS 2.7 times as high``."""
    sized = sorted((v for v in verdicts if v.ratio), key=lambda v: abs(math.log(v.ratio or 1)))
    if not sized:
        return ""
    first, last = sized[0], sized[-1]
    metric = metric_of(first.metric)
    higher = (first.verdict == "faster") == (metric.better > 0)
    times = (first.ratio or 1) >= _TIMES
    head = (
        f"{metric.title} {size(first)} as high"
        if times
        else f"{metric.title} {'higher' if higher else 'lower'} by {size(first)}"
    )
    if len(sized) == 1:
        return f"{head} ({within(first)})"
    as_high = " as high" if not times and (last.ratio or 1) >= _TIMES else ""
    return f"{head} at {first.cell} to {size(last)}{as_high} at {last.cell}"


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
    """One sentence for a lane in a workload: how many cells have which verdict, and the sizes."""
    groups = {word: [v for v in verdicts if v.verdict == word and not withheld(v)] for word in ORDER}
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
    held = by_reason(verdicts)
    if not parts:
        return " ".join(
            f"{lane} against {baseline}: {_known(group)}. Not headlined: {why}." for why, group in held.items()
        )
    unheaded = [f"Not headlined ({why}): {_known(group)}." for why, group in held.items()]
    return " ".join([f"{lane} against {baseline} in {count(total, 'cell')}: {', '.join(parts)}.", *unheaded])


def _known(verdicts: Sequence[Verdict]) -> str:
    """What withheld verdicts say all the same: ``+7.6 % (+1.5 % to +14 %) at 4k randread qd1``; of many, the range."""
    sized = sorted((v for v in verdicts if v.ratio), key=lambda v: v.ratio or 1)
    if len(sized) <= 3:
        return ", ".join(f"{change(v.ratio or 1)} ({interval(v.low, v.high)}) at {v.cell}" for v in sized)
    first, last = sized[0], sized[-1]
    return (
        f"{change(first.ratio or 1)} at {first.cell} to {change(last.ratio or 1)} at {last.cell}, in "
        f"{count(len(sized), 'cell')}"
    )
