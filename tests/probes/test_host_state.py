"""Temperatures, throttled CPUs, governors and links, from a tree like sysfs and from this machine."""

import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fairlane.probes.host_state import PLUGIN
from fairlane.records import Figures

DRIVE = {"name": "nvme", "temp1_input": "71850", "temp1_max": "81850", "temp1_alarm": "0", "temp1_label": "Composite"}
"""hwmon of an NVMe drive, as the kernel's nvme driver names its files."""


def snapshot(root: Path, when: str) -> str:
    """The capture, with ``root`` in place of ``/sys``."""
    script = PLUGIN.capture.replace("/sys/", f"{root}/sys/")
    return subprocess.run(["sh", "-euc", f"WHEN={when}\n{script}"], capture_output=True, text=True, check=True).stdout


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / "sys" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def host(before: str, after: str) -> dict[str, object]:
    found = PLUGIN.observe(before, after, Figures()).context.get("host", {})
    assert isinstance(found, dict)
    return found


def test_a_hot_drive_and_throttled_cpus(tmp_path: Path) -> None:
    drive = {f"class__hwmon__hwmon3__{name}": text for name, text in DRIVE.items()}
    cpu = "devices__system__cpu__cpu{}__thermal_throttle__core_throttle_count"
    write(tmp_path, **drive, class__net__eth0__speed="25000", class__net__eth0__device__vendor="1",
          class__net__down__speed="-1", class__net__down__device__vendor="1", class__net__lo__speed="10",
          devices__system__cpu__cpufreq__policy0__scaling_governor="powersave",
          devices__system__cpu__cpufreq__policy1__scaling_governor="performance",
          **{cpu.format(0): "5", cpu.format(1): "0"})  # fmt: skip
    (tmp_path / "sys/class/hwmon/hwmon3/device/nvme0n1").mkdir(parents=True)
    before = snapshot(tmp_path, "before")
    write(
        tmp_path,
        class__hwmon__hwmon3__temp1_input="82850",
        class__hwmon__hwmon3__temp1_alarm="1",
        **{cpu.format(1): "3"},
    )
    after = snapshot(tmp_path, "after")
    assert "link" not in after
    assert host(before, after) == {
        "temperatures": {"hwmon3 nvme Composite": {"celsius": 82.85, "limit": 81.85, "alarm": True, "disk": "nvme0n1"}},
        "throttles": 3,
        "governors": {"powersave": 1, "performance": 1},
        "links": {"eth0": 25 * 10**9},
    }
    assert host(after, before)["temperatures"] == host(before, after)["temperatures"], "the higher of both"


def test_thermal_zones_where_there_is_no_sensor(tmp_path: Path) -> None:
    write(tmp_path, class__thermal__thermal_zone0__temp="45000", class__thermal__thermal_zone0__type="x86_pkg_temp")
    seen = host(snapshot(tmp_path, "before"), "")["temperatures"]
    assert seen == {"thermal_zone0 x86_pkg_temp": {"celsius": 45.0, "limit": None, "alarm": False, "disk": ""}}


def test_a_machine_without_any(tmp_path: Path) -> None:
    assert host(snapshot(tmp_path, "before"), snapshot(tmp_path, "after")) == {}


def test_the_shell_reads_this_machine() -> None:
    text = subprocess.run(["sh", "-euc", PLUGIN.capture], capture_output=True, text=True, check=True).stdout
    host(text, text)


WORD = st.sampled_from(["temp", "throttle", "governor", "link", "-", "0", "1", "50000", "x", "9" * 30, "-5"])
TEXT = st.lists(st.lists(WORD | st.text(max_size=5), max_size=9).map(" ".join), max_size=5).map("\n".join)


@given(TEXT, TEXT)
def test_no_snapshot_makes_it_raise(before: str, after: str) -> None:
    host(before, after)
