"""The binary formats the lab writes by itself: cpio, ELF, frames."""

import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.errors import FairlaneError, RunFailed
from fairlane.machines import frames
from fairlane.platforms.lab import cpio, elf
from tests.words import kind


def test_cpio_does_not_depend_on_the_order_of_its_parts() -> None:
    one, two = cpio.file(b"1"), cpio.file(b"2")
    assert cpio.archive({"a": one, "b/c": two}) == cpio.archive({"b/c": two, "a": one})


def test_cpio_holds_device_nodes_without_root() -> None:
    archive = cpio.archive({"dev/console": cpio.character_device(5, 1)})
    header = archive[archive.index(b"dev/console\0") - 110 :]
    fields = [int(header[6 + 8 * i : 14 + 8 * i], 16) for i in range(13)]
    assert fields[1] == 0o020600
    assert fields[9:11] == [5, 1]


def test_links_reads_a_real_program() -> None:
    links = elf.links(Path("/bin/ls").resolve().read_bytes())
    assert any(name.startswith("libc.so") for name in links.needed)
    assert links.undefined["malloc"].startswith("GLIBC_") or "malloc" not in links.undefined


def test_links_refuses_what_is_no_elf_file() -> None:
    with pytest.raises(FairlaneError, match="ELF"):
        elf.links(b"#!/bin/sh\n")


def test_the_loader_takes_a_stand_in_for_the_library_a_program_was_linked_to(tmp_path: Path) -> None:
    """fio is started with a stand-in for libnbd: every symbol and version it asks for is found, without a warning."""
    fio = shutil.which("fio")
    if not fio:
        pytest.skip("no fio on this machine")
    wanted = elf.links(Path(fio).read_bytes())
    name = next((n for n in wanted.needed if n.startswith("libnbd")), None)
    if name is None:
        pytest.skip("this fio is not linked to libnbd")
    symbols = {s: v for s, v in wanted.undefined.items() if s.startswith("nbd_")}
    (tmp_path / name).write_bytes(elf.stand_in(name, symbols))
    done = subprocess.run(
        [fio, "--version"],
        env={"LD_LIBRARY_PATH": str(tmp_path), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.startswith("fio-")
    assert symbols


def test_the_port_writer_is_a_program_that_runs(tmp_path: Path) -> None:
    """Outside a lab guest ioperm refuses (EPERM, or ENOSYS in a sandbox); as root it may write to an unused port."""
    program = tmp_path / "port"
    program.write_bytes(elf.port_writer(0x80, 0))
    program.chmod(0o755)
    code = subprocess.run([str(program)], check=False).returncode
    assert code in (0, 256 - 1, 256 - 38)


def _frame(name: str, files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, data in files.items():
            info = tarfile.TarInfo(f"./{path}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    body = gzip.compress(buffer.getvalue())
    return f"\n@@FAIRLANE {name} {len(body)} {hashlib.sha256(body).hexdigest()}\n".encode() + body


@given(
    frames_in=st.lists(st.dictionaries(st.sampled_from(["a", "b.txt"]), st.binary(max_size=300)), max_size=3),
    cuts=st.lists(st.integers(0, 4000), max_size=6),
)
def test_frames_arrive_whole_however_the_stream_is_cut(frames_in: list[dict[str, bytes]], cuts: list[int]) -> None:
    stream = b"noise" + b"".join(_frame(f"n{i}", files) for i, files in enumerate(frames_in))
    edges = sorted({0, len(stream), *(c for c in cuts if c < len(stream))})
    reader = frames.Frames()
    got = [f for a, b in pairwise(edges) for f in reader.feed(stream[a:b])]
    assert got == [(f"n{i}", files) for i, files in enumerate(frames_in)]


def test_a_mark_is_a_frame_without_files() -> None:
    empty = hashlib.sha256(b"").hexdigest()
    assert frames.Frames().feed(f"\n@@FAIRLANE load-begins 0 {empty}\n".encode()) == [("load-begins", {})]


def test_a_damaged_frame_is_an_error() -> None:
    stream = bytearray(_frame("x", {"a": b"1"}))
    stream[-3] ^= 1
    with pytest.raises(RunFailed, check=kind("result-damaged")):
        frames.Frames().feed(bytes(stream))


def test_a_frame_that_is_no_tar_is_an_error() -> None:
    body = b"not a tar"
    with pytest.raises(RunFailed, match="'x'", check=kind("result-damaged")):
        frames.Frames().feed(f"\n@@FAIRLANE x {len(body)} {hashlib.sha256(body).hexdigest()}\n".encode() + body)
