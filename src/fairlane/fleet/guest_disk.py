"""A disk that a hypervisor gives to a guest, found and read back there by its serial: pure."""

from collections.abc import Mapping

from fairlane.lanes.base import Step
from fairlane.study.guest_device import Bus, GuestDevice

_SERIALS: Mapping[Bus, tuple[str, str]] = {
    "virtio-blk": ("/sys/block/vd*/serial", "$x"),
    # VPD page 0x80: four bytes, of which the shell drops the two that are 0, then the serial (SPC-4, 7.7.18)
    "virtio-scsi": ("/sys/block/sd*/device/vpd_pg80", "${x#??}"),
    # of the controller, or of its subsystem where the kernel's multipathing is on; paths of that have no device node
    "nvme": ("/sys/block/nvme*n*/device/serial", "$x"),
}
"""Files with the serials of a bus's disks, and the serial in their first line ``$x``."""


def find(device: GuestDevice, serial: str) -> str:
    """Shell that prints the guest's block device with ``serial``; waits up to 30 s, because SCSI
    and NVMe drivers scan for their disks in the background.

    It starts no program per disk: with fifty disks an emulated guest would take minutes."""
    pattern, read = _SERIALS[device.bus]
    return f"""
i=0; hit=
while [ -z "$hit" ] && [ $i -lt 300 ]; do
  [ $i -eq 0 ] || sleep 0.1
  i=$((i + 1))
  for s in {pattern}; do
    n=${{s#/sys/block/}}; n=${{n%%/*}}; x=
    LC_ALL=C read -r x 2> /dev/null < "$s" || :
    if [ "{read}" = {serial} ] && [ -b "/dev/$n" ]; then hit="$hit /dev/$n"; fi
  done
done
echo $hit
"""


def read_back(device: GuestDevice, serial: str, link: str, *, read_only: bool = False) -> Step:
    """A step that reads back the guest's device at ``link`` and changes nothing.

    Linux drops the write cache of a SCSI disk that is write protected (``sd_read_cache_type``; seen with 6.12)."""
    cached = device.flags.writeback and not (read_only and device.bus == "virtio-scsi")
    pattern, read = _SERIALS[device.bus]
    file = pattern.partition("*")[2].partition("/")[2]  # serial, device/vpd_pg80
    expect = {
        "device.serial": serial,
        "device.bus": device.bus,
        "device.queues": str(device.queues),
        "device.write_cache": "write back" if cached else "write through",
        "device.logical_block_size": str(device.block_size),
        "device.physical_block_size": str(device.block_size),
    }
    return Step(
        name="the guest's device",
        place="initiator",
        apply=":",
        describe=f"""
tell() {{ x=unknown; read -r x 2> /dev/null < "$2" || :; row "$1" "$x"; }}
d=$(readlink -f {link}); d=${{d##*/}}
x=; read -r x < /sys/block/$d/{file} || :
row device.serial "{read}"
b=$d # with NVMe multipathing the queues are those of the path
for p in /sys/block/$d/device/nvme*/nvme*c*n*; do [ ! -e "$p/mq" ] || b=${{p##*/}}; done
p=$(readlink -f /sys/block/$b)
while p=${{p%/*}}; [ -n "$p" ]; do
  [ -e "$p/driver" ] || continue
  case $(readlink "$p/driver") in
    */virtio_blk) row device.bus virtio-blk; break ;;
    */virtio_scsi) row device.bus virtio-scsi; break ;;
    */nvme) row device.bus nvme; break ;;
  esac
done
set -- /sys/block/$b/mq/*; [ -e "$1" ] || set --
row device.queues $#
tell device.nr_requests /sys/block/$b/queue/nr_requests
for k in write_cache scheduler max_sectors_kb logical_block_size physical_block_size discard_max_bytes; do
  tell device.$k /sys/block/$d/queue/$k
done
""",
        expect=expect,
    )
