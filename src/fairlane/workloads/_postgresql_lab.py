"""PostgreSQL in the lab's guests: the version of their Debian, as a part of their image of its own."""

from collections.abc import Mapping
from typing import Any

from fairlane.workloads import _pgbench as pgbench
from fairlane.workloads._postgresql import PROGRAMS, TITLE
from fairlane.workloads.base import Part

VERSION = 15
_LOADS = ("pgbench", "slob")
_ROOT = f"usr/lib/postgresql/{VERSION}"
PART = Part(
    packages=("e2fsprogs", f"postgresql-{VERSION}", "util-linux"),
    programs=("blkid", "mkfs.ext4", "setpriv"),
    files=(
        *(f"{_ROOT}/bin/{name}" for name in (*PROGRAMS, "createdb", *pgbench.programs("postgresql"))),
        *(f"{_ROOT}/lib/{name}.so" for name in ("dict_snowball", "plpgsql")),  # initdb loads both
        f"usr/share/postgresql/{VERSION}/*",
        "etc/mke2fs.conf",
    ),
    users=("postgres",),
)


def absent(params: Mapping[str, Any]) -> str:
    """Why the lab's guests cannot run a cell; empty: they can."""
    if params["database"] != "postgresql" or params["load"] not in _LOADS:
        return f"the lab's guests have {TITLE} and pgbench only: load: {' or '.join(_LOADS)}"
    if params["version"] not in (None, VERSION):
        return f"the lab's guests have {TITLE} {VERSION}, not {params['version']}"
    return "" if params["filesystem"] == "ext4" else f"the lab's guests have no {params['filesystem']}: use ext4"
