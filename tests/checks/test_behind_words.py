"""The words of the findings of what lies behind the lanes' paths."""

from typing import TYPE_CHECKING

from fairlane.records import Figures
from fairlane.registry import load
from tests.checks.conftest import Beside
from tests.checks.test_behind_checks import GIB, NOTHING, behind, disk, lanes, probed, series, trial
from tests.checks.test_checks_words import shown

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

NAMES = (
    "shared_disk", "other_mount", "layers_below", "full_volume", "flush_promise", "cache_served", "other_io",
    "drive_state", "throttled",
)  # fmt: skip


def test_words(beside: Beside, snapshot: "SnapshotAssertion") -> None:
    full = {"kind": "file-system", "name": "/mnt/b", "total_bytes": 100 * GIB, "free_bytes": 7 * GIB, "used": 0.93}
    drive = disk("nvme0n1", model="Samsung SSD 980", identity="wwn:eui.0025")
    other = behind(
        drive, fstype="ext4", options=["rw", "nobarrier"], volumes=[full],
        stack=[{"kind": "overlay", "name": "/var/lib/containers/7f/diff", "details": {}}],
        thin=["/srv/b.img is sparse: 1 GiB of 4 GiB"],
        flush={**NOTHING, "words": "/mnt/b is mounted with nobarrier: fsync sends no flush to the device."},
    )  # fmt: skip
    cached = probed("cache", nvme0n1=1.0) | {"read": {"verdict": "cache", "ratio": 0.02}}
    host = {"temperatures": {"hwmon3 nvme Composite": {"celsius": 85.0, "limit": 82.0, "disk": "nvme0n1"}},
            "throttles": 4, "governors": {"powersave": 8}}  # fmt: skip
    odd = series(*[90_000.0] * 12, *[21_000.0] * 12)
    context = {
        **odd.context,
        "host": host,
        "host_disks": {"nvme0n1": {"reads": 9, "read_bytes": GIB, "write_bytes": GIB}},
    }
    sound = trial(0, GIB, nvme0n1={"write_bytes": GIB})
    squeezed = [{"kind": "btrfs", "name": "/dev/nvme0n1", "details": {"compression": "zstd:3", "dedup": "vdo on"}}]
    described = [
        lanes(behind(drive), other, cached, probed(nvme0n1=1.0)),
        lanes(behind(drive), behind(drive, fstype="btrfs", stack=squeezed), probed("memory")),
        lanes(behind(drive), behind(stack=[{"kind": "nfs", "name": "10.0.0.9:/b", "details": {}}], medium="network")),
        lanes(behind(server="10.0.0.9:/a", medium="network"), behind(server="10.0.0.9:/b", medium="network")),
    ]
    made = [beside(Figures(odd.metrics, {}, context), sound, "rw: [randwrite]", description=d) for d in described]
    texts = [shown(found for name in NAMES for found in load("checks", name).check(each)) for each in made]
    reading = beside(trial(GIB, nvme0n1={"read_bytes": GIB // 9}), sound, description=described[0])
    assert "\n\n".join([*texts, shown(load("checks", "cache_served").check(reading))]) == snapshot
