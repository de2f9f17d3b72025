from dataclasses import fields

import pytest
from pydantic import BaseModel

from fairlane.metrics import METRICS, WAYS, Metric, of_mix, own_metric
from fairlane.study.base import Design

COSTS = ("switches", "B", "flushes")
"""Units of what one I/O or transaction costs."""


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_every_metric_says_what_it_is(metric):
    assert METRICS[metric.name] is metric
    assert metric.title
    assert metric.unit in {"1/s", "1/min", "B/s", "ns", "1/s per Gbit/s", "1/s per unit", *COSTS}
    assert metric.better == (-1 if metric.unit in {"ns", *COSTS} else 1), "rates: more is better; costs: less is"
    assert 0 < metric.margin < 1
    assert len(metric.definition) > 20
    assert "\n" not in metric.definition


def test_the_issues_margins():
    assert {name: m.margin for name, m in METRICS.items() if m.way not in WAYS} == {
        "iops": 0.05, "bw": 0.05, "lat_mean": 0.05, "cpu_per_io": 0.05,
        "lat_p50": 0.10, "lat_p95": 0.10, "lat_p99": 0.10, "lat_p999": 0.10,
        "iops_per_gbit": 0.05, "iops_per_cost": 0.05, "tps": 0.05, "tpm": 0.05, "nopm": 0.05, "job_time": 0.05,
        "cpu_per_tx": 0.05, "wal_per_tx": 0.05, "flushes_per_tx": 0.05,
        "vm_ready_mean": 0.10, "vm_ready_p50": 0.10, "vm_ready_p95": 0.10, "vm_ready_p99": 0.10,
            "vm_created_mean": 0.10, "vm_scheduled_mean": 0.10, "vm_running_mean": 0.10, "vm_booted_mean": 0.10,
            "cpu_per_io_target": 0.05, "cpu_per_io_hypervisor": 0.05,
            "cpu_per_io_node": 0.05, "switches_per_io": 0.05,
            "sync_lat_mean": 0.05, "sync_lat_p50": 0.10, "sync_lat_p95": 0.10, "sync_lat_p99": 0.10,
            "sync_lat_p999": 0.10,
            "stall": 0.10, "recover_time": 0.10, "iops_before": 0.05, "iops_after": 0.05,
    }  # fmt: skip


def test_percentiles_are_told_by_their_names():
    assert {name: m.percentile for name, m in METRICS.items() if m.percentile is not None and m.way not in WAYS} == {
        "lat_p50": 0.5, "lat_p95": 0.95, "lat_p99": 0.99, "lat_p999": 0.999,
        "sync_lat_p50": 0.5, "sync_lat_p95": 0.95, "sync_lat_p99": 0.99, "sync_lat_p999": 0.999,
    }  # fmt: skip


def test_reads_and_writes_have_the_same_family():
    """A direction's metric is as the one of all I/Os, but for its name and words."""
    of_all = ("iops", "bw", "lat_mean", "lat_p50", "lat_p95", "lat_p99", "lat_p999")
    assert {m.name for m in METRICS.values() if m.way in WAYS} == {own_metric(n, way) for n in of_all for way in WAYS}
    assert (own_metric("bw", "read"), own_metric("lat_p999", "write")) == ("bw_read", "lat_write_p999")
    for name in of_all:
        assert own_metric(name, "") == name
        for way in WAYS:
            whole, own = METRICS[name], METRICS[own_metric(name, way)]
            assert own.way == way
            assert way in own.title
            same = {f.name for f in fields(Metric)} - {"name", "title", "definition", "way"}
            assert {key: getattr(own, key) for key in same} == {key: getattr(whole, key) for key in same}


@pytest.mark.parametrize("figures", [{"read": 5.0}, {"read": 5.0, "write": 0.0}, {"read": 5.0, "write": None}, {}])
def test_a_direction_alone_is_no_mix(figures):
    assert of_mix("iops", figures) == {}
    assert of_mix("iops", {**figures, "read": 5.0, "write": 2.0}) == {"iops_read": 5.0, "iops_write": 2.0}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("iops", 14525.4, "14,525"), ("iops", 412.34, "412"), ("iops", 0.4123, "0.412"),
        ("iops", 999.97, "1,000"), ("iops", 999.4, "999"), ("lat_mean", 999_600, "1 ms"),
        ("job_time", 4.2e12, "4,200 s"),
        ("bw", 59495219.2, "56.74 MiB/s"), ("bw", 12345 * 2**20, "12,345 MiB/s"),
        ("lat_mean", 812, "812 ns"), ("lat_mean", 185_000, "185 µs"), ("lat_p99", 1_742_000, "1.74 ms"),
        ("lat_p999", 2.5e9, "2.5 s"), ("cpu_per_io", 74_900, "74.9 µs"),
    ],
)  # fmt: skip
def test_figures_are_printed_with_their_unit(name, value, text):
    assert METRICS[name].format(value) == text


def test_a_study_may_set_a_margin_for_each():
    assert issubclass(Design, BaseModel)
    assert Design(margins=dict.fromkeys(METRICS, "5%")).margins == dict.fromkeys(METRICS, 0.05)  # type: ignore[arg-type]
