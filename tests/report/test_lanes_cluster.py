"""Lanes of storage classes side by side, and the cluster below them: what a reader sees first, and what once."""

import re

import pytest

from fairlane.guard.matched import table_of
from fairlane.records import Evidence, Observation
from fairlane.report import html, lanes, markdown, model, platform_facts
from fairlane.report.text import DASH
from fairlane.study.load import parse_study
from tests.figures import figures

STUDY = """
name: classes
platform: {kind: kubevirt, image: "docker://x/y:1"}
baseline: a
lanes:
  a: {transport: storage_class, storage_class: a}
  b: {transport: storage_class, storage_class: b, io_threads_policy: auto}
workloads: {disk: {kind: fio, rw: [randread], bs: [4k], iodepth: [1], runtime: 1s}}
"""
NODE = {"name": "<n0>", "kernelVersion": "5.14", "zone": "z0", "capacity": {"cpu": "64"}}


EVEN = r"0, 2, 10 \w+ worker-0; 1 \w+ worker-1"
"""Which machines are on which node, if their numbers alternate."""


def told(name: str, **more: object) -> dict[str, object]:
    return {
        "volume.volumeHandle": f"pvc-{name}",
        "volume.attributes.imageName": f"csi-{name}",
        "machines": {f"{name}-{n}": f"worker-{n % 2}" for n in (10, 2, 0, 1)},
        "server_defaults": [f"domain.firmware.uuid: {name}: 1 (default)", "domain.machine.type: q35 (default)"],
        "conditions": {"vm_memory": 1},
        **more,
    }


def evidence(b: dict[str, object]) -> Evidence:
    a = told("a", **{"storageClass.parameters.pool": "gold"})
    return Evidence("run", parse_study(STUDY, "x"), STUDY, 1, (), (), {"lanes": {"a": a, "b": b}}, {}, complete=True)


def rows(found: tuple[lanes.LaneRow, ...]) -> dict[str, tuple[str, ...]]:
    return {row.key.removeprefix(lanes.READ_BACK): row.values for row in found}


def test_what_classes_differ_in_is_not_hidden_among_names() -> None:
    table = lanes.side_by_side(evidence(told("b")))
    differing = rows(table.differing)
    assert differing == {
        f"{lanes.ASKED}storage_class": ("a", "b"),
        f"{lanes.ASKED}io_threads_policy": (DASH, "auto"),
        "storageClass.parameters.pool": ("gold", DASH),
    }
    assert not table.own
    names = rows(table.names)
    assert names["server_defaults.domain.firmware.uuid"] == ("a: 1 (default)", "b: 1 (default)")
    assert names.keys() == {
        "volume.volumeHandle", "volume.attributes.imageName", "server_defaults.domain.firmware.uuid"
    }  # fmt: skip
    same = rows(table.same)
    assert same["server_defaults.domain.machine.type"] == ("q35 (default)",) * 2
    assert len(set(same["machines"])) == 1
    assert re.fullmatch(EVEN, same["machines"][0])
    assert not any("conditions" in key for key in (*differing, *names, *same))
    report = model.build(evidence(told("b")), (), ())
    for page in (html.render(report), markdown.render(report)):
        assert all(page.count(name) == 1 for name in ("pvc-a", "pvc-b", "csi-a", "csi-b"))


def test_machines_of_a_number_on_other_nodes_are_a_difference() -> None:
    moved = told("b", machines={"b-0": "worker-1", "b-1": "worker-0", "b-2": "worker-0", "b-10": ""})
    found = rows(lanes.side_by_side(evidence(moved)).differing)["machines"]
    assert re.fullmatch(EVEN, found[0])
    assert re.fullmatch(r"0 \w+ worker-1; 1, 2 \w+ worker-0; 10 [^0-9]+", found[1])


def test_lines_of_a_server_that_are_not_path_and_value_stay_as_they_are() -> None:
    odd = told("b", server_defaults=["no path", 3])
    found = rows(lanes.side_by_side(evidence(odd)).differing)
    assert found["server_defaults"] == (DASH, "no path, 3")


def test_what_nodes_share_is_said_once_and_what_they_differ_in_by_name() -> None:
    nodes = {f"n{i}": {**NODE, "zone": f"z{i % 2}", **({"kernelVersion": "6.1"} if i == 8 else {})} for i in range(9)}
    found = dict(platform_facts.rows({"kind": "kubevirt", "nodes": nodes}))
    assert found["nodes.capacity.cpu"] == "64"
    most, least = found["nodes.kernelVersion"].split("; ")
    assert most.startswith("5.14 (n0, n1, n2, n3, n4, n5 ")
    assert (figures(most), least) == (["5.14", "2"], "6.1 (n8)")
    assert found["nodes.zone"] == "z0 (n0, n2, n4, n6, n8); z1 (n1, n3, n5, n7)"
    assert "nodes.name" not in found
    del nodes["n0"]["zone"]
    untold, *told_ = dict(platform_facts.rows({"nodes": nodes}))["nodes.zone"].split("; ")
    assert "(n0)" in untold
    assert [part.partition(" ")[0] for part in told_] == ["z1", "z0"]


def test_requests_and_boots_are_summed_up() -> None:
    requests = {f"get k{n}": n for n in range(1, 9)}
    found = dict(platform_facts.rows({
        "api": {"requests": requests, "retried": {}, "waited_s": 0.5}, "boot_seconds": {"a-0": 36.56, "b-0": 63.91},
    }))  # fmt: skip
    assert found.keys() == {"api.requests", "api.waited_s", "boot_seconds"}
    named = "36: get k8 8, get k7 7, get k6 6, get k5 5, get k4 4, get k3 3, "
    assert found["api.requests"].startswith(named)
    assert figures(found["api.requests"].removeprefix(named)) == ["3", "2"]
    assert found["api.waited_s"] == "0.5"
    assert figures(found["boot_seconds"]) == ["36.6", "63.9", "2"]
    assert found["boot_seconds"].endswith(" b-0")


def test_what_is_not_as_expected_is_told_as_it_is() -> None:
    odd = {"nodes": {"n": "x"}, "boot_seconds": {"a": "soon"}, "api": {"requests": {"get": True}}, "list": [1, 2]}
    assert dict(platform_facts.rows(odd)) == {
        "nodes.n": "x", "boot_seconds.a": "soon", "api.requests.get": "yes", "list": "1, 2"
    }  # fmt: skip


@pytest.mark.parametrize(("design", "status"), [("", "differs"), ("design: {vary: [provisioning]}", "varied")])
def test_classes_that_clone_in_different_ways_are_compared_only_if_that_is_the_question(
    design: str, status: str
) -> None:
    text = f"""
name: storms
platform: {{kind: kubevirt, image: "docker://x/y:1"}}
baseline: a
lanes:
  a: {{transport: storage_class, storage_class: a, clone: copy}}
  b: {{transport: storage_class, storage_class: b, clone: csi-clone}}
workloads: {{main: {{kind: clone, counts: [1]}}}}
{design}
"""
    study = parse_study(text, "x")
    seen = tuple(Observation(c.key, 0, lane, 0, "", {"job_time": 1e9}) for c in study.cells() for lane in study.lanes)
    table = table_of(Evidence("run", study, text, 1, (), seen, {}, {}, complete=True))
    (row,) = [row for row in table.rows if row.title == "provisioning"]
    assert (row.values, row.status) == (("copy", "csi-clone"), status)
