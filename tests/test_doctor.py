"""Every line of the doctor on machines that have, lack, or break what it looks for: a PATH of stand-ins, real files."""

import json
import os
import platform
import re
from pathlib import Path

import pytest

from fairlane import doctor
from fairlane.cli.main import run
from fairlane.errors import FairlaneError
from fairlane.platforms.lab.image import Image
from tests.figures import figures
from tests.words import kind

GREETING = '{"QMP": {"version": {"qemu": {"micro": %d, "minor": %d, "major": %d}, "package": ""}, "capabilities": []}}'


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Programs":
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("FAIRLANE_CACHE", str(tmp_path / "cache"))
    return Programs(tmp_path / "bin")


class Programs:
    """The programs on PATH: only what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, name: str, script: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path, "key")


def test_qemu_is_asked_with_the_counter_on(programs: Programs) -> None:
    programs.add(
        "qemu-system-x86_64", f"case \"$*\" in *'-icount shift=0,sleep=off'*) echo '{GREETING % (22, 2, 7)}' ;; esac"
    )
    line = doctor.qemu()
    assert line.state == "ok"
    assert line.found.startswith("7.2.22")


def test_no_qemu_names_the_package(programs: Programs) -> None:
    programs.add("apt-get", "")
    line = doctor.qemu()
    assert (line.name, line.state, line.fix) == ("QEMU", "missing", "apt-get install qemu-system-x86")
    assert "qemu-system-x86_64" in line.found
    programs.add("dnf", "")
    assert doctor.qemu().fix == "dnf install qemu-system-x86-core"


def test_qemu_without_emulation_is_missing_with_its_own_words(programs: Programs) -> None:
    programs.add("qemu-system-x86_64", "echo 'qemu: -accel tcg: invalid accelerator tcg' >&2; exit 1")
    line = doctor.qemu()
    assert line.state == "missing"
    assert "invalid accelerator tcg" in line.found
    assert line.fix


@pytest.mark.parametrize("script", ["exit 0", "echo garbage", "echo 7", "echo '{}'", "kill -9 $$"])
def test_qemu_that_answers_garbage_is_missing(programs: Programs, script: str) -> None:
    programs.add("qemu-system-x86_64", script)
    assert doctor.qemu().state == "missing"


@pytest.mark.parametrize(("version", "state"), [((50, 2, 5), "missing"), ((0, 0, 6), "ok"), ((0, 1, 10), "ok")])
def test_an_old_qemu_is_told_by_number(programs: Programs, version: tuple[int, int, int], state: str) -> None:
    programs.add("qemu-system-x86_64", f"echo '{GREETING % version}'")
    assert doctor.qemu().state == state


def test_a_tool_that_is_there_but_does_not_run(programs: Programs) -> None:
    programs.add("zstd", "echo 'error while loading shared libraries' >&2; exit 127")
    line = doctor.tool("zstd", "zstd")
    assert line.state == "missing"
    assert "shared libraries" in line.found


def test_a_tool_says_its_version(programs: Programs) -> None:
    programs.add("zstd", "echo '*** Zstandard CLI (64-bit) v1.5.4, by Yann Collet ***'")
    assert doctor.tool("zstd", "zstd") == doctor.Line("zstd", "ok", "1.5.4")


def test_a_tool_nobody_here_needs_is_only_a_warning(programs: Programs) -> None:
    line = doctor.tool("fio", "fio", needed=False, use="for other platforms")
    assert line.state == "warn"
    assert "fio" in line.fix
    assert "for other platforms" in line.fix


def test_what_only_a_build_needs_is_a_warning_once_an_image_is_there(programs: Programs, image: Image) -> None:
    assert doctor.builder(None).state == "missing"
    assert doctor.builder(image).state == "warn"
    assert doctor.keyring(None, places=()).state == "missing"
    assert doctor.keyring(image, places=()).state == "warn"


def test_a_keyring_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "keys.pgp").touch()
    places = (tmp_path / "keys.gpg", tmp_path / "keys.pgp")
    assert doctor.keyring(None, places) == doctor.Line("Debian keys", "ok", str(tmp_path / "keys.pgp"))


def test_namespaces_are_tried_by_those_who_need_them(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, image: Image
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert doctor.namespaces(None).state == "ok"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    programs.add("mmdebstrap", '[ "$*" = "--unshare-helper true" ]')
    assert doctor.namespaces(None).state == "ok"
    programs.add("mmdebstrap", "echo 'E: cannot find newuidmap' >&2; exit 25")
    line = doctor.namespaces(None)
    assert (line.state, line.found) == ("missing", "E: cannot find newuidmap")
    assert "uidmap" in line.fix
    assert doctor.namespaces(image).state == "warn"


def test_memory_counts_the_guests_that_fit(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"

    def free(mib: int) -> None:
        meminfo.write_text(f"MemTotal: 99999999 kB\nMemAvailable:    {mib * 1024} kB\n")

    free(4096)
    assert doctor.memory(2, meminfo, tmp_path).state == "ok"
    free(1500)
    line = doctor.memory(2, meminfo, tmp_path)
    assert line.state == "warn"
    assert "--jobs 1" in line.fix
    free(500)
    assert doctor.memory(2, meminfo, tmp_path).state == "missing"


def test_a_containers_limit_counts_more_than_the_machines_memory(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemAvailable: 8388608 kB\n")
    (tmp_path / "memory.max").write_text(f"{2**31}\n")
    (tmp_path / "memory.current").write_text(f"{2**30 + 2**29}\n")
    assert doctor.memory(1, meminfo, tmp_path).state == "missing"
    (tmp_path / "memory.max").write_text("max\n")
    assert doctor.memory(1, meminfo, tmp_path).state == "ok"


def test_disk_looks_at_the_folder_that_will_hold_it(tmp_path: Path) -> None:
    line = doctor.disk("disk for images", tmp_path / "not/yet", 1)
    assert line.state == "ok"
    assert str(tmp_path) in line.found.split()
    line = doctor.disk("disk for images", tmp_path, 2**60)
    assert line.state == "missing"
    assert figures(line.fix) == ["1073741824.0"]


def test_a_folder_that_may_not_be_written_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    assert "FAIRLANE_CACHE" in doctor.disk("disk for images", tmp_path, 1).fix


def test_processor_reads_the_model(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Fast (R) CPU\nprocessor\t: 1\nmodel name\t: Fast (R) CPU\n")
    assert f"{len(os.sched_getaffinity(0))} x Fast (R) CPU" in doctor.processor(cpuinfo).found
    assert doctor.processor(tmp_path / "none").found


def test_another_architecture_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert doctor.processor().state == "warn"


def test_modules_are_sorted_by_what_can_be_done_with_them(tmp_path: Path) -> None:
    tree = tmp_path / "lib/modules" / platform.release()
    tree.mkdir(parents=True)
    (tmp_path / "sys/module/nvmet").mkdir(parents=True)
    (tree / "modules.dep").write_text("kernel/drivers/nvme/host/nvme-tcp.ko.xz: kernel/a.ko\nkernel/b/null_blk.ko:\n")
    (tree / "modules.builtin").write_text("kernel/drivers/scsi/iscsi_tcp.ko\n")
    line = doctor.modules(tmp_path)
    assert line.state == "ok"
    loaded, there, absent = (part.partition(": ")[2].split(", ") for part in line.found.partition(" (")[0].split("; "))
    assert (loaded, there) == (["nvmet"], ["iscsi_tcp", "nvme_tcp"])
    assert {"nvmet_tcp", "target_core_mod", "nfsd"} <= set(absent)


def test_kvm_is_never_decisive(tmp_path: Path, programs: Programs, image: Image) -> None:
    device = tmp_path / "kvm"
    assert str(device) in doctor.kvm_boots(image, device).found
    assert doctor.kvm_boots(image, device).state == "warn"
    device.touch()
    assert doctor.kvm_boots(None, device).fix == "fairlane lab build"
    programs.add("setpriv", "echo some BIOS; exit 1")
    assert doctor.kvm_boots(image, device).state == "warn"
    programs.add("setpriv", "echo FAIRLANE-READY")
    line = doctor.kvm_boots(image, device)
    assert (line.name, line.state, line.fix) == ("KVM", "ok", "")


def test_kvm_that_may_not_be_opened_names_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: Image
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (tmp_path / "kvm").touch()
    assert "kvm" in doctor.kvm_boots(image, tmp_path / "kvm").fix


def test_the_cache_is_shown_kind_by_kind(tmp_path: Path, image: Image) -> None:
    assert figures(doctor.images(tmp_path / "cache", None).found) == []
    folder = tmp_path / "cache/images/abc"
    folder.mkdir(parents=True)
    (folder / "kernel").write_bytes(b"x" * 3 * 2**20)
    (tmp_path / "cache/images/abc.lock").touch()
    found = doctor.images(tmp_path / "cache", image).found
    assert figures(found) == ["1", "3"]
    assert "images" in found


def test_an_unknown_platform_is_told_with_those_that_are() -> None:
    with pytest.raises(FairlaneError, check=kind("platform-unknown")) as caught:
        doctor.examine("cloud")
    assert "lab" in caught.value.hint


def test_this_machine_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    lines = doctor.examine("fake")
    assert doctor.able(lines)
    assert run(["doctor", "--platform", "fake", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(line["name"], line["state"]) for line in told] == [(line.name, line.state) for line in lines]


def test_a_bare_machine_cannot_run_the_lab(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "QEMU, mmdebstrap" in out.splitlines()[-1]
    assert re.search(r"^.*: install qemu-system-x86$", out, re.MULTILINE)
    assert run(["doctor", "--platform", "fake"]) == 0


@pytest.mark.parametrize("platform", ["vsphere"])
def test_a_platform_that_is_only_described_cannot_run(platform):
    lines = doctor.examine(platform)
    assert not doctor.able(lines)
    assert [line.name for line in lines if line.state == "missing"] == [platform]
