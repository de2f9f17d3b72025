"""Pairs of runs, one of each client, as a table; and whether Fairlane met what it was to meet."""

import math
import statistics
from collections.abc import Sequence

from scipy.stats import t as student

from bench.cluster.outcome import PHASES, UNITS, Run

OURS, THEIRS = "Fairlane", "kube-burner"
NO_SLOWER = 1.05
"""The 95 % interval of a ratio of times has to end below this."""
TIMES = ("create all", "until all are seen ready", "delete all", "whole process")
NO_RATIO = "seen after the last was ready"
"""Of a few ms, and below zero where the news came before the server had answered the controller."""
Pair = dict[str, Run]


def ratios(pairs: Sequence[Pair], figure: str) -> list[float]:
    """Fairlane's figure over kube-burner's, pair by pair."""
    return [pair[OURS].figures[figure] / pair[THEIRS].figures[figure] for pair in pairs]


def interval(found: Sequence[float]) -> tuple[float, float, float]:
    """The geometric mean of ratios and its 95 % interval, by Student's t over the logarithms; unbounded if too few."""
    logs = [math.log(ratio) for ratio in found]
    mean = statistics.mean(logs)
    half = math.inf
    if len(logs) > 2:
        half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def missed(pairs: Sequence[Pair]) -> list[str]:
    """What Fairlane was to meet and did not, in words."""
    found = []
    for name, wrong in (("not wholly told", "incomplete"), ("told in a wrong order", "disordered")):
        if count := sum(len(getattr(pair[OURS], wrong)) for pair in pairs):
            found.append(f"{count} machines {name}")
    if THEIRS in pairs[0]:
        found += [
            f"{name}: {high:.2f} times as long is not excluded"
            for name in TIMES
            if (high := interval(ratios(pairs, name))[2]) > NO_SLOWER
        ]
        if any(ratio >= 1 for ratio in ratios(pairs, "requests")):
            found.append("as many requests, or more, in a pair")
    return found


def table(pairs: Sequence[Pair]) -> str:
    """One row per figure: the median of each client with its range, and the ratio within a pair, in Markdown."""
    clients = [client for client in (THEIRS, OURS) if client in pairs[0]]
    rows = [["", *clients, f"{OURS} / {THEIRS}" * (len(clients) == 2)], ["---"] * (len(clients) + 2)]
    for name, unit in UNITS.items():
        row = [f"{name}, {unit}" if unit else name]
        row += [_spread([pair[client].figures[name] for pair in pairs]) for client in clients]
        rows.append([*row, _ratio(pairs, name)])
    made = sum(len(pair[clients[0]].truth) for pair in pairs)
    for phase in PHASES:
        off = [sorted(abs(e) * 1000 for pair in pairs for e in pair[client].errors(phase)) for client in clients]
        told = [f"{statistics.median(errors):.1f}, {errors[-1]:.1f} at most" if errors else "-" for errors in off]
        rows.append([f"error of what is told of {phase}, ms", *told, ""])
    for name, wrong in (("machines not wholly told", "incomplete"), ("machines told in a wrong order", "disordered")):
        counts = [sum(len(getattr(pair[client], wrong)) for pair in pairs) for client in clients]
        rows.append([name, *(f"{count:,} of {made:,}" for count in counts), ""])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _ratio(pairs: Sequence[Pair], figure: str) -> str:
    if THEIRS not in pairs[0] or figure == NO_RATIO:
        return ""
    mean, low, high = interval(ratios(pairs, figure))
    return f"{mean:.2f}" if math.isinf(high) else f"{mean:.2f} ({low:.2f} to {high:.2f})"


def _spread(values: Sequence[float]) -> str:
    low, mid, high = (
        f"{value:.3g}" if value < 100 else f"{value:,.0f}"
        for value in (min(values), statistics.median(values), max(values))
    )
    return mid if low == high else f"{mid} ({low} to {high})"
