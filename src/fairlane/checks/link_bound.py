"""A link that is full: then it is what was measured."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck
from fairlane.records import Evidence

_FULL = 0.95
_JUMBO = 9000.0
"""MTU that is assumed where none is known: the cautious side, it makes the fewest bytes on the wire."""
_TCP_IP, _ETHERNET = 52, 38
"""Bytes that are no payload in every packet: IPv4 and TCP with time stamps (RFC 791, 9293, 7323); preamble, header,
check sequence and gap of Ethernet (IEEE 802.3)."""
_BEYOND = 1.02


class LinkBound(TrialCheck):
    """Bytes on the wire against ``link_speed``, in the direction that carries more: the payload of reads or writes with
    the headers of full packets, or what the interfaces counted (``net``), whichever is more."""

    quorum = 0.5

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        speed = trial.parameter("link_speed")
        wire = _wire(trial)
        if not speed or not wire:
            return
        share = wire * 8 / speed
        proof = {"wire_bits_per_s": wire * 8, "link_speed": speed, "share": share}
        told = f"{wire * 8 / 1e9:,.3g} of the link's {speed / 1e9:,.3g} Gbit/s were in use"
        if share > _BEYOND:
            yield Oddity(
                "beyond",
                "warning",
                share,
                told,
                "more than it carries, so a cache answered, more links were in use, or the speed is not that",
                proof,
            )
        elif share >= _FULL:
            yield Oddity("full", "warning", share, told, "you measured the wire, not what is behind it", proof)


def _wire(trial: Trial) -> float | None:
    """Bytes per second of the busier direction; None: not known."""
    seconds, bw = trial.seconds, trial.metric("bw")
    ways = [trial.context("load", "bytes", way) for way in ("read", "write")]
    payload = bw
    if bw and seconds and any(ways):
        payload = bw * max(way or 0.0 for way in ways) / sum(way or 0.0 for way in ways)
    mtu = max(576.0, trial.parameter("mtu") or _JUMBO)
    rates = [payload * (mtu + _ETHERNET) / (mtu - _TCP_IP)] if payload else []
    ramp = trial.parameter("ramp")
    if seconds and ramp is not None:
        counted = [trial.context("net", f"{way}_bytes") for way in ("rx", "tx")]
        rates += [count / (seconds + ramp / 1e9) for count in counted if count]
    return max(rates, default=None)


PLUGIN = LinkBound()
