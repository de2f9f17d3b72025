"""No check raises, whatever a trial says of itself: context and metrics may come from anybody's file."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fairlane import registry
from fairlane.checks.base import run_all
from fairlane.records import Figures

KEYS = (
    "load", "ios", "bytes", "iops", "runtime_ms", "runtime_ms_min", "jobs", "parts", "series", "samples", "count",
    "mean", "stddev", "percentiles_of", "averaged", "read", "write", "name", "group", "stonewall", "start_ms", "end_ms",
    "fio", "version", "usr_cpu", "sys_cpu", "disk", "reads", "read_bytes", "read_merges", "machine", "busy", "steal",
    "cpus", "window_ms", "net", "drops", "retransmits", "tx_bytes", "rx_bytes", "vms", "lat_p99", "medium",
    "allocated_bytes", "unwritten_reads", "conditions", "prefill", "direct", "rw", "rwmixread", "bs", "iodepth",
    "numjobs", "fleet", "rate_iops", "size", "disk_size", "engine", "link_speed", "mtu", "ramp", "runtime",
    "metric_definition", "nodes", "nics", "speed", "failed", "platform", "node_probes",
    "host_disks", "host", "programs",
    "temperatures", "celsius", "limit", "throttles", "governors", "vda", "machine", "disks",
    "behind", "probed", "stack", "kind", "identity", "flash", "write_bytes", "medium", "flush", "words", "sync", "thin",
    "volumes", "used", "free_bytes", "options", "fstype", "server", "verdict", "ratio", "lanes", "base", "new",
)  # fmt: skip
SCALARS = (
    st.sampled_from([0, 1, -1, 0.5, 10**400, 2**63, 1e308, -1e308, float("nan"), float("inf"), True, False, None])
    | st.sampled_from(["", "same", "sum of x", "averaged", "randrw", "psync", "randread", "4k", "\x1b[31m\u202e"])
    | st.sampled_from(["x" * 5000])
    | st.integers(0, 10**6)
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=8),
    max_leaves=40,
)
CONTEXTS = st.dictionaries(st.sampled_from(KEYS), TREES, max_size=10)
METRICS = st.dictionaries(
    st.sampled_from(["iops", "bw", "lat_mean", "lat_p50", "lat_p95", "lat_p99", "tps"]),
    st.sampled_from([0.0, -1.0, 1.0, 1e-300, 1e300, float("nan"), float("inf")]) | st.floats(0, 1e9),
    max_size=7,
)

LOADED = "rw: [randrw], rwmixread: [70], rate_iops: [500], ramp: 1s"
LANE = ", cap_iops: 10, cap_mibs: 1, conditions: {link_speed: 1gbit}"


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CONTEXTS, METRICS, CONTEXTS)
@example({}, {"iops": 1.0, "bw": 5e-324}, {})
@example({}, {"iops": 1e-300, "bw": 1e300}, {})
@example({}, {"iops": 1.0}, {"lanes": 1})
@example({}, {"iops": 1.0}, {"lanes": {"odd": 1}})
def test_no_check_raises(beside, context, metrics, description):
    odd = Figures(metrics, {}, context)
    made = beside(odd, Figures({"iops": 1.0}), LOADED, lane=LANE, blocks=6, description=description)
    for found in run_all(made):
        assert found.message
        assert len(found.message) < 2000
        json.dumps(dict(found.evidence), default=str)


@pytest.mark.parametrize(
    "key", ["load", "fio", "disk", "machine", "net", "vms", "medium", "conditions", "cpu", "nodes"]
)
@pytest.mark.parametrize("value", [None, 3, "x", [1], [[]], {"x": 1}, [{"ios": "many"}]])
def test_no_part_of_the_context_need_be_what_it_should(beside, key, value):
    made = beside(Figures({"iops": 1.0}, {}, {key: value}), Figures({"iops": 1.0}), LOADED, lane=LANE)
    assert {f.severity for f in run_all(made)} <= {"info", "warning", "critical"}


def test_trials_of_lanes_and_cells_that_the_study_has_not(beside):
    made = beside(Figures({"iops": 99.0}), Figures({"iops": 99.0}), lane=", cap_iops: 10")
    lost = tuple(replace(o, lane="gone") for o in made.observations) + tuple(
        replace(o, cell="gone") for o in made.observations
    )
    for name, check in registry.every("checks"):
        if name != "failed_trials":
            list(check.check(replace(made, observations=lost)))
