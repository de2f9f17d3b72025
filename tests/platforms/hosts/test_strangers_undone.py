"""A run that was killed, stopped or ended leaves the machines as they were."""

import os
import signal

import pytest

from tests.platforms.hosts import strangers_bench as b
from tests.platforms.hosts.hosts_bench import identity, until
from tests.platforms.hosts.strangers_bench import BOTH, MAP, SPACE, Room, clean, directory, iscsi, nvme, study

pytestmark = [pytest.mark.lab, pytest.mark.slow]

ARRAY = {"machine": "storage1", "addresses": BOTH, "folder": "/data", "first_port": 23260}
HOSTS = ("alpha", "beta", "storage1")


def everything() -> dict[str, object]:
    """A study with all that can be left on both hosts and the array: sessions, maps, files, a target."""
    lanes = {
        "i": iscsi(BOTH, multipath={}, destroy=MAP, machines=["alpha"]),
        "n": nvme(BOTH, multipath={}, destroy=SPACE, machines=["beta"]),
        "d": directory(),
        "y": {"transport": "nvme_tcp", "machines": ["alpha"]},
    }
    return study(lanes, ("alpha", "beta"), workloads=b.LONG, platform={"array": ARRAY})


def some() -> dict[str, object]:
    """A smaller one, on the same machines."""
    lanes = {
        "i": iscsi(BOTH, multipath={}, destroy=MAP, machines=["alpha"]),
        "y": {"transport": "nvme_tcp", "machines": ["beta"]},
    }
    return study(lanes, ("alpha", "beta"), workloads=b.LONG, platform={"array": ARRAY})


def test_after_a_killed_run_and_clean(room: Room) -> None:
    with room.unchanged(*HOSTS):
        with room.going(everything()) as process:
            run = identity(room.run)
            for host in HOSTS:  # so that nothing is tidied up by whoever is left
                room.stand.sh(host, f"kill -KILL $(cut -d ' ' -f 1 /var/tmp/fairlane-{run}/keeper)")
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        clean(room.bench.run("hosts", "clean", "alpha", "beta", "storage1"))


def test_after_a_killed_run_whose_keepers_live(room: Room) -> None:
    with room.unchanged(*HOSTS):
        with room.going(some()) as process:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        until(lambda: not room.loads("alpha") and not room.loads("beta"), "loads go on")
        clean(room.bench.run("hosts", "clean", str(room.bench.folder / "study.yaml")))


def test_after_an_interrupted_run(room: Room) -> None:
    with room.unchanged(*HOSTS):
        with room.going(some()) as process:
            os.kill(process.pid, signal.SIGINT)
            process.wait()
        assert process.returncode == 130, room.bench.output
        assert room.stand.sh("alpha", "ls /var/tmp") == ""


def test_after_a_run_to_its_end(room: Room) -> None:
    with room.unchanged(*HOSTS):
        clean(room.start({**some(), "workloads": b.WRITES}))
