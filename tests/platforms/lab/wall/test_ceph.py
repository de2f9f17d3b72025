"""A real Ceph cluster on this machine: pools and volumes of every kind hold data, and nothing stays behind."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairlane import registry
from fairlane.cli.main import run
from fairlane.errors import RunFailed
from fairlane.fleet import build
from fairlane.lanes.base import Site, Step, Transport
from fairlane.machines import scratch, script
from fairlane.machines.this_host import LocalGuest
from fairlane.platforms.lab.spec import Ceph
from fairlane.platforms.lab.wall import ceph
from tests.words import kind

_MISSING = [p for p in (*ceph.PROGRAMS, *ceph.FILESYSTEM, "qemu-io", "fio") if not shutil.which(p)]
pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.xdist_group("ceph"),
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)} (scripts/setup.sh ceph)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="CephFS is mounted, which needs root"),
]

_MIB = 2**20
LANES: dict[str, dict[str, Any]] = {
    "rep3": {"transport": "rbd"},
    "rep2": {"transport": "rbd", "redundancy": 2, "object_size": "1m", "features": ["layering"]},
    "ec": {"transport": "rbd", "redundancy": "2+1"},
    "fs": {"transport": "cephfs", "redundancy": 2},
    "fs-ec": {"transport": "cephfs", "redundancy": "2+1"},
}

WANTED: dict[str, dict[str, str]] = {
    "rep3": {"pool.size": "3", "pool.min_size": "2", "image.object_size": str(4 * _MIB)},
    "rep2": {"pool.size": "2", "pool.min_size": "1", "image.object_size": str(_MIB), "image.features": "layering"},
    "ec": {"pool.size": "3", "pool.min_size": "2", "image.name": "rbd.headers/ec",
           "image.data_pool": "rbd.2+1.pg32"},
    "fs": {"pool.size": "2", "pool.min_size": "1", "mount.kind": "fuse.ceph-fuse"},
    "fs-ec": {"pool.size": "3", "pool.erasure_code": "crush-failure-domain=osd k=2 m=1 plugin=jerasure "
              "technique=reed_sol_van "},
}  # fmt: skip


@dataclass
class Lab:
    """A cluster with the volumes of ``LANES``, built by their transports' own steps."""

    runner: asyncio.Runner
    cluster: ceph.Cluster
    here: LocalGuest
    lanes: dict[str, Transport[Any]] = field(default_factory=dict)

    def shell(self, text: str) -> dict[str, bytes]:
        return self.runner.run(self.here.ask(text, 300))

    def steps(self, name: str) -> tuple[Step, ...]:
        return self.lanes[name].steps()

    def described(self, name: str) -> dict[str, str]:
        text = "\n".join(f"( {step.describe}\n)" for step in self.steps(name))
        return script.rows(self.shell(f"{{\n{text}\n}} > rows")["rows"].decode())

    def qemu_io(self, name: str, *commands: str) -> bool:
        """Whether qemu-io, which opens the volume as the guest's QEMU would, could do ``commands`` and read what it
        was told to expect."""
        node = {**self.lanes[name].backend(), "cache": {"direct": True}, "discard": "unmap"}
        words = [w for command in commands for w in ("-c", command)]
        done = subprocess.run(
            ["qemu-io", *words, f"json:{json.dumps(node)}"], capture_output=True, text=True, check=False
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0 or "Pattern verification failed" in said, said
        return done.returncode == 0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    folder = Path(tempfile.mkdtemp(prefix="flc", dir="/tmp"))
    (folder / "here").mkdir()
    cluster = ceph.Cluster(folder / "ceph", Ceph.model_validate({"osd_size": "1g"}), filesystem=True)
    with asyncio.Runner() as runner:
        try:
            runner.run(cluster.start())
            lab = Lab(runner, cluster, LocalGuest(folder / "here"))
            for index, (name, keys) in enumerate(LANES.items()):
                transport = registry.load("lanes", keys["transport"])
                site = Site("", "", "", index, "", size=32 * _MIB, cluster=str(cluster.folder))
                lab.lanes[name] = transport(name, transport.Spec(**keys), site)
                lab.shell(build.shell(lab.steps(name)))
            yield lab
        finally:
            left = pids(cluster).values()
            runner.run(cluster.stop())
            gone(left, cluster.folder)
            shutil.rmtree(folder)


def pids(cluster: ceph.Cluster) -> dict[str, int]:
    """Processes of the cluster, the mount's among them: name -> pid."""
    return {name: process.pid for name, process in cluster._daemons.items()}


def gone(pids: Any, folder: Path) -> None:
    """No process, no mount, no folder."""
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists() and state(pid) != "Z"] == []
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    assert not folder.exists()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_cluster_tells_what_it_is(lab: Lab) -> None:
    told = lab.runner.run(lab.cluster.describe())
    assert re.findall(r"\d+ \w+", told["ceph.osds"]) == ["3 up", "3 in"]
    assert told["ceph.health"] == "HEALTH_OK"
    assert set(pids(lab.cluster)) == {"mon.a", "mgr.a", "osd.0", "osd.1", "osd.2", "mds.a", "ceph-fuse"}
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    mine = [line for line in listening.splitlines() if any(f"pid={p}," in line for p in pids(lab.cluster).values())]
    assert mine
    assert all(line.split()[3].startswith("127.0.0.1:") for line in mine)
    assert (lab.cluster.folder / "keyring").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", LANES)
def test_what_is_written_is_read_again_and_discarded(lab: Lab, name: str) -> None:
    before = lab.described(name)
    assert script.differences(lab.steps(name), before) == []
    assert {key: before[key] for key in WANTED[name]} == WANTED[name]
    assert before["medium.allocated_bytes"] == "0"
    assert lab.qemu_io(name, "write -P 0x5a 0 16M", "flush", "read -P 0x5a 0 16M", "read -P 0 16M 4M")
    assert not lab.qemu_io(name, "read -P 0x11 8M 4k")
    assert lab.described(name)["medium.allocated_bytes"] == str(16 * _MIB)
    assert lab.qemu_io(name, "discard 0 8M", "flush", "read -P 0 0 8M", "read -P 0x5a 8M 8M")
    # of a file, the first object stays, however empty: it carries the way back to the file's name
    kept = 12 if LANES[name]["transport"] == "cephfs" else 8
    assert lab.described(name)["medium.allocated_bytes"] == str(kept * _MIB)


def test_fio_s_own_client_agrees(lab: Lab) -> None:
    """librbd under fio, without QEMU: random writes, then every block read and verified."""
    command = [
        "fio", "--name=verify", "--ioengine=rbd", "--clientname=admin", "--pool=rbd.headers", "--rbdname=ec",
        "--rw=randwrite", "--bs=16k", "--size=8m", "--iodepth=8", "--verify=crc32c", "--do_verify=1",
        "--verify_fatal=1", "--output-format=json",
    ]  # fmt: skip
    environment = {**os.environ, "CEPH_CONF": str(lab.cluster.folder / "ceph.conf")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=lab.cluster.folder, check=False)
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    assert (job["error"], job["write"]["total_ios"], job["read"]["total_ios"]) == (0, 512, 512)


def test_steps_are_undone_and_done_again(lab: Lab) -> None:
    for name in ("ec", "fs"):
        lab.shell(build.shell(lab.steps(name), undo=True))
        lab.shell(build.shell(lab.steps(name)))
        assert lab.described(name)["medium.allocated_bytes"] == "0"


_KILLED = """
import asyncio, sys
from fairlane.machines.scratch import scratch
from fairlane.platforms.lab.spec import Ceph
from fairlane.platforms.lab.wall.ceph import Cluster

async def main():
    with scratch() as folder:
        async with Cluster(folder / "ceph", Ceph(osds=1, memstore=True), filesystem=True) as cluster:
            print(folder, *(daemon.pid for daemon in cluster._daemons.values()), flush=True)
            await asyncio.sleep(3600)

asyncio.run(main())
"""


def test_killed_with_its_fairlane(monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = Path(tempfile.mkdtemp(prefix="flk", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with subprocess.Popen([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        folder, *pids = process.stdout.readline().split()
        assert len(pids) == 5
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 600
    while any(Path(f"/proc/{pid}").exists() and state(int(pid)) != "Z" for pid in pids):
        assert time.monotonic() < deadline, "a daemon outlives its Fairlane"
        time.sleep(0.1)
    assert f"{folder}/ceph/fs" in Path("/proc/self/mounts").read_text()  # a dead mount, which no process can undo
    assert scratch.abandoned() == [Path(folder)]
    assert [left.kind for left in scratch.leftovers(Path(folder))] == ["mount", "folder"]
    assert scratch.remove(Path(folder)) == []
    gone(map(int, pids), Path(folder))
    temporary.rmdir()


def test_a_daemon_that_dies_is_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = Path(tempfile.mkdtemp(prefix="fld", dir="/tmp"))

    async def lose() -> None:
        async with ceph.Cluster(folder / "ceph", Ceph(osds=1, memstore=True)) as cluster:
            os.kill(pids(cluster)["mon.a"], signal.SIGKILL)
            with pytest.raises(RunFailed, match=r"\bmon\.a\b", check=kind("ceph-ended")):
                await cluster.ask("osd", "pool", "ls")

    asyncio.run(lose())
    gone((), folder / "ceph")
    folder.rmdir()


STUDY = """
name: pools
platform:
  {kind: lab, clock: wall, memory: 512m, medium: {size: 64m}, accel: tcg, hugepages: 0,
   ceph: {osds: 2, osd_size: 1g, memstore: true}}
baseline: rbd
lanes:
  rbd: {transport: rbd, redundancy: 2}
  file: {transport: cephfs, redundancy: 2}
workloads:
  main: {kind: fio, rw: [randwrite], bs: [4k], iodepth: [4], size: 16m, runtime: 1s, prefill: true}
design: {looks: [2], vary: [volume_mode, aio]}
"""


def test_a_guest_on_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("qemu-system-x86_64"):
        pytest.skip("qemu-system-x86_64 is not installed: run make setup")
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(STUDY)
    assert run(["run", "s.yaml", "--out", "run"]) == 0
    seen = [json.loads(line) for line in Path("run/observations.jsonl").read_text().splitlines()]
    assert [one["failed"] for one in seen] == [""] * 4
    assert all(one["metrics"]["iops"] > 0 for one in seen)
    description = json.loads(Path("run/description.json").read_text())
    assert description["platform"]["ceph.store"] == "memory (memstore)"
    for lane in ("rbd", "file"):
        told = description["lanes"][lane]
        assert told["pool.pg_states"] == "active+clean"
        assert int(told["medium.allocated_bytes"]) == 16 * _MIB  # the working set, filled before the first trial
        assert told["device.bytes"] == str(64 * _MIB)
    assert description["lanes"]["rbd"]["qemu.backend"] == "rbd"
    assert json.loads(Path("run/fingerprint.json").read_text())["ceph"]
