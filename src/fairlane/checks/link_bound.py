"""A full link: the link was the limit, not the storage behind it."""

from collections.abc import Iterable, Iterator, Mapping

from fairlane.checks._trials import DIRECTIONS, Oddity, Trial, TrialCheck, at
from fairlane.records import Evidence

_FULL = 0.95
"""The rest is overhead that no formula here counts: capsules and SCSI headers, acknowledgements, pauses."""
_JUMBO = 9000.0
"""MTU that is assumed where none is known: it gives the fewest bytes on the wire."""
_TCP_IP, _ETHERNET = 52, 38
"""Bytes of overhead in every packet: IPv4 and TCP with time stamps (RFC 791, 9293, 7323); preamble, header,
check sequence and gap of Ethernet (IEEE 802.3)."""
_BEYOND = 1.02
"""Payload alone; links keep their rate to parts in ten thousand, figures of a trial to a step or two."""


_LIMIT = "the link was the limit, not the storage behind it"


class LinkBound(TrialCheck):
    """Bytes on the wire against ``link_speed``, in the direction that carries more: the payload of reads or writes with
    the headers of full packets, or what the interfaces counted (``net``), whichever is more. Interfaces of a cluster's
    nodes (``nodes``) against their own speed, all that they carried."""

    quorum = 0.5

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        if fullest := max(_of_nodes(trial), key=lambda oddity: oddity.size, default=None):
            yield fullest
        speed = trial.parameter("link_speed")
        if not speed:
            return
        payload, counted = _payload(trial), _counted(trial)
        if not (wire := max(payload, counted)):
            return
        share = wire * 8 / speed
        proof = {"wire_bits_per_s": wire * 8, "link_speed": speed, "share": share}
        message = f"{wire * 8 / 1e9:,.3g} of the link's {speed / 1e9:,.3g} Gbit/s were in use"
        if payload * 8 > _BEYOND * speed:
            yield Oddity(
                "beyond",
                "warning",
                share,
                message,
                "more than the link can carry. A cache answered, several links were in use, or link_speed is wrong",
                proof,
            )
        elif share >= _FULL:
            yield Oddity("full", "warning", share, message, _LIMIT, proof)


def _payload(trial: Trial) -> float:
    """Bytes per second that the busier direction's data makes on the wire, in full packets; 0: not known."""
    bw = trial.metric("bw") or 0.0
    if judged := sum(trial.context("load", "bytes", way) or 0.0 for way in DIRECTIONS):
        bw *= max(trial.all_jobs("bytes", way) or 0.0 for way in DIRECTIONS) / judged
    mtu = max(576.0, trial.parameter("mtu") or _JUMBO)
    return bw * (mtu + _ETHERNET) / (mtu - _TCP_IP)


def _counted(trial: Trial) -> float:
    """Bytes per second that the busiest interface counted in the busier direction; 0: not known. The counters run from
    before the ramp until after the load, so this is slightly high in a short trial."""
    return max(trial.context("net", f"{way}_bytes") or 0.0 for way in ("rx", "tx")) * _per_second(trial)


def _of_nodes(trial: Trial) -> Iterator[Oddity]:
    nodes = at(trial.observation.context, "nodes")
    for node in nodes if isinstance(nodes, Mapping) else ():
        nics = at(nodes, node, "nics")
        for nic in nics if isinstance(nics, Mapping) else ():
            speed = trial.context("nodes", node, "nics", nic, "speed")
            moved = max(trial.context("nodes", node, "nics", nic, f"{way}_bytes") or 0.0 for way in ("rx", "tx"))
            bits = 8 * moved * _per_second(trial)
            if speed and bits >= _FULL * speed:
                message = f"{nic} of node {node} carried {bits / 1e9:,.3g} of its {speed / 1e9:,.3g} Gbit/s"
                proof = {"node": node, "nic": nic, "wire_bits_per_s": bits, "speed": speed, "share": bits / speed}
                yield Oddity("node", "warning", bits / speed, message, _LIMIT, proof)


def _per_second(trial: Trial) -> float:
    """1 / the time under load, ramp included; 0: not known."""
    seconds, ramp = trial.seconds, trial.parameter("ramp")
    return 1 / (seconds + ramp / 1e9) if seconds and ramp is not None else 0.0


PLUGIN = LinkBound()
