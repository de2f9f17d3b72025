"""Runs against strangers' machines for tests: studies, inventories before and after, and what a run directory has."""

import hashlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import ndiff
from pathlib import Path
from typing import Any

from fairlane.runs.raw import fetch
from testkit.process import judged
from testkit.strangers import Stand
from tests.platforms.hosts.hosts_bench import Bench, until

IQN = "iqn.2010-06.org.site:data"
NQN = "nqn.2010-06.org.site:data"
LUN, SPACE = "serial:SITE0data", f"nqn:{NQN}#1"
"""Identities of the volumes of the furnished array."""
MAP = "dm:mpath-36001405e0daa00000000000000000000"
"""The LUN's where it is reached over several paths: its WWID is LIO's, made of the serial number."""
BOTH = ["10.20.0.1", "10.20.1.1"]
"""The array's addresses, one per network."""
SEEN = ["volume_mode", "disk_size", "provisioning", "prefill"]
"""Parameters in which lanes of these tests differ on purpose."""
READS = {"main": {"kind": "fio", "rw": ["randread"], "runtime": "1s", "size": "16m", "prefill": False}}
WRITES = {"main": {"kind": "fio", "rw": ["randwrite"], "runtime": "1s", "size": "16m", "prefill": False}}
PATIENCE = 900.0
"""Seconds within which a run's first load begins on emulated machines, of which there are many on a busy host."""
LONG = {"main": {"kind": "fio", "rw": ["randread"], "runtime": "15s", "size": "16m", "prefill": False}}
"""Trials within which something can go wrong."""


def iscsi(addresses: Sequence[str] = ("10.20.0.1",), **more: Any) -> dict[str, Any]:
    external = {"addresses": list(addresses), "iqn": IQN, **more.pop("external", {})}
    return {"transport": "iscsi", "external": external, **more}


def nvme(addresses: Sequence[str] = ("10.20.0.1",), **more: Any) -> dict[str, Any]:
    external = {"addresses": list(addresses), "nqn": NQN, **more.pop("external", {})}
    return {"transport": "nvme_tcp", "external": external, **more}


def directory(path: str = "/data", **more: Any) -> dict[str, Any]:
    return {"transport": "directory", "path": path, **more}


def device(serial: str = "alpha-spare", **more: Any) -> dict[str, Any]:
    return {"transport": "device", "identity": f"serial:{serial}", **more}


def study(lanes: Mapping[str, Mapping[str, Any]], machines: Sequence[str] = ("alpha",), **more: Any) -> dict[str, Any]:
    """A study of one cell in two blocks. ``machines``: names for ssh; further arguments are keys of the study."""
    names = {name.partition("-")[0]: name for name in machines}
    platform = {"kind": "hosts", "machines": names, "size": "16m", "settle": "100ms"}
    return {
        "name": "strangers",
        "platform": {**platform, **more.get("platform", {})},
        "baseline": next(iter(lanes)),
        "lanes": dict(lanes),
        "workloads": more.get("workloads", READS),
        "design": {"looks": [2], "vary": SEEN, **more.get("design", {})},
    }


@dataclass
class Room:
    """Strangers' machines, and a folder for studies and runs against them."""

    stand: Stand
    bench: Bench

    @classmethod
    def of(cls, stand: Stand, folder: Path) -> "Room":
        return cls(stand, Bench(folder, stand.environment()))

    @property
    def run(self) -> Path:
        """The run directory."""
        return self.bench.folder / "run"

    def start(self, content: Mapping[str, Any], *, out: Path | None = None) -> "subprocess.CompletedProcess[str]":
        return self.bench.run("run", str(self.bench.write(content)), "--out", str(out or self.run))

    def resume(self) -> "subprocess.CompletedProcess[str]":
        return self.bench.run("run", "--resume", str(self.run))

    @contextmanager
    def going(self, content: Mapping[str, Any], host: str = "alpha") -> Iterator["subprocess.Popen[bytes]"]:
        """A run while its first load runs on ``host``; killed at the end."""
        file = self.bench.write(content)
        with self.bench.running("run", str(file), "--out", str(self.run)) as process:
            until(lambda: process.poll() is not None or self.loads(host), "no load began", PATIENCE)
            assert process.poll() is None, self.bench.output
            yield process

    def loads(self, host: str = "alpha") -> list[int]:
        """Processes of trials' loads on a machine."""
        text = "for p in $(pgrep -x fio); do ! grep -qs job.fio /proc/$p/cmdline || echo $p; done"
        return [int(pid) for pid in self.stand.machines[host].run(text)[1].split()]

    def opened(self, disk: str, host: str = "alpha") -> bool:
        """Whether a load has a disk open whose kernel name begins with ``disk``."""
        text = "for p in $(pgrep -x fio); do grep -qs job.fio /proc/$p/cmdline && readlink /proc/$p/fd/*; done"
        return f"/dev/{disk}" in self.stand.machines[host].run(text)[1]

    def description(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.run / "description.json").read_text())
        return read

    def findings(self) -> list[str]:
        """Kinds of the run's findings."""
        done = self.bench.run("check", str(self.run), "--format", "json")
        return [finding["kind"] for finding in json.loads(done.stdout)["findings"]]

    def trials(self) -> list[dict[str, Any]]:
        return [dict(event) for event in judged(self.run).values()]

    def fleets(self) -> list[dict[str, Any]]:
        """``fleet.json`` of all trials."""
        files = (fetch(self.run, trial["raw"], trial["sha256"]) for trial in self.trials())
        return [json.loads(outputs["fleet.json"]) for outputs in files]

    def texts(self) -> bytes:
        """Everything in the run directory, and what the command printed."""
        return b"\n".join(path.read_bytes() for path in sorted(self.bench.folder.rglob("*")) if path.is_file())

    @contextmanager
    def unchanged(self, *hosts: str) -> Iterator[None]:
        """Fails with the difference, if an inventory is another one afterwards."""
        before = {name: self.stand.inventory(name) for name in hosts}
        yield
        for name, text in before.items():
            now = self.stand.settled(name, text)
            differing = [line for line in ndiff(text.splitlines(), now.splitlines()) if line[0] in "+-"]
            assert not differing, f"{name}:\n" + "\n".join(differing)

    def checksum(self, host: str, serial: str) -> str:
        """SHA-256 of a disk, read from its file on this machine after the guest has flushed it; of blocks of zeros
        only where they are."""
        self.stand.sh(host, f"sync; for d in /dev/disk/by-id/virtio-{serial}; do blockdev --flushbufs $d; "
                            "dd if=/dev/zero of=$d bs=1 count=0 conv=notrunc,fsync status=none || :; done")  # fmt: skip
        file, raw = self.stand.folder / host / f"{serial}.qcow2", self.bench.folder.parent / f"{serial}.raw"
        subprocess.run(["qemu-img", "convert", "-U", "-f", "qcow2", "-O", "raw", str(file), str(raw)], check=True)
        digest = hashlib.sha256()
        with raw.open("rb") as handle:
            while block := handle.read(2**20):
                if block.strip(b"\0"):  # blocks that were never written need no time
                    digest.update(f"{handle.tell()} ".encode() + block)
        raw.unlink()
        return digest.hexdigest()


def clean(done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 0, done.stdout + done.stderr
