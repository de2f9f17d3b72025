"""What the guard says, in snapshots; other tests of it go by kinds, names and figures."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from fairlane.errors import Refused
from fairlane.machines.device_guard import Recorded, guard
from fairlane.machines.this_host import LocalGuest
from tests.machines.test_guard_loop import PARTITIONED, SIZE, Bench, bench

__all__ = ["bench"]

MADE = ("ln -s /dev/null x", "mkfifo x", "truncate -s 1M x", "ln -s /dev/nowhere x", ":")


def told(folder: Path, script: str) -> str:
    """The refusal of a script, with ``x`` for names that are others in each run."""
    with pytest.raises(Refused) as refused:
        asyncio.run(LocalGuest(folder).ask(script))
    return f"{refused.value.labelled()}\n  {refused.value.hint}".replace(str(folder), "")


def test_what_is_no_disk(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    texts = []
    for number, make in enumerate(MADE):
        folder = tmp_path / str(number)
        folder.mkdir()
        subprocess.run(["sh", "-c", make], cwd=folder, check=True)
        texts.append(told(folder, guard(f"{folder}/x", Recorded("serial:a", "-"))))
    (tmp_path / "share").mkdir()
    (tmp_path / "file").write_bytes(bytes(512))
    (tmp_path / "share" / "file").symlink_to(tmp_path / "file")
    for file, share in (("share/file", "share"), ("file", ""), ("none", "")):
        texts.append(told(tmp_path, f"file_guard {tmp_path}/{file} {tmp_path}/{share} 512"))
    assert "\n".join(texts) == snapshot


@pytest.mark.xdist_group("loop")
@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/loop-control").exists(), reason="needs root and loop devices")
def test_what_is_a_disk(bench: Bench, snapshot: SnapshotAssertion) -> None:
    disk, texts = bench.disk({0: PARTITIONED}), []
    for size, destroy in ((f"{SIZE}/512", ""), (f"{SIZE}/512", "S3Z8NB0K"), (f"{SIZE}/4096", ""), ("1/512", "")):
        text = told(bench.folder, guard(disk.node, Recorded(disk.identity, size), destroy))
        texts.append(text.replace(disk.node[5:], "loopX"))
    held = bench.disk()
    texts.append(told(bench.folder, guard(held.node, Recorded("loop:/none", "-"))).replace(held.node[5:], "loopX"))
    on = bench.attached(held.node)
    text = told(bench.folder, guard(held.node, Recorded(held.identity, "-"), held.identity))
    texts.append(text.replace(held.node[5:], "loopX").replace(on[5:], "loopY"))
    assert "\n".join(texts) == snapshot
