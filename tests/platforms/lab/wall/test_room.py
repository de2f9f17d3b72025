"""What does not fit is told before anything starts, with the sums."""

import re
from typing import Any

import pytest
from lab_study import figures

from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall import layout, resources
from fairlane.platforms.lab.wall.resources import Capacity
from fairlane.study.load import parse_study

GIB = 2**30
PLENTY = Capacity(memory=64 * GIB, cores=16, disk=1000 * GIB)


BOTH = "{a: {transport: iscsi}, b: {transport: nvme_tcp}}"


def told(platform: str, machine: Capacity = PLENTY, lanes: str = BOTH) -> list[Any]:
    study = parse_study(
        f"""
name: x
platform: {{kind: lab, clock: wall, {platform}}}
baseline: a
lanes: {lanes}
workloads: {{main: {{kind: fio}}}}
""",
        "x",
    )
    assert isinstance(study.platform, LabSpec)
    return resources.problems(study.platform, layout.volumes(study, study.platform), machine)


def test_what_fits_is_no_problem() -> None:
    assert told("fleet: 4, memory: 1g") == []
    assert told("fleet: 4, medium: {memory_backed: true, size: 64m}") == []


def test_memory_is_summed_over_guests_array_and_qemu() -> None:
    [problem] = told("fleet: 3, memory: 2g, array: {memory: 1g}", Capacity(7 * GIB, 16, 1000 * GIB))
    assert problem.kind == "memory"
    assert figures(problem.message) == {"3", "2g", "1g", "120m", "7.5 GiB", "7.0 GiB"}
    assert told("fleet: 3, memory: 2g, array: {memory: 1g}", Capacity(8 * GIB, 16, 1000 * GIB)) == []


def test_virtual_cpus_are_summed_against_cores_and_overcommit() -> None:
    [problem] = told("fleet: 4, cpus: 2, overcommit: 2", Capacity(64 * GIB, 4, 1000 * GIB))
    assert problem.kind == "cpus"
    assert figures(problem.message) >= {"4", "2", "1", "9"}
    assert told("fleet: 4, cpus: 2, overcommit: 2.25", Capacity(64 * GIB, 4, 1000 * GIB)) == []


def test_without_a_target_there_is_no_array_to_sum() -> None:
    small = Capacity(int(1.5 * GIB), 1, GIB)
    assert len(told("memory: 1g", small)) == 1
    assert told("memory: 1g", small, "{a: {transport: local}, b: {transport: local, device: {bus: nvme}}}") == []


def test_memory_backed_media_must_fit_in_the_array() -> None:
    [problem] = told("medium: {memory_backed: true, size: 512m}, array: {memory: 1g}")
    assert (problem.kind, problem.where) == ("memory", "platform.medium")
    assert figures(problem.message) == {"2", "1.0 GiB", "256m", "1.2 GiB", "1g"}
    assert re.findall(r"platform\.[\w.]*\w", problem.hint) == ["platform.medium.size", "platform.array.memory"]


def test_files_must_fit_on_the_disk() -> None:
    [problem] = told("medium: {file: true, size: 100g}, disks: 4", Capacity(64 * GIB, 16, 700 * GIB))
    assert problem.kind == "disk-space"
    assert figures(problem.message) >= {"8", "100g", "800.0 GiB", "700.0 GiB"}


def test_a_folder_whose_name_is_too_long_for_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/" + "x" * 60)
    [problem] = told("fleet: 1")
    assert problem.kind == "folder-name"


def test_this_machine_has_something() -> None:
    seen = resources.capacity()
    assert seen.memory > 0
    assert seen.cores >= 1
    assert seen.disk > 0
