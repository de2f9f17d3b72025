"""Probes of array and hypervisor, from snapshots of a real trial of four machines (TCG, iSCSI): idle threads of the
array are left out, nothing else is changed. Exits under KVM are from made-up counters: there was no KVM here."""

import math
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane import registry
from fairlane.probes._system import cpu_ticks
from fairlane.probes.base import Probe
from fairlane.records import Figures

DATA = Path(__file__).parent / "data"
IOS = 800
LOAD = Figures(context={"cpu": {"window_ios": IOS}})


def probe(name: str) -> Probe:
    found: Probe = registry.load("probes", name)
    return found


def snapshots(name: str) -> tuple[str, str]:
    before, after = ((DATA / f"fleet.iscsi.{name}.{when}").read_text() for when in ("before", "after"))
    return before, after


def test_the_arrays_cpu_by_group_of_threads_by_hand() -> None:
    figures = probe("cpu_target").observe(*snapshots("cpu_target"), LOAD)
    places = figures.context["cpu_target"]["by_place"]
    trx = (872241524 - 613682774) + (1207191316 - 960598343) + (789442940 - 524499665) + (799715006 - 551499827)
    kworkers = (363831367 - 362761016) + (729608181 - 588302066) + (7684525837 - 7592375154)
    assert places["iscsi_trx"] == pytest.approx(trx / IOS)
    assert places["kworker"] == pytest.approx(kworkers / IOS)
    assert not places.keys() & {"bash", "sshd"}  # that is the watching itself
    assert figures.metrics == {"cpu_per_io_target": pytest.approx(sum(places.values()))}


def test_the_hypervisors_cpu_by_kind_of_thread() -> None:
    before, after = snapshots("cpu_hypervisor")
    places = probe("cpu_hypervisor").observe(before, after, LOAD).context["cpu_hypervisor"]["by_place"]
    assert set(places) == {"vcpu", "main", "workers"}
    ran = {line.split(":")[0]: int(line.split(":")[1].split()[0]) for line in before.splitlines() if "task" in line}
    assert places["main"] == pytest.approx(
        (2069040078 + 1906178824 + 1957939201 + 1843449474
         - sum(ran[f"/proc/{p}/task/{p}/schedstat"] for p in (25532, 25537, 25539, 25541))) / IOS
    )  # fmt: skip
    threads = "\n/proc/9/comm:vhost-25532\n/proc/9/schedstat:{} 1 1\n"
    told = probe("cpu_hypervisor").observe(before + threads.format(100), after + threads.format(80_100), LOAD)
    assert told.context["cpu_hypervisor"]["by_place"]["vhost"] == 80_000 / IOS
    io = after.replace("io_threads ", "io_threads 25792")
    assert "io_threads" in probe("cpu_hypervisor").observe(before, io, LOAD).context["cpu_hypervisor"]["by_place"]


def test_pressure_switches_disks_and_nics_of_the_array() -> None:
    before, after = snapshots("system_target")
    told = probe("system_target").observe(before, after, LOAD).context["system_target"]
    assert 0 < told["pressure_cpu"] < 1
    assert told["pressure_io"] == 0
    assert told["switches_per_io"] * IOS > 0
    assert 0 < told["busy"] <= 1
    assert set(told["disks"]) == {"nullb0", "nullb1", "nullb2", "nullb3"}  # of this lane; the other's four stood still
    assert next(iter(told["nics"])) == "path0"  # the bridge carried what its ports did
    assert probe("system_target").observe(after, before, LOAD) == Figures()


@pytest.mark.parametrize("name", ["cpu_target", "cpu_hypervisor"])
def test_without_ios_or_snapshots_nothing_is_told(name: str) -> None:
    assert probe(name).observe(*snapshots(name), Figures()) == Figures()
    assert probe(name).observe("", "", LOAD) == Figures()


def test_exits_of_all_machines_are_added_and_a_machine_that_is_new_takes_them_away() -> None:
    files = ("71-12/exits", "72-12/exits", "71-12/io_exits")
    lines = "\n".join(f"/sys/kernel/debug/kvm/{file}:{{}}" for file in files)
    told = probe("exits").observe(lines.format(10, 20, 1), lines.format(1610, 820, 401), LOAD)
    assert told.context == {"exits_per_io": {"exits": 3.0, "io_exits": 0.5}}
    assert probe("exits").observe("", lines.format(1, 2, 3), LOAD) == Figures()
    assert probe("exits").observe("", "", LOAD) == Figures()


number = st.integers(-5, 10**25).map(str) | st.sampled_from(["", "x", "9" * 6000, "\u0663", "1 2 3 4 5 6 7 8 9", "1e9"])
line = st.builds(
    "{}{}".format,
    st.sampled_from([
        "/proc/7/schedstat:", "/proc/7/task/8/schedstat:", "/proc/7/comm:", "/proc/stat:cpu  ", "/proc/stat:ctxt ",
        "vcpu ",
        "/proc/uptime:", "/proc/pressure/cpu:some avg10=0 total=", "/proc/diskstats: 8 0 sda ", "/proc/net/dev:eth0: ",
        "/sys/kernel/debug/kvm/7-1/exits:",
    ]),
    st.lists(number, max_size=20).map(" ".join),
)  # fmt: skip
snapshot = st.text(max_size=60) | st.lists(line, max_size=12).map("\n".join)


@given(snapshot, snapshot)
def test_no_snapshot_makes_them_raise(before: str, after: str) -> None:
    for name in ("cpu_target", "cpu_hypervisor", "system", "system_target", "system_hypervisor", "exits"):
        metrics = probe(name).observe(before, after, LOAD).metrics
        assert all(math.isfinite(value) and value > 0 for value in metrics.values())


def test_several_disks_are_added_up() -> None:
    one, two = "5 0 40 1 2 0 16 1 0 1 1", "9 1 72 1 3 0 24 1 0 1 1"
    told = probe("disk").observe(f"{one}\n{one}\n", f"{two}\n{two}\n", Figures()).context["disk"]
    assert told == {
        "reads": 8, "read_merges": 2, "read_bytes": 64 * 512, "writes": 2, "write_merges": 0, "write_bytes": 16 * 512,
    }  # fmt: skip
    assert probe("disk").observe(f"{one}\n", f"{two}\nx\n", Figures()) == Figures()


STAT = "/proc/stat:cpu  {user} 0 0 {idle} 0 0 0 {steal}\n/proc/uptime:{up}.00 1.0\nroot 10\n"
PROCESS = "process {pid} (a) b) S {parent} 1 1 0 -1 0 0 0 0 0 {user} 0 {ended} 0 20 0 1\n"


def test_what_neither_the_run_nor_the_kernel_used_others_took() -> None:
    """200 ticks passed: Fairlane used 10, its child 30, a child that ended 5, a kernel thread 15, and others 100."""

    def snapshot(*, user: int, idle: int, steal: int, up: int, own: int, child: int, ended: int, kernel: int) -> str:
        return STAT.format(user=user, idle=idle, steal=steal, up=up) + "".join(
            PROCESS.format(pid=pid, parent=parent, user=used, ended=gone)
            for pid, parent, used, gone in (
                (1, 0, 7, 900), (2, 0, 0, 0), (5, 2, kernel, 0),
                (10, 1, own, ended), (11, 10, child, 0), (99, 1, user, 0),
            )
        )  # fmt: skip

    before = snapshot(user=1000, idle=500, steal=0, up=100, own=50, child=60, ended=0, kernel=5)
    after = snapshot(user=1160, idle=530, steal=10, up=101, own=60, child=90, ended=5, kernel=20)
    values = probe("system_hypervisor").observe(before, after, LOAD).context["system_hypervisor"]
    assert (values["others"], values["steal"]) == (100 / 200, 10 / 200)
    one, two = (text.replace("root 10", "root 10 99") for text in (before, after))  # 99 is a machine of the run
    assert probe("system_hypervisor").observe(one, two, LOAD).context["system_hypervisor"]["others"] == 0.0
    without = probe("system_hypervisor").observe(before.replace("root 10", ""), after, LOAD)
    assert "others" not in without.context["system_hypervisor"]


def test_a_strangers_program_counts_among_the_others() -> None:
    """The real shell: a program of nobody here, until it has used a second."""
    hypervisor = probe("system_hypervisor")

    def snapshot() -> str:
        return subprocess.run(["sh", "-c", hypervisor.capture], capture_output=True, text=True, check=True).stdout

    def used(pid: int) -> int:
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))

    loop = "echo $$; exec >&- 2>&-; while :; do :; done"
    stranger = subprocess.run(["setsid", "--fork", "sh", "-c", loop], capture_output=True, text=True, check=True)
    pid = int(stranger.stdout)
    try:
        before, begun = snapshot(), used(pid)
        while used(pid) < begun + 100:
            time.sleep(0.1)
        after = snapshot()
    finally:
        os.kill(pid, signal.SIGKILL)
    ticks = [cpu_ticks(text) for text in (before, after)]
    assert ticks[0]
    assert ticks[1]
    values = hypervisor.observe(before, after, LOAD).context["system_hypervisor"]
    assert values["others"] * (sum(ticks[1]) - sum(ticks[0])) >= 100 - 20
