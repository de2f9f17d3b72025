"""vSphere as the study describes it: what is refused, what follows, and that nothing runs."""

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.platforms.vsphere import VsphereSpec
from fairlane.records import Block
from fairlane.study.load import load_study


def vsphere(**keys: Any) -> VsphereSpec:
    least = {
        "kind": "vsphere", "server": "vcenter.example.com", "user": "u", "secret": {"env": "PASSWORD"},
        "datacenter": "DC", "cluster": "C", "template": "linux",
    }  # fmt: skip
    return VsphereSpec.model_validate({**least, **keys})


@pytest.mark.parametrize(
    ("keys", "machines"),
    [({}, 1), ({"hosts": 3}, 1), ({"fleet": 10, "hosts": 3}, 10), ({"per_host": 50, "hosts": 3}, 150)],
)
def test_machines_of_a_lane(keys: dict[str, int], machines: int) -> None:
    assert vsphere(**keys).known()["fleet"] == machines


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


@pytest.mark.parametrize("name", ["study-001-roce", "study-002-rac"])
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
