"""What the checks make of a cluster's nodes: at their limit, with a full link, or not seen."""

from dataclasses import replace

import pytest

from fairlane.records import Figures
from fairlane.workloads.clone import CloneSpec

LINK = {"bw": 60e6}


def figures(metrics=None, **context):
    return Figures({"iops": 1000.0} if metrics is None else metrics, {}, context)


@pytest.fixture
def told(beside, run_check):
    def find(check, odd, sound=None, workload="rw: [randread]", **keys):
        return run_check(check, beside(odd, sound or figures(), workload, **keys))

    return find


def test_the_busiest_node_is_told_and_of_what_the_hypervisor_left_it(told):
    nodes = {"a": {"busy": 0.96}, "b": {"busy": 0.99, "cpus": 64}, "c": {"busy": 0.2, "steal": 0.03}}
    (busy, steal) = told("cpu_bound", figures(nodes=nodes), figures(nodes={"a": {"busy": 0.5}}))
    assert (busy.kind, steal.kind) == ("node-busy", "node-steal")
    (of_busy,), (of_steal,) = busy.evidence.values(), steal.evidence.values()
    assert (of_busy["node"], of_busy["busy"]) == ("b", 0.99)
    assert (of_steal["node"], of_steal["steal"]) == ("c", 0.03)
    assert {lane for f in (busy, steal) for lane in f.lanes} == {"odd"}


def test_machine_and_node_at_their_limit_are_two_findings(told):
    found = told("cpu_bound", figures(nodes={"a": {"busy": 0.97}}, machine={"busy": 0.98}))
    shown = [(f.kind, proof["busy"], proof.get("node")) for f in found for proof in f.evidence.values()]
    assert shown == [("busy", 0.98, None), ("node-busy", 0.97, "a")]


@pytest.mark.parametrize(("moved", "full"), [(118_700_000, False), (119_000_000, True)])
def test_a_nodes_interface_is_held_against_its_own_speed(told, moved, full):
    nic = {"rx_bytes": moved, "tx_bytes": 7, "speed": 10**9}
    nodes = {"n<1>": {"nics": {"ens1": {"rx_bytes": 5, "tx_bytes": 9, "speed": 10**9}, "bond0": nic, "x": {}}}}
    odd = figures(LINK, nodes=nodes, load={"runtime_ms": 1000})
    found = told("link_bound", odd, workload="rw: [randread], ramp: 0s")
    assert len(found) == full
    for finding in found:
        (proof,) = finding.evidence.values()
        assert (finding.severity, finding.kind) == ("warning", "node")
        assert (proof["nic"], proof["node"], proof["speed"]) == ("bond0", "n<1>", 1e9)
        assert proof["wire_bits_per_s"] == pytest.approx(0.952e9)


def test_an_interface_of_unknown_speed_is_no_finding(told):
    nodes = {"a": {"nics": {"ens1": {"rx_bytes": 10**15, "tx_bytes": 9}}}}
    odd = figures(LINK, nodes=nodes, load={"runtime_ms": 1000})
    assert told("link_bound", odd, workload="rw: [randread], ramp: 0s") == []


@pytest.mark.parametrize(
    ("description", "kind"),
    [
        ({}, None),
        ({"node_probes": {"network": "host"}}, None),
        ({"node_probes": "off"}, "switched-off"),
        ({"node_probes": "not allowed: x is forbidden."}, "not-run"),
    ],
)
def test_nodes_that_nobody_watched_are_told(beside, run_check, description, kind):
    evidence = beside(figures(), figures(), "rw: [randread]")
    evidence = replace(evidence, description={**evidence.description, "platform": description})
    found = run_check("unwatched_nodes", evidence)
    assert [(f.severity, f.kind) for f in found] == ([("info", kind)] if kind else [])
    for finding in found:
        assert kind == "switched-off" or finding.evidence == {"reason": description["node_probes"]}


def test_a_node_that_was_not_seen_in_a_trial_is_told_once(told):
    gone = {"nodes": {"a": {"failed": "no answer"}, "b": {"busy": 0.1}}}
    (finding,) = told("unwatched_nodes", figures(**gone), figures(nodes={"a": {"busy": 0.1}}))
    (proof,) = finding.evidence.values()
    assert (finding.kind, proof) == ("gaps", {"node": "a", "trials": 1, "reason": "no answer"})
    assert finding.lanes == ("odd",)
    assert finding.severity == "warning"
    assert told("unwatched_nodes", figures(nodes="x"), figures(nodes={"a": 3})) == []


def test_nodes_of_clone_storms_are_not_missed(beside, run_check):
    evidence = beside(figures(), figures(), "rw: [randread]")
    evidence = replace(evidence, description={**evidence.description, "platform": {"node_probes": "off"}})
    storms = evidence.study.model_copy(update={"workloads": {"main": CloneSpec(kind="clone", counts=(1,))}})
    assert run_check("unwatched_nodes", evidence)
    assert not run_check("unwatched_nodes", replace(evidence, study=storms))
