"""CPU per I/O from snapshots cut from real lab trials: idle threads are left out, nothing else is changed."""

import math
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlane.probes.cpu import PLUGIN
from fairlane.records import Figures

DATA = Path(__file__).parent / "data"
LOAD = Figures(context={"generator": {"user": 8_000.0, "kernel": 16_000.0}, "generator_step": 2_500.0})


def snapshots(name: str) -> tuple[str, str]:
    before, after = ((DATA / f"{name}.cpu.{when}").read_text() for when in ("before", "after"))
    return before, after


def test_iscsi_64k_by_hand() -> None:
    figures = PLUGIN.observe(*snapshots("64k-qd16.iscsi"), LOAD)
    ios = 431 - 1  # reads of sda after and before
    target = (84514018 - 864072) + (40708322 - 569132)  # iscsi_ttx, iscsi_trx
    shared = (96512059 - 91078477) + (19270356 - 12770468)  # two kworkers
    other = (21546748 - 11680582) + (75513957 - 55437494) + (40938 - 36245)  # ksoftirqd, rcu_preempt, kcompactd
    other += (287602 - 118320) + (18158952 - 18140193)  # iscsid, twice
    places = figures.context["cpu"]["by_place"]
    assert places == pytest.approx(
        {"generator": 24_000, "target": target / ios, "shared": shared / ios, "other": other / ios}
    )
    assert figures.metrics["cpu_per_io"] == pytest.approx(24_000 + (target + shared + other) / ios)
    assert figures.steps["cpu_per_io"] == pytest.approx(2_500 / figures.metrics["cpu_per_io"])
    modes = figures.context["cpu"]["by_mode"]
    assert modes["softirq"] == pytest.approx((30 - 24) * 10_000_000 / ios)  # ticks of 10 ms
    assert modes["user"] == 8_000
    assert sum(modes.values()) == pytest.approx(figures.metrics["cpu_per_io"])


def test_nvme_tcp_4k_by_hand() -> None:
    figures = PLUGIN.observe(*snapshots("4k-qd1.nvme-tcp"), LOAD)
    ios = 1081 - 1
    # host and target take turns on one kworker, whose name says kblockd before and nvme_tcp_wq after
    shared = (42981625 - 1512076) + (91074836 - 91046935) + (12758098 - 12749290)
    places = figures.context["cpu"]["by_place"]
    assert places["shared"] == pytest.approx(shared / ios)
    assert set(places) == {"generator", "shared", "other"}


def test_the_snapshots_own_programs_do_not_count() -> None:
    before, after = snapshots("64k-qd16.iscsi")
    busier = after.replace("/proc/359/schedstat:5313603", "/proc/359/schedstat:999999999")  # the runner's sh
    assert busier != after
    assert PLUGIN.observe(before, busier, LOAD) == PLUGIN.observe(before, after, LOAD)


def test_a_thread_that_was_not_there_before_counts_if_it_is_the_kernels() -> None:
    before, after = snapshots("64k-qd16.iscsi")
    new = after + "/proc/900/schedstat:4300000 0 1\n/proc/900/comm:{}\n"
    was = PLUGIN.observe(before, after, LOAD).metrics["cpu_per_io"]
    assert PLUGIN.observe(before, new.format("kworker/0:9"), LOAD).metrics["cpu_per_io"] == pytest.approx(was + 10_000)
    assert PLUGIN.observe(before, new.format("cron"), LOAD).metrics["cpu_per_io"] == was


@pytest.mark.parametrize("load", [Figures(), Figures(context={"generator": {}})])
def test_without_the_generators_own_time_nothing_is_told(load: Figures) -> None:
    assert PLUGIN.observe(*snapshots("64k-qd16.iscsi"), load) == Figures()


def test_without_ios_nothing_is_told() -> None:
    before, after = snapshots("64k-qd16.iscsi")
    assert PLUGIN.observe(before, before, LOAD) == Figures()
    assert PLUGIN.observe(after, before, LOAD) == Figures()  # the device was made anew
    assert PLUGIN.observe("", "", LOAD) == Figures()


number = st.integers(-5, 10**25).map(str) | st.sampled_from(["", "x", "9" * 6000, "\u0663", "1 2 3", "-", "1e9"])
line = st.builds(
    "{}:{}".format,
    st.sampled_from(["/sys/class/block/sda/stat", "/proc/stat", "/proc/7/schedstat", "/proc/7/comm", "/proc/x/stat"]),
    st.lists(number | st.sampled_from(["cpu", "kworker/0:1", "iscsi_ttx"]), max_size=12).map(" ".join),
)
snapshot = st.text(max_size=60) | st.lists(line, max_size=12).map("\n".join)


@example("/proc/7/schedstat:\n/proc/stat:cpu", "/proc/7/schedstat: \n")
@given(snapshot, snapshot)
def test_no_snapshot_makes_it_raise_or_gives_a_figure_that_is_none(before: str, after: str) -> None:
    for one, other in (
        (before, after),
        (snapshots("64k-qd16.iscsi")[0] + before, snapshots("64k-qd16.iscsi")[1] + after),
    ):
        figures = PLUGIN.observe(one, other, LOAD)
        assert all(math.isfinite(value) and value > 0 for value in figures.metrics.values())
