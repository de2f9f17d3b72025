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
    assert "the CPUs of node b were 99% busy" in busy.message
    assert "or a path that takes less of them" in busy.message, "initiator and QEMU run there, and are of the path"
    assert "took 3.0% of the CPU time from node c" in steal.message
    assert {lane for f in (busy, steal) for lane in f.lanes} == {"odd"}


def test_machine_and_node_at_their_limit_are_two_findings(told):
    found = told("cpu_bound", figures(nodes={"a": {"busy": 0.97}}, machine={"busy": 0.98}))
    assert [f.message.split(" were ")[0] for f in found] == ["the machine's CPUs", "the CPUs of node a"]


@pytest.mark.parametrize(("moved", "full"), [(118_700_000, False), (119_000_000, True)])
def test_a_nodes_interface_is_held_against_its_own_speed(told, moved, full):
    nic = {"rx_bytes": moved, "tx_bytes": 7, "speed": 10**9}
    nodes = {"n<1>": {"nics": {"ens1": {"rx_bytes": 5, "tx_bytes": 9, "speed": 10**9}, "bond0": nic, "x": {}}}}
    odd = figures(LINK, nodes=nodes, load={"runtime_ms": 1000})
    found = told("link_bound", odd, workload="rw: [randread], ramp: 0s")
    assert len(found) == full
    for finding in found:
        assert "bond0 of node n<1> carried 0.952 of its 1 Gbit/s" in finding.message
        assert finding.severity == "warning"


def test_an_interface_of_unknown_speed_is_no_finding(told):
    nodes = {"a": {"nics": {"ens1": {"rx_bytes": 10**15, "tx_bytes": 9}}}}
    odd = figures(LINK, nodes=nodes, load={"runtime_ms": 1000})
    assert told("link_bound", odd, workload="rw: [randread], ramp: 0s") == []


@pytest.mark.parametrize(
    ("description", "says"),
    [
        ({}, None),
        ({"node_probes": {"network": "host"}}, None),
        ({"node_probes": "off"}, "the study switches probes on the nodes off"),
        ({"node_probes": "not allowed: x is forbidden."}, "probes on the nodes were not allowed: x is forbidden;"),
    ],
)
def test_nodes_that_nobody_watched_are_told(beside, run_check, description, says):
    evidence = beside(figures(), figures(), "rw: [randread]")
    evidence = replace(evidence, description={**evidence.description, "platform": description})
    found = run_check("unwatched_nodes", evidence)
    assert len(found) == (says is not None)
    for finding in found:
        assert says in finding.message
        assert "CPU per I/O is of the guests alone" in finding.message
        assert finding.severity == "info"


def test_a_node_that_was_not_seen_in_a_trial_is_told_once(told):
    gone = {"nodes": {"a": {"failed": "no answer"}, "b": {"busy": 0.1}}}
    (finding,) = told("unwatched_nodes", figures(**gone), figures(nodes={"a": {"busy": 0.1}}))
    assert finding.message.startswith("node a was not seen in ")
    assert finding.message.endswith("no CPU per I/O of the nodes: no answer")
    assert finding.lanes == ("odd",)
    assert finding.severity == "warning"
    assert told("unwatched_nodes", figures(nodes="x"), figures(nodes={"a": 3})) == []


def test_nodes_of_clone_storms_are_not_missed(beside, run_check):
    evidence = beside(figures(), figures(), "rw: [randread]")
    evidence = replace(evidence, description={**evidence.description, "platform": {"node_probes": "off"}})
    storms = evidence.study.model_copy(update={"workloads": {"main": CloneSpec(kind="clone", counts=(1,))}})
    assert run_check("unwatched_nodes", evidence)
    assert not run_check("unwatched_nodes", replace(evidence, study=storms))
