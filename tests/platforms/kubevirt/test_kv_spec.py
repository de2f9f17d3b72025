"""What a study may say of a cluster: what is refused, and what follows."""

import re
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
    ("keys", "type_", "told"),
    [
        ({"fleet": 2, "nodes": 3}, "value_error", r"nodes.*\b3\b.*\b2\b"),
        ({"fleet": 6, "per_node": 2, "nodes": 3}, "value_error", r"fleet.*per_node"),
        ({"fleet": 1, "per_node": 1}, "value_error", r"fleet.*per_node"),
        ({"namespace": "Fairlane"}, "value_error", ""),
        ({"namespace": "a" * 64}, "value_error", "63"),
        ({"namespace": "a-"}, "value_error", ""),
        ({"namespace": "a\n"}, "value_error", ""),
        ({"image": "fedora:41"}, "value_error", "docker://"),
        ({"image": "docker://fedora:41 --privileged"}, "value_error", "docker://"),
        ({"image": "datasource:fedora"}, "value_error", "datasource:NAMESPACE/NAME"),
        ({"node_selector": {"a b": ""}}, "value_error", "a b"),
        ({"node_selector": {"a": "x y"}}, "value_error", "x y"),
        ({"cpus": 0}, "greater_than_equal", r"\b1\b"),
        ({"instance_type": "u1.medium", "cpus": 4}, "value_error", r"^.*\bcpus\b.*\bu1\.medium\b"),
        ({"instance_type": "u1.medium", "memory": "4GiB"}, "value_error", r"\bmemory\b.*\bu1\.medium\b"),
        ({"instance_type": "U1"}, "value_error", ""),
        ({"preference": "fedora/x"}, "value_error", ""),
        ({"root_class": "a\nb"}, "value_error", ""),
        ({"root_class": "-a"}, "value_error", ""),
        ({"node_probe_image": "docker://x"}, "value_error", "registry/name:tag"),
        ({"node_probe_image": "a b"}, "value_error", "registry/name:tag"),
        ({"reach": "ssh"}, "literal_error", "auto.*portforward.*direct"),
        ({"qps": 0}, "greater_than_equal", r"\b0\.1\b"),
        ({"qps": float("inf")}, "finite_number", ""),
        ({"burst": 0}, "greater_than_equal", r"\b1\b"),
        ({"boot_timeout": 60}, "value_error", "unit"),
    ],
)
def test_what_no_cluster_can_have_is_refused(keys: dict[str, Any], type_: str, told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        kubevirt(**keys)
    (error,) = refused.value.errors()
    assert error["type"] == type_
    assert error["loc"] == (tuple(keys) if len(keys) == 1 else ()), "one key is wrong, or several together"
    assert re.search(told, error["msg"])


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
