"""What lies behind real paths of this machine: file systems on loop devices, overlays, bind mounts, memory, links."""

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.machines import library
from fairlane.machines.behind import Behind, look
from fairlane.machines.behind.facts import path_facts
from fairlane.machines.this_host import LocalGuest
from tests.machines.behind import loops

pytestmark = loops.REAL


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[loops.Bench]:
    with loops.bench(tmp_path) as made:
        yield made


def layers(behind: Behind) -> list[tuple[str, str]]:
    return [(layer.kind, layer.name) for layer in behind.stack]


def below(folder: Path) -> set[str]:
    """Kernel names that ``lsblk`` gives for the whole disks under a folder; empty in a container."""
    source = subprocess.run(["findmnt", "-no", "SOURCE", "-T", folder], capture_output=True, text=True, check=True)
    told = subprocess.run(
        ["lsblk", "-snlo", "NAME,TYPE", source.stdout.strip()], capture_output=True, text=True, check=False
    )
    return {words[0] for line in told.stdout.splitlines() if (words := line.split())[-1] == "disk"}


@pytest.mark.parametrize("fstype", ["ext4", "xfs"])
def test_a_file_system_on_a_loop_device_on_a_file(bench: loops.Bench, fstype: str) -> None:
    point, node = bench.system("a", fstype, 320, "-o", "noatime")
    (point / "sub").mkdir()
    seen = bench.look(a=point / "sub")["a"]
    assert (seen.kind, seen.real, seen.mount_point, seen.source, seen.fstype) == (
        "directory", str(point / "sub"), str(point), node, fstype,
    )  # fmt: skip
    assert "noatime" in seen.options
    assert layers(seen)[0] == ("loop", node[5:])
    assert seen.stack[0].details["file"] == str(bench.folder / "a.img")
    assert {disk.name for disk in seen.disks} == below(bench.folder)
    assert seen.medium == "disks"
    assert len(seen.thin) == 1
    status = os.statvfs(point)
    assert (seen.total_bytes, seen.free_bytes) == (status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)
    assert [volume.kind for volume in seen.volumes] == ["file-system"] * 2
    assert (seen.direct.works, seen.direct.block, seen.writable, seen.read_only) == (True, 512, True, False)
    assert list((point / "sub").iterdir()) == [], "the scratch file is removed"
    json.dumps(seen.as_json())


def test_the_try_of_direct_io_writes_through_no_link(bench: loops.Bench) -> None:
    point, _ = bench.system("a", "ext4")
    disk = bench.attached(bench.file("victim", 8, full=True))
    before = (bench.folder / "victim").read_bytes()
    (point / "scratch").symlink_to(disk)
    seen = asyncio.run(look(bench.guest, {"a": str(point)}, scratch="scratch"))["a"]
    assert seen.direct.works
    assert (bench.folder / "victim").read_bytes() == before
    assert sorted(file.name for file in point.iterdir()) == ["lost+found", "scratch"]


def test_btrfs_of_two_devices_and_a_subvolume(bench: loops.Bench) -> None:
    first, second = (bench.attached(bench.file(name, 200)) for name in ("one", "two"))
    if subprocess.run(["sh", "-c", "command -v mkfs.btrfs"], check=False, capture_output=True).returncode:
        pytest.skip("needs mkfs.btrfs")
    bench.run("mkfs.btrfs", "-q", first, second)
    point = bench.mounted("pool", first, "-o", "compress=zstd:5")
    bench.run("btrfs", "subvolume", "create", point / "sub")
    seen = bench.look(a=point / "sub", second=second)
    assert seen["a"].fstype == "btrfs"
    assert layers(seen["a"])[0] == ("btrfs", first)
    assert seen["a"].stack[0].details["compression"] == "zstd:5"
    assert {name for kind, name in layers(seen["a"]) if kind == "loop"} == {first[5:], second[5:]}
    assert seen["second"].used, "a member that is not the mount's source"


def test_an_overlay_is_its_upper_directory(bench: loops.Bench) -> None:
    upper, node = bench.system("upper", "ext4")
    low = bench.folder / "low"
    low.mkdir()
    for name in ("up", "work"):
        (upper / name).mkdir()
    options = f"lowerdir={low},upperdir={upper}/up,workdir={upper}/work"
    seen = bench.look(o=bench.mounted("over", "overlay", "-t", "overlay", "-o", options))["o"]
    assert layers(seen)[:2] == [("overlay", f"{upper}/up"), ("loop", node[5:])]
    assert seen.medium == "disks"


def test_one_directory_by_link_and_bind_mount_has_one_inode(bench: loops.Bench) -> None:
    point, _ = bench.system("a", "ext4")
    (point / "real").mkdir()
    link = bench.folder / "link"
    link.symlink_to(point / "real")
    bind = bench.mounted("bind", point / "real", "--bind")
    seen = bench.look(a=point / "real", link=link, bind=bind)
    assert len({(one.device, one.inode) for one in seen.values()}) == 1
    assert seen["link"].real == str(point / "real")
    assert seen["bind"].mount_point == str(bind)


def test_of_two_mounts_at_one_point_the_later_counts(bench: loops.Bench) -> None:
    point, _ = bench.system("a", "ext4")
    bench.run("mount", "-t", "tmpfs", "none", point)
    bench.held.callback(bench.run, "umount", point)
    assert bench.look(a=point)["a"].fstype == "tmpfs"


def test_memory(bench: loops.Bench) -> None:
    point = bench.mounted("memory", "none", "-t", "tmpfs")
    image = point / "image"
    with image.open("wb") as handle:
        handle.write(os.urandom(loops.MIB))
    seen = bench.look(memory=point, loop=bench.attached(image))
    assert (seen["memory"].medium, seen["memory"].flush.write, seen["memory"].flush.sync) == (
        "memory",
        "memory",
        "nothing",
    )
    assert (seen["loop"].medium, seen["loop"].disks) == ("memory", ())


def test_files_devices_and_nothing(bench: loops.Bench) -> None:
    full, sparse = bench.file("full", 1, full=True), bench.file("sparse", 8)
    node = bench.attached(sparse, "--read-only")
    (bench.folder / "broken").symlink_to("/nowhere")
    os.mkfifo(bench.folder / "fifo")
    names: dict[str, str | Path] = {"full": full, "sparse": sparse, "node": node, "gone": bench.folder / "gone"}
    seen = bench.look(**names, broken=bench.folder / "broken", fifo=bench.folder / "fifo")
    assert (seen["full"].kind, seen["full"].size, seen["full"].thin) == ("file", loops.MIB, ())
    assert (seen["sparse"].size, len(seen["sparse"].thin)) == (8 * loops.MIB, 1)
    assert (seen["node"].kind, seen["node"].size, seen["node"].read_only) == ("device", 8 * loops.MIB, True)
    assert {seen[name].kind for name in ("gone", "broken")} == {"missing"}
    assert "/nowhere" in seen["broken"].missing
    assert seen["fifo"].kind == "other"


def test_a_mounted_device_says_where(bench: loops.Bench) -> None:
    point, node = bench.system("a", "ext4")
    assert bench.look(d=node)["d"].used == (f"mounted at {point}",)


def test_a_loop_device_on_a_loop_device_goes_on_to_the_disk(bench: loops.Bench) -> None:
    inner = bench.attached(bench.file("image", 16))
    outer = bench.attached(inner)
    seen = bench.look(o=outer, i=inner)
    assert layers(seen["o"]) == [("loop", outer[5:]), ("loop", inner[5:])]
    assert seen["o"].disks == seen["i"].disks
    assert any(outer[5:] in use for use in seen["i"].used)


def test_a_partition_is_on_its_disk(bench: loops.Bench) -> None:
    file = bench.file("disk", 16)
    table = bytes(446) + bytes.fromhex("00 00 02 00 83 00 02 00 00 08 00 00 00 40 00 00") + bytes(48) + b"\x55\xaa"
    with file.open("r+b") as handle:
        handle.write(table)
    node = bench.attached(file)
    bench.run("partx", "--add", node)
    bench.held.callback(bench.run, "partx", "--delete", node)
    seen = bench.look(p=f"{node}p1")["p"]
    assert layers(seen) == [("partition", f"{node[5:]}p1"), ("loop", node[5:])]


@pytest.mark.parametrize(
    ("options", "write", "sync"),
    [("barrier", "volatile", "stable"), ("nobarrier", "volatile", "nothing"), ("sync", "stable", "stable")],
)
def test_mount_options_change_the_promise(bench: loops.Bench, options: str, write: str, sync: str) -> None:
    point, _ = bench.system("a", "ext4", 320, "-o", options)
    seen = bench.look(a=point)["a"]
    caches = {disk.write_cache for disk in seen.disks}
    if caches != {"write back"}:
        pytest.skip(f"the disk is {caches}")
    assert (seen.flush.write, seen.flush.sync) == (write, sync)


def test_without_direct_io(bench: loops.Bench) -> None:
    """procfs takes none."""
    seen = bench.look(f="/proc/version")["f"]
    assert (seen.kind, seen.fstype, seen.direct.works) == ("file", "proc", False)
    assert seen.direct.reason


def test_a_read_only_file_system(bench: loops.Bench) -> None:
    point, _ = bench.system("a", "ext4")
    bench.run("mount", "-o", "remount,ro", point)
    seen = bench.look(d=point)["d"]
    assert (seen.read_only, seen.writable, seen.direct.works) == (True, False, None)


def test_paths_with_blanks_and_quotes(bench: loops.Bench) -> None:
    odd = bench.folder / 'it\'s a "path" $HOME *'
    odd.mkdir()
    point = bench.mounted("with blank", "none", "-t", "tmpfs")
    seen = bench.look(odd=odd, blank=point)
    assert seen["odd"].real == str(odd)
    assert seen["blank"].mount_point == str(point)


def test_a_user_without_rights_sees_the_same_and_may_not_write(bench: loops.Bench) -> None:
    folder = Path(bench.held.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
    folder.chmod(0o755)
    LocalGuest(folder)
    script = f". {folder}/lib.sh\ncd $(mktemp -d)\n{library.part('behind.sh')}\n" + (
        f"behind_machine\nbehind_path {folder} try\necho\ncat blocks identities"
    )
    words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-euc", script]
    told = subprocess.run(words, capture_output=True, text=True, check=True)
    rows, _, machine = told.stdout.partition("\n\n")
    facts = path_facts(rows)
    assert (facts.kind, facts.readable, facts.writable, facts.direct) == ("directory", True, False, "")
    assert all(f"{disk.name}\tat\t" in machine for disk in bench.look(a=folder)["a"].disks)
