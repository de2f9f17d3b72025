"""Volumes that allocate space when it is written, and volumes that are nearly full."""

from collections.abc import Iterable, Mapping

from fairlane.checks._behind import BehindCheck, Lane, Load, listed, strings
from fairlane.checks._trials import mappings, number, text
from fairlane.records import Finding
from fairlane.units import about_size

_FULL = 0.9
"""Share in use from which file systems search long for free space, and drives have few blocks erased in advance; ext4's
and ZFS's own warnings lie about there."""
_NAMES = {
    "file-system": "the file system", "thin-pool": "the thin pool", "thin-metadata": "the metadata of the thin pool",
    "zfs-pool": "the ZFS pool",
}  # fmt: skip


class FullVolume(BehindCheck):
    """Each lane's ``behind.thin`` (thin volumes, sparse files below a loop device, LUNs that their array calls thin)
    and ``behind.volumes``, each with its share in use."""

    def compare(self, lanes: Mapping[str, Lane], load: Load) -> Iterable[Finding]:  # noqa: ARG002
        for lane in lanes.values():
            thin = [t for behind in lane.behind.values() for t in strings(behind, "thin")]
            if thin:
                yield self.finding(
                    "thin",
                    "warning",
                    f"{lane.shown} allocates space at the first write ({'; '.join(dict.fromkeys(thin[:2]))}): "
                    "first writes take longer, and reads of unwritten space reach no disk",
                    lanes=[lane.name],
                    evidence={"thin": thin[:10]},
                )
            full = {}
            for behind in lane.behind.values():
                for volume in mappings(behind, "volumes"):
                    used, free = number(volume, "used"), number(volume, "free_bytes")
                    if used is not None and free is not None and _FULL < used <= 1:
                        name = f"{_NAMES.get(text(volume, 'kind'), 'the volume')} {text(volume, 'name')}"
                        full[name] = used, free
            if full:
                parts = [f"{name} is {used:.0%} full ({about_size(free)} free)" for name, (used, free) in full.items()]
                yield self.finding(
                    "nearly-full",
                    "warning",
                    f"behind {lane.shown}, {listed(parts)}: allocation and the drives' garbage collection slow down. "
                    "Free some space",
                    lanes=[lane.name],
                    evidence={name: used for name, (used, _) in full.items()},
                )


PLUGIN = FullVolume()
