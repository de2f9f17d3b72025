"""Counters per path, as the shell of the probe reads them and as they are added up."""

import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fairlane.probes.paths import PLUGIN
from fairlane.records import Figures

NVME = """\
nvme0n1 nvme0c0n1 48 10 traddr=10.77.0.1,trsvcid=4421,src_addr=10.77.0.10
nvme0n1 nvme0c1n1 40 10 traddr=10.77.1.1,trsvcid=4421,src_addr=10.77.1.10
"""


def paths(before: str, after: str) -> dict[str, int]:
    told = PLUGIN.observe(before, after, Figures()).context.get("paths", [])
    return {path["name"]: path["ios"] for path in told}


def test_two_paths_by_hand() -> None:
    after = NVME.replace("48 10", "148 35").replace("40 10", "139 36")
    assert paths(NVME, after) == {"10.77.0.1": 125, "10.77.1.1": 125}


def test_a_path_that_came_back_as_another_device_counts_from_nothing() -> None:
    after = NVME.replace("nvme0c0n1 48 10", "nvme0c7n1 5 0")
    assert paths(NVME, after) == {"10.77.0.1": 5, "10.77.1.1": 0}


def test_a_name_that_now_is_another_path_counts_from_nothing() -> None:
    before, after = "dm-0 sdb 100 0 10.77.0.1\n", "dm-0 sdb 107 0 10.77.1.1\n"
    assert paths(before, after) == {"10.77.1.1": 107}


def test_a_counter_that_fell_is_that_of_a_new_device() -> None:
    assert paths("dm-0 sdb 100 0 10.77.0.1\n", "dm-0 sdb 7 1 10.77.0.1\n") == {"10.77.0.1": 8}


def test_sessions_to_one_portal_are_told_apart_and_disks_are_added() -> None:
    before = "dm-0 sda 0 0 10.0.0.1\ndm-0 sdb 0 0 10.0.0.1\ndm-1 sdc 0 0 10.0.0.1\ndm-1 sdd 0 0 10.0.0.1\n"
    after = "dm-0 sda 1 0 10.0.0.1\ndm-0 sdb 2 0 10.0.0.1\ndm-1 sdc 4 0 10.0.0.1\ndm-1 sdd 8 0 10.0.0.1\n"
    assert paths(before, after) == {"10.0.0.1": 5, "10.0.0.1 #2": 10}


def test_a_disk_without_paths_tells_nothing() -> None:
    assert PLUGIN.observe("", "", Figures()).context == {}


@given(st.text(), st.text())
def test_nothing_raises(before: str, after: str) -> None:
    PLUGIN.observe(before, after, Figures())


def test_the_shell_reads_what_the_kernel_shows(tmp_path: Path) -> None:
    """sysfs as it was in the lab's guests: links and folders of an NVMe namespace and of a map over two sessions."""
    sys = tmp_path / "sys"
    block = sys / "block"
    for number, address in enumerate(("10.77.0.1", "10.77.1.1")):
        controller = sys / f"devices/ctl/nvme{number}"
        own = controller / f"nvme0c{number}n1"
        own.mkdir(parents=True)
        (own / "stat").write_text(f"      {48 + number}        0     2088     1599       {number}    0\n")
        (own / "device").symlink_to(controller)
        (controller / "address").write_text(f"traddr={address},trsvcid=4421,src_addr=10.77.0.10\n")
        session = sys / f"devices/platform/host{number}/session{number}"
        lun = session / f"target{number}:0:0" / f"{number}:0:0:0"
        connection = session / f"connection{number}:0/iscsi_connection/connection{number}:0"
        disk = lun / f"block/sd{'bc'[number]}"
        for folder in (disk, connection, block / "dm-0/slaves"):
            folder.mkdir(parents=True, exist_ok=True)
        (connection / "persistent_address").write_text(f"{address}\n")
        (disk / "stat").write_text(f"     {140 + number}        0     5179     9089      117        0        9\n")
        (disk / "device").symlink_to(lun)
        for at in (block / disk.name, block / "dm-0/slaves" / disk.name):
            at.symlink_to(disk)
        (block / own.name).symlink_to(own)
    for disk_name in ("nvme0n1", "sda", "vda", "nullb0"):
        (block / disk_name).mkdir()

    def capture(text: str, **variables: str) -> str:
        text = text.replace("/sys/", f"{sys}/")
        done = subprocess.run(["bash", "-euc", text], capture_output=True, text=True, check=True, env=variables)
        return done.stdout

    seen = {name: capture(PLUGIN.capture, DEVICE=name) for name in ("nvme0n1", "dm-0", "sda", "vda", "nullb0")}
    assert seen["nvme0n1"].splitlines() == [
        "nvme0n1 nvme0c0n1 48 0 traddr=10.77.0.1,trsvcid=4421,src_addr=10.77.0.10",
        "nvme0n1 nvme0c1n1 49 1 traddr=10.77.1.1,trsvcid=4421,src_addr=10.77.0.10",
    ]
    assert seen["dm-0"].splitlines() == ["dm-0 sdb 140 117 10.77.0.1", "dm-0 sdc 141 117 10.77.1.1"]
    assert not seen["sda"] + seen["vda"] + seen["nullb0"]
    stats = f" {sys}/class/block/nvme0n1/stat {sys}/class/block/dm-0/stat"
    assert capture(PLUGIN.several, STATS=stats) == seen["nvme0n1"] + seen["dm-0"]
