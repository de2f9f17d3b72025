"""Clones for real, by every method: each boots from its own disk, holds the golden image's data, and is private; what
is not so is found out, and nothing is left of a storm that fails or is stopped."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_hall import wait_for_room

from fairlane.errors import MachineLost, RunFailed
from fairlane.lanes._clones import Clone
from fairlane.lanes.base import Step
from fairlane.lanes.clone_copy import CloneCopy
from fairlane.platforms.lab import qemu
from fairlane.platforms.lab.wall import store
from fairlane.platforms.lab.wall.lab import WallLab
from fairlane.study.load import parse_study

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("ceph"), pytest.mark.timeout(3600)]

STUDY = """
name: clones
platform:
  {{kind: lab, clock: wall, memory: 192m, accel: tcg, overcommit: 16, array: {{memory: 512m}},
    medium: {{size: 256m, file: true}}}}
baseline: copy
lanes:
  copy: {{transport: clone_copy}}
  {others}
workloads:
  main: {{kind: clone, counts: [2], data: 32m}}
"""
FILES = "overlay: {transport: clone_overlay}"
REFLINK = "reflink: {transport: clone_reflink}"
THIN = "thin: {transport: clone_lvm_thin}"
RBD = "rbd: {transport: clone_rbd, redundancy: 2}"


def the_lab(*others: str) -> WallLab:
    if not shutil.which(qemu.BINARY):
        pytest.skip(f"{qemu.BINARY} is not installed: run make setup")
    lab = WallLab(parse_study(STUDY.format(others="\n  ".join(others)), "study.yaml"))
    wait_for_room(lab)
    return lab


def left(lab: WallLab) -> list[str]:
    """Files of clones, and machines that run from the lab's folder."""
    place = Path(lab.lanes["copy"][0].site.medium)
    found = [path.name for path in place.iterdir() if path.name != "golden"]
    folder = f"/{place.parent.name}/clones/"
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"qemu-system-x86_64") and any(folder.encode() in w for w in words):
            found.append(entry.name)
    return found


def golden_of(lab: WallLab) -> bytes:
    assert lab.golden
    return lab.golden.file.read_bytes()


def in_order(times: list[dict[str, float]]) -> bool:
    return all(0 < vm["created"] < vm["booted"] < vm["answered"] for vm in times)


@pytest.mark.slow
def test_files_are_cloned_and_nothing_is_left() -> None:
    asyncio.run(_cloned(FILES))


async def _cloned(*others: str) -> None:
    async with the_lab(*others) as lab:
        opened = await lab.open(print)
        assert lab.vms == []  # no guest stands
        assert opened.description["lanes"]["copy"]["path"][1] == "virtio-blk"
        before = golden_of(lab)
        for lane in lab.lanes:
            assert in_order(await lab.storm(lane).run(2))
            assert left(lab) == []
        assert golden_of(lab) == before


@pytest.mark.slow
def test_files_that_share_blocks_are_cloned_and_nothing_is_left(tmp_path: Path) -> None:
    if lacking := store.problems(tmp_path):
        pytest.skip(lacking[0].message)
    asyncio.run(_cloned(REFLINK))


@pytest.mark.slow
def test_nothing_is_left_of_storms_that_fail() -> None:
    asyncio.run(_failing())


async def _failing() -> None:
    async with the_lab(FILES) as lab:
        await lab.open(print)
        before = golden_of(lab)
        await _stopped(lab)
        await _machine_lost(lab)
        assert golden_of(lab) == before
        await _shared(lab)


async def _stopped(lab: WallLab) -> None:
    """Ctrl-C while machines boot."""
    work = asyncio.ensure_future(lab.storm("copy").run(2))
    while not left(lab):
        await asyncio.sleep(0.1)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert left(lab) == []


async def _machine_lost(lab: WallLab) -> None:
    """A storm of which one machine's QEMU cannot start says why, and takes the others with it."""
    volume = lab.lanes["overlay"][0]
    lab.lanes["overlay"] = (replaced(volume, _Broken),)
    with pytest.raises(MachineLost, match=r"(?s)\bclone1\b.*\bbooted\b.*no-such-folder"):
        await lab.storm("overlay").run(2)
    assert left(lab) == []


async def _shared(lab: WallLab) -> None:
    """Two machines on one file: the storm's own check finds it. The last: the golden image is lost."""
    lab.lanes["copy"] = (replaced(lab.lanes["copy"][0], _Shared),)
    with pytest.raises(RunFailed) as refused:
        await lab.storm("copy").run(2)
    assert refused.value.kind in {"clone-shared", "clone-data"}
    assert left(lab) == []


def replaced(volume: Any, transport: type[CloneCopy]) -> Any:
    return replace(volume, transport=transport(volume.name, volume.spec, volume.site))


class _Broken(CloneCopy):
    def clone(self, number: int) -> Clone:
        good = super().clone(number)
        return Clone(good.step, {"driver": "file", "filename": "/no-such-folder/disk"}) if number == 1 else good


class _Shared(CloneCopy):
    def clone(self, number: int) -> Clone:
        step = Step(name=f"nothing for clone {number}", place="hypervisor", apply=":", remove=":")
        return Clone(step, {"driver": "file", "filename": self.site.golden, "locking": "off"})


@pytest.mark.slow
def test_thin_snapshots_are_private_and_go_away() -> None:
    asyncio.run(_elsewhere(THIN, "thin", _thin_left))


async def _thin_left(lab: WallLab) -> list[str]:
    assert lab.array
    found = await lab.array.ask(
        "lvs --noheadings -o lv_name | tr -d ' ' > lvs\nls /sys/kernel/config/target/iscsi/*/tpgt_1/lun > luns", 60
    )
    return [name for name in found["lvs"].decode().split() if name.startswith("clone")] + found["luns"].decode().split()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ceph-mon"), reason="Ceph is not installed: run make setup")
def test_rbd_clones_are_private_and_go_away() -> None:
    asyncio.run(_elsewhere(RBD, "rbd", _rbd_left))


async def _rbd_left(lab: WallLab) -> list[str]:
    assert lab.host
    site = lab.lanes["rbd"][0].site
    command = f"for p in $(rados -c {site.cluster}/ceph.conf lspools); do rbd -c {site.cluster}/ceph.conf ls $p; done"
    found = await lab.host.ask(f"( {command} ) 2> /dev/null > images || :", 60)
    return [name for name in found["images"].decode().split() if name != "rbd"]


async def _elsewhere(lane: str, name: str, remaining: Callable[[WallLab], Any]) -> None:
    async with the_lab(lane) as lab:
        await lab.open(print)
        for _ in range(2):  # the second storm finds the golden image as it was, and its names free
            assert in_order(await lab.storm(name).run(2))
            assert await remaining(lab) == []
