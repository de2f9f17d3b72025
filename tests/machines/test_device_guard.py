"""The guard of devices, on this machine as it is; hostile disks are made in test_guard_loop.py and lab/wall."""

import asyncio
import re
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from fairlane.errors import Exit, Refused
from fairlane.machines import device_guard
from fairlane.machines.device_guard import Recorded
from fairlane.machines.this_host import LocalGuest
from tests.words import kind


def run(folder: Path, script: str) -> dict[str, bytes]:
    (folder / "here").mkdir()
    return asyncio.run(LocalGuest(folder / "here").ask(script))


@pytest.mark.parametrize(
    ("make", "what", "told"),
    [
        ("ln -s /dev/null x", "not-a-disk", "/dev/null"),
        ("mkfifo x", "not-a-disk", ""),
        ("truncate -s 1M x", "not-a-disk", ""),
        ("ln -s /dev/nowhere x", "link-broken", "/dev/nowhere"),
        ("mkdir x", "not-a-disk", ""),
        (":", "device-missing", ""),
    ],
)
def test_what_is_no_disk_is_refused(tmp_path: Path, make: str, what: str, told: str) -> None:
    subprocess.run(["sh", "-c", make], cwd=tmp_path, check=True)
    device = str(tmp_path / "x")
    text = device_guard.guard(device, Recorded("serial:it's", "1048576/512")) + f"echo written > {tmp_path}/harm\n"
    with pytest.raises(Refused, check=kind(what)) as caught:
        run(tmp_path, text)
    assert not (tmp_path / "harm").exists()
    assert [word for word in (device, "(serial:it's)", told) if word not in caught.value.message] == []
    assert caught.value.hint
    assert caught.value.code == Exit.RUN_FAILED


@pytest.mark.parametrize("name", ["fairlane-no-such-serial", "serial:fairlane-no-such-serial", "nqn.2026-01.x:y#1"])
def test_an_unknown_identity_is_refused_with_those_that_are_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, check=kind("identity-unknown")) as caught:
        run(tmp_path, f"named '{name}'")
    assert caught.value.hint


def test_a_file_outside_the_share_is_refused(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "file").write_bytes(bytes(512))
    (tmp_path / "share" / "file").symlink_to(tmp_path / "file")
    with pytest.raises(Refused, match=re.escape(f"{tmp_path}/file"), check=kind("outside-share")):
        run(tmp_path, f"file_guard {tmp_path}/share/file {tmp_path}/share 512")


def test_a_folder_that_is_no_share_any_more_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(512))
    with pytest.raises(Refused, match=re.escape(str(tmp_path)), check=kind("share-missing")):
        run(tmp_path, f"file_guard {tmp_path}/file {tmp_path} 512")


def test_other_failures_are_no_refusals() -> None:
    assert device_guard.refusal("dd: no space left", "guest0") is None


def test_what_comes_before_a_refusal_does_not_matter() -> None:
    said = "warning\n@@REFUSED device-mounted /dev/x: some words\n@@HINT unmount it\nmore\n"
    refused = device_guard.refusal(said, "guest0")
    assert refused
    told = (refused.kind, refused.message, refused.hint)
    assert told == ("device-mounted", "guest0: /dev/x: some words", "unmount it")
    nameless = device_guard.refusal(said.replace("device-mounted", ""), "guest0")
    assert nameless, "a refusal is one, whatever else is missing"
    assert nameless.kind == "device-refused"


@pytest.mark.parametrize(
    "name", ["machines/guest/identity.sh", "machines/guest/guard.sh", "platforms/lab/wall/guest/capabilities.sh"]
)
def test_the_shell_is_clean(name: str) -> None:
    file = resources.files("fairlane") / name
    done = subprocess.run(
        ["shellcheck", "-s", "sh", "-e", "SC1091", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_a_script_is_no_argument_of_a_process(tmp_path: Path) -> None:
    """Steps hold secrets, and every user reads every process's arguments."""
    found = run(tmp_path, "secret='never told'; cat /proc/$$/cmdline /proc/$PPID/cmdline > all; cat > rest")
    assert b"told" not in found["all"]
    assert b"sh" in found["all"]
    assert found["rest"] == b""  # nothing reads what is left of the script
