"""Lanes that lead to one physical disk, or to one file server."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlane.checks._behind import BehindCheck, Lane, Load, key, listed, title
from fairlane.checks._trials import at, number, text
from fairlane.records import Finding

_LEAST = 0.1
"""Least share of a probe's bytes for a disk to count."""


class SharedDisk(BehindCheck):
    """The disks whose counters moved while a lane was probed (``probed.disks``), else those that were looked up
    (``behind.disks``): any that two lanes have in common. Disks are identified by WWN or NQN, or by their names on one
    machine. Two lanes on one disk are two paths to it, which may be intended; they also slow each other down."""

    def compare(self, lanes: Mapping[str, Lane], load: Load) -> Iterable[Finding]:  # noqa: ARG002
        measured = {name: dict(_measured(lane)) for name, lane in lanes.items()}
        users: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
        for name, lane in lanes.items():
            looked = {key(machine, disk): disk for machine, disk in lane.disks()}
            for each, disk in (measured[name] or looked).items():
                users.setdefault(each, {})[name] = disk
        groups: dict[tuple[tuple[str, ...], bool], list[tuple[str, str]]] = {}
        for each, by_lane in users.items():
            if len(by_lane) > 1:
                group = tuple(by_lane), all(measured[name] for name in by_lane)
                groups.setdefault(group, []).append(each)
        for (names, counted), keys in groups.items():
            disks = [users[each][names[0]] for each in keys]
            what = "one disk" if len(disks) == 1 else f"{len(disks)} disks"
            how = "lead to" if counted else "are on"
            details = f": {listed(title(disk) for disk in disks[:3])}{'' if counted else ' (looked up, not measured)'}"
            moved = ""
            if counted:
                shares = [sum(number(users[each][name], "share") or 0.0 for each in keys) for name in names]
                moved = f", which moved {listed(f'{share:.0%}' for share in shares)} of the bytes of a probe"
            yield self.finding(
                "measured" if counted else "looked-up",
                "warning",
                f"{_shown(lanes, names)} {how} {what}{details}{moved}. The lanes compare paths to the same storage",
                lanes=names,
                evidence={"disks": [text(disk, "name") for disk in disks]},
            )
        yield from self._servers(lanes)

    def _servers(self, lanes: Mapping[str, Lane]) -> Iterator[Finding]:
        users: dict[str, dict[str, str]] = {}
        for name, lane in lanes.items():
            share = text(lane.one, "server")
            if host := _host(share):
                users.setdefault(host, {})[name] = share
        for host, by_lane in users.items():
            if len(by_lane) > 1:
                yield self.finding(
                    "one-server",
                    "info",
                    f"{_shown(lanes, by_lane)} are on one file server, {host}, and may share its disks. Fairlane "
                    "cannot see them",
                    lanes=list(by_lane),
                    evidence=by_lane,
                )


def _shown(lanes: Mapping[str, Lane], names: Iterable[str]) -> str:
    return listed(lanes[name].shown for name in names)


def _measured(lane: Lane) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """The disks that moved when the lane was probed, each with its ``share``."""
    known = {(machine, text(disk, "name")): disk for machine, disk in lane.disks()}
    for machine, probed in lane.probed.items():
        disks = at(probed, "disks")
        for name in disks if isinstance(disks, Mapping) else ():
            share = number(disks, name)
            if share is not None and share >= _LEAST and isinstance(name, str):
                disk = {**known.get((machine, name), {}), "name": name[:200], "share": min(share, 1.0)}
                yield key(machine, disk), disk


def _host(share: str) -> str:
    """``10.0.0.9`` of ``10.0.0.9:/export``, ``server`` of ``//server/share``."""
    if share.startswith("//"):
        return share[2:].partition("/")[0]
    return share.rpartition(":/")[0] if ":/" in share else ""


PLUGIN = SharedDisk()
