"""A file in a share has no device that counts: CPU time is then per I/O that the workload tells."""

import pytest

from fairlane import registry
from fairlane.probes import _threads as threads
from fairlane.records import Figures

GENERATOR = {"generator": {"user": 1000.0, "kernel": 2000.0}}
BEFORE = "/proc/stat:cpu 0 0 0 0 0 0 0 0\n/proc/7/schedstat:1000000 0 1\n/proc/7/comm:kworker/0:1\n"
AFTER = "/proc/stat:cpu 0 0 0 0 0 0 0 0\n/proc/7/schedstat:5000000 0 9\n/proc/7/comm:kworker/0:1\n"


def load(**told: object) -> Figures:
    return Figures(context={**GENERATOR, "load": {"ios": {"read": 700, "write": 300}, **told}})


def test_the_workloads_count_stands_in_for_the_devices() -> None:
    seen = registry.load("probes", "cpu").observe(BEFORE, AFTER, load())
    assert seen.metrics["cpu_per_io"] == 3000.0 + 4_000_000 / 1000
    assert seen.context["cpu"]["window_ios"] == 1000


def test_the_ramp_counts_as_if_it_had_been_as_fast() -> None:
    seen = registry.load("probes", "cpu").observe(BEFORE, AFTER, load(window=2.0))
    assert seen.context["cpu"]["window_ios"] == 2000


def test_a_device_that_counts_is_believed_and_one_that_stands_still_tells_nothing() -> None:
    counted = "/sys/class/block/sda/stat:{0} 0 0 0 0 0 0 0 0 0 0\n"
    cpu = registry.load("probes", "cpu")
    seen = cpu.observe(counted.format(0) + BEFORE, counted.format(500) + AFTER, load())
    assert seen.context["cpu"]["window_ios"] == 500
    assert cpu.observe(counted.format(500) + BEFORE, counted.format(500) + AFTER, load()) == Figures()


def test_the_arrays_share_is_per_io_of_the_workload_too() -> None:
    assert threads.ios_of(load(window=1.5)) == pytest.approx(1500)
    assert threads.ios_of(Figures()) == 0


def test_disks_tell_nothing_of_a_file() -> None:
    assert registry.load("probes", "disk").observe("", "", load()) == Figures()
