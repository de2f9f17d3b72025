"""KubeVirt and vSphere as the study describes them: what is refused, what follows, and that nothing runs."""

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.platforms.kubevirt import KubevirtSpec
from fairlane.platforms.vsphere import VsphereSpec
from fairlane.records import Block
from fairlane.study.load import load_study


def kubevirt(**keys: Any) -> KubevirtSpec:
    return KubevirtSpec.model_validate({"kind": "kubevirt", "image": "docker://fedora:41", **keys})


def vsphere(**keys: Any) -> VsphereSpec:
    least = {
        "kind": "vsphere", "server": "vcenter.example.com", "user": "u", "secret": {"env": "PASSWORD"},
        "datacenter": "DC", "cluster": "C", "template": "linux",
    }  # fmt: skip
    return VsphereSpec.model_validate({**least, **keys})


@pytest.mark.parametrize(
    ("keys", "machines"),
    [({}, 1), ({"nodes": 3}, 1), ({"fleet": 10, "nodes": 3}, 10), ({"per_node": 50, "nodes": 3}, 150)],
)
def test_machines_of_a_lane(keys: dict[str, int], machines: int) -> None:
    hosts = {key.replace("node", "host"): value for key, value in keys.items()}
    assert kubevirt(**keys).known()["fleet"] == vsphere(**hosts).known()["fleet"] == machines


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
    ],
)
def test_what_a_cluster_can_have(keys: dict[str, Any]) -> None:
    kubevirt(**keys)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"fleet": 2, "hosts": 3}, "3 for 2 machines"),
        ({"fleet": 2, "per_host": 2}, "give fleet or per_host"),
        ({"server": "https://vcenter"}, "without scheme"),
        ({"server": "vcenter:443"}, "without scheme"),
        ({"template": ""}, "1 to 80 printable"),
        ({"template": "a" * 81}, "1 to 80 printable"),
        ({"cluster": "a\u202eb"}, "printable"),
        ({"secret": {"env": "A", "file": "b"}}, "one of them"),
        ({"secret": {"password": "x"}}, "Extra inputs"),
    ],
)
def test_what_no_vcenter_can_have_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        vsphere(**keys)


def test_a_password_has_no_place_in_a_study() -> None:
    assert "password" not in VsphereSpec.model_fields
    assert vsphere().model_dump()["secret"] == {"env": "PASSWORD", "file": ""}


@pytest.mark.parametrize("name", ["study-000-fio", "study-001-roce"])
def test_nothing_can_be_opened_or_run(name: str) -> None:
    study = load_study(name)[0]
    platform = registry.load("platforms", study.platform.kind).of(study)
    (problem,) = platform.problems()
    assert problem.message == f"platform {study.platform.kind!r} is described, not carried out yet"

    async def opened() -> None:
        async with platform:
            await platform.open(print)

    with pytest.raises(FairlaneError, match="described, not carried out yet"):
        asyncio.run(opened())
    with pytest.raises(FairlaneError, match="described, not carried out yet"):
        platform.run_block(Block(study.cells()[0], 0, tuple(study.lanes), 1))
