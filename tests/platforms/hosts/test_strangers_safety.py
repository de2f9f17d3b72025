"""Nothing is written that the study does not give away: checksums of whole disks before and after."""

import pytest

from tests.platforms.hosts import strangers_bench as b
from tests.platforms.hosts.hosts_bench import identity, until
from tests.platforms.hosts.strangers_bench import LUN, Room, clean, device, directory, iscsi, nvme, study
from tests.words import kinds

pytestmark = [pytest.mark.lab, pytest.mark.slow]

OWN = "serial:alpha-spare"
SPARE = "/dev/disk/by-id/virtio-alpha-spare"
CONTENT = f"dd if=/dev/urandom of={SPARE} bs=1M count=4 oflag=direct conv=fsync status=none"


def test_reads_change_no_byte(room: Room) -> None:
    room.stand.sh("alpha", CONTENT)
    disks = [("alpha", "alpha-spare"), ("storage1", "lun-data"), ("storage1", "ns-data")]
    before = [room.checksum(*disk) for disk in disks]
    clean(room.start(study({"d": device(), "i": iscsi(), "n": nvme()})))
    assert [room.checksum(*disk) for disk in disks] == before


def test_what_is_given_away_is_written(room: Room) -> None:
    """So that the checksums of the other tests mean something."""
    disks = [("alpha", "alpha-spare"), ("storage1", "lun-data"), ("storage1", "ns-data")]
    before = [room.checksum(*disk) for disk in disks]
    clean(room.start(study({"d": device(destroy=OWN), "i": iscsi(destroy=LUN)}, workloads=b.WRITES)))
    after = [room.checksum(*disk) for disk in disks]
    assert [old != new for old, new in zip(before, after, strict=True)] == [True, True, False]


@pytest.mark.parametrize(
    ("use", "destroy", "kind"),
    [
        (":", None, "kept-written"),
        (":", "serial:alpha-data", "destroy-other"),
        (f"mkfs.ext4 -q {SPARE}; mount {SPARE} /mnt; mount -o remount,ro /mnt", OWN, "device-mounted"),
        (f"modprobe dm_mod; dmsetup create theirs --table \"0 1024 linear $(readlink -f {SPARE}) 0\"", OWN,
         "device-held"),
        (f"modprobe loop; losetup -f {SPARE}", OWN, "device-loop"),
        (f"setsid sh -c 'exec 3<> {SPARE}; sleep 3600' < /dev/null > /dev/null 2>&1 &", OWN, "device-open"),
        (f"blockdev --setro {SPARE}", OWN, "device-read-only"),
    ],
    ids=["no-destroy", "others-destroy", "mounted", "device-mapper", "loop", "process", "read-only"],
)  # fmt: skip
def test_a_disk_that_must_not_be_written(room: Room, use: str, destroy: str | None, kind: str) -> None:
    room.stand.sh("alpha", f"{CONTENT}\n{use}")
    before = room.checksum("alpha", "alpha-spare")
    lane = device(destroy=destroy) if destroy else device()
    refused = room.start(study({"a": directory(), "d": lane}, workloads=b.WRITES))
    assert (refused.returncode != 0, kinds(refused.stderr)[-1:]) == (True, [kind]), refused.stderr
    assert room.checksum("alpha", "alpha-spare") == before


@pytest.mark.parametrize(
    ("destroy", "kind"), [(None, "kept-written"), ("serial:alpha-spare", "destroy-other")], ids=["none", "others"]
)
def test_a_lun_that_must_not_be_written(room: Room, destroy: str | None, kind: str) -> None:
    room.stand.sh("alpha", CONTENT)
    disks = [("alpha", "alpha-spare"), ("storage1", "lun-data")]
    before = [room.checksum(*disk) for disk in disks]
    lane = iscsi(destroy=destroy) if destroy else iscsi()
    refused = room.start(study({"a": directory(), "i": lane}, workloads=b.WRITES))
    assert (refused.returncode != 0, kinds(refused.stderr)[-1:]) == (True, [kind]), refused.stderr
    assert [room.checksum(*disk) for disk in disks] == before


def test_a_link_that_leads_to_another_disk_by_now(room: Room) -> None:
    room.stand.sh("alpha", "umount /data; mkdir -m 755 -p /srv/own")
    before = room.checksum("alpha", "alpha-data")
    load = {"main": {**b.WRITES["main"], "runtime": "8s"}}
    content = study({"d": device(destroy=OWN), "a": directory("/srv/own")}, workloads=load)
    with room.going(content) as process:
        until(lambda: room.opened("vd"), "the load opens no disk", b.PATIENCE)
        lanes = f"/var/tmp/fairlane-{identity(room.run)}/lane"
        room.stand.sh("alpha", f"ln -sfn $(readlink -f /dev/disk/by-id/virtio-alpha-data) {lanes}/d")
        process.wait()
    assert kinds(room.bench.output)[-1:] == ["identity-moved"], room.bench.output
    assert room.checksum("alpha", "alpha-data") == before
