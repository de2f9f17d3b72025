"""What forbids paths before a run, on real paths of this machine, and what the checks say of them."""

import subprocess
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane.machines.behind import Behind, Direct, problems, warnings
from tests.machines.behind import loops

pytestmark = loops.REAL


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[loops.Bench]:
    with loops.bench(tmp_path) as made:
        yield made


def kinds(found: Collection[FairlaneError]) -> list[tuple[str, str]]:
    assert all(each.hint and each.message and "\n" not in each.message for each in found)
    return [(each.kind, each.where.removeprefix("lanes.")) for each in found]


def judged(
    behinds: dict[str, Behind], *, buffered: bool = False, writes: bool = True, size: int = 0
) -> list[tuple[str, str]]:
    return kinds(problems(behinds, buffered=buffered, writes=writes, size=size))


def test_two_directories_of_a_file_system_have_no_problem(bench: loops.Bench) -> None:
    point, _ = bench.system("a", "ext4")
    (point / "x").mkdir()
    (point / "y").mkdir()
    assert judged(bench.look(x=point / "x", y=point / "y")) == []


def test_one_path_under_two_names(bench: loops.Bench) -> None:
    point, node = bench.system("a", "ext4")
    (point / "real").mkdir()
    (bench.folder / "link").symlink_to(point / "real")
    bind = bench.mounted("bind", point / "real", "--bind")
    (bench.folder / "disk").symlink_to(node)
    seen = bench.look(a=point / "real", link=bench.folder / "link", bind=bind, d=node, e=bench.folder / "disk")
    assert judged(seen, writes=False) == [("same-path", "link"), ("same-path", "bind"), ("same-path", "e")]


def test_one_subvolume_mounted_twice(bench: loops.Bench) -> None:
    point, node = bench.system("a", "btrfs")
    for name in ("one", "two"):
        bench.run("btrfs", "subvolume", "create", point / name)
    again, other = (bench.mounted(f"{name}-again", node, "-o", f"subvol={name}") for name in ("one", "two"))
    assert judged(bench.look(a=point / "one", again=again)) == [("same-path", "again")]
    assert judged(bench.look(a=point / "one", other=other)) == []


def test_a_device_that_is_mounted_is_written_by_nobody_else(bench: loops.Bench) -> None:
    point, node = bench.system("a", "ext4")
    seen = bench.look(d=node)
    assert judged(seen) == [("device-used", "d")]
    assert str(point) in problems(seen, buffered=False, writes=True)[0].message
    assert judged(seen, writes=False) == []


def test_read_only_missing_and_odd_paths(bench: loops.Bench) -> None:
    point, _ = bench.system("a", "ext4")
    bench.run("mount", "-o", "remount,ro", point)
    node = bench.attached(bench.file("image", 8), "--read-only")
    seen = bench.look(ro=point, gone="/nowhere", odd="/dev/null", node=node)
    assert judged(seen) == [("read-only", "ro"), ("path-missing", "gone"), ("path-kind", "odd"), ("read-only", "node")]
    assert judged({"node": seen["node"]}, writes=False) == []


def test_memory_and_no_direct_io_unless_buffered(bench: loops.Bench) -> None:
    seen = bench.look(memory=bench.mounted("m", "none", "-t", "tmpfs"), proc="/proc/version")
    assert judged(seen, writes=False) == [("in-memory", "memory"), ("direct-unsupported", "proc")]
    assert judged(seen, writes=False, buffered=True) == []


def test_room_for_the_files_and_for_what_stays_free(bench: loops.Bench) -> None:
    point, _ = bench.system("a", "ext4")
    for name in "xy":
        (point / name).mkdir()
    seen = bench.look(x=point / "x", y=point / "y")
    free = seen["x"].free_bytes or 0
    half = free // 2
    assert judged(seen, size=half) == []
    assert judged(seen, size=half + loops.MIB) == [("no-space", "x")], "both files are there at once"
    assert judged({"x": seen["x"]}, size=half + loops.MIB) == []
    found = problems({"x": seen["x"]}, buffered=False, writes=True, size=half, keep_free=half + loops.MIB)
    assert kinds(found) == [("no-space", "x")]


def test_a_full_file_system_lacks_room_and_not_direct_io(bench: loops.Bench) -> None:
    point, _ = bench.system("a", "ext4", 64)
    for bs in ("64k", "1k"):  # the file system keeps some blocks back until the first file is on its disk
        filling = ["dd", "if=/dev/zero", f"of={point / bs}", f"bs={bs}", "conv=fsync"]
        assert subprocess.run(filling, check=False, stderr=subprocess.DEVNULL).returncode
    seen = bench.look(a=point)
    assert seen["a"].direct.works is None
    assert judged(seen, size=loops.MIB) == [("no-space", "a")]


def test_a_sparse_image_needs_room_below_it(bench: loops.Bench) -> None:
    small, _ = bench.system("small", "ext4", 64)
    image = small / "image"
    with image.open("wb") as handle:
        handle.truncate(320 * loops.MIB)
    node = bench.attached(image)
    bench.run("mkfs.ext4", "-q", node)
    seen = bench.look(a=bench.mounted("a", node))
    assert (seen["a"].free_bytes or 0) > 128 * loops.MIB
    assert judged(seen, size=128 * loops.MIB) == [("no-space", "a")]
    assert judged(seen, size=16 * loops.MIB) == []


def test_rights_and_inodes(bench: loops.Bench) -> None:
    point, _ = bench.system("a", "ext4")
    seen = bench.look(a=point)["a"]
    assert judged({"a": replace(seen, writable=False)}) == [("not-writable", "a")]
    file = bench.look(f=bench.file("f", 1, full=True))["f"]
    unread = {"f": replace(file, readable=False, direct=Direct(None))}
    assert judged(unread, writes=False) == [("not-readable", "f")]
    assert judged({"a": replace(seen, free_inodes=0)}, size=1) == [("no-inodes", "a")]


def test_the_checks_words_before_a_run(bench: loops.Bench) -> None:
    one, _ = bench.system("one", "ext4", 320, "-o", "nobarrier")
    two, _ = bench.system("two", "xfs")
    seen = bench.look(a=one, b=two)
    if not seen["a"].disks:
        pytest.skip("the temporary folder is on no disk that is seen")
    found = {(finding.check, finding.kind): finding for finding in warnings(seen)}
    assert {key for key in found if key[0] != "full_volume"} >= {
        ("shared_disk", "looked-up"),
        ("other_mount", "file-system"),
    }
    assert ("full_volume", "thin") in found
    assert found["shared_disk", "looked-up"].lanes == ("a", "b")
    assert all(finding.cells == () for finding in found.values())
    if {disk.write_cache for disk in seen["a"].disks} == {"write back"}:
        assert found["flush_promise", "differs"].severity == "warning"
        syncing = {(f.check, f.kind): f.severity for f in warnings(seen, syncs=True)}
        assert syncing["flush_promise", "no-promise"] == "warning"
        assert syncing["flush_promise", "differs"] == "info"


def test_a_command_line_without_a_study_gets_its_own_words(bench: loops.Bench) -> None:
    point, _ = bench.system("a", "ext4")
    (point / "x").mkdir()
    (bench.folder / "link").symlink_to(point / "x")
    gone = str(bench.folder / "gone")
    seen = bench.look(a=point / "x", b=bench.folder / "link", c=bench.folder / "gone")
    found = problems(seen, buffered=False, writes=True, labels={"a": "old", "b": "new", "c": gone}, size=2**60)
    assert [error.kind for error in found] == ["path-missing", "same-path", "no-space"]
    assert not any(error.where or "lanes" in error.message for error in found)
    assert found[0].message.startswith(f"{gone} does not exist")
