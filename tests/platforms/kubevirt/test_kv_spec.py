"""What a study may say of a cluster: what is refused, and what follows."""

from typing import Any

import pytest
from pydantic import ValidationError

from fairlane.platforms.kubevirt.spec import KubevirtSpec


def kubevirt(**keys: Any) -> KubevirtSpec:
    return KubevirtSpec.model_validate({"kind": "kubevirt", "image": "docker://fedora:41", **keys})


@pytest.mark.parametrize(
    ("keys", "machines"),
    [({}, 1), ({"nodes": 3}, 1), ({"fleet": 10, "nodes": 3}, 10), ({"per_node": 50, "nodes": 3}, 150)],
)
def test_machines_of_a_lane(keys: dict[str, int], machines: int) -> None:
    assert kubevirt(**keys).known()["fleet"] == machines


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"fleet": 2, "nodes": 3}, "3 for 2 machines: the others would be empty"),
        ({"fleet": 6, "per_node": 2, "nodes": 3}, "give fleet or per_node, not both"),
        ({"fleet": 1, "per_node": 1}, "give fleet or per_node, not both"),
        ({"namespace": "Fairlane"}, "lower-case letters"),
        ({"namespace": "a" * 64}, "at most 63"),
        ({"namespace": "a-"}, "lower-case letters"),
        ({"namespace": "a\n"}, "lower-case letters"),
        ({"image": "fedora:41"}, "docker://IMAGE"),
        ({"image": "docker://fedora:41 --privileged"}, "docker://IMAGE"),
        ({"image": "datasource:fedora"}, "docker://IMAGE"),
        ({"node_selector": {"a b": ""}}, "a label of Kubernetes"),
        ({"node_selector": {"a": "x y"}}, "a label of Kubernetes"),
        ({"cpus": 0}, "greater than or equal to 1"),
        ({"instance_type": "u1.medium", "cpus": 4}, "cpus: instance_type u1.medium says it"),
        ({"instance_type": "u1.medium", "memory": "4GiB"}, "memory: instance_type u1.medium says it"),
        ({"instance_type": "U1"}, "expected a name as Kubernetes has it"),
        ({"preference": "fedora/x"}, "expected a name as Kubernetes has it"),
        ({"root_class": "a\nb"}, "expected a name as Kubernetes has it"),
        ({"root_class": "-a"}, "expected a name as Kubernetes has it"),
        ({"node_probe_image": "docker://x"}, "registry/name:tag"),
        ({"node_probe_image": "a b"}, "registry/name:tag"),
        ({"reach": "ssh"}, "'auto', 'portforward' or 'direct'"),
        ({"qps": 0}, "greater than or equal to 0.1"),
        ({"qps": float("inf")}, "finite"),
        ({"burst": 0}, "greater than or equal to 1"),
        ({"boot_timeout": 60}, "the unit is missing"),
    ],
)
def test_what_no_cluster_can_have_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        kubevirt(**keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"image": "https://example.com/fedora.qcow2"},
        {"image": "datasource:openshift-virtualization-os-images/fedora"},
        {"node_selector": {"node-role.kubernetes.io/worker": "", "zone": "a"}},
        {"namespace": "a" * 63},
        {"instance_type": "u1.medium", "preference": "centos.stream9"},
        {"root_class": "ocs-storagecluster-ceph-rbd-virtualization"},
        {"node_probe_image": "quay.io/prometheus/node-exporter@sha256:0f"},
        {"boot_timeout": "20m", "qps": 0.5, "burst": 1, "reach": "direct", "node_probes": "off"},
    ],
)
def test_what_a_cluster_can_have(keys: dict[str, Any]) -> None:
    kubevirt(**keys)


def test_what_an_instance_type_says_is_not_known_before_it_is_read_back() -> None:
    sized = {"vm_cpus", "vm_memory"}
    assert sized <= kubevirt().known().keys()
    assert not sized & kubevirt(instance_type="u1.medium").known().keys()


@pytest.mark.parametrize(
    ("image", "container"),
    [
        ("docker://quay.io/containerdisks/fedora:41", "quay.io/containerdisks/fedora:41"),
        ("https://example.com/docker://x", ""),
        ("datasource:os/fedora", ""),
    ],
)
def test_only_a_container_image_is_a_container_disk(image: str, container: str) -> None:
    assert kubevirt(image=image).container_disk == container
