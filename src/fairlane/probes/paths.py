"""I/Os on every path of the lane's device: shows what a multipath policy did, whatever its name.

NVMe: ``/sys/block/nvmeXcYnZ/stat``, one hidden device per controller; dm-multipath over iSCSI: the stat of each device
under the map. A path is named by its portal's address, which stays when the kernel recreates its device; further
sessions to the same portal are ``ADDRESS #2``. Only volumes with more than one path, or with multipath, have any.
"""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from fairlane.probes.base import Probe, counter
from fairlane.records import Figures

# Shell builtins, no program. A SCSI device lies two folders below its session.
_EACH = """
for p in /sys/block/${DEVICE%n*}c*n${DEVICE##*n}; do
  [ -e $p/stat ] || continue
  read -r r _ _ _ w _ < $p/stat
  read -r a < $p/device/address || continue
  echo "$DEVICE ${p##*/} $r $w $a"
done
for p in /sys/block/$DEVICE/slaves/sd*; do
  for a in $p/device/../../connection*/iscsi_connection/*/persistent_address; do
    [ -e $a ] || continue
    read -r r _ _ _ w _ < $p/stat
    read -r a < $a || continue
    echo "$DEVICE ${p##*/} $r $w $a"
  done
done
"""


@dataclass(frozen=True)
class _Path:
    name: str
    ios: int


class Paths(Probe):
    capture: ClassVar[str] = _EACH
    several: ClassVar[str] = (
        f"for s in $STATS; do DEVICE=${{s#/sys/class/block/}} DEVICE=${{DEVICE%/stat}}\n{_EACH.strip()}\ndone"
    )
    virtual = False

    def observe(self, before: str, after: str, load: Figures) -> Figures:  # noqa: ARG002
        first, last = _read(before), _read(after)
        moved: Counter[str] = Counter()
        for device, path in last.items():
            earlier = first.get(device)
            # counters start again where a lost path came back as another device
            begun = earlier.ios if earlier and earlier.name == path.name and earlier.ios <= path.ios else 0
            moved[path.name] += path.ios - begun
        paths = [{"name": name, "ios": ios} for name, ios in moved.items()]
        return Figures(context={"paths": paths} if paths else {})


def _read(text: str) -> dict[tuple[str, str], _Path]:
    """(disk, device of the path) -> name of the path and its I/Os so far; malformed lines are left out."""
    paths: dict[tuple[str, str], _Path] = {}
    sessions: Counter[tuple[str, str]] = Counter()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) != 5:
            continue
        disk, device, address = fields[0], fields[1], _address(fields[4])
        reads, writes = counter(fields[2]), counter(fields[3])
        if reads is None or writes is None or not address:
            continue
        sessions[disk, address] += 1
        number = sessions[disk, address]
        paths[disk, device] = _Path(address if number == 1 else f"{address} #{number}", reads + writes)
    return paths


def _address(text: str) -> str:
    """``10.0.0.1`` of an iSCSI connection, or of ``traddr=10.0.0.1,trsvcid=4420,...`` of an NVMe controller."""
    if "=" not in text:
        return text
    return next((part.removeprefix("traddr=") for part in text.split(",") if part.startswith("traddr=")), "")


PLUGIN = Paths()
