"""A machine without idle CPU, or one that lost CPU time to other machines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fairlane.checks._trials import Oddity, Trial, TrialCheck, at
from fairlane.records import Evidence

_BUSY = 0.95
"""Wake-ups and ticks take the rest even on a machine that never waits (as in ``generator_bound``)."""
_STEAL = 0.02
"""Share of all CPUs: on four, 8 % of the CPU that serves the I/O, at worst; the margin for throughput is 5 %."""


class CpuBound(TrialCheck):
    """``busy`` and ``steal`` of ``machine``, and of the worst of ``nodes``, in at least half of a cell's trials. Not
    under the virtual clock, whose only core is all there is, and is part of the model."""

    quorum = 0.5

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:
        if evidence.modelled:
            return
        yield from _odd(trial, ("machine",), "the machine", "")
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
            "more cores, or a path that takes less of them, would give more: the storage behind was not the limit"
            if kind
            else "more cores would give more, so this is a limit of the machine, not of the path",
            proof,
        )
    if steal >= _STEAL:
        yield Oddity(
            f"{kind}steal",
            "warning",
            steal,
            f"the hypervisor took {steal:.1%} of the CPU time from {who}",
            "its neighbours are in the figures",
            proof,
        )


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
