"""Storms that do not fit, and studies that mix storms with other load, are told before anything starts."""

import tempfile
from pathlib import Path

import pytest
from lab_study import figures

from fairlane.errors import FairlaneError
from fairlane.lanes._clones import Cloning
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall import cloning, layout, store
from fairlane.platforms.lab.wall.clones import Kind, command
from fairlane.platforms.lab.wall.resources import Capacity
from fairlane.platforms.lab.wall.rootfs import Root
from fairlane.study.load import parse_study
from fairlane.study.spec import Study
from tests.words import kind

GIB = 2**30
PLENTY = Capacity(memory=64 * GIB, cores=16, disk=1000 * GIB)
FILES = "{a: {transport: clone_copy}, b: {transport: clone_overlay}}"


def parsed(platform: str = "", lanes: str = FILES, workloads: str = "{main: {kind: clone}}") -> Study:
    text = f"""
name: x
platform: {{kind: lab, clock: wall, medium: {{size: 1g, file: true}}, {platform}}}
baseline: a
lanes: {lanes}
workloads: {workloads}
"""
    return parse_study(text, "x")


def told(machine: Capacity = PLENTY, /, **parts: str) -> list[FairlaneError]:
    study = parsed(**parts)
    assert isinstance(study.platform, LabSpec)
    volumes = layout.volumes(study, study.platform)
    return cloning.unfit(study, study.platform, volumes) + cloning.problems(study, study.platform, volumes, machine)


def test_a_storm_that_fits_is_no_problem() -> None:
    assert told() == []


def test_memory_is_summed_over_the_machines_of_the_largest_storm() -> None:
    lanes = "{a: {transport: clone_copy}, b: {transport: clone_lvm_thin}}"
    [problem] = told(Capacity(4 * GIB, 16, 1000 * GIB), platform="memory: 256m, array: {memory: 1g}", lanes=lanes)
    assert problem.kind == "memory"
    assert figures(problem.message) == {"10", "256m", "120m", "1144m", "4.8 GiB", "4.0 GiB"}


def test_virtual_cpus_are_summed_against_cores_and_overcommit() -> None:
    [problem] = told(Capacity(64 * GIB, 2, 1000 * GIB), platform="overcommit: 4")
    assert problem.kind == "cpus"
    assert figures(problem.message) >= {"10", "1", "2"}
    assert told(Capacity(64 * GIB, 2, 1000 * GIB), platform="overcommit: 5") == []


def test_copies_must_fit_on_the_disk_and_the_data_in_a_volume() -> None:
    [problem] = told(Capacity(64 * GIB, 16, 2 * GIB))
    assert (problem.kind, "10" in figures(problem.message)) == ("disk-space", True)
    [problem] = told(workloads="{main: {kind: clone, data: 1000m}}")
    assert problem.where == "platform.medium.size"


@pytest.mark.parametrize(
    ("parts", "where"),
    [
        ({"workloads": "{main: {kind: fio, prefill: false}}"}, "lanes.a.transport"),
        ({"lanes": "{a: {transport: clone_copy}, b: {transport: local}}"}, "lanes.b.transport"),
        ({"platform": "fleet: 2"}, "platform.fleet"),
        ({"platform": "disks: 2"}, "platform.disks"),
        ({"platform": "pinning: true"}, "platform.pinning"),
        ({"workloads": "{m: {kind: clone}, n: {kind: clone, data: 1m}}"}, "workloads"),
    ],
)
def test_storms_and_other_load_do_not_mix(parts: dict[str, str], where: str) -> None:
    assert where in [problem.where for problem in told(**parts)]


def test_a_clones_device_is_plain() -> None:
    lanes = "{a: {transport: clone_copy, device: {bus: nvme}}, b: {transport: clone_overlay}}"
    with pytest.raises(FairlaneError, match=r"lanes\.a\.device\b.*\bvirtio-blk\b", check=kind("value")):
        parsed(lanes=lanes)


def test_cache_and_aio_of_the_lane_reach_every_file_below_the_disk(tmp_path: Path) -> None:
    device = "device: {aio: native}"
    study = parsed(lanes=f"{{a: {{transport: clone_copy}}, b: {{transport: clone_overlay, {device}}}}}")
    assert isinstance(study.platform, LabSpec)
    volume = layout.volumes(study, study.platform)[1].at(golden="/s/golden", medium="/s")
    assert isinstance(volume.transport, Cloning)
    clone = volume.transport.clone(3)
    assert volume.spec.device
    kind = Kind(Root(tmp_path), "", 1, 256 * 2**20, "tcg")
    line = command(kind, tmp_path / "initrd", clone, volume.spec.device, 7)
    node = line[line.index("-blockdev") + 1]
    assert node.count('"aio": "native"') == 2
    assert '"cache": {"direct": true}' in node
    assert '"filename": "/s/b-3"' in node


def test_reflinks_without_shared_blocks_or_root_are_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if store.shares(tmp_path):
        pytest.skip("files here share blocks")
    lanes = "{a: {transport: clone_copy}, b: {transport: clone_reflink}}"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    [problem] = told(lanes=lanes)
    assert (problem.kind, "root" in problem.hint) == ("reflink", True)
    assert told() == []


def test_a_folder_is_tried_for_shared_blocks_and_left_as_it_was(tmp_path: Path) -> None:
    assert store.shares(tmp_path) in (True, False)
    assert list(tmp_path.iterdir()) == []
