"""A real load on a file of this machine, with another program on the same disk, and with a cache below it."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlane.formats.fio_figures import figures
from fairlane.machines.behind import look
from fairlane.machines.this_host import LocalGuest
from fairlane.probes.host_disks import PLUGIN
from fairlane.records import Figures
from tests.checks.conftest import Beside, RunCheck

pytestmark = [
    pytest.mark.skipif(
        shutil.which("fio") is None or not Path("/proc/diskstats").exists(), reason="needs fio on Linux"
    ),
    pytest.mark.xdist_group("loop"),  # tests that load the disk too
]
MIB = 2**20


def _snapshot() -> str:
    return subprocess.run(["sh", "-euc", PLUGIN.capture], capture_output=True, text=True, check=True).stdout


def _loaded(file: Path) -> Figures:
    """Figures of half a second of random reads, with the disks' counters."""
    before = _snapshot()
    words = ["--ioengine=psync", "--direct=1", "--rw=randread", "--bs=64k", "--time_based", "--runtime=500ms",
             "--lat_percentiles=1"]  # fmt: skip
    outputs = subprocess.run(
        ["fio", "--name=x", f"--filename={file}", "--allow_file_create=0", *words, "--output-format=json+"],
        capture_output=True, check=True,
    )  # fmt: skip
    seen = figures(outputs.stdout)
    observed = PLUGIN.observe(before, _snapshot(), seen)
    return Figures(seen.metrics, {}, {**seen.context, **observed.context})


@contextmanager
def _another(file: Path) -> Iterator[None]:
    """Somebody reads ``file`` as fast as the disk can."""
    loop = f"while :; do dd if={file} of=/dev/null bs=1M iflag=direct 2> /dev/null; done"
    with subprocess.Popen(["sh", "-c", f"echo go; {loop}"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def _files(folder: Path) -> tuple[Path, Path, dict[str, Any]]:
    (folder / "guest").mkdir()
    paths = folder / "ours", folder / "theirs"
    for path in paths:
        with path.open("wb") as handle:
            handle.write(os.urandom(32 * MIB))
            handle.flush()
            os.fsync(handle.fileno())
    found = asyncio.run(look(LocalGuest(folder / "guest"), {"ours": str(paths[0])}))["ours"]
    if not found.disks or not found.direct.works:
        pytest.skip("the temporary folder is on no disk that is seen")
    return (*paths, found.as_json())


@pytest.mark.parametrize("disturbed", [False, True])
def test_another_program_on_the_disk_is_seen(
    tmp_path: Path, beside: Beside, run_check: RunCheck, disturbed: bool
) -> None:
    ours, theirs, behind = _files(tmp_path)
    described = {"lanes": {"odd": {"behind": behind}}}
    if disturbed:
        with _another(theirs):
            seen = _loaded(ours)
    else:
        seen = _loaded(ours)
    made = beside(seen, Figures({"iops": 1.0}), "rw: [randread], bs: [64k]", description=described)
    assert run_check("cache_served", made) == []
    found = run_check("other_io", made)
    if disturbed:  # others may be on this machine too: of a quiet disk nothing is asserted but its bytes
        assert [each.kind for each in found] in (["others"], ["mostly-others"])
        assert found[0].evidence["main.64k-randread-qd1"]["share"] > 0.1
    load = seen.context["load"]["bytes"]["read"]
    moved = sum(seen.context["host_disks"][disk["name"]]["read_bytes"] for disk in behind["disks"])
    assert moved >= 0.95 * load
