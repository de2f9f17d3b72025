"""Platform hosts on this machine, with real fio in real directories, files and loop devices."""

import json
import os
import platform
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from testkit.process import judged
from tests.platforms.hosts.hosts_bench import WORK, Bench, identity, lines, loads, study, until
from tests.words import kinds

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A loop device of 16 MiB, by its identity."""
    file = tmp_path / "disk"
    with file.open("wb") as handle:
        handle.write(os.urandom(2**20))
        handle.truncate(16 * 2**20)
    for number in range(300, 340):
        node = f"/dev/loop{number}"
        if subprocess.run(["losetup", node, str(file)], check=False, capture_output=True).returncode == 0:
            yield f"loop:{file}"
            subprocess.run(["losetup", "--detach", node], check=True)
            return
    pytest.skip("no loop device from 300 to 339 is free")


@pytest.mark.slow
def test_two_directories_are_compared_and_left_as_they_were(bench: Bench) -> None:
    file = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b c")}))
    run = bench.folder / "run"
    done = bench.run("run", str(file), "--out", str(run))
    assert done.returncode == 0, done.stderr
    (verdict,) = [v for v in json.loads((run / "verdicts.json").read_text()) if v["primary"]]
    assert (verdict["lane"], verdict["blocks"], verdict["voided"]) == ("b", 2, 0)
    assert verdict["baseline_value"] > 0 < verdict["lane_value"]
    described = json.loads((run / "description.json").read_text())
    assert described["lanes"]["b"]["file.path"] == str(bench.folder / "b c" / f".fairlane-{identity(run)}-b")
    assert described["lanes"]["b"]["prefill.bytes_written"] == 8 * 2**20
    assert described["lanes"]["a"]["conditions"]["vm_cpus"] == os.cpu_count()
    assert described["platform"]["machines"]["here"]["kernel"] == os.uname().release
    assert bench.files() == []
    assert not (WORK / f"fairlane-{identity(run)}").exists()


@pytest.mark.slow
def test_every_block_of_a_cell_has_a_file_of_its_own(bench: Bench) -> None:
    load = {"main": {"kind": "fio", "rw": ["randread", "randwrite"], "runtime": "200ms"}}
    file = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}, workloads=load))
    run = bench.folder / "run"
    done = bench.run("run", str(file), "--out", str(run))
    assert done.returncode == 0, done.stderr
    assert len([line for line in lines(run) if line["type"] == "trial"]) == 8
    assert done.stderr.count("filling a") == 2  # two rounds of two cells


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_killed_run_leaves_no_file_and_is_resumed(bench: Bench, seed: int) -> None:
    load = {"main": {"kind": "fio", "rw": ["randwrite"], "runtime": "600ms"}}
    file = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}, workloads=load, platform={"size": "64m"}))
    run = bench.folder / "run"
    chance = random.Random(seed)  # noqa: S311 - moments of kills
    number = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[seed % 3]
    with bench.running("run", str(file), "--out", str(run)) as process:
        until(lambda: bench.files() or process.poll() is not None, bench.output)
        pause = chance.uniform(0, 4)
        try:
            process.wait(pause)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, number)
        process.wait()
    until(lambda: not bench.files() and not loads(identity(run)), f"left: {bench.files()} {loads(identity(run))}")
    done = bench.run("run", "--resume", str(run))
    assert done.returncode == 0, done.stderr
    assert len(judged(run)) == 4
    assert bench.files() == []
    assert not (WORK / f"fairlane-{identity(run)}").exists()


@pytest.mark.slow
def test_what_even_the_keeper_left_is_cleaned(bench: Bench) -> None:
    mark = bench.folder / "concluded"
    load = {"main": {"kind": "fio", "rw": ["randread"], "runtime": "60s"}}
    own = {"prepare": "echo hello", "conclude": f"touch {mark}"}
    file = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}, workloads=load, platform=own))
    run = bench.folder / "run"
    with bench.running("run", str(file), "--out", str(run)) as process:
        until(lambda: (run / "run.json").exists() and loads(identity(run)), bench.output)
        going = bench.run("hosts", "clean", "--run", identity(run))
        assert going.returncode == 0
        assert bench.files() != []  # it goes on and stays
        keeper = (WORK / f"fairlane-{identity(run)}" / "keeper").read_text().split()[0]
        os.kill(int(keeper), signal.SIGKILL)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert len(bench.files()) == 2
    listed = bench.run("hosts", "clean", "--dry-run", "--run", identity(run))
    assert listed.returncode == 0
    assert len(bench.files()) == 2
    done = bench.run("hosts", "clean", "--run", identity(run))
    assert done.returncode == 0, done.stderr
    assert bench.files() == []
    assert mark.exists()
    assert loads(identity(run)) == []
    assert not (WORK / f"fairlane-{identity(run)}").exists()


@pytest.mark.slow
def test_a_machine_in_use_is_refused(bench: Bench) -> None:
    load = {"main": {"kind": "fio", "rw": ["randread"], "runtime": "60s"}}
    first = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}, workloads=load))
    run = bench.folder / "run"
    with bench.running("run", str(first), "--out", str(run)) as process:
        until(lambda: (run / "run.json").exists() and loads(identity(run)), bench.output)
        second = bench.folder / "second.yaml"
        second.write_text(json.dumps(study({"a": bench.lane("c"), "b": bench.lane("d")}, platform={"alone": True})))
        refused = bench.run("run", str(second), "--out", str(bench.folder / "second"))
        assert process.poll() is None
    assert (refused.returncode, kinds(refused.stderr)) == (3, ["machine-busy"])
    until(lambda: not bench.files())


@root
def test_a_keeper_of_another_user_counts_if_its_process_is_that_users(tmp_path: Path) -> None:
    text = (resources.files("fairlane.living") / "guest" / "alive.sh").read_text()
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]

    def alive(pid: int, owner: int) -> str:
        file = tmp_path / f"keeper-{owner}-{pid}"
        file.write_text(f"{pid} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]} night study\n")
        os.chown(file, owner, owner)
        script = f'{text}\nalive "$1" && echo "$who"'
        return subprocess.run(["sh", "-c", script, "-", file], capture_output=True, text=True, check=False).stdout

    with subprocess.Popen([*nobody, "sleep", "1000"]) as theirs:
        until(lambda: Path(f"/proc/{theirs.pid}/comm").read_text() == "sleep\n")
        assert alive(theirs.pid, 65534) == "night study\n"
        assert alive(os.getpid(), 0) == "night study\n"
        assert alive(os.getpid(), 65534) == "", "anybody may write the pid of a process that is not his"
        theirs.kill()


@pytest.mark.slow
def test_own_commands_run_around_the_lanes_and_their_output_is_kept(bench: Bench) -> None:
    own = {"prepare": "echo made by prepare", "conclude": f"ls {bench.folder}/a > {bench.folder}/end; echo bye"}
    file = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}, platform=own))
    run = bench.folder / "run"
    done = bench.run("run", str(file), "--out", str(run))
    assert done.returncode == 0, done.stderr
    described = json.loads((run / "description.json").read_text())
    assert described["platform"]["prepared"] == {"here": "made by prepare\n"}
    assert (bench.folder / "end").read_text() == ""  # after the lane was taken apart
    assert [line["outputs"] for line in lines(run) if line["type"] == "concluded"] == [{"here": "bye\n"}]
    failing = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}, platform={"prepare": "echo no; false"}))
    broken = bench.run("run", str(failing), "--out", str(bench.folder / "broken"))
    assert (broken.returncode, kinds(broken.stderr)) == (3, ["script-failed"])
    assert bench.files() == []


@pytest.mark.slow
@root
def test_a_device_is_written_only_if_it_is_named(bench: Bench, loop: str) -> None:
    before = (bench.folder / "disk").read_bytes()
    device = {"transport": "device", "identity": loop}
    write = {"main": {"kind": "fio", "rw": ["randwrite"], "runtime": "200ms", "prefill": False}}
    file = bench.write(study({"a": bench.lane("a"), "d": device}, workloads=write))
    refused = bench.run("run", str(file), "--out", str(bench.folder / "refused"))
    assert (refused.returncode, kinds(refused.stderr)) == (1, ["kept-written"])
    read = {"main": {"kind": "fio", "rw": ["randread"], "runtime": "200ms", "prefill": False}}
    file = bench.write(study({"a": bench.lane("a"), "d": device}, workloads=read))
    done = bench.run("run", str(file), "--out", str(bench.folder / "read"))
    assert done.returncode == 0, done.stderr
    assert (bench.folder / "disk").read_bytes() == before
    file = bench.write(study({"a": bench.lane("a"), "d": {**device, "destroy": loop}}, workloads=write))
    done = bench.run("run", str(file), "--out", str(bench.folder / "written"))
    assert done.returncode == 0, done.stderr
    assert (bench.folder / "disk").read_bytes() != before


@pytest.mark.slow
def test_an_existing_file_is_read_and_never_written(bench: Bench) -> None:
    content = os.urandom(8 * 2**20)
    (bench.folder / "data").write_bytes(content)
    kept = {"transport": "file", "path": str(bench.folder / "data")}
    write = {"main": {"kind": "fio", "rw": ["randwrite"], "runtime": "200ms"}}
    file = bench.write(study({"a": bench.lane("a"), "f": kept}, workloads=write))
    refused = bench.run("run", str(file), "--out", str(bench.folder / "refused"))
    assert kinds(refused.stderr) == ["kept-written"]
    read = {"main": {"kind": "fio", "rw": ["randread"], "runtime": "200ms"}}
    file = bench.write(study({"a": bench.lane("a"), "f": kept}, workloads=read))
    done = bench.run("run", str(file), "--out", str(bench.folder / "read"))
    assert done.returncode == 0, done.stderr
    assert (bench.folder / "data").read_bytes() == content


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lanes", "kind"),
    [
        ({"a": "/nope", "b": "/tmp"}, "path-missing"),
        ({"a": "/tmp", "b": "/tmp/"}, "lanes-same"),
        ({"a": "/proc", "b": "/tmp"}, "no-room"),
    ],
)
def test_what_keeps_a_study_from_running_is_said_before_anything_is_made(
    bench: Bench, lanes: dict[str, str], kind: str
) -> None:
    file = bench.write(study({name: {"transport": "directory", "path": path} for name, path in lanes.items()}))
    done = bench.run("run", str(file), "--out", str(bench.folder / "run"))
    assert (done.returncode, kinds(done.stderr)) == (1, [kind])
    assert not (bench.folder / "run").exists()


@pytest.mark.slow
@root
def test_no_root_is_needed_for_directories(bench: Bench) -> None:
    """As user nobody, with the system's Python, because this one may lie in root's home."""
    python = "/usr/bin/python3"
    asked = subprocess.run([python, "--version"], capture_output=True, text=True, check=False).stdout.split()
    if not asked or asked[-1].split(".")[:2] != platform.python_version().split(".")[:2]:
        pytest.skip("the system's Python is another version than this one")
    file = bench.write(study({"a": bench.lane("a"), "b": bench.lane("b")}))
    for folder in (bench.folder, *bench.folder.iterdir()):
        os.chown(folder, 65534, 65534)
    for parent in bench.folder.parents:
        if parent != parent.parent and parent.stat().st_uid == os.getuid() and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o111)
    paths = [str(Path(p).resolve()) for p in sys.path if p]
    source = str(Path(__file__).parents[3] / "src")
    done = subprocess.run(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", python, "-m", "fairlane", "run",
         str(file), "--out", str(bench.folder / "run")],
        capture_output=True, text=True, check=False, cwd=bench.folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(bench.folder), "PYTHONPATH": ":".join([source, *paths])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    described = json.loads((bench.folder / "run" / "description.json").read_text())
    assert described["platform"]["machines"]["here"]["user"] == "nobody"
    assert bench.files() == []
