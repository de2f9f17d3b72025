"""Runs on domains of libvirt for tests: studies, and what the hypervisor has before and after."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testkit.domains import Domains
from testkit.libvirtd import NOBODY
from tests.platforms.hosts.hosts_bench import WORK, Bench, identity

LANES = {
    "blk": {"transport": "local", "device": {"bus": "virtio-blk", "io_threads": 1, "aio": "native"}},
    "scsi": {"transport": "local", "device": {"bus": "virtio-scsi"}},
}
READS = {"main": {"kind": "fio", "rw": ["randread"], "runtime": "300ms", "ramp": "0s", "size": "8m"}}


@dataclass
class Room:
    """Domains, and a folder for studies and runs on them."""

    domains: Domains
    bench: Bench
    images: Path

    @classmethod
    def of(cls, domains: Domains, folder: Path) -> "Room":
        images = domains.folder / "images"
        images.mkdir(exist_ok=True)
        os.chown(images, NOBODY, NOBODY)
        return cls(domains, Bench(folder, domains.environment()), images)

    @property
    def run(self) -> Path:
        """The run directory."""
        return self.bench.folder / "run"

    def study(self, lanes: Mapping[str, Any], machines: tuple[str, ...] = ("vm1",), **more: Any) -> Path:
        """The file of a study of one short cell in two blocks."""
        platform = {
            "kind": "libvirt", "machines": {name: {"domain": name, "ssh": name} for name in machines},
            "hypervisors": {"here": "local"}, "uri": self.domains.uri, "folder": str(self.images), "size": "8m",
            "settle": "10ms", "alone": False, "max_busy": "100%", "connect_timeout": "5m",
        }  # fmt: skip
        return self.bench.write(
            {
                "name": "domains",
                "platform": {**platform, **more.get("platform", {})},
                "baseline": next(iter(lanes)),
                "lanes": dict(lanes),
                "workloads": more.get("workloads", READS),
                "design": {"looks": [2], "vary": list(VARIED)},
            }
        )

    def start(self, file: Path) -> "dict[str, Any]":
        """The lanes' description of a run that succeeds."""
        done = self.bench.run("run", str(file), "--out", str(self.run))
        assert done.returncode == 0, done.stdout + done.stderr
        described: dict[str, Any] = json.loads((self.run / "description.json").read_text())["lanes"]
        return described

    def inventory(self) -> list[str]:
        """What domains and folders have, a fact per line."""
        facts = [f"{path}" for path in sorted(self.images.iterdir())]
        for host in self.domains.hosts[1:]:
            definition = re.sub(r"^<domain (.*) id='\d+'", r"<domain \1", self.domains.virsh("dumpxml", host.name))
            facts += [f"{host.name}: {line.strip()}" for line in definition.splitlines()]
            facts += self.domains.virsh("iothreadinfo", host.name).splitlines()
            facts += self.domains.ssh(host.name, "lsblk -n -o NAME,SERIAL,SIZE; ls /var/tmp").stdout.splitlines()
        own = [WORK / f"fairlane-{identity(run.parent)}" for run in self.bench.folder.glob("*/run.json")]
        return [*facts, *(str(folder) for folder in own if folder.exists())]


VARIED = (
    "bus",
    "io_threads",
    "queues",
    "controllers",
    "cache_mode",
    "write_ack",
    "flush",
    "aio",
    "image_format",
    "device_options",
    "volume_mode",
    "provisioning",
)
