"""Comparisons on machines and an array that nobody prepared: what is built, read back, and left as it was."""

from typing import Any

import pytest

from tests.platforms.hosts import strangers_bench as b
from tests.platforms.hosts.strangers_bench import BOTH, Room, clean, iscsi, nvme, study

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_iscsi_against_nvme_tcp(room: Room) -> None:
    with room.unchanged("alpha", "storage1"):
        clean(room.start(study({"i": iscsi(), "n": nvme()}, design={"sessions": "block"})))
    lanes = room.description()["lanes"]
    assert lanes["i"]["volume.iqn"] == b.IQN
    assert lanes["n"]["volume.nqn"] == b.NQN
    assert lanes["i"]["device.bytes"] == lanes["n"]["device.bytes"] == str(512 * 2**20)
    assert lanes["i"]["initiator.name"] == "iqn.2010-06.org.site:alpha"
    assert len(room.trials()) == 4


def test_an_array_that_is_set_up_and_taken_down(room: Room) -> None:
    array = {"machine": "storage1", "addresses": BOTH, "folder": "/data", "first_port": 23260}
    lanes: dict[str, dict[str, Any]] = {
        "i": {"transport": "iscsi", "chap": True},
        "n": {"transport": "nvme_tcp", "multipath": {}},
    }
    with room.unchanged("alpha", "storage1"):
        clean(room.start(study(lanes, workloads=b.WRITES, platform={"array": array, "size": "24m"})))
    described = room.description()["lanes"]
    assert described["n"]["multipath.live"] == "2"
    assert described["i"]["device.bytes"] == str(24 * 2**20)
