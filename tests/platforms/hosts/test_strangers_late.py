"""A machine of a fleet that was not under load with the others voids the trial."""

import pytest

from tests.platforms.hosts import strangers_bench as b
from tests.platforms.hosts.strangers_bench import Room, directory, study

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_a_machine_that_stood_still(room: Room) -> None:
    for host in ("alpha", "beta"):
        room.stand.sh(host, "mkdir -m 777 /data/one /data/other")
    lanes = {"a": directory("/data/one"), "b": directory("/data/other")}
    load = {"main": {**b.READS["main"], "runtime": "3s"}}
    with room.going(study(lanes, ("alpha", "beta"), workloads=load), "beta") as process:
        room.stand.sh("beta", "pkill -STOP -x fio; sleep 20; pkill -CONT -x fio")
        process.wait()
    assert process.returncode == 0, room.bench.output
    late = [times["late"] for times in room.fleets() if times["late"]]
    assert len(late) == 1
    assert all(text.startswith("beta ") for text in late[0])
    assert "some-failed" in room.findings()
