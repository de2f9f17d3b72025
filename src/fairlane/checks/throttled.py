"""Drives and processors that were too hot, or that may clock down."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlane.checks._behind import listed
from fairlane.checks._trials import Oddity, Trial, TrialCheck, at, number, text
from fairlane.records import Evidence, Finding

_FAST = "performance"


class Throttled(TrialCheck):
    """``host`` of each trial: sensors at their own limit (of a drive the temperature from which it slows itself down),
    counts of throttled CPUs, and frequency governors other than ``performance``."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        yield from super().check(evidence)
        governors: Counter[str] = Counter()
        for observation in evidence.observations:
            for host in hosts(observation.context):
                known = at(host, "governors")
                governors.update({str(name)[:40]: 1 for name in known} if isinstance(known, Mapping) else {})
        slow = sorted(name for name in governors if name != _FAST)
        if slow:
            yield self.finding(
                "governor",
                "info",
                f"the CPU frequency governor is {listed(slow)}: idle cores clock down, and latencies include waking "
                "them up. To change it: cpupower frequency-set -g performance",
                evidence=dict(governors),
            )

    needs = frozenset({"host"})

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        hot = [sensor for host in hosts(trial.observation.context) for sensor in _hot(host)]
        if hot:
            name, celsius, limit = max(hot, key=lambda sensor: sensor[1] - sensor[2])
            yield Oddity(
                "hot",
                "warning",
                celsius,
                f"{name} reached {celsius:.0f} °C, its limit is {limit:.0f} °C",
                "it throttles at this temperature, and cools down while other lanes run",
                {"sensor": name, "celsius": celsius, "limit": limit},
            )
        throttles = sum(number(host, "throttles") or 0.0 for host in hosts(trial.observation.context))
        if throttles:
            yield Oddity(
                "cpu-throttled",
                "warning",
                throttles,
                f"CPUs were throttled {throttles:.0f} times",
                "the processor was too hot or drew too much power, so it ran slower than in other trials",
                {"throttles": int(throttles)},
            )


def hosts(context: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """``host`` of a trial, of each machine of a fleet."""
    host = at(context, "host")
    if not isinstance(host, Mapping):
        return []
    if host.keys() & {"temperatures", "throttles", "governors", "links"}:
        return [host]
    return [one for one in host.values() if isinstance(one, Mapping)]


def _hot(host: Mapping[str, Any]) -> Iterator[tuple[str, float, float]]:
    sensors = at(host, "temperatures")
    for name in sensors if isinstance(sensors, Mapping) else ():
        celsius, limit = number(sensors, name, "celsius"), number(sensors, name, "limit")
        if celsius is not None and limit and celsius >= limit:
            disk = text(sensors, name, "disk")
            yield f"{disk or 'the sensor'} ({str(name)[:60]})", celsius, limit


PLUGIN = Throttled()
