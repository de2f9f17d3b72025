"""Lanes on different file systems, or with different mount options."""

from collections.abc import Iterable, Mapping

from fairlane.checks._behind import BehindCheck, Lane, Load, strings
from fairlane.checks._trials import text
from fairlane.records import Finding

_OF_ONE = (
    "addr", "clientaddr", "mountaddr", "mountport", "mountvers", "mountproto", "port", "lowerdir", "upperdir",
    "workdir", "subvol", "subvolid", "uuid", "user_id", "group_id", "fd", "username", "name", "secret", "mon_addr",
    "uid", "gid", "file_mode", "dir_mode", "seclabel", "logdev", "errors", "quota", "prjquota", "usrquota", "grpquota",
    "noquota", "size", "nr_inodes", "inode64", "inode32", "sunit", "swidth", "stripe",
)  # fmt: skip
"""Options that say which file system it is, or follow from its disks: two that are alike differ in them."""


class OtherMount(BehindCheck):
    """File system type and mount options of each lane against the baseline's. A file system that journals, copies on
    write, compresses or checks sums, and options such as ``sync``, ``nobarrier``, ``noatime`` or ``compress``, are in
    the figures as much as the disk is. Options that name the file system are left out."""

    def compare(self, lanes: Mapping[str, Lane], load: Load) -> Iterable[Finding]:  # noqa: ARG002
        first, *others = lanes.values()
        for lane in others:
            ours, theirs = _system(first), _system(lane)
            if not ours or not theirs:
                continue
            if ours != theirs:
                yield self.finding(
                    "file-system",
                    "warning",
                    f"{first.shown} is on {ours}, {lane.shown} on {theirs}: the file system is part of the difference",
                    lanes=[first.name, lane.name],
                    evidence={first.name: ours, lane.name: theirs},
                )
                continue
            mine, its = _options(first), _options(lane)
            if mine != its:
                only = [_words(first.shown, mine - its), _words(lane.shown, its - mine)]
                yield self.finding(
                    "mount-options",
                    "warning",
                    f"mount options differ: {'; '.join(part for part in only if part)}",
                    lanes=[first.name, lane.name],
                    evidence={first.name: sorted(mine - its), lane.name: sorted(its - mine)},
                )


def _system(lane: Lane) -> str:
    """``ext4``; ``a device without a file system``; empty: not known."""
    if text(lane.one, "kind") == "device":
        return "a device without a file system"
    return text(lane.one, "fstype")


def _options(lane: Lane) -> frozenset[str]:
    words = strings(lane.one, "options")
    return frozenset(word[:100] for word in words if word.partition("=")[0] not in _OF_ONE)


def _words(lane: str, options: frozenset[str]) -> str:
    return f"only {lane} has {', '.join(sorted(options)[:8])}" if options else ""


PLUGIN = OtherMount()
