"""Several paths, a share, fleets, and lanes with machines of their own, on machines that nobody prepared."""

import json

import pytest

from tests.platforms.hosts import strangers_bench as b
from tests.platforms.hosts.strangers_bench import BOTH, MAP, SPACE, Room, clean, directory, iscsi, nvme, study

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_multipath_over_both_networks(room: Room) -> None:
    """dm-multipath with ALUA against native multipath with ANA; written, because destroy names the volumes."""
    lanes = {"i": iscsi(BOTH, multipath={}, destroy=MAP), "n": nvme(BOTH, multipath={}, destroy=SPACE)}
    with room.unchanged("alpha", "storage1"):
        clean(room.start(study(lanes, workloads=b.WRITES)))
    described = room.description()["lanes"]
    assert described["i"]["multipath.active"] == described["n"]["multipath.live"] == "2"
    assert len(room.trials()) == 4


def test_a_share_against_a_directory(room: Room) -> None:
    nfs = {"transport": "nfs", "external": {"server": "10.20.0.1", "share": "/srv/share"}}
    with room.unchanged("alpha", "storage1"):
        clean(room.start(study({"d": directory(), "n": nfs}, workloads=b.WRITES)))
    assert room.description()["lanes"]["n"]["file.bytes"] == str(16 * 2**20)


def test_a_fleet_begins_together_though_a_clock_is_wrong(room: Room) -> None:
    room.stand.set_clock("beta", 300)
    for host in ("alpha", "beta"):
        room.stand.sh(host, "mkdir -m 777 /data/one /data/other")
    lanes = {"a": directory("/data/one"), "b": directory("/data/other")}
    with room.unchanged("alpha", "beta"):
        clean(room.start(study(lanes, ("alpha", "beta"))))
    assert room.description()["lanes"]["a"]["machines"] == ["alpha", "beta"]
    verdicts = json.loads((room.run / "verdicts.json").read_text())
    assert [v["voided"] for v in verdicts if v["primary"]] == [0]
    for times in room.fleets():
        assert times["late"] == []
        assert abs(times["machines"]["beta"]["began"]) < times["limits"]["begin"]


def test_lanes_with_machines_of_their_own(room: Room) -> None:
    for host in ("alpha", "beta"):
        room.stand.sh(host, "mkdir -m 777 /data/one")
    lanes = {"a": directory("/data/one", machines=["alpha"]), "b": directory("/data/one", machines=["beta"])}
    with room.unchanged("alpha", "beta"):
        clean(room.start(study(lanes, ("alpha", "beta"))))
    assert "machines-differ" in room.findings()


def test_network_lanes_exchange_their_machines(room: Room) -> None:
    """Between provisionings, where the array is Fairlane's: each host then measured both transports."""
    array = {"machine": "storage1", "addresses": BOTH[:1], "folder": "/data", "first_port": 23260}
    lanes = {
        "i": {"transport": "iscsi", "machines": ["alpha"]},
        "n": {"transport": "nvme_tcp", "machines": ["beta"]},
    }
    with room.unchanged("alpha", "beta", "storage1"):
        clean(
            room.start(
                study(lanes, ("alpha", "beta"), design={"provisionings": 2, "looks": [4]}, platform={"array": array})
            )
        )
    assert room.description()["platform"]["exchange"] == ["i", "n"]
    later = json.loads((room.run / "descriptions" / "001.json").read_text())
    assert (later["lanes"]["i"]["machines"], later["lanes"]["n"]["machines"]) == (["beta"], ["alpha"])
    assert "machines-differ" not in room.findings()
