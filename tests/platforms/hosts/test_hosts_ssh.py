"""Platform hosts over a real sshd on loopback, with the user's own ssh and a configuration that is in the way."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.process import judged
from tests.platforms.hosts.hosts_bench import Bench, Sshd, identity, lines, loads, shells, sshd, study, until
from tests.words import kinds

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def bench(tmp_path: Path, server: Sshd) -> Bench:
    return Bench(tmp_path, server.environment())


@pytest.mark.slow
@pytest.mark.parametrize("host", ["alpha", "behind"])
def test_a_machine_is_measured_through_the_users_ssh(bench: Bench, host: str) -> None:
    """Its configuration forwards a port, forces a terminal and a command, does not check host keys, and reaches
    ``behind`` over another machine only."""
    machines = {"machines": {"one": host}}
    file = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}, platform=machines))
    run = bench.folder / "run"
    done = bench.run("run", str(file), "--out", str(run))
    assert done.returncode == 0, done.stderr
    described = json.loads((run / "description.json").read_text())
    assert described["platform"]["machines"]["one"]["destination"] == host
    assert bench.files() == []


@pytest.mark.slow
def test_paths_of_another_machine_in_one_command(bench: Bench) -> None:
    old, new = (f"alpha:{bench.lane(name)['path']}" for name in ("old", "new"))
    words = ("--rw", "randread", "--blocks", "6", "--runtime", "200ms", "--size", "8m", "--shared")
    planned = bench.run("versus", old, new, *words, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "needs      alpha: no root; programs: fio" in planned.stdout
    assert not (bench.folder / "runs").exists()
    done = bench.run("versus", old, new, *words, "--out", str(bench.folder / "run"))
    assert done.returncode == 0, done.stderr
    assert len(judged(bench.folder / "run")) == 12
    assert bench.files() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "kind"),
    [("wrong", "host-key"), ("unknown", "host-key"), ("denied", "ssh-denied"), ("closed", "unreachable"),
     ("no-such-host.invalid", "host-unknown")],
)  # fmt: skip
def test_a_machine_that_cannot_be_reached_is_one_clear_error(bench: Bench, host: str, kind: str) -> None:
    file = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}, platform={"machines": {"one": host}}))
    done = bench.run("run", str(file), "--out", str(bench.folder / "run"))
    assert (done.returncode, kinds(done.stderr)) == (1, [kind]), done.stderr
    doctor = bench.run("doctor", str(file), "--format", "json")
    assert doctor.returncode == 1
    (line,) = [line for line in json.loads(doctor.stdout) if line["state"] == "missing"]
    assert (line["name"], line["kind"]) == ("one", kind)


@pytest.mark.slow
def test_the_doctor_tries_a_login_a_write_and_fio(bench: Bench) -> None:
    file = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}, platform={"machines": {"one": "alpha"}}))
    done = bench.run("doctor", str(file), "--format", "json")
    assert done.returncode == 0, done.stdout
    names = [line["name"] for line in json.loads(done.stdout)]
    assert {"one", "one: programs", "a on one", "b on one"} <= set(names)
    assert bench.files() == []


@pytest.mark.slow
@pytest.mark.parametrize("end", ["connection", "shells"])
def test_a_connection_that_ends_within_a_trial_is_mended_and_its_block_done_again(
    bench: Bench, server: Sshd, end: str
) -> None:
    load = {"main": {"kind": "fio", "rw": ["randread"], "runtime": "3s"}}
    own = {"machines": {"one": "alpha"}}
    file = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}, platform=own, workloads=load))
    run = bench.folder / "run"
    with bench.running("run", str(file), "--out", str(run)) as process:
        until(lambda: (run / "run.json").exists() and loads(identity(run)), bench.output)
        for pid in server.sessions() if end == "connection" else shells(identity(run)):
            os.kill(pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0, bench.output
    assert [line["error"] for line in lines(run) if line["type"] == "block-failed"] == ["machine-lost"]
    assert [line["type"] for line in lines(run) if line["type"] in ("rebuilt", "retry")] == ["retry", "rebuilt"]
    assert len(judged(run)) == 4
    until(lambda: not bench.files() and not loads(identity(run)))


@pytest.mark.slow
def test_a_killed_run_leaves_nothing_on_a_machine_behind_ssh(bench: Bench) -> None:
    load = {"main": {"kind": "fio", "rw": ["randwrite"], "runtime": "60s"}}
    own = {"machines": {"one": "alpha"}}
    file = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}, platform=own, workloads=load))
    run = bench.folder / "run"
    with bench.running("run", str(file), "--out", str(run)) as process:
        until(lambda: (run / "run.json").exists() and loads(identity(run)), bench.output)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    until(lambda: not bench.files() and not loads(identity(run)))
    done = bench.run("hosts", "clean", "alpha", "--run", identity(run))
    assert done.returncode == 0, done.stderr
    assert not Path(f"/var/tmp/fairlane-{identity(run)}").exists()
