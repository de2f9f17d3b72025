"""I/Os per path that contradict the lane's multipath policy."""

from collections.abc import Iterable
from typing import Any

from fairlane.checks._trials import Oddity, Trial, TrialCheck, mappings, number, text
from fairlane.records import Evidence

_LEAST = 100
"""Fewest I/Os for shares to be meaningful."""
_IDLE = 0.01
"""A path with less than this share of the I/Os counts as idle: path checkers and partition scans use paths too."""
_UNEVEN = 0.5
"""Round robin gives every path the same share; a path with less than this part of it was not taken in turn."""
_IN_TURN = frozenset({"round-robin"})
_BY_LOAD = frozenset({"queue-depth", "queue-length", "service-time"})
_SINGLE = frozenset({"numa"})


class PathUse(TrialCheck):
    """I/Os per path (context ``paths``) against the lane's policy, in trials without a fault.

    Critical: a path that a policy must use and that carried nothing, or was not there; several in use under a policy
    of one (numa). Warning: round robin with shares far apart. Policies that go by load may prefer a path: with one I/O
    in flight NVMe's queue-depth always takes the first path, so only deeper queues are judged.
    """

    needs = frozenset({"paths"})

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:
        policy = _policy(trial)
        paths = [(text(p, "name"), number(p, "ios")) for p in mappings(trial.observation.context, "paths")]
        ios = {name: count for name, count in paths if name and count is not None}
        total = sum(ios.values())
        if not policy or not ios or trial.observation.context.get("fault") or trial.cell.kind == "failover":
            return
        expected = _paths(evidence, trial.observation.lane)
        proof: dict[str, Any] = {"policy": policy, "ios": ios, "expected": expected}
        if len(ios) < expected:
            yield Oddity(
                "missing",
                "critical",
                expected - len(ios),
                f"only {len(ios)} of {expected} paths {'was' if len(ios) == 1 else 'were'} available",
                "the lane was not measured as described, and the path may fail again",
                proof,
            )
        if total < _LEAST or len(ios) < 2:
            return
        least, most = min(ios, key=lambda name: ios[name]), max(ios, key=lambda name: ios[name])
        share, fair = ios[least] / total, 1 / len(ios)
        deep = (trial.in_flight or 1.0) > 1
        shown = f"{policy} over {len(ios)} paths, but {most} carried {ios[most] / total:.0%} of the I/Os"
        if policy in _SINGLE and ios[most] / total < 1 - _IDLE:
            yield Oddity(
                "spread",
                "critical",
                1 - ios[most] / total,
                shown,
                "another policy is in force. The lane's policy, numa, uses a single path as long as it works",
                proof,
            )
        elif (policy in _IN_TURN or (policy in _BY_LOAD and deep)) and share < _IDLE:
            yield Oddity(
                "idle",
                "critical",
                fair - share,
                f"{shown} and {least} {share:.1%}",
                "only one path was measured. Another policy is in force, or a path was unusable",
                proof,
            )
        elif policy in _IN_TURN and share < _UNEVEN * fair:
            yield Oddity(
                "uneven",
                "warning",
                fair - share,
                f"{shown} and {least} {share:.0%}",
                "round robin gives every path the same share. A path was down for some time, or another policy is in "
                "force",
                proof,
            )


def _policy(trial: Trial) -> str:
    """The lane's policy; that of several sessions without ``multipath`` is round robin."""
    if policy := getattr(getattr(trial.spec, "multipath", None), "policy", ""):
        return str(policy)
    sessions = getattr(trial.spec, "sessions", 1)
    return "round-robin" if isinstance(sessions, int) and sessions > 1 else ""


def _paths(evidence: Evidence, lane: str) -> int:
    """Number of paths of the lane when it was built; 0: not known."""
    lanes = evidence.description.get("lanes")
    description = lanes.get(lane) if isinstance(lanes, dict) else None
    count = str(description.get("multipath.paths", "")) if isinstance(description, dict) else ""
    return int(count) if count.isascii() and count.isdigit() and len(count) < 4 else 0


PLUGIN = PathUse()
