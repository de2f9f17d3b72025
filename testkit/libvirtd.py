"""A libvirtd of a test's own, with all that it keeps in one folder: the host's libvirt is neither used nor changed."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from fairlane.machines.scratch import scratch

NOBODY = 65534
_REAPER = """
import ctypes, os, signal, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: the machines become children of this process
daemon = subprocess.Popen(sys.argv[1:])
def again(*_):
    global daemon
    daemon.terminate()
    daemon.wait()
    daemon = subprocess.Popen(sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: daemon.terminate())
signal.signal(signal.SIGHUP, again)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""
"""Reaps machines that have ended: in a container often nobody else does, and libvirt takes a zombie for alive. SIGHUP
restarts the daemon."""
_QEMU = """
stdio_handler = "file"
security_driver = "none"
namespaces = []
remember_owner = 0
"""


class Libvirtd:
    """``with Libvirtd() as libvirt``: a daemon for one user, of root's tests for ``nobody``."""

    def __init__(self) -> None:
        self._held = ExitStack()

    def __enter__(self) -> Self:
        self.folder = self._held.enter_context(scratch(short=True))
        config = self.folder / "config/libvirt"
        config.mkdir(parents=True)
        (config / "qemu.conf").write_text(_QEMU)
        homes = {"HOME": "home", "XDG_RUNTIME_DIR": "run", "XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache",
                 "XDG_DATA_HOME": "data"}  # fmt: skip
        for name in homes.values():
            (self.folder / name).mkdir(exist_ok=True)
        under: list[str] = []
        if os.geteuid() == 0:
            self.folder.chmod(0o755)
            for path in self.folder.rglob("*"):
                os.chown(path, NOBODY, NOBODY)
            under = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            self._daemon = subprocess.Popen(
                [*under, sys.executable, "-c", _REAPER, "libvirtd"],
                env=os.environ | {key: str(self.folder / name) for key, name in homes.items()},
                cwd="/",
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._held.callback(self._end)
        socket = self.folder / "run/libvirt/libvirt-sock"
        while not socket.exists():
            assert self._daemon.poll() is None, self.log.read_text()
            time.sleep(0.05)
        self.uri = f"qemu+unix:///session?socket={socket}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def restart(self) -> None:
        """Restarts the daemon; machines go on."""
        pid = self.folder / "run/libvirt/libvirtd.pid"
        earlier = pid.read_text()
        self._daemon.send_signal(signal.SIGHUP)
        while not pid.exists() or pid.read_text() in ("", earlier) or self._refuses():
            assert self._daemon.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def _refuses(self) -> bool:
        return bool(subprocess.run(["virsh", "-c", self.uri, "uri"], capture_output=True, check=False).returncode)

    def virsh(self, *words: str, given: str | None = None) -> str:
        """What virsh prints."""
        done = subprocess.run(
            ["virsh", "-q", "-c", self.uri, *words], input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def start(self, name: str, disks: dict[str, Path]) -> None:
        """A machine with these raw files as virtio disks, by target; emulated, and without a system in it."""
        devices = "".join(
            f"<disk type='file'><driver name='qemu' type='raw'/><source file='{file}'/>"
            f"<target dev='{target}' bus='virtio'/></disk>"
            for target, file in disks.items()
        )
        self.virsh(
            "create",
            "/dev/stdin",
            given=f"<domain type='qemu'><name>{name}</name><memory unit='MiB'>32</memory><os><type arch='x86_64'>hvm"
            f"</type></os><devices>{devices}</devices></domain>",
        )

    def file(self, name: str, size: int) -> Path:
        """A file that the machines may use."""
        path = self.folder / name
        with path.open("wb") as file:
            file.truncate(size)
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        return path

    def _end(self) -> None:
        for name in self.virsh("list", "--name").split():
            self.virsh("destroy", name)
        self._daemon.send_signal(signal.SIGTERM)
        self._daemon.wait()
