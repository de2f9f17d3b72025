"""The final output of a comparison: figures, findings, one plain sentence per cell, and one for all. Pure."""

import math
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from fairlane.platforms.hosts import HostsSpec
from fairlane.records import Cell, Evidence, Finding, Observation, Verdict
from fairlane.report.phrases import further, metric_of
from fairlane.report.text import MINUS
from fairlane.stats import histogram as bins
from fairlane.study.forecast import about
from fairlane.study.spec import Study
from fairlane.units import about_size
from fairlane.verdicts.scorecard import why_withheld, withheld
from fairlane.versus.profiles import Limit

_DECIDED = ("faster", "slower")


@dataclass(frozen=True)
class Verdicts:
    """A run's primary verdicts with the names of its paths."""

    rows: Sequence[Verdict]
    labels: Mapping[str, str]
    cells: Mapping[str, Cell] = field(default_factory=dict)
    """By key."""

    @classmethod
    def of(cls, evidence: Evidence, verdicts: Sequence[Verdict]) -> "Verdicts":
        """Those of the baseline's rivals in the metric that decides."""
        labels = {name: lane.label or name for name, lane in evidence.study.lanes.items()}
        cells = {cell.key: cell for cell in evidence.cells()}
        return cls([v for v in verdicts if v.primary and not v.control], labels, cells)

    def label(self, lane: str) -> str:
        return self.labels.get(lane, lane)


def sentence(verdict: Verdict, found: Verdicts) -> str:  # noqa: PLR0911 - one sentence a word
    """``b is 1.32x as fast as a (4k randread qd1: +32 %, 95 % interval +29 to +35 %)``."""
    lane, base = found.label(verdict.lane), found.label(verdict.baseline)
    span = f"{verdict.cell}: {_interval(verdict)}"
    if withheld(verdict):
        return f"not decided: {lane} against {base} ({span}; {why_withheld(verdict)})"
    ratio = verdict.ratio
    match verdict.verdict:
        case "faster" | "slower" if ratio and math.isfinite(ratio):
            first, second = (lane, base) if ratio >= 1 else (base, lane)
            times = _times(ratio if ratio >= 1 else 1 / ratio)
            if verdict.metric in ("iops", "bw"):
                return f"{first} is {times} as fast as {second} ({span})"
            title = metric_of(verdict.metric).title
            return f"{title} of {first} is {times} that of {second} ({span})"
        case "tie":
            return f"{lane} and {base} are equal within {_share(verdict.margin)} ({span})"
        case "different-but-small":
            return f"{lane} and {base} differ by less than {_share(verdict.margin)} ({span})"
        case "refused":
            return f"{lane} and {base} cannot be compared ({verdict.cell}: {(verdict.notes or ('see findings',))[0]})"
        case "no-spread":
            return f"not decided: {lane} against {base} ({verdict.cell}: too few trials to estimate the spread)"
        case _:
            more = f"; {further([verdict])}" if verdict.more_blocks else ""
            return f"not decided: {lane} against {base} ({span}{_joint(verdict, len(found.rows))}{more})"


def _joint(verdict: Verdict, comparisons: int) -> str:
    """Where the printed interval excludes no difference, and the one that decides does not."""
    low, high = verdict.low, verdict.high
    if not (low and high and verdict.joint_low and verdict.joint_high) or low <= 1 <= high:
        return ""
    over = f"across {comparisons} comparisons" if comparisons > 1 else "across all interim analyses"
    ends = f"{_signed(verdict.joint_low, 0, -1)} to {_signed(verdict.joint_high, 0, 1)} %"
    return f"; not significant {over}: joint interval {ends}"


def _interval(verdict: Verdict) -> str:
    ratio, low, high = verdict.ratio, verdict.low, verdict.high
    if ratio is None or low is None or high is None:
        return (verdict.notes or ("no figure",))[-1] if verdict.ratio is None else _signed(verdict.ratio, 1)
    digits = 0 if high - low >= 0.04 else 1 if high - low >= 0.004 else 2
    ends = f"{_signed(low, digits, -1)} to {_signed(high, digits, 1)} %"
    return f"{_signed(ratio, digits)} %, 95 % interval {ends}"


def _signed(ratio: float, digits: int, side: int = 0) -> str:
    """A ratio as a signed change without the sign of percent; intervals are rounded outwards."""
    change = (ratio - 1) * 100 * 10**digits
    steps = math.floor(change + 1e-9) if side < 0 else math.ceil(change - 1e-9) if side > 0 else round(change)
    return f"{steps / 10**digits:+,.{digits}f}".replace("-", MINUS)


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x" if ratio >= 10 else f"{ratio:.2f}x"


def _share(value: float) -> str:
    return f"{value * 100:.3g} %"


def overall(found: Verdicts) -> Iterator[str]:
    """One line for each path but the baseline."""
    for lane in dict.fromkeys(v.lane for v in found.rows):
        own = [v for v in found.rows if v.lane == lane]
        sure = [v for v in own if not withheld(v)]
        name, base = found.label(lane), found.label(own[0].baseline)
        counts = [
            (sum(v.verdict == "faster" for v in sure), f"{name} is better"),
            (sum(v.verdict == "slower" for v in sure), f"{base} is better"),
            (sum(v.verdict in ("tie", "different-but-small") for v in sure), f"{name} and {base} are equal"),
            (sum(v.verdict in ("inconclusive", "no-spread") or withheld(v) for v in own),
             f"{name} against {base} is not decided"),
            (sum(v.verdict == "refused" for v in own), f"{name} and {base} cannot be compared"),
        ]  # fmt: skip
        some = [(n, text) for n, text in counts if n]
        if len(some) == 1:
            n, text = some[0]
            yield f"Overall: {text}{'' if n == 1 else ' in both cells' if n == 2 else f' in all {n} cells'}."
        else:
            yield f"Overall, {len(own)} cells: {', '.join(f'{text} in {n}' for n, text in some)}."


def undecided(found: Verdicts) -> list[Verdict]:
    """Verdicts that more blocks may decide."""
    return [v for v in found.rows if v.verdict == "inconclusive" or withheld(v)]


@dataclass(frozen=True)
class Checked:
    """A documented limit, and what a path did: all trials' syncs together."""

    lane: str
    cell: str
    metric: str
    value: float | None
    """Percentile of the merged histogram; None: too few lie beyond it."""
    limit: float
    source: str
    over: float | None
    """Share that reached the limit; None: nothing was counted."""
    missing: int
    """Trials without a figure."""
    passed: bool | None
    """None: not known."""


def limits(evidence: Evidence, wanted: Sequence[Limit]) -> list[Checked]:
    """Every path against every limit. A limit that is exceeded is, whatever is missing; it is kept only if every trial
    counts and ten syncs lie beyond the percentile."""
    return [
        _checked(limit, cell, lane, [o for o in evidence.observations if o.cell == cell.key and o.lane == lane])
        for limit in wanted
        for cell in evidence.cells()
        for lane in evidence.study.lanes
    ]


def _checked(limit: Limit, cell: Cell, lane: str, own: Sequence[Observation]) -> Checked:
    share = metric_of(limit.metric).percentile or 1.0
    each = [bins.Bins.of(o.histograms.get(bins.SYNCS, {})) for o in own if not o.failed]
    merged = bins.merge(each)
    missing = len(own) - sum(bool(b) for b in each)
    value = float(bins.percentile(merged, share)) if bins.reportable(merged, share) else None
    over = float(merged.counts[merged.ns >= limit.below].sum()) / merged.total if merged else None
    passed: bool | None = None
    if over is not None and (over > 1 - share if value is None else value >= limit.below):
        passed = False
    elif value is not None and not missing:
        passed = True
    return Checked(lane, cell.name, limit.metric, value, limit.below, limit.source, over, missing, passed)


def limit_line(checked: Checked, labels: Mapping[str, str]) -> str:
    """``PASS  ./a: p99 sync latency 2.1 ms, limit 10 ms (etcd's documentation)``."""
    metric = metric_of(checked.metric)
    word = {True: "PASS", False: "FAIL", None: "?"}[checked.passed]
    limit = metric.format(checked.limit)
    if checked.value is not None:
        value = metric.format(checked.value)
    elif checked.over is None:
        value = "not known"
    else:
        value = f"not known, too few syncs; {checked.over * 100:.3g} % took {limit} or longer"
    more = ""
    if checked.missing:
        more = f"; {checked.missing} trial{'s' if checked.missing > 1 else ''} without a figure"
    name = labels.get(checked.lane, checked.lane)
    return f"{word}  {name}: {metric.title} {value}, limit {limit} ({checked.source}{more})"


_HOPELESS = 100
"""Further blocks beyond which a longer comparison is not proposed."""


def hopeless(found: Verdicts) -> bool:
    """Whether no open verdict is within reach."""
    open_ = undecided(found)
    return bool(open_) and all((v.more_blocks or 0) > _HOPELESS for v in open_)


def within_reach(found: Verdicts) -> list[Verdict]:
    """Open verdicts that a longer comparison may decide."""
    return [v for v in undecided(found) if (v.more_blocks or 0) <= _HOPELESS]


def next_steps(found: Verdicts, *, report: str, run: str, again: tuple[str, float]) -> Iterator[str]:
    """Where the results are, and what to do next. ``again``: the command for a longer
    comparison, and its seconds."""
    command, seconds = again
    if command:
        yield f"longer     {command} (about {about(seconds)})"
    elif hopeless(found):
        yield (
            f"longer     not worthwhile: a decision needs more than {_HOPELESS} further blocks, because the difference "
            "is smaller than the noise; resolve the findings above first"
        )
    yield f"report     {report}"
    yield f"run        {run} (the report again: fairlane report {shlex.quote(run)})"


def longer_trials(evidence: Evidence, found: Verdicts) -> float:
    """Seconds of a trial in which every percentile that decides a cell is a figure, where one has none now; else 0."""
    needed = 0.0
    for verdict in found.rows:
        metric, cell = metric_of(verdict.metric), found.cells.get(verdict.key)
        if verdict.ratio is not None or metric.percentile is None or cell is None:
            continue
        own = [o.histograms for o in evidence.observations if o.cell == cell.key and not o.failed]
        ways = [bins.directions(h).get(metric.way, bins.Bins()) if metric.way else bins.latency(h) for h in own]
        counts = [bins.count(way) for way in ways]
        if counts and 0 < min(counts) < 1 / (1 - metric.percentile) * bins.BEYOND:
            enough = 1.2 * bins.BEYOND / (1 - metric.percentile)
            needed = max(needed, math.ceil(cell.params["runtime"] / 1e9 * enough / min(counts)))
    return needed


def figures(evidence: Evidence) -> list[dict[str, Any]]:
    """A row per cell and path: median IOPS, bandwidth, latencies over the trials."""
    rows = []
    for cell in evidence.cells():
        sync = f"{evidence.study.workloads[cell.workload].primary}"
        wanted = ("iops", "bw", "lat_p50", "lat_p99", *((sync,) if sync.startswith("sync") else ()))
        for lane, spec in evidence.study.lanes.items():
            own = [o for o in evidence.observations if o.cell == cell.key and o.lane == lane and not o.failed]
            row: dict[str, Any] = {"cell": cell.name, "path": spec.label or lane}
            for name in wanted:
                values = [o.metrics[name] for o in own if name in o.metrics]
                row[name] = metric_of(name).format(median(values)) if values else ""
            rows.append(row | {"trials": len(own)})
    return rows


_MOST = 8
"""Findings that are printed; the report has all."""


def finding_lines(findings: Sequence[Finding], labels: Mapping[str, str]) -> Iterator[str]:
    """Lines, critical findings first; those that say the same of several paths are one."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in sorted(findings, key=lambda f: f.severity != "critical"):
        key = (finding.check, finding.kind) if finding.kind and finding.lanes else (finding.message,)
        alike.setdefault((finding.severity, *key), []).append(finding)
    for (severity, *_), own in [*alike.items()][:_MOST]:
        first = own[0]
        names = [labels.get(lane, lane) for lane in first.lanes]
        others = dict.fromkeys(labels.get(lane, lane) for f in own for lane in f.lanes)
        also = [name for name in others if name not in names]
        if any(f.message != first.message for f in own):
            text = f" ({', '.join(names)}{'; likewise ' + ', '.join(also) if also else ''}; {len(own)} in the report)"
        else:
            text = f" ({', '.join(names)})" if len(others) == 1 else ""
        yield from textwrap.wrap(f"{severity}: {first.message}{text}", _WIDTH, break_long_words=False,
                                 break_on_hyphens=False)  # fmt: skip
    if len(alike) > _MOST:
        yield f"and {len(alike) - _MOST} more findings, in the report"


_WIDTH = 80
_SMALL = 4 * 2**30
"""Bytes of a file that the cache of a drive or array may hold."""


def small(study: Study) -> str:
    """A line for files that a cache may hold; empty: they are larger, or the load itself names its regions."""
    made = any(lane.transport == "directory" for lane in study.lanes.values())
    sizes = [size for cell in study.cells() if (size := cell.params.get("size")) is not None]
    if isinstance(study.platform, HostsSpec) and made and not sizes:
        sizes = [study.platform.size]
    if made and not any(cell.params.get("prefill") for cell in study.cells()):
        return ""
    what = "each file has" if made else "the tested part of each path has"
    if not sizes and isinstance(volume := study.platform.known().get("disk_size"), int):
        sizes, what = [volume], "each volume has"
    if not sizes or max(sizes) >= _SMALL:
        return ""
    return f"note: {what} {about_size(max(sizes))}; drive or array caches may have served the I/O"


def grave(findings: Sequence[Finding]) -> list[Finding]:
    """Findings that a reader must know: critical ones and warnings."""
    return [f for f in findings if f.severity != "info"]
