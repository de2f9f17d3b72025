"""Runs of platform hosts for tests: the command line as a process, an sshd on loopback, and what is on a machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlane.machines.child import signal_group
from fairlane.machines.ports import number, reserve_port
from testkit import debian

WORK = Path("/var/tmp")
PATIENCE = 120.0
"""Seconds within which a process must come to a state; a busy machine takes many times what an idle one does."""


def study(lanes: Mapping[str, Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """A study of one or two short cells on this machine."""
    platform = {
        "kind": "hosts",
        "machines": {"here": "local"},
        "size": "8m",
        "settle": "10ms",
        "alone": False,
        "max_busy": "100%",
    }
    return {
        "name": "hosts",
        "platform": {**platform, **more.get("platform", {})},
        "baseline": next(iter(lanes)),
        "lanes": dict(lanes),
        "workloads": more.get("workloads", {"main": {"kind": "fio", "rw": ["randread"], "runtime": "300ms"}}),
        "design": {
            "looks": [2],
            "vary": ["volume_mode", "disk_size", "provisioning", "prefill"],
            **more.get("design", {}),
        },
    }


@dataclass
class Bench:
    """A folder for studies, runs and lanes."""

    folder: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def lane(self, name: str) -> dict[str, str]:
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return {"transport": "directory", "path": str(path)}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "fairlane", *words]

    def write(self, content: Mapping[str, Any]) -> Path:
        file = self.folder / "study.yaml"
        file.write_text(json.dumps(content))
        return file

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command to its end."""
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, check=False, env=self.environment, cwd=self.folder,
        )  # fmt: skip

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A command while it runs; killed at the end."""
        with (self.folder / "output").open("wb") as output:
            process = subprocess.Popen(
                self.command(*words), stdout=output, stderr=output, env=self.environment, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            signal_group(process.pid, signal.SIGKILL)
            process.wait()

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    def files(self) -> list[str]:
        """Files that runs have in the lanes' folders."""
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.glob("*/.fairlane-*"))


def until(what: Callable[[], Any], why: str = "", patience: float = PATIENCE) -> Any:
    """Waits for ``what`` to be true; returns its value."""
    ends = time.monotonic() + patience
    while not (value := what()):
        assert time.monotonic() < ends, why or what
        time.sleep(0.02)
    return value


def identity(run: Path) -> str:
    return str(json.loads((run / "run.json").read_text())["id"])


def loads(run: str) -> list[int]:
    """Processes of a run's loads on this machine."""
    return _with(f"FAIRLANE_LOAD={run}")


def shells(run: str) -> list[int]:
    """Processes of a run's shells on this machine, loads among them."""
    return _with(f"FAIRLANE_RUN={run}")


def _with(variable: str) -> list[int]:
    mark, pids = variable.encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                pids.append(int(entry.name))
    return pids


@dataclass(frozen=True)
class Sshd:
    """An sshd on loopback; an ``ssh`` on PATH that knows it under some names."""

    folder: Path
    port: int

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def sessions(self) -> list[int]:
        """Processes of its sessions."""
        main = int((self.folder / "pid").read_text())
        output = subprocess.run(["pgrep", "-P", str(main)], capture_output=True, text=True, check=False).stdout
        return [int(pid) for pid in output.split()]


_SSHD = """mount --bind "$1/passwd" /etc/passwd
mkdir -p /run/sshd
exec "$0" -D -e -f "$1/sshd_config"
"""


@contextmanager
def sshd(folder: Path) -> Iterator[Sshd]:
    """A running one, root's login by key; as hosts ``alpha`` and ``beta``, over ``alpha`` as ``behind``, with another
    host's key as ``wrong``, with no key of the user's as ``denied``, at a port where nobody listens as ``closed``."""
    program, library = debian.sshd()
    (folder / "passwd").write_text(debian.USERS)
    reserved = reserve_port()
    port = number(reserved)
    for name in ("host", "other", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    (folder / "known").write_text(f"fairlane-test {(folder / 'host.pub').read_text()}")
    (folder / "known-other").write_text(f"fairlane-test {(folder / 'other.pub').read_text()}")
    (folder / "empty").touch()
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nAuthorizedKeysFile {folder / 'authorized'}\n"
        f"StrictModes no\nUsePAM no\nPidFile {folder / 'pid'}\nPermitRootLogin yes\nPasswordAuthentication no\n"
    )
    entries = {
        "alpha": ("known", port, "user"), "beta": ("known", port, "user"), "behind": ("known", port, "user"),
        "wrong": ("known-other", port, "user"), "unknown": ("empty", port, "user"),
        "denied": ("known", port, "other"), "closed": ("known", 1, "user"),
    }  # fmt: skip
    (folder / "ssh_config").write_text(
        "".join(
            f"Host {name}\n  HostName 127.0.0.1\n  Port {at}\n  User root\n  IdentityFile {folder / key}\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {folder / known}\n  HostKeyAlias fairlane-test\n"
            for name, (known, at, key) in entries.items()
        )
        + "Host behind\n  ProxyJump alpha\nHost *\n  StrictHostKeyChecking no\n  LocalForward 1 localhost:1\n"
        "  RemoteCommand false\n  RequestTTY force\n"
    )
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder / "ssh_config"} "$@"\n')
    wrapper.chmod(0o755)
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-ec", _SSHD, str(program), str(folder)], stderr=subprocess.DEVNULL,
        env={**os.environ, "LD_LIBRARY_PATH": library},
    )  # fmt: skip
    try:
        until((folder / "pid").exists)
        yield Sshd(folder, port)
    finally:
        process.terminate()
        process.wait()
        reserved.close()


def lines(run: Path) -> Sequence[dict[str, Any]]:
    """The journal."""
    return [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
