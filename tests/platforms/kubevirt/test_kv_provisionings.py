"""Provisionings in a cluster: other nodes and another order each time, and objects of their own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlane.errors import RunFailed
from fairlane.platforms.kubevirt import placement
from fairlane.platforms.lab.wall import rootfs
from testkit.control_plane import ControlPlane
from testkit.play.controller import Play
from testkit.play.lab import LabMachines
from testkit.play.site import Class, Site
from testkit.stand import Program, Stand
from tests.platforms.kubevirt import furnished
from tests.words import kind

STUDY = """
name: anew
platform:
  kind: kubevirt
  image: docker://registry.invalid/lab:1
  install: false
  cpus: 1
  memory: 512MiB
  disk_size: 16MiB
  nodes: 1
  boot_timeout: 10m
  settle: 0s
  node_probes: "off"
lanes:
  one: { transport: storage_class, storage_class: fast, protocol: local }
  two: { transport: storage_class, storage_class: fast, protocol: local }
baseline: one
conditions: { copies: 1, write_ack: after one copy, flush: honoured, link_speed: none }
workloads:
  disk: { kind: fio, rw: [randread], bs: [4k], iodepth: [4], runtime: 1s, ramp: 0s, prefill: true }
design: { provisionings: 2 }
"""


def names(nodes: Any) -> list[str]:
    return [node["metadata"]["name"] for node in nodes]


def test_each_provisioning_begins_at_the_next_usable_node() -> None:
    nodes = [furnished.node(name, status=furnished.allocatable()) for name in ("d", "c", "b", "a")]
    nodes[1]["spec"] = {"unschedulable": True}
    one, two = furnished.study("nodes: 2 -> nodes: 1"), furnished.study()
    assert [names(placement.chosen(nodes, one, p)) for p in range(4)] == [["a"], ["b"], ["d"], ["a"]]
    assert [names(placement.chosen(nodes, two, p)) for p in range(4)] == [
        ["a", "b"], ["b", "d"], ["d", "a"], ["a", "b"],
    ]  # fmt: skip
    assert placement.usable(nodes, two) == ["a", "b", "d"]
    with pytest.raises(RunFailed, check=kind("nodes-missing")):
        placement.chosen(nodes[:2], two, 1)


@pytest.fixture
def stand(plane: ControlPlane) -> Iterator[Stand]:
    root = rootfs.cached_root()
    if root is None:
        pytest.skip("the lab's root disk is not built: run fairlane lab build --wall (once, two minutes)")
    classes = [Class("fast", "local.csi.test")]
    with Stand(Play(plane.kubeconfig(), site=Site(classes=classes), machines=LabMachines(root))) as stand:
        yield stand


def left(plane: ControlPlane) -> list[str]:
    """What runs left in the cluster: namespaces, and volumes of claims in them."""
    spaces = plane.call("GET", "/api/v1/namespaces?labelSelector=app.kubernetes.io/managed-by%3Dfairlane")["items"]
    volumes = plane.call("GET", "/api/v1/persistentvolumes")["items"]
    claimed = [v for v in volumes if v["spec"].get("claimRef", {}).get("namespace", "").startswith("fairlane-")]
    return [one["metadata"]["name"] for one in [*spaces, *claimed]]


@pytest.mark.cluster
@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_machines_and_claims_of_the_second_are_other_ones_on_another_node(
    plane: ControlPlane, stand: Stand, tmp_path: Path
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    code, output = Program(plane.kubeconfig(), tmp_path).run("run", "study.yaml", "--out", "run")
    assert code == 0, output
    folder = tmp_path / "run"
    events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    opened = [e for e in events if "provisioning" in e]
    assert [(e["type"], e["provisioning"]) for e in opened] == [("start", 0), ("provision", 1)]
    assert "changed" not in opened[1], "other nodes are no other cluster"
    first, second = (json.loads((folder / e["description"]).read_text()) for e in opened)
    for lane in ("one", "two"):
        old, new = (told["platform"]["uids"][lane] for told in (first, second))
        for what, name in (("machines", f"{lane}-0"), ("volumes", f"{lane}-0-disk0")):
            assert old[what][name]
            assert new[what][name]
            assert old[what][name] != new[what][name]
        assert all(told["lanes"][lane]["prefill.bytes_written"] == 16 * 2**20 for told in (first, second))
    nodes = [told["lanes"]["one"]["machines"]["one-0"] for told in (first, second)]
    assert nodes[0] != nodes[1]
    assert nodes == [told["lanes"]["two"]["machines"]["two-0"] for told in (first, second)]
    assert not left(plane)
