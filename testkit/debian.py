"""Programs of Debian's packages that tests need and setup does not install."""

import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from fairlane.runs.files import cache_dir

_TRIES = 3


def unpacked(*packages: str) -> Path:
    """The folder, in the cache, into which packages are unpacked; none of their scripts runs. Raises RuntimeError with
    what apt-get says if they cannot be had."""
    folder = cache_dir() / "debian" / "+".join(packages)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}.") as name:
            new = Path(name) / "whole"
            for package in _downloaded(packages, Path(name)):
                subprocess.run(["dpkg", "-x", package, new], check=True, capture_output=True)
            with suppress(OSError):  # whole or not at all; another process was quicker
                new.rename(folder)
    return folder


def sshd() -> tuple[Path, str]:
    """OpenSSH's server, and the folder of its libraries. It needs root, and a mount namespace with a user sshd."""
    folder = unpacked("openssh-server", "libwrap0")
    (library,) = {path.parent for path in folder.rglob("libwrap.so.0")}
    return folder / "usr/sbin/sshd", str(library)


USERS = "root:x:0:0::/root:/bin/bash\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n"
"""The users that it asks for."""


def _downloaded(packages: tuple[str, ...], folder: Path) -> list[Path]:
    for left in reversed(range(_TRIES)):
        done = subprocess.run(
            ["apt-get", "-q", "download", *packages], cwd=folder, capture_output=True, text=True, check=False
        )
        if not done.returncode:
            break
        if not left:
            raise RuntimeError(f"apt-get cannot download {' '.join(packages)}: {done.stderr.strip()}; apt-get update?")
        time.sleep(5)
    return sorted(folder.glob("*.deb"))
