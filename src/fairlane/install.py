"""How what this machine lacks gets installed: `make setup` in a checkout, the distribution's own command elsewhere."""

import shutil
from pathlib import Path

from fairlane.errors import FairlaneError

_ROOT = Path(__file__).resolve().parents[2]

_FEDORA = {
    "debian-archive-keyring": "debian-keyring",
    "openssh-client": "openssh-clients",
    "qemu-block-extra": "qemu-block-iscsi qemu-block-rbd",
    "qemu-system-x86": "qemu-system-x86-core",
    "qemu-utils": "qemu-img",
    "uidmap": "shadow-utils",
}
"""Debian's package -> Fedora's, where the names differ; as in scripts/setup.sh."""


def checkout() -> bool:
    """Whether this is a checkout, which has a Makefile, and not an installed wheel."""
    return (_ROOT / "scripts/setup.sh").is_file() and (_ROOT / "Makefile").is_file()


def packages(*debian: str) -> str:
    """The command that installs these packages, named as Debian names them."""
    if shutil.which("dnf"):  # checked first: on Fedora mmdebstrap installs an apt-get
        return f"dnf install {' '.join(_FEDORA.get(name, name) for name in debian)}"
    names = " ".join(debian)
    return f"apt-get install {names}" if shutil.which("apt-get") else f"install {names}"


def hint(*debian: str) -> str:
    """Hint of an error: what to run for these packages."""
    return f"run: make setup (package {', '.join(debian)})" if checkout() else f"run: {packages(*debian)}"


def missing(program: str, package: str, why: str = "") -> FairlaneError | None:
    """The error for a program that is not on PATH; None: it is. ``why``: what cannot be done without it."""
    if shutil.which(program):
        return None
    return FairlaneError(
        "program-missing", f"{program} is not installed{f': {why}' if why else ''}", hint=hint(package)
    )
