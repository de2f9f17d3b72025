"""The modelled medium and the modelled link of a lab guest, as reversible steps."""

from fairlane.lanes.base import Step
from fairlane.platforms.lab.spec import Link, Medium
from fairlane.units import format_bitrate, format_duration

MEDIUM = "/dev/nullb"
"""Prefix of the device name; the number follows."""


def medium_step(medium: Medium, number: int = 0) -> Step:
    """null_blk device ``number``: every I/O completes after a fixed time (kernel: Documentation/block/null_blk.rst)."""
    mebibytes = medium.size // 2**20
    return Step(
        name="make the medium",
        place="target",
        apply=f"""
modprobe null_blk nr_devices=0
D=/sys/kernel/config/nullb/nullb{number}
mkdir $D
echo 2 > $D/queue_mode
echo 2 > $D/irqmode
echo {medium.latency} > $D/completion_nsec
echo {mebibytes} > $D/size
echo {int(medium.memory_backed)} > $D/memory_backed
echo 1024 > $D/hw_queue_depth
echo 1 > $D/power
""",
        describe=f"""
D=/sys/kernel/config/nullb/nullb{number}
row medium.kind null_blk
for k in completion_nsec size memory_backed queue_mode irqmode submit_queues hw_queue_depth blocksize; do
  row medium.$k "$(cat $D/$k)"
done
""",
        remove=f"D=/sys/kernel/config/nullb/nullb{number}; echo 0 > $D/power; rmdir $D",
        expect={
            "medium.completion_nsec": str(medium.latency),
            "medium.size": str(mebibytes),
            "medium.memory_backed": str(int(medium.memory_backed)),
        },
    )


def link_step(link: Link, interface: str) -> Step:
    """netem on the interface: delay and rate both ways on loopback (iproute2: tc-netem(8))."""
    netem = f"delay {format_duration(link.delay)} rate {format_bitrate(link.rate)} limit 100000"
    return Step(
        name="shape the link",
        place="initiator",
        apply=f"""
ip link set {interface} up mtu {link.mtu}
tc qdisc add dev {interface} root netem {netem}
""",
        describe=f"""
row link.mtu "$(cat /sys/class/net/{interface}/mtu)"
row link.qdisc "$(tc qdisc show dev {interface} root | head -n 1)"
row link.congestion_control "$(cat /proc/sys/net/ipv4/tcp_congestion_control)"
""",
        remove=f"tc qdisc del dev {interface} root",
        expect={"link.mtu": str(link.mtu)},
    )


def server_step() -> Step:
    """Shared memory and temporary files for programs that do not run as root, such as a database server."""
    return Step(
        name="make room for a server",
        place="initiator",
        apply="mount -t tmpfs -o mode=1777 shm /dev/shm\nchmod 1777 /tmp",
        describe='row shared_memory "$(stat -f -c %T /dev/shm)"',
        remove="umount /dev/shm; chmod 755 /tmp",
        expect={"shared_memory": "tmpfs"},
    )


def hugepages_step(count: int) -> Step:
    """Reserve 2 MiB pages early, while memory is not fragmented (kernel: admin-guide/mm/hugetlbpage.rst)."""
    return Step(
        name="reserve huge pages",
        place="initiator",
        apply=f"echo {count} > /proc/sys/vm/nr_hugepages",
        describe="row hugepages $(cat /proc/sys/vm/nr_hugepages)",
        remove="echo 0 > /proc/sys/vm/nr_hugepages",
        expect={"hugepages": str(count)},
    )
