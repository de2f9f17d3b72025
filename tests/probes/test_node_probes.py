"""The probe of a cluster's nodes, from snapshots of two real node exporters' answers (one machine, its pods' network
taken away for the second node) and from made-up counters."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane import registry
from fairlane.probes.base import Probe
from fairlane.records import Block, Cell, Figures
from fairlane.runs.observe import observe

DATA = Path(__file__).parent / "data"
FLEET = Path(__file__).parents[1] / "workloads" / "data"
IOS = 4000
LOAD = Figures(context={"cpu": {"window_ios": IOS}})
PROBE: Probe = registry.load("probes", "node_usage")


def node(busy: float, **more: Any) -> dict[str, Any]:
    """Two CPUs after 100 s, of which the first worked for ``busy`` and the second slept."""
    cpu = {"user": [busy - 1, 0], "system": [1, 0], "idle": [100 - busy, 99], "iowait": [0, 1], "steal": [0, 0]}
    return {"cpu": cpu, **more}


def seen(before: object, after: object, load: Figures = LOAD) -> Figures:
    return PROBE.observe(json.dumps(before), json.dumps(after), load)


def later(first: dict[str, Any], seconds: float, **ran: list[float]) -> dict[str, Any]:
    """``first`` after ``seconds`` in which the CPUs ran so long in each mode, and idled else."""
    cpu = {mode: list(values) for mode, values in first["cpu"].items()}
    for mode, moved in ran.items():
        cpu[mode] = [a + b for a, b in zip(cpu[mode], moved, strict=True)]
    worked = [sum(column) for column in zip(*ran.values(), strict=True)]
    cpu["idle"] = [a + seconds - b for a, b in zip(cpu["idle"], worked, strict=True)]
    return {**first, "cpu": cpu}


def test_the_figures_of_a_real_exporter_by_hand() -> None:
    before, after = ((DATA / f"node_usage.{when}.json").read_text() for when in ("before", "after"))
    told = PROBE.observe(before, after, LOAD)
    first, last = json.loads(before)["worker-0"]["cpu"], json.loads(after)["worker-0"]["cpu"]
    assert all(len(first[mode]) == 2 for mode in first)
    busy = {m: sum(last[m]) - sum(first[m]) for m in ("user", "nice", "system", "irq", "softirq")}
    both = {
        name: seen({name: json.loads(before)[name]}, {name: json.loads(after)[name]})
        for name in ("worker-0", "worker-1")
    }
    assert both["worker-0"].metrics["cpu_per_io_node"] == pytest.approx(1e9 * sum(busy.values()) / IOS)
    assert told.metrics["cpu_per_io_node"] == pytest.approx(sum(b.metrics["cpu_per_io_node"] for b in both.values()))
    assert told.context["cpu_node"]["by_mode"].keys() == busy.keys()
    assert set(told.context["nodes"]) == {"worker-0", "worker-1"}
    one = told.context["nodes"]["worker-0"]
    total = sum(sum(last[mode]) - sum(first[mode]) for mode in first)
    assert one["window_ms"] == pytest.approx(1e3 * total / 2)
    assert one["busy"] == pytest.approx(sum(busy.values()) / total)
    assert "vda" in one["disks"]
    assert "nics" not in told.context["nodes"]["worker-1"]


def test_cpu_per_io_is_of_all_nodes_and_leaves_out_what_is_no_work() -> None:
    first = {"a": node(40), "b": node(60)}
    last = {
        "a": later(first["a"], 10, user=[3.0, 0.5], system=[1.0, 0.0], iowait=[2.0, 0.0], steal=[0.0, 4.0]),
        "b": later(first["b"], 10, user=[0.0, 0.0], system=[0.0, 0.25]),
    }
    told = seen(first, last)
    assert told.metrics == {"cpu_per_io_node": pytest.approx(1e9 * 4.75 / IOS)}
    modes = told.context["cpu_node"]["by_mode"]
    assert modes["user"] == pytest.approx(1e9 * 3.5 / IOS)
    assert modes["system"] == pytest.approx(1e9 * 1.25 / IOS)
    a = told.context["nodes"]["a"]
    assert (a["busy"], a["busiest_cpu"], a["steal"]) == pytest.approx((4.5 / 20, 0.4, 0.2))
    assert (a["cpus"], a["window_ms"]) == (2, pytest.approx(10_000))


def test_idle_time_that_falls_is_an_estimate_and_work_that_falls_is_another_boot() -> None:
    first = {"a": node(40)}
    last = {"a": later(first["a"], 10, user=[5.0, 5.0])}
    last["a"]["cpu"]["iowait"][1] -= 0.03
    assert seen(first, last).metrics == {"cpu_per_io_node": pytest.approx(1e9 * 10 / IOS)}
    told = seen(last, first)
    assert not told.metrics
    assert "restarted" in told.context["nodes"]["a"]["failed"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": node(40)}, {"a": later(node(40), 10, user=[1, 1]), "b": node(40)}),
        ({"a": node(40), "b": node(40)}, {"a": later(node(40), 10, user=[1, 1])}),
        ({"a": node(40), "b": {"failed": "gone"}}, {"a": later(node(40), 10, user=[1, 1]), "b": node(40)}),
        ({"a": node(40), "b": node(40)}, {"a": later(node(40), 10, user=[1, 1]), "b": {"failed": "gone"}}),
        ({"a": node(40), "b": node(50)}, {"a": later(node(40), 10, user=[1, 1]), "b": node(40)}),
    ],
)
def test_the_figure_is_of_all_nodes_or_there_is_none(before: Any, after: Any) -> None:
    told = seen(before, after)
    assert told.metrics == {}
    assert "busy" in told.context["nodes"]["a"]
    assert told.context["nodes"]["b"]["failed"]


def test_without_ios_there_is_no_figure_per_io() -> None:
    first, last = {"a": node(40)}, {"a": later(node(40), 10, user=[1, 1])}
    told = seen(first, last, Figures())
    assert told.metrics == {}
    assert told.context["nodes"]["a"]["busy"] == pytest.approx(0.1)


def test_pressure_switches_retransmits_disks_and_nics_of_a_node() -> None:
    disk = {"reads": 10, "read_bytes": 4096, "writes": 0, "write_bytes": 0}
    nic = {"rx_bytes": 5e9, "tx_bytes": 1e9, "rx_drops": 1, "tx_drops": 0, "speed": 3.125e9}
    was = node(40, switches=100, retransmits=7, pressure={"cpu": 1.0, "io": 0.0}, disks={"sda": disk, "sdb": disk},
               nics={"ens1": nic, "ens2": nic})  # fmt: skip
    now = later(was, 10, user=[1, 1]) | {
        "switches": 5100, "retransmits": 9, "pressure": {"cpu": 3.5, "io": 0.0},
        "disks": {"sda": {**disk, "reads": 35, "read_bytes": 1 << 20}, "sdb": disk},
        "nics": {"ens1": {**nic, "rx_bytes": 9e9, "rx_drops": 4}, "ens2": nic},
    }  # fmt: skip
    told = seen({"a": was}, {"a": now}).context["nodes"]["a"]
    assert told["pressure_cpu"] == pytest.approx(0.25)
    assert told["pressure_io"] == 0
    assert told["switches_per_s"] == pytest.approx(500)
    assert told["retransmits"] == 2
    assert told["disks"] == {"sda": {"reads": 25, "read_bytes": (1 << 20) - 4096, "writes": 0, "write_bytes": 0}}
    assert told["nics"] == {
        "ens1": {"rx_bytes": 4_000_000_000, "tx_bytes": 0, "rx_drops": 3, "tx_drops": 0, "speed": 25_000_000_000}
    }


@pytest.mark.parametrize(("cpus", "share"), [(1, 0.5), (4, 0.3), (64, 0.03)])
def test_the_step_holds_what_counting_in_ticks_takes_away(cpus: int, share: float) -> None:
    """Counters cut down to 10 ms, as /proc/stat prints them, against the time that was really used."""
    rng = random.Random(f"{cpus} {share}")  # noqa: S311
    modes = ("user", "system", "softirq")
    within, steps = 0, []
    for _ in range(400):
        begun = {m: [rng.uniform(0, 1e5) for _ in range(cpus)] for m in modes}
        used = {m: [rng.expovariate(3 / (10 * share)) for _ in range(cpus)] for m in modes}
        ended = {m: [a + b for a, b in zip(begun[m], used[m], strict=True)] for m in modes}
        cut = [{m: [math.floor(100 * v) / 100 for v in t[m]] for m in modes} | {"idle": [9.0] * cpus}
               for t in (begun, ended)]  # fmt: skip
        told = seen({"n": {"cpu": cut[0]}}, {"n": {"cpu": cut[1]}})
        truth = 1e9 * sum(map(sum, used.values())) / IOS
        steps.append(told.steps["cpu_per_io_node"])
        within += abs(told.metrics["cpu_per_io_node"] - truth) <= steps[-1] * told.metrics["cpu_per_io_node"]
    assert within >= 395
    assert max(steps) < 0.05


def test_it_is_read_beside_the_fleet_and_its_ios_are_all_machines() -> None:
    block = Block(Cell("main", "fio", "4k read", {"ramp": 0, "runtime": 2 * 10**9}), 0, ("a",), 1)
    first, last = {"n": node(40)}, {"n": later(node(40), 10, user=[1, 1])}
    files = {"probe.node_usage.before": json.dumps(first).encode(), "probe.node_usage.after": json.dumps(last).encode()}
    for vm, ios in ((0, 800), (1, 1600)):
        files |= {f"vm{vm}/status": b"0\n", f"vm{vm}/fio.json": (FLEET / f"fleet-vm{vm}.json").read_bytes(),
                  f"vm{vm}/probe.disk.before": b"0 0 0 0 0 0 0 0 0 0 0",
                  f"vm{vm}/probe.disk.after": b"%d 0 8 0 0 0 0 0 0 0 0" % ios}  # fmt: skip
    told = observe(block, "a", files)
    assert not told.failed
    assert told.metrics["cpu_per_io_node"] == pytest.approx(1e9 * 2 / 2400)
    assert told.steps["cpu_per_io_node"] > 0
    assert told.context["nodes"]["n"]["busy"] == pytest.approx(0.1)


number: st.SearchStrategy[Any] = st.floats() | st.integers(-5, 10**25) | st.sampled_from([None, "1", True, [], {}])
tree = st.recursive(
    number,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["n", "cpu", "user", "idle", "iowait", "disks", "nics", "sda", "speed", "reads", "failed",
                         "pressure", "io", "switches"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(tree, tree)
def test_no_snapshot_makes_it_raise(before: Any, after: Any) -> None:
    for load in (LOAD, Figures()):
        told = seen(before, after, load)
        assert all(math.isfinite(value) and value > 0 for value in told.metrics.values())
        json.dumps(told.context, allow_nan=False)


@given(st.text(max_size=40), st.text(max_size=40))
def test_nor_does_anything_else(before: str, after: str) -> None:
    assert PROBE.observe(before, after, LOAD) == Figures()
