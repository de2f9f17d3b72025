"""A machine without idle CPU, or one that lost CPU time to other machines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fairlane.checks._trials import Oddity, Trial, TrialCheck, at, number, programs
from fairlane.records import Evidence

_BUSY = 0.95
"""Wake-ups and ticks take the rest even on a machine that never waits (as in ``generator_bound``)."""
_STEAL = 0.02
"""Share of all CPUs: on four, 8 % of the CPU that serves the I/O, at worst; the margin for throughput is 5 %."""
_NAMED = 2
"""Other programs named, at most."""
_OWN = 0.5
"""Share of the busy time below which the load, and what serves it, are not what made a living machine busy."""


class CpuBound(TrialCheck):
    """``busy`` and ``steal`` of ``machine``, and of the worst of ``nodes``, in at least half of a cell's trials. Not
    under the virtual clock, whose only core is all there is, and is part of the model. On machines that have other work
    (``Platform.living``) the load's own CPU time is set against that of the machine."""

    quorum = 0.5

    needs = frozenset({"machine", "nodes"})

    def concerns(self, trial: Trial, evidence: Evidence) -> bool:  # noqa: ARG002
        return not evidence.modelled

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:
        for oddity in _odd(trial, ("machine",), "the machine", ""):
            own = _own(trial) if evidence.study.platform.living and oddity.kind == "busy" else None
            yield oddity if own is None or own[0] >= _OWN else _others(oddity, *own, programs(trial) or {})
        nodes = at(trial.observation.context, "nodes")
        oddities = [
            oddity
            for name in (nodes if isinstance(nodes, Mapping) else ())
            for oddity in _odd(trial, ("nodes", name), f"node {name}", "node-")
        ]
        for kind in dict.fromkeys(oddity.kind for oddity in oddities):
            yield max((oddity for oddity in oddities if oddity.kind == kind), key=lambda oddity: oddity.size)


def _odd(trial: Trial, path: Sequence[str], who: str, kind: str) -> Iterator[Oddity]:
    steal = trial.context(*path, "steal") or 0.0
    busy = _busy(trial, path)
    proof = {"busy": busy, "steal": steal, "cpus": trial.context(*path, "cpus"), **({"node": path[1]} if kind else {})}
    # share of the time that the hypervisor left
    if busy is not None and steal < 1 and busy / (1 - steal) >= _BUSY:
        yield Oddity(
            f"{kind}busy",
            "warning",
            busy,
            f"the CPUs of {who} were {busy:.0%} busy" if kind else f"the machine's CPUs were {busy:.0%} busy",
            "the CPUs were the limit, not the storage. Use more cores, or a path that needs less CPU"
            if kind
            else "the machine was the limit, not the path. Use more cores",
            proof,
        )
    if steal >= _STEAL:
        yield Oddity(
            f"{kind}steal",
            "warning",
            steal,
            f"the hypervisor took {steal:.1%} of the CPU time from {who}",
            "other machines on the same host affect the figures",
            proof,
        )


def _others(busy: Oddity, share: float, threads: bool, used: Mapping[str, float]) -> Oddity:
    """``busy`` of a machine on which the load and its path took but ``share`` of the busy time. ``threads``: as for
    ``_own``; ``used``: CPUs that other programs used."""
    of = "the load and its path" if threads else "the load's own processes"
    who = "other programs" if threads else "other programs, or kernel threads of the path,"
    return replace(
        busy,
        kind="others-busy",
        message=f"{busy.message}, only {share:.0%} of that with {of},",
        why=f"{who} used the machine's CPUs{_named(used)}, so the lane may be faster than shown",
        proof={**busy.proof, "own": share, **({"programs": dict(used)} if used else {})},
    )


def _named(used: Mapping[str, float]) -> str:
    """Those that used most."""
    most = sorted(used, key=lambda name: -used[name])[:_NAMED]
    return f" ({', '.join(f'{name}: {used[name]:.2f}' for name in most)} CPUs)" if most else ""


def _own(trial: Trial) -> tuple[float, bool] | None:
    """Share of the machine's busy time that the load took, and whether the kernel threads that serve it are in it
    (``cpu``), or fio's own processes alone. Of a fleet a machine's mean. None: not known."""
    busy, cpus = trial.context("machine", "busy"), trial.context("machine", "cpus")
    window, ran = trial.context("machine", "window_ms"), trial.seconds
    if not busy or not cpus or not window or not ran or trial.cell.params.get("judged"):  # of one job of several
        return None
    everything = busy * cpus * window * trial.fleet[0]
    places, ios = at(trial.observation.context, "cpu", "by_place"), trial.context("cpu", "window_ios")
    if isinstance(places, Mapping) and ios:
        own = sum(number(places, place) or 0.0 for place in places if place != "other") * ios / 1e6
        return min(1.0, own / everything), True
    parts = trial.context("fio", "usr_cpu"), trial.context("fio", "sys_cpu")
    if parts[0] is None or parts[1] is None:
        return None
    loaded = 1e3 * ran + (trial.parameter("ramp") or 0.0) / 1e6
    return min(1.0, (parts[0] + parts[1]) / 100 * loaded / everything), False


def _busy(trial: Trial, path: Sequence[str]) -> float | None:
    """Busy share of the time under load, at most 1; None: not known. The snapshots span more than the load: the machine
    is assumed to idle in the rest."""
    busy = trial.context(*path, "busy")
    window, ran, ramp = trial.context(*path, "window_ms"), trial.seconds, trial.parameter("ramp")
    if busy is None or not window or not ran:
        return busy
    loaded = 1e3 * ran + (ramp or 0.0) / 1e6
    return min(1.0, busy * max(1.0, window / loaded))


PLUGIN = CpuBound()
