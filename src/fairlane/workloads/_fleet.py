"""Merge the figures of several machines into those of their fleet: pure. Percentiles come from merged bins only.

A figure that one machine lacks is left out: a sum or mean over some machines would look like one over all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fairlane.guard.values import MIXED
from fairlane.metrics import METRICS, SYNC, WAYS
from fairlane.records import Figures
from fairlane.stats.histogram import Bins, percentiles
from fairlane.stats.histogram import merge as merge_bins

Named = Mapping[str, Any]
"""Machine -> its value."""


def merge(machines: Mapping[str, Figures]) -> Figures:
    """Adds rates, merges bins, weights means by the machines' I/Os, takes the largest of maxima (``Metric.fleet``).
    Context: see ``_RULES``; a key without a rule keeps its value if all machines agree, and is kept by machine
    otherwise. ``vms`` has each machine's own figures."""
    fleet = list(machines.values())
    weights = {way: [_ios(figures, way) for figures in fleet] for way in ("", *WAYS, SYNC)}
    histograms = _histograms([figures.histograms for figures in fleet])
    metrics, steps = _metrics(fleet, weights)
    metrics |= percentiles(histograms)
    context = {}
    for key in dict.fromkeys(key for figures in fleet for key in figures.context):
        by_machine = {name: figures.context[key] for name, figures in machines.items() if key in figures.context}
        if rule := _RULES.get(key):
            if len(by_machine) == len(machines) and (value := rule(by_machine, weights[""])) is not None:
                context[key] = value
        else:
            context[key] = _same(by_machine) if len(by_machine) == len(machines) else by_machine
    context["vms"] = [_own(name, figures) for name, figures in machines.items()]
    if window := _window(fleet):
        context["window"] = window
    return Figures(metrics, histograms, context, steps)


def _ios(figures: Figures, way: str = "") -> float:
    """Weight of a machine's means: its I/Os, of one direction or of all, or its syncs; 1 if it reports none."""
    if way == SYNC:
        return float(figures.context.get("load", {}).get("syncs", 0)) or 1.0
    load = figures.context.get("load", {})
    ios = load.get("ios", {})
    return float(ios.get(way, 0) if way else sum(ios.values()) or load.get("transactions", 0)) or 1.0


def _histograms(machines: Sequence[Mapping[str, Any]]) -> dict[str, Bins]:
    """Merged bins; a kind that a machine with I/Os of that direction lacks is left out."""
    merged = {}
    for key in dict.fromkeys(key for each in machines for key in each):
        way, _, kind = key.partition(".")
        having = [each for each in machines if key in each]
        without = [each for each in machines if key not in each and any(k.startswith(f"{way}.") for k in each)]
        if not without:
            merged[f"{way}.{kind}"] = merge_bins(Bins.of(each[key]) for each in having)
    return merged


def _metrics(
    fleet: Sequence[Figures], weights: Mapping[str, Sequence[float]]
) -> tuple[dict[str, float], dict[str, float]]:
    """Metrics but percentiles, and their steps. ``weights``: the machines' I/Os by direction (empty: all)."""
    metrics: dict[str, float] = {}
    steps: dict[str, float] = {}
    for name in dict.fromkeys(name for figures in fleet for name in figures.metrics):
        values = [figures.metrics[name] for figures in fleet if name in figures.metrics]
        metric = METRICS.get(name)
        if len(values) < len(fleet) or metric is None or metric.percentile is not None:
            continue
        shares = weights[metric.way]
        if metric.fleet == "sum":
            metrics[name], shares = sum(values), values
        elif metric.fleet == "most":
            metrics[name] = max(values)
        else:
            metrics[name] = _mean(values, shares)
        if any(name in figures.steps for figures in fleet) and sum(shares) > 0:
            steps[name] = _mean([figures.steps.get(name, 0.0) for figures in fleet], shares)
    return metrics, steps


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def _own(name: str, figures: Figures) -> dict[str, Any]:
    """A machine's entry in ``vms``."""
    own: dict[str, Any] = {"name": name}
    own |= {key: figures.metrics[key] for key in ("iops", "lat_p99", "cpu_per_io") if key in figures.metrics}
    own |= {key: value for key, value in figures.context.get("start", {}).items() if key in ("start_ms", "within_ms")}
    return own


def _window(fleet: Sequence[Figures]) -> dict[str, float]:
    """Distance of the starts, and the share of the time in which all machines were under load. Ramps are the same
    everywhere, so ends lie as far apart as starts and run times make them."""
    starts = [figures.context.get("start", {}) for figures in fleet]
    ran = [figures.context.get("load", {}).get("runtime_ms") for figures in fleet]
    if not all("start_ms" in start for start in starts) or not all(ran):
        return {}
    begins = [start["start_ms"] for start in starts]
    ends = [begin + ms for begin, ms in zip(begins, ran, strict=True)]
    together = max(0.0, min(ends) - max(begins))
    return {
        "skew_ms": max(begins) - min(begins),
        "within_ms": 2 * max(start["within_ms"] for start in starts),
        "share": together / (max(ends) - min(begins)),
    }


def _same(by_machine: Named) -> Any:
    values = list(by_machine.values())
    return values[0] if all(value == values[0] for value in values) else dict(by_machine)


def _added(by_machine: Iterable[Any]) -> Any:
    """The sum of numbers; of mappings by key, for keys that all have."""
    values = list(by_machine)
    if all(isinstance(value, Mapping) for value in values):
        keys = [key for key in values[0] if all(key in value for value in values)]
        return {key: _added(value[key] for value in values) for key in keys}
    return sum(values)


def _load(by_machine: Named, weights: Sequence[float]) -> Any:  # noqa: ARG001
    """Series and samples of single machines do not add up without their clocks and are left out."""
    loads = list(by_machine.values())
    merged = {key: _added(load.get(key, {}) for load in loads) for key in ("ios", "bytes", "iops")}
    if all("all" in load for load in loads):
        merged["all"] = _added(load["all"] for load in loads)
    for key, pick in (
        ("syncs", sum),
        ("cached", all),
        ("runtime_ms", max),
        ("runtime_ms_min", min),
        ("jobs", sum),
        ("processed", sum),
        ("transactions", sum),
        ("window", max),
    ):
        if all(key in load for load in loads):
            merged[key] = pick(load[key] for load in loads)
    return merged


def _fio(by_machine: Named, weights: Sequence[float]) -> Any:  # noqa: ARG001
    every = list(by_machine.values())
    numbers = ("jobs", "usr_cpu", "sys_cpu", "short_ios", "dropped_ios", "submitted")
    merged = {key: _added(fio[key] for fio in every) for key in numbers if all(key in fio for fio in every)}
    merged["version"] = ", ".join(dict.fromkeys(str(fio.get("version", "")) for fio in every))
    if warnings := {name: fio["warnings"] for name, fio in by_machine.items() if "warnings" in fio}:
        merged["warnings"] = "\n".join(f"{name}: {text}" for name, text in warnings.items())
    return merged


def _jobs(by_machine: Named, weights: Sequence[float]) -> Any:  # noqa: ARG001
    """Figures of named jobs: rates and counts added up, means weighted by what they are of."""
    every = list(by_machine.values())
    return {name: _job([jobs[name] for jobs in every]) for name in every[0] if all(name in jobs for jobs in every)}


def _job(jobs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    merged = {key: sum(job[key] for job in jobs) for key in JOB_SUMS if all(key in job for job in jobs)}
    for key, of in JOB_MEANS.items():
        if all(key in job and job.get(of) for job in jobs):
            merged[key] = _mean([job[key] for job in jobs], [job[of] for job in jobs])
    return merged


def _sum(by_machine: Named, weights: Sequence[float]) -> Any:  # noqa: ARG001
    return _added(by_machine.values())


def _weighted(by_machine: Named, weights: Sequence[float]) -> Any:
    values = list(by_machine.values())
    if not all(isinstance(value, Mapping) for value in values):
        return _mean(values, weights)
    keys = dict.fromkeys(key for value in values for key in value)
    return {key: _mean([value.get(key, 0.0) for value in values], weights) for key in keys}


def _cpu(by_machine: Named, weights: Sequence[float]) -> Any:
    every = list(by_machine.values())
    modes = {key: _weighted({n: cpu[key] for n, cpu in by_machine.items()}, weights) for key in ("by_place", "by_mode")}
    return {**modes, "window_ios": sum(cpu["window_ios"] for cpu in every)}


def _busiest(by_machine: Named, weights: Sequence[float]) -> Any:  # noqa: ARG001
    """One machine at its limit limits the fleet, and a mean would hide it."""
    return max(by_machine.values(), key=lambda machine: machine["busy"])


def _net(by_machine: Named, weights: Sequence[float]) -> Any:  # noqa: ARG001
    """Adds losses; bytes are those of the busiest interface, as for one machine."""
    every = list(by_machine.values())
    merged = {key: sum(n[key] for n in every) for key in ("retransmits", "drops") if all(key in n for n in every)}
    return merged | {key: max(n.get(key, 0) for n in every) for key in ("tx_bytes", "rx_bytes") if key in every[0]}


def _paths(by_machine: Named, weights: Sequence[float]) -> Any:  # noqa: ARG001
    """Adds I/Os by path name: every machine uses the same portals."""
    sums: dict[str, int] = {}
    for path in (path for paths in by_machine.values() for path in paths):
        sums[path["name"]] = sums.get(path["name"], 0) + path["ios"]
    return [{"name": name, "ios": ios} for name, ios in sums.items()]


def _each(by_machine: Named, weights: Sequence[float]) -> Any:  # noqa: ARG001
    """By machine, even if all agree: readers go by the depth."""
    return dict(by_machine)


def _nothing(by_machine: Named, weights: Sequence[float]) -> Any:  # noqa: ARG001
    return None


def _conditions(by_machine: Named, weights: Sequence[float]) -> Any:  # noqa: ARG001
    every = list(by_machine.values())
    merged = {}
    for key in dict.fromkeys(key for conditions in every for key in conditions):
        values = list(dict.fromkeys(str(conditions.get(key, "unknown")) for conditions in every))
        merged[key] = every[0][key] if len(values) == 1 else MIXED + ", ".join(values)
    return merged


JOB_SUMS = ("ios", "syncs", "iops", "bw")
"""Figures of a named job that add up over machines."""
JOB_MEANS: Mapping[str, str] = {"lat_mean": "ios", "sync_lat_mean": "syncs"}
"""Means of a named job -> the count that weighs them."""

_RULES: Mapping[str, Callable[[Named, Sequence[float]], Any]] = {
    "load": _load, "fio": _fio, "disk": _sum, "machine": _busiest, "cpu": _cpu, "net": _net, "generator": _weighted,
    "generator_step": _weighted, "conditions": _conditions, "system": _weighted, "start": _nothing,
    "paths": _paths, "jobs": _jobs, "host_disks": _each, "host": _each, "programs": _each,
}  # fmt: skip
"""Key of the context -> function that merges it; a result of None is left out."""
