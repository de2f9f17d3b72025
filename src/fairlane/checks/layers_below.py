"""Layers below the lanes' paths whose cost depends on the data, or that are more than a disk."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlane.checks._behind import BehindCheck, Lane, Load, listed
from fairlane.checks._trials import text
from fairlane.records import Finding

_NETWORK = frozenset({"nfs", "cifs", "ceph", "9p", "virtiofs", "share"})
_SAVES = (
    ("compression", "compresses", "how well it compresses"),
    ("dedup", "deduplicates", "how often it repeats"),
)
"""Detail of a layer, what the layer does, what the figures then depend on."""


class LayersBelow(BehindCheck):
    """``behind.stack`` of each lane. Compression and deduplication: a load with other data has other figures, and
    fio's is incompressible and unique unless the study says otherwise (``buffer_compress_percentage``,
    ``dedupe_percentage``). An overlay copies a file of its lower directory as a whole before its first write. A network
    file system brings network, server and the client's caches into the figures: a warning where only some lanes are on
    one, info where all are."""

    def compare(self, lanes: Mapping[str, Lane], load: Load) -> Iterable[Finding]:
        for key, does, depends in _SAVES:
            saving = {name: saves for name, lane in lanes.items() if (saves := list(dict.fromkeys(lane.saves(key))))}
            if saving and load.writing:
                yield self.finding(
                    key,
                    "warning",
                    f"a layer below {_shown(lanes, saving)} {does} the data "
                    f"({'; '.join(dict.fromkeys(saves[0] for saves in saving.values()))}), so the figures depend on "
                    f"{depends}. Set buffer_compress_percentage and dedupe_percentage to those of your data",
                    cells=load.writing,
                    lanes=[*saving],
                    evidence=saving,
                )
        overlaid = {name: _first(lane, {"overlay"}) for name, lane in lanes.items() if "overlay" in lane.layers}
        if overlaid:
            yield self.finding(
                "overlay",
                "warning",
                f"{_shown(lanes, overlaid)}: an overlay, such as a container's root, lies above the disk, and is part "
                "of the figures. Use a path on a volume",
                lanes=[*overlaid],
                evidence=overlaid,
            )
        remote = {name: _first(lane, _NETWORK) for name, lane in lanes.items() if lane.layers & _NETWORK}
        if remote:
            yield self.finding(
                "network",
                "info" if len(remote) == len(lanes) else "warning",
                f"{_shown(lanes, remote)}: a network file system, so network, server and the caches of both are part "
                "of the figures",
                lanes=[*remote],
                evidence=remote,
            )


def _shown(lanes: Mapping[str, Lane], names: Iterable[str]) -> str:
    return listed(lanes[name].shown for name in names)


def _first(lane: Lane, kinds: Iterable[str]) -> dict[str, Any]:
    """The first layer of one of these kinds."""
    layer = next(layer for layer in lane.stack() if text(layer, "kind") in kinds)
    return {key: text(layer, key) for key in ("kind", "name")}


PLUGIN = LayersBelow()
