"""OpenMetrics text: verdicts as gauges, latencies as histograms; for Prometheus, Grafana.

Older Prometheus text parsers read the same file.

Uses only gauges and histograms, without timestamps: textfile collectors and push gateways accept nothing else.

Bucket edges lie just below 2^k and the quarters between powers of two. These are edges of fio's own bins, so counts are
exact; latencies are whole nanoseconds, so "below 2^k" is "at most 2^k - 1". The sum uses the bins' midpoints and may be
0.8 % off.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from fairlane.export.base import Content, Format, plain
from fairlane.stats.histogram import Bins

Sample = tuple[str, Mapping[str, Any], float]
"""Suffix of the name, labels, value."""

_GAUGES = {
    "ratio": "Lane over baseline in the metric itself: 1.12 is 12 % more.",
    "low": "Lower end of the adjusted interval of the ratio.",
    "high": "Upper end of the adjusted interval of the ratio.",
    "tie_low": "Lower end of the tie test's interval.",
    "tie_high": "Upper end of the tie test's interval.",
    "margin": "Smallest relative difference that matters.",
    "level": "Two-sided error rate of the interval: 1 - level is its coverage.",
    "headline": "1: may stand in a summary: primary, decided, no critical finding.",
    "blocks": "Blocks that count.",
    "voided": "Blocks lost to failed trials.",
    "lane_value": "The lane's own figure, in the unit that the label says.",
    "baseline_value": "The baseline's figure over the same blocks, in the unit that the label says.",
}
"""Column of the table of verdicts -> help text."""
_NAMES = {
    "low": "ratio_low",
    "high": "ratio_high",
    "blocks": "verdict_blocks",
    "voided": "verdict_voided_blocks",
    "lane_value": "value",
}


class Openmetrics(Format):
    stream = "fairlane.prom"

    def files(self, content: Content) -> dict[str, bytes]:
        lines = [line for family in _families(content) for line in family]
        return {self.stream: ("\n".join((*lines, "# EOF")) + "\n").encode()}


def _families(content: Content) -> Iterator[Iterator[str]]:
    about, verdicts = content.provenance, content.table("verdicts")
    run = {"run": about["run"], "figures": about["figures"]}
    facts = {name: _fact(value) for name, value in about.items() if not isinstance(value, tuple | dict | None)}
    yield _family("run_info", "gauge", "Run, study and kind of the figures.", [("", facts, 1.0)])
    yield _family("lane_info", "gauge", "Label of a lane.", _lanes(content, run))
    rows = [(_about(row, run), row) for row in verdicts.records()]
    words = (("", {**labels, "verdict": row["verdict"]}, 1.0) for labels, row in rows)
    yield _family("verdict", "gauge", "1 for the verdict of a comparison.", words)
    for column, text in _GAUGES.items():
        samples = (("", labels, float(row[column])) for labels, row in rows if row[column] is not None)
        yield _family(_NAMES.get(column, column), "gauge", text, samples)
    yield _family("findings", "gauge", "Findings of the checks, by severity.", _findings(content, run))
    yield _family("trials", "gauge", "Completed trials.", _trials(content, run))
    yield _family("latency_seconds", "histogram", "Latency of all I/Os, submission to completion.",
                  _latencies(content, run), "seconds")  # fmt: skip


def _fact(value: Any) -> str:
    """``value`` as a label."""
    return str(value).lower() if isinstance(value, bool) else str(plain(value))


def _about(row: Mapping[str, Any], run: Mapping[str, str]) -> dict[str, Any]:
    names = ("workload", "cell", "lane", "baseline", "metric", "unit", "primary")
    return {**run, **{name: _fact(row[name]) for name in names}}


def _lanes(content: Content, run: Mapping[str, str]) -> Iterator[Sample]:
    for row in content.table("lanes").records():
        yield "", {**run, **{name: row[name] for name in ("lane", "lane_label", "transport")}}, 1.0


def _findings(content: Content, run: Mapping[str, str]) -> Iterator[Sample]:
    severities = [row["severity"] for row in content.table("findings").records()]
    for severity in ("critical", "warning", "info"):
        yield "", {**run, "severity": severity}, severities.count(severity)


def _trials(content: Content, run: Mapping[str, str]) -> Iterator[Sample]:
    counts: dict[tuple[str, str, str, str], int] = {}
    for row in content.table("trials").records():
        at = (row["workload"], row["cell"], row["lane"], "failed" if row["failed"] else "ok")
        counts[at] = counts.get(at, 0) + 1
    for (workload, cell, lane, outcome), n in counts.items():
        yield "", {**run, "workload": workload, "cell": cell, "lane": lane, "outcome": outcome}, n


def _latencies(content: Content, run: Mapping[str, str]) -> Iterator[Sample]:
    rows = (row for row in content.table("percentiles").records() if row["histogram"] == "lat")
    for row in rows:
        bins = content.histograms[row["cell_key"], row["lane"]]
        labels = {**run, **{name: row[name] for name in ("workload", "cell", "lane")}}
        for edge, count in buckets(bins):
            yield "_bucket", {**labels, "le": repr(edge / 1e9)}, count
        yield "_bucket", {**labels, "le": "+Inf"}, bins.total
        yield "_count", labels, bins.total
        yield "_sum", labels, float(bins.ns.astype(np.float64) @ bins.counts) / 1e9


def buckets(bins: Bins) -> list[tuple[int, int]]:
    """(edge in ns, cumulative count): from the last edge below all I/Os to the first at or above them."""
    if not bins:
        return []
    edges = list(_edges(int(bins.ns[-1])))
    edges = edges[max(0, bisect_left(edges, int(bins.ns[0])) - 1) :]
    counts = bins.counts.cumsum()
    before = np.searchsorted(bins.ns, edges, side="right")
    return [(edge, int(counts[n - 1]) if n else 0) for edge, n in zip(edges, before.tolist(), strict=True)]


def _edges(most: int) -> Iterator[int]:
    """Edges from 128 ns, each at most a quarter above the last, minus 1; ends with the first at or above ``most``."""
    for k in range(7, 64):
        for quarter in range(4):
            edge = 2**k + quarter * 2 ** (k - 2) - 1
            yield edge
            if edge >= most:
                return


def _family(name: str, kind: str, text: str, samples: Iterable[Sample], unit: str = "") -> Iterator[str]:
    yield f"# TYPE fairlane_{name} {kind}"
    if unit:
        yield f"# UNIT fairlane_{name} {unit}"
    yield f"# HELP fairlane_{name} {text}"
    for suffix, labels, value in samples:
        pairs = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
        yield f"fairlane_{name}{suffix}{{{pairs}}} {value!r}"


def _escaped(text: Any) -> str:
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


PLUGIN = Openmetrics()
