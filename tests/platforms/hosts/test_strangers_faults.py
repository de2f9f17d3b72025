"""What goes wrong in machine rooms: one clear error, or a run that goes on with all its trials."""

import os
import random
import signal
import subprocess
from contextlib import suppress

import pytest

from tests.platforms.hosts import strangers_bench as b
from tests.platforms.hosts.hosts_bench import lines, until
from tests.platforms.hosts.strangers_bench import BOTH, MAP, Room, clean, device, directory, iscsi, nvme, study
from tests.words import kinds

pytestmark = [pytest.mark.lab, pytest.mark.slow]

TWO = {"a": directory(), "b": device()}


def whole(room: Room) -> None:
    """The run ended with all its trials, or does once it is resumed."""
    if not any(line["type"] == "end" for line in lines(room.run)):
        clean(room.resume())
    assert len(room.trials()) == 4


def test_another_host_key(room: Room) -> None:
    room.stand.rotate_host_key("alpha")
    refused = room.start(study(TWO))
    assert (refused.returncode, kinds(refused.stderr)) == (1, ["host-key"]), refused.stderr


def test_no_right_to_become_root(room: Room) -> None:
    refused = room.start(study(TWO, ("alpha-visitor",)))
    assert (refused.returncode, kinds(refused.stderr)) == (1, ["no-root"]), refused.stderr


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("mv $(command -v fio) /root/fio", "program-missing"),
        (r"printf '#!/bin/sh\necho fio-2.2.10\n' > /usr/sbin/fio; chmod 755 /usr/sbin/fio", "fio-old"),
    ],
    ids=["none", "old"],
)
def test_a_machine_without_the_fio_that_is_needed(room: Room, change: str, kind: str) -> None:
    room.stand.sh("alpha", change)
    refused = room.start(study(TWO))
    assert (refused.returncode, kinds(refused.stderr)) == (1, [kind]), refused.stderr


def test_sshd_that_dies_within_a_trial(room: Room) -> None:
    with room.unchanged("alpha"):
        with room.going(study(TWO, workloads=b.LONG)) as process:
            room.stand.kill_sshd("alpha")
            until(lambda: "reconnecting to the machines" in room.bench.output, "", b.PATIENCE)
            room.stand.start_sshd("alpha")
            process.wait()
        whole(room)


def test_a_device_that_is_pulled_out(room: Room) -> None:
    with room.going(study(TWO, workloads=b.LONG)) as process:
        room.stand.remove_device("alpha", "alpha-spare")
        process.wait()
    assert process.returncode in (1, 3), room.bench.output
    assert kinds(room.bench.output)[-1] in ("link-broken", "device-missing", "device-gone", "identity-gone")


def test_a_disk_that_prepare_has_filled(room: Room) -> None:
    content = study(
        {"a": directory(), "b": device()},
        platform={
            "prepare": "dd if=/dev/zero of=/data/filler bs=1M 2> /dev/null || :",
            "conclude": "rm -f /data/filler",
        },
    )
    with room.unchanged("alpha"):
        refused = room.start(content)
    assert (refused.returncode, kinds(refused.stderr)) == (1, ["no-space"]), refused.stderr


def test_a_machine_that_is_reset_within_a_trial(room: Room) -> None:
    patient = {"return_timeout": "30m"}  # an emulated machine boots for minutes on a busy host
    with room.going(study({"a": directory(), "i": iscsi()}, workloads=b.LONG, platform=patient)) as process:
        room.stand.reset("alpha")
        process.wait()
    assert any(line["type"] == "rebuilt" for line in lines(room.run)), room.bench.output
    whole(room)
    assert room.stand.sh("alpha", "ls /var/tmp; find /data -name '.fairlane*'") == ""


def test_a_program_that_is_killed_at_ten_moments(room: Room) -> None:
    """And resumed each time, until it is killed again; then to its end."""
    content = study({"i": iscsi(BOTH, multipath={}), "n": nvme(BOTH, multipath={})})
    moments = [60 * (place + random.Random(place).random()) / 10 for place in range(10)]  # noqa: S311
    random.Random(1).shuffle(moments)  # noqa: S311
    with room.unchanged("alpha", "storage1"):
        words: tuple[str, ...] = ("run", str(room.bench.write(content)), "--out", str(room.run))
        for moment in moments:
            with room.bench.running(*words) as process:
                until((room.run / "run.json").exists, room.bench.output)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(moment)
                process.kill()
                process.wait()
            words = ("run", "--resume", str(room.run))
        whole(room)


@pytest.mark.parametrize(("lane", "code", "kind"), [("i", 3, "script-failed"), ("n", 1, "not-there")])
def test_a_portal_that_is_down(room: Room, lane: str, code: int, kind: str) -> None:
    """LIO accepts connections and no login; nvmet does not listen any more."""
    room.stand.portal_down(0)
    one = iscsi() if lane == "i" else nvme()
    with room.unchanged("alpha"):
        refused = room.start(study({"a": directory(), lane: one}))
    assert (refused.returncode, kinds(refused.stderr)) == (code, [kind]), refused.stderr


def test_a_path_that_goes_down_within_a_trial(room: Room) -> None:
    """The other path carries the load, and the report says so; sessions of the next block need both."""
    content = study({"a": directory(), "n": nvme(BOTH, multipath={})}, workloads=b.LONG)
    with room.going(content) as process:
        until(lambda: room.opened("nvme"), "the lane is never loaded", b.PATIENCE)
        room.stand.portal_down(1)
        process.wait()
    assert (process.returncode, kinds(room.bench.output)) == (3, ["blocks-missing"]), room.bench.output
    assert "connect n with nvme-tcp" in room.bench.output
    room.stand.portal_down(1, up=True)
    clean(room.resume())
    assert len(room.trials()) == 4
    assert {"idle", "uneven", "missing"} & set(room.findings())


@pytest.mark.parametrize("lane", ["i", "n"])
def test_somebody_is_connected_already(room: Room, lane: str) -> None:
    one = iscsi() if lane == "i" else nvme()
    own = (
        f"iscsiadm -m discovery -t sendtargets -p 10.20.0.1 > /dev/null; iscsiadm -m node -T {b.IQN} -p 10.20.0.1 -l"
        if lane == "i"
        else f"modprobe nvme-tcp; nvme connect -t tcp -a 10.20.0.1 -s 4420 -n {b.NQN}"
    )
    room.stand.sh("alpha", f"{own} > /dev/null; udevadm settle")
    with room.unchanged("alpha", "storage1"):
        refused = room.start(study({"a": directory(), lane: one}))
    assert (refused.returncode, kinds(refused.stderr)) == (3, ["script-failed"]), refused.stderr


def test_multipathd_with_a_configuration_of_the_users(room: Room) -> None:
    room.stand.sh(
        "alpha",
        """
modprobe -a dm_multipath scsi_dh_alua dm_service_time
multipathd
until multipathd show status > /dev/null 2>&1; do sleep 0.2; done
""",
    )
    with room.unchanged("alpha", "storage1"):
        clean(room.start(study({"a": directory(), "i": iscsi(BOTH, multipath={}, destroy=MAP)})))
    described = room.description()["lanes"]["i"]
    assert described["multipathd.configuration"].startswith("the machine's")
    assert described["multipath.active"] == "2"


def test_a_signal_within_a_trial_ends_the_load(room: Room) -> None:
    with room.unchanged("alpha"):
        with room.going(study(TWO, workloads=b.LONG)) as process:
            os.kill(process.pid, signal.SIGTERM)
            process.wait()
        assert process.returncode == 130, room.bench.output
        assert room.loads() == []
