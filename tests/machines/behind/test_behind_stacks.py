"""Stacks that this machine cannot build, from facts as guest/behind.sh prints them.

Written by hand from the kernel's documentation (device-mapper/, nvme, nfs) and the manual pages of dmsetup(8),
zpool-list(8) and mountstats(8): they were captured on no machine.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.machines.behind import Behind, counters, facts
from fairlane.machines.behind.facts import Machine, PathFacts
from fairlane.machines.behind.probe import evaluate
from fairlane.machines.behind.stack import resolve

UUID = "LVM-" + "a" * 32 + "b" * 32
GIB = 2**30
IDLE = counters.Counters(), counters.Counters()


def block(name: str, number: str, *, slaves: str = "", at: str = "", gib: str = "100", **keys: str) -> str:
    rows = {"at": at or f"/sys/devices/virtual/block/{name}", "dev": number, "size": str(int(gib) * GIB // 512),
            "ro": "0", "queue/rotational": "0", "queue/write_cache": "write back", "queue/fua": "1",
            "queue/scheduler": "mq-deadline kyber [none]", "queue/logical_block_size": "512"}  # fmt: skip
    rows |= {key.replace("__", "/"): value for key, value in keys.items()}
    lines = [f"{name}\t{key}\t{value}" for key, value in rows.items()]
    return "\n".join(lines + [f"{name}\tslave\t{slave}" for slave in slaves.split()]) + "\n"


def sata(name: str, number: str, **keys: str) -> str:
    at = f"/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/{name}"
    return block(name, number, at=at, **{"device__vendor": "ATA     ", "device__model": "Samsung SSD 870 ", **keys})


def iscsi(name: str, number: str, **keys: str) -> str:
    state = {"device__vendor": "LIO-ORG ", "device__model": "disk1", "device__state": "running"}
    at = f"/sys/devices/platform/host3/session1/target3:0:0/3:0:0:1/block/{name}"
    return block(name, number, at=at, **{**state, **keys})


def machine(blocks: str, mountinfo: str = "", **files: str) -> Machine:
    names = {"dm_table": "dm.table", "dm_status": "dm.status"}
    texts = {"blocks": blocks, "mountinfo": mountinfo} | {names.get(key, key): text for key, text in files.items()}
    return facts.machine("box", {name: text.encode() for name, text in texts.items()})


def folder(real: str, number: str, **fields: object) -> PathFacts:
    known: dict[str, object] = {"kind": "directory", "real": real, "device": number, "inode": 2, "readable": True}
    return PathFacts(True, **{**known, "space": (4096, 1000, 500, 400, 100, 90), **fields})  # type: ignore[arg-type]


def node(name: str, number: str) -> PathFacts:
    return PathFacts(True, kind="device", real=f"/dev/{name}", device="0:5", inode=9, node=number, readable=True)


def resolved(on: Machine, path: str, **paths: PathFacts) -> Behind:
    given = {key.replace("__", "/"): one for key, one in paths.items()}
    found, wanted = resolve(on, path, given)
    assert not wanted, wanted
    return found


def kinds(behind: Behind) -> list[str]:
    return [layer.kind for layer in behind.stack]


def test_a_file_system_on_lvm_on_luks_on_a_partition() -> None:
    blocks = (
        sata("sda", "8:0")
        + block("sda2", "8:2", at="/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/x/block/sda/sda2", partition="2")
        + block("dm-0", "253:0", slaves="sda2", dm__name="luks", dm__uuid="CRYPT-LUKS2-0123-luks")
        + block("dm-1", "253:1", slaves="dm-0", dm__name="vg-data", dm__uuid=UUID)
    )
    on = machine(
        blocks, "30 1 253:1 / /data rw,noatime - ext4 /dev/mapper/vg-data rw,errors=remount-ro\n",
        dm_table="vg-data: 0 209715200 linear 253:0 2048\nluks: 0 1 crypt aes :64: 0 8:2 32768\n",
        identities="sda wwn:naa.5002 serial:S6\n",
    )  # fmt: skip
    seen = resolved(on, "/data", __data=folder("/data", "253:1"))
    assert [(layer.kind, layer.name) for layer in seen.stack] == [
        ("lvm", "dm-1"), ("crypt", "dm-0"), ("partition", "sda2"),
    ]  # fmt: skip
    assert seen.stack[0].details == {"map": "vg-data", "targets": "linear"}
    assert seen.stack[1].details["format"] == "LUKS2"
    (disk,) = seen.disks
    assert (disk.name, disk.identity, disk.model, disk.transport, disk.flash) == (
        "sda", "wwn:naa.5002", "Samsung SSD 870", "sata", True,
    )  # fmt: skip
    assert (disk.scheduler, disk.fua, disk.bytes) == ("none", True, 100 * GIB)
    assert (seen.flush.write, seen.flush.sync) == ("volatile", "stable")
    whole = resolved(on, "/dev/sda", __dev__sda=node("sda", "8:0"))
    assert "mounted at /data" in whole.used


@pytest.mark.parametrize("root", [True, False])
def test_a_thin_volume_with_its_pool(root: bool) -> None:
    blocks = (
        sata("sda", "8:0")
        + block("dm-0", "253:0", slaves="sda", dm__name="vg-pool_tmeta", dm__uuid=f"{UUID}-tmeta", gib="1")
        + block("dm-1", "253:1", slaves="sda", dm__name="vg-pool_tdata", dm__uuid=f"{UUID}-tdata")
        + block("dm-2", "253:2", slaves="dm-0 dm-1", dm__name="vg-pool-tpool", dm__uuid=f"{UUID}-tpool")
        + block("dm-3", "253:3", slaves="dm-2", dm__name="vg-thin", dm__uuid=UUID)
    )
    told = {"dm_table": "vg-thin: 0 8 thin 253:2 1\nvg-pool-tpool: 0 8 thin-pool 253:0 253:1 128 0 0\n",
            "dm_status": "vg-pool-tpool: 0 209715200 thin-pool 1 250/1000 930/1000 - rw\n"}  # fmt: skip
    seen = resolved(machine(blocks, **(told if root else {})), "/dev/vg/thin", __dev__vg__thin=node("dm-3", "253:3"))
    assert kinds(seen) == ["thin", "thin-pool", "lvm", "lvm"]
    assert len(seen.thin) == 1
    assert [disk.name for disk in seen.disks] == ["sda"]
    full = {volume.kind: volume.used for volume in seen.volumes}
    assert full == (pytest.approx({"thin-pool": 0.93, "thin-metadata": 0.25}) if root else {})


def test_multipath_is_one_disk_with_paths() -> None:
    blocks = (
        iscsi("sdb", "8:16", scsi__thin_provisioning="1")
        + iscsi("sdc", "8:32", device__state="offline")
        + block("dm-5", "253:5", slaves="sdb sdc", dm__name="mpatha", dm__uuid="mpath-36001405abc")
    )
    on = machine(blocks, identities="sdb wwn:naa.6001\nsdc wwn:naa.6001\ndm-5 dm:mpath-36001405abc\n")
    seen = resolved(on, "/dev/mapper/mpatha", __dev__mapper__mpatha=node("dm-5", "253:5"))
    (disk,) = seen.disks
    assert (disk.name, disk.identity, disk.transport) == ("dm-5", "dm:mpath-36001405abc", "iscsi")
    assert seen.stack[0].details == {"map": "mpatha", "sdb": "running", "sdc": "offline"}
    assert len(seen.thin) == 1
    assert counters.leaves(on) == {"dm-5": ""}


def test_nvme_over_tcp_with_two_controllers() -> None:
    at = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"
    blocks = (
        block("nvme0n1", "259:0", at=at)
        + "".join(f"nvme0c{c}n1\tat\t/sys/x\nnvme0c{c}n1\thidden\t1\n" for c in (0, 1))
        + "".join(
            f"nvme{c}\tcontroller/transport\ttcp\nnvme{c}\tcontroller/address\ttraddr=10.0.{c}.1\n"
            f"nvme{c}\tcontroller/state\tlive\nnvme{c}\tcontroller/model\tLinux\n"
            for c in (0, 1)
        )
    )
    seen = resolved(
        machine(blocks, identities="nvme0n1 wwn:uuid.1\n"), "/dev/nvme0n1", __dev__nvme0n1=node("nvme0n1", "259:0")
    )
    assert [(disk.transport, disk.model, disk.flash) for disk in seen.disks] == [("nvme-tcp", "Linux", False)]
    assert kinds(seen) == ["nvme-multipath"]
    assert set(seen.stack[0].details) == {"nvme0", "nvme1"}


@pytest.mark.parametrize(
    ("options", "saved"),
    [
        ("", {"dedup": "vdo on"}),
        ("deduplication off", {}),
        ("compression on deduplication on", {"compression": "vdo on", "dedup": "vdo on"}),
    ],
)
def test_what_vdo_saves(options: str, saved: dict[str, str]) -> None:
    blocks = sata("sda", "8:0") + block("dm-3", "253:3", slaves="sda", dm__name="vdo0", dm__uuid="VDO-1")
    on = machine(blocks, dm_table=f"vdo0: 0 2097152 vdo V4 8:0 262144 4096 32768 16380 {options}\n")
    seen = resolved(on, "/dev/vdo0", __dev__vdo0=node("dm-3", "253:3"))
    assert seen.stack[0].details == {"map": "vdo0", "targets": "vdo"} | saved


def test_raid_has_the_disks_of_its_members() -> None:
    blocks = sata("sda", "8:0") + sata("sdb", "8:16") + block("md0", "9:0", slaves="sda sdb", md__level="raid1")
    seen = resolved(machine(blocks), "/dev/md0", __dev__md0=node("md0", "9:0"))
    assert [layer.details for layer in seen.stack] == [{"level": "raid1", "devices": "sda sdb"}]
    assert [disk.name for disk in seen.disks] == ["sda", "sdb"]
    assert resolved(machine(blocks), "/dev/sda", __dev__sda=node("sda", "8:0")).used == ("part of md0",)


ZPOOL = """tank\t4000000000000\t3800000000000\t200000000000\t-\t-\t41\t95\t1.00\tONLINE\t-
\tmirror-0\t4000000000000\t3800000000000\t200000000000\t-\t-\t41\t95\t-\tONLINE
\t/dev/disk/by-id/one\t-\t-\t-\t-\t-\t-\t-\t-\tONLINE
\t/dev/disk/by-id/two\t-\t-\t-\t-\t-\t-\t-\t-\tONLINE
cache\t-\t-\t-\t-\t-\t-\t-\t-\t-
\t/dev/disk/by-id/cache\t-\t-\t-\t-\t-\t-\t-\t-\tONLINE
"""


@pytest.mark.parametrize(
    ("setting", "write", "sync"),
    [("standard", "volatile", "stable"), ("always", "stable", "stable"), ("disabled", "volatile", "nothing")],
)
def test_zfs(setting: str, write: str, sync: str) -> None:
    on = machine(
        sata("sda", "8:0") + sata("sdb", "8:16") + sata("sdc", "8:32"),
        "40 1 0:50 / /tank/vm rw - zfs tank/vm rw,xattr\n", zpool=ZPOOL,
        zfs=f"tank/vm\tsync\t{setting}\ntank/vm\tcompression\tlz4\ntank/vm\tdedup\toff\n",
    )  # fmt: skip
    paths = {"/tank/vm": folder("/tank/vm", "0:50"), "/dev/disk/by-id/one": node("sda", "8:0"),
             "/dev/disk/by-id/two": node("sdb", "8:16")}  # fmt: skip
    seen, wanted = resolve(on, "/tank/vm", paths)
    assert not wanted
    assert [disk.name for disk in seen.disks] == ["sda", "sdb"]
    assert [(volume.kind, round(volume.used, 2)) for volume in seen.volumes] == [("zfs-pool", 0.95)]
    assert (seen.flush.write, seen.flush.sync) == (write, sync)
    assert seen.stack[0].details["compression"] == "lz4"
    assert "dedup" not in seen.stack[0].details
    assert resolve(on, "/tank/vm", {"/tank/vm": paths["/tank/vm"]})[1] == {"/dev/disk/by-id/one", "/dev/disk/by-id/two"}


def test_a_zvol_without_reservation_is_thin() -> None:
    on = machine(
        sata("sda", "8:0") + block("zd0", "230:0"), zpool="tank\t100\t10\t90\n\t/dev/sda\t-\n",
        zfs="tank/v\trefreservation\t0\ntank/v\tsync\tstandard\n", zvol="tank/v\t/dev/zd0\n",
    )  # fmt: skip
    seen = resolved(on, "/dev/zd0", __dev__zd0=node("zd0", "230:0"), __dev__sda=node("sda", "8:0"))
    assert kinds(seen) == ["zvol", "zfs"]
    assert len(seen.thin) == 1
    assert counters.leaves(on) == {"sda": "sata", "zd0": "zvol"}


NFS = "50 1 0:60 / /mnt/n rw,relatime - nfs4 10.0.0.9:/export rw,vers=4.2,hard,proto=tcp,addr=10.0.0.9\n"


@pytest.mark.parametrize(
    ("line", "server", "sync"),
    [
        (NFS, "10.0.0.9:/export", "server"),
        ("50 1 0:60 / /mnt/n rw - cifs //nas/share rw,vers=3.1.1\n", "//nas/share", "server"),
        ("50 1 0:60 / /mnt/n rw - cifs //nas/share rw,nostrictsync\n", "//nas/share", "nothing"),
        ("50 1 0:60 / /mnt/n rw - ceph 10.0.0.1:6789:/ rw\n", "10.0.0.1:6789:/", "stable"),
    ],
)
def test_file_servers(line: str, server: str, sync: str) -> None:
    seen = resolved(machine("", line), "/mnt/n", __mnt__n=folder("/mnt/n", "0:60"))
    assert (seen.medium, seen.server, seen.flush.sync, seen.disks) == ("network", server, sync, ())


def test_the_upper_directory_of_a_container_is_not_seen() -> None:
    on = machine("", "1 0 0:30 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/lib/up,workdir=/w\n")
    seen = resolved(on, "/x", __x=folder("/x", "0:30"), __var__lib__up=PathFacts(False))
    assert (seen.medium, kinds(seen)) == ("unknown", ["overlay"])


MOUNTSTATS = """device proc mounted on /proc with fstype proc
device 10.0.0.9:/export mounted on /mnt/n with fstype nfs4 statvers=1.1
\tbytes:\t1 2 3 4 {read} {write} 7 8
"""


def test_nfs_counters_name_the_network_or_the_cache() -> None:
    on = machine("", NFS)
    behind = resolved(
        on, "/mnt/n/f", **{"__mnt__n__f": folder("/mnt/n/f", "0:60", kind="file", size=GIB, allocated=GIB)}
    )

    def verdict(moved: int) -> str:
        outputs = {
            "read.json": b'{"jobs": [{"read": {"io_bytes": 1000000}, "write": {"io_bytes": 0}}]}',
            "read.before.diskstats": b"",
            "read.before.mountstats": MOUNTSTATS.format(read=500, write=0).encode(),
            "read.after.mountstats": MOUNTSTATS.format(read=500 + moved, write=0).encode(),
        }
        return evaluate(on, behind, 2, outputs, IDLE).verdict

    assert verdict(1_000_000) == "network"
    assert verdict(10) == "cache"


def test_what_others_do_is_taken_off_and_small_shares_are_not_named() -> None:
    on = machine(sata("sda", "8:0") + sata("sdb", "8:16") + sata("sdc", "8:32"))
    behind = resolved(on, "/dev/sda", __dev__sda=node("sda", "8:0"))
    load = 1000 * 512

    def disks(a: int, b: int, c: int) -> bytes:
        rows = zip("abc", (a, b, c), strict=True)
        return "".join(f"8 0 sd{name} 1 0 {count} 1 1 0 0 0 0 0 0 0\n" for name, count in rows).encode()

    outputs = {"read.json": b'{"jobs": [{"read": {"io_bytes": %d}}]}' % load, "read.before.diskstats": disks(0, 0, 0),
               "read.after.diskstats": disks(1000, 2000, 50)}  # fmt: skip
    busy = (
        counters.counters({"x.diskstats": disks(0, 0, 0)}, "x"),
        counters.counters({"x.diskstats": disks(0, 500, 0)}, "x"),
    )
    seen = evaluate(on, behind, 2, outputs, busy)  # sdb moves 500 in 0.5 s without us
    assert (seen.verdict, seen.disks) == ("disks", {"sda": 1.0})
    assert evaluate(on, behind, 2, outputs, IDLE).disks.keys() == {"sda", "sdb"}


@pytest.mark.parametrize(
    ("a", "burst", "verdict", "named"),
    [
        (1000, 0, "disks", {"sda"}),
        (1000, 5000, "disks", set()),  # a burst before the load, scaled to its time, is more than all it moved
        (1400, 200, "disks", {"sda"}),
        (100, 0, "cache", {"sda"}),
        (400, 5000, "cache", set()),
    ],
)
def test_a_burst_of_others_before_the_load_makes_no_cache(a: int, burst: int, verdict: str, named: set[str]) -> None:
    on = machine(sata("sda", "8:0") + sata("sdb", "8:16"))
    behind = resolved(on, "/dev/sda", __dev__sda=node("sda", "8:0"))

    def disks(a: int, b: int) -> bytes:
        return f"8 0 sda 1 0 {a} 1 1 0 0 0 0 0 0 0\n8 16 sdb 1 0 {b} 1 1 0 0 0 0 0 0 0\n".encode()

    def snapshot(a: int, b: int) -> counters.Counters:
        return counters.counters({"x.diskstats": disks(a, b)}, "x")

    # sdb is another's: what moves there answers nothing
    outputs = {"read.json": b'{"jobs": [{"read": {"io_bytes": 512000}}]}', "read.before.diskstats": disks(0, 0),
               "read.after.diskstats": disks(a, 4000)}  # fmt: skip
    seen = evaluate(on, behind, 2, outputs, (snapshot(0, 0), snapshot(burst, 1000)))
    assert (seen.verdict, set(seen.disks)) == (verdict, named)


def test_the_cache_of_zfs_is_told() -> None:
    on = machine("")
    behind = resolved(on, "/f", __f=folder("/f", "0:1", kind="file", size=GIB, allocated=GIB))
    arc = "13 1 0x01 123 33456 1 2\nname type data\nhits 4 {hits}\nmisses 4 {misses}\n"
    outputs = {"read.json": b'{"jobs": [{"read": {"io_bytes": 1000}}]}', "read.before.diskstats": b"",
               "read.before.arcstats": arc.format(hits=10, misses=1).encode(),
               "read.after.arcstats": arc.format(hits=110, misses=3).encode()}  # fmt: skip
    assert evaluate(on, behind, 2, outputs, IDLE).as_json()["arc"] == {"hits": 100, "misses": 2}


TEXT = st.text(alphabet=st.sampled_from("ab01 \t\n:/,-.=\\[]") | st.characters(), max_size=80)


@given(st.lists(TEXT, min_size=8, max_size=8))
def test_no_output_makes_it_raise(texts: list[str]) -> None:
    keys = ("blocks", "mountinfo", "zpool", "zfs", "dm.table", "dm.status", "identities", "swaps")
    on = facts.machine("box", {name: text.encode(errors="replace") for name, text in zip(keys, texts, strict=True)})
    path = facts.path_facts(f"kind\tfile\nreal\t/a\nstat\t{texts[0]}\nstatfs\t{texts[1]}\n")
    resolve(on, "/a", {"/a": path})[0].as_json()
    files = {
        f"read.before.{k}": t.encode(errors="replace")
        for k, t in zip(("diskstats", "mountstats", "netdev"), texts, strict=False)
    }
    behind = Behind("box", "/a", "file")
    evaluate(on, behind, 1, files | {"read.json": texts[0].encode(errors="replace")}, IDLE)
