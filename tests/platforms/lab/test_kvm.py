"""The KVM probe against stand-ins for QEMU that boot, hang, or stop; the real one is a line of `fairlane doctor`."""

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fairlane.platforms.lab.image import Image
from fairlane.platforms.lab.wall import kvm

pytestmark = pytest.mark.usefixtures("real_programs")


@pytest.fixture
def real_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def qemu(folder: Path, script: str) -> Path:
    """A QEMU that writes down its pid and its arguments, then does ``script``; returns where it writes."""
    program = folder / "qemu-system-x86_64"
    program.write_text(f'#!/bin/sh\necho "$$" "$@" > "{folder}/called"\n{script}\n')
    program.chmod(0o755)
    return folder / "called"


def gone(folder: Path) -> bool:
    """No process has the PATH of this test any more. The pid alone would not do: a busy machine may end a QEMU before
    that has written it down."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if f"PATH={folder}:".encode() in (entry / "environ").read_bytes():
                return False
    return True


def test_the_first_line_of_init_is_proof_and_ends_the_guest(tmp_path: Path) -> None:
    called = qemu(tmp_path, "echo booting; echo FAIRLANE-READY; exec sleep 600")
    assert kvm.boots(Image(tmp_path / "an image", "key"), seconds=250)
    assert gone(tmp_path)
    arguments = called.read_text()
    assert "-accel kvm -cpu host" in arguments
    assert f"-kernel {tmp_path}/an image/kernel -initrd {tmp_path}/an image/initrd" in arguments
    assert "fairlane.probe=1" in arguments


def test_the_word_may_come_in_pieces(tmp_path: Path) -> None:
    qemu(tmp_path, "printf FAIRLANE; sleep 0.2; printf -- '-REA'; sleep 0.2; echo DY; exec sleep 600")
    assert kvm.boots(Image(tmp_path, "key"), seconds=250)


def test_a_guest_that_never_boots_is_ended_in_time(tmp_path: Path) -> None:
    qemu(tmp_path, "echo KVM internal error; exec sleep 600")
    assert not kvm.boots(Image(tmp_path, "key"), seconds=0.5)
    assert gone(tmp_path)


def test_a_chatty_guest_that_never_boots_is_ended_in_time(tmp_path: Path) -> None:
    qemu(tmp_path, "while :; do echo emulation failure; done")
    assert not kvm.boots(Image(tmp_path, "key"), seconds=0.5)
    assert gone(tmp_path)


def test_a_qemu_that_stops_at_once_is_no_kvm(tmp_path: Path) -> None:
    qemu(tmp_path, "echo 'Could not access KVM kernel module' >&2; exit 1")
    start = time.monotonic()
    assert not kvm.boots(Image(tmp_path, "key"), seconds=250)
    assert time.monotonic() - start < 200  # it was not waited for


def test_no_setpriv_is_no_kvm_and_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not kvm.boots(Image(tmp_path, "key"), seconds=1)


def test_a_device_that_is_not_there_is_not_usable(tmp_path: Path) -> None:
    assert not kvm.usable(tmp_path / "kvm")
    (tmp_path / "kvm").touch()
    assert kvm.usable(tmp_path / "kvm")


def test_the_answer_is_kept_for_this_kernel_and_this_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def boots(image: Image) -> bool:
        tried.append(image)
        return False

    monkeypatch.setattr(kvm, "boots", boots)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel").write_bytes(b"k")
    one, two = Image(tmp_path / "one", "1"), Image(tmp_path / "two", "2")
    assert [kvm.remembered(one, tmp_path), kvm.remembered(one, tmp_path)] == [False, False]
    assert tried == [one]
    assert kvm.remembered(two, tmp_path) is False
    assert tried == [one, two]
    (tmp_path / "kvm").write_text("half a no")
    kvm.remembered(two, tmp_path)
    assert tried == [one, two, two]
