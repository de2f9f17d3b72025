"""What a real load moves: files on this machine's disk, loop devices with and without a cache, memory."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.machines.behind import Probed, probe
from tests.machines.behind import loops

pytestmark = [*loops.REAL, pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[loops.Bench]:
    with loops.bench(tmp_path) as made:
        yield made


def probed(bench: loops.Bench, *, writes: tuple[str, ...] = (), **files: str | Path) -> dict[str, Probed]:
    paths = {name: str(path) for name, path in files.items()}
    return asyncio.run(probe(bench.guest, paths, 0.5, writes=writes))


@pytest.mark.slow
def test_a_file_on_a_disk_moves_it(bench: loops.Bench) -> None:
    file = bench.file("a:file, with a colon", 32, full=True)
    disks = {disk.name for disk in bench.look(a=file)["a"].disks}
    if not disks:
        pytest.skip("the temporary folder is on no disk that is seen")
    # I/O of others adds to it, and what they did before is taken off: one of some probes is without either
    some = [probed(bench, a=file, writes=("a",))["a"] for _ in range(6)]
    seen = min(some, key=lambda p: max(abs((p.ways[way].ratio or 0.0) - 1) for way in ("read", "write")))
    assert (seen.verdict, set(seen.disks), seen.failed) == ("disks", disks, "")
    assert sum(seen.disks.values()) == pytest.approx(1)
    for way in ("read", "write"):
        assert seen.ways[way].ratio == pytest.approx(1, abs=0.2)
    tree = seen.as_json()
    assert tree["read"]["load_bytes"] == seen.ways["read"].load_bytes > 0
    assert {"machine", "seconds", "verdict", "disks", "read", "write", "arc", "failed"} == tree.keys()


@pytest.mark.slow
def test_only_what_may_be_written_is(bench: loops.Bench) -> None:
    file = bench.file("a", 8, full=True)
    before = file.read_bytes()
    assert set(probed(bench, a=file)["a"].ways) == {"read"}
    assert file.read_bytes() == before
    assert set(probed(bench, a=file, writes=("a",))["a"].ways) == {"read", "write"}
    assert file.read_bytes() != before
    assert file.stat().st_size == len(before)


@pytest.mark.slow
def test_the_page_cache_below_a_loop_device_is_a_cache(bench: loops.Bench) -> None:
    image = bench.file("image", 32, full=True)  # and still in memory
    seen = probed(bench, cached=bench.attached(image), sparse=bench.file("sparse", 32))
    assert {name: one.verdict for name, one in seen.items()} == {"cached": "cache", "sparse": "cache"}
    assert seen["cached"].ways["read"].ratio < 0.1  # type: ignore[operator]


def test_a_loop_device_with_direct_io_is_its_disk(bench: loops.Bench) -> None:
    image = bench.file("image", 32, full=True)
    node = bench.attached(image, "--direct-io=on")
    dio = Path(f"/sys/block/{node[5:]}/loop/dio").read_text().strip()
    seen = probed(bench, a=node)["a"]
    if dio != "1":
        pytest.skip("this file system takes no direct I/O")
    assert seen.verdict == "disks"
    assert set(seen.disks) == {disk.name for disk in bench.look(a=image)["a"].disks}


def test_memory_is_memory(bench: loops.Bench) -> None:
    point = bench.mounted("memory", "none", "-t", "tmpfs")
    bench.run("dd", "if=/dev/urandom", f"of={point}/file", "bs=1M", "count=4")
    bench.run("cp", f"{point}/file", f"{point}/image")
    seen = probed(bench, file=point / "file", loop=bench.attached(point / "image"))
    assert {one.verdict for one in seen.values()} == {"memory"}


def test_what_cannot_be_loaded_says_why(bench: loops.Bench) -> None:
    seen = probed(bench, gone="/nowhere", folder=bench.folder, tiny=bench.file("tiny", 0))
    assert {one.verdict for one in seen.values()} == {"unknown"}
    assert all(one.failed for one in seen.values())


def test_a_program_in_user_space_below_is_a_cache_or_a_disk(bench: loops.Bench) -> None:
    """nbdkit's memory over FUSE: no counter moves, and what is behind the program is not known."""
    if not shutil.which("nbdkit") or not shutil.which("nbdfuse") or not Path("/dev/fuse").exists():
        pytest.skip("needs nbdkit, nbdfuse and /dev/fuse")
    mount = bench.folder / "fuse"
    mount.mkdir()
    words = ["nbdfuse", "-P", str(bench.folder / "pid"), str(mount), "--command", "nbdkit", "-s", "memory", "16M"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            asyncio.run(_until(lambda: (bench.folder / "pid").exists() or process.poll() is not None))
            if process.poll() is not None and not (mount / "nbd").exists():
                pytest.skip(f"nbdfuse does not run here: {process.communicate()[1]}")
            seen = bench.look(a=mount / "nbd")["a"]
            assert (seen.stack[0].kind, seen.medium, seen.flush.sync) == ("fuse", "unknown", "unknown")
            result = probed(bench, a=mount / "nbd")["a"]
            assert result.failed or result.verdict in ("cache", "network")
        finally:
            subprocess.run(["umount", mount], check=False)
            process.wait()


async def _until(done: object) -> None:
    for _ in range(600):
        if done():  # type: ignore[operator]
            return
        await asyncio.sleep(0.05)
