"""A database server of the run's own on the lane's volume, as shell: what every server has in common.

A template is made once on every volume (an empty server, data, rest, a clean stop). Before each trial it is copied, the
copy leaves the page cache, and a server starts on it; after the trial the server is stopped and the copy removed. No
other server is touched: this one listens on a socket in the run's folder only.
"""

import hashlib
import re
from collections.abc import Mapping
from importlib import resources
from shlex import quote
from typing import Any, Protocol

Params = Mapping[str, Any]
Settings = Mapping[str, str]


class Server(Protocol):
    """What a server's module has. Its script (guest/) has the functions that guest/database.sh names."""

    TITLE: str
    SCRIPT: str
    PROGRAMS: tuple[str, ...]
    FOLDERS: tuple[str, ...]
    """Where distributions put the programs, beside PATH."""
    PREFIX: str
    """Of its settings as parameters (``guard.parameters``)."""
    READ_BACK: tuple[str, ...]
    """Settings that are read from the running server, beside the study's own; those a version lacks are left out."""
    POOL: str
    """The setting that holds the size of its own cache of pages."""
    PAGE_CACHE: bool
    """Whether it reads data through the machine's page cache."""
    CPU: tuple[int, int]
    """Fields of /proc/PID/stat (proc(5), from 1) of the server: user and system time that its sessions took."""

    def refusal(self, name: str, value: str) -> str:
        """Why a study cannot set this; empty: it can."""
        ...

    def loose(self, settings: Settings) -> tuple[str, ...]:
        """Settings that let a crash lose or damage what was acknowledged: ``fsync off``."""
        ...

    def pool(self, settings: Settings) -> int:
        """Bytes of its cache of pages."""
        ...

    def room(self, settings: Settings, data: int) -> int:
        """Bytes that a volume must have beside ``data`` bytes of tables, their copy, and growth."""
        ...

    def variables(self, params: Params) -> str:
        """Shell variables of its script."""
        ...

    def settings_text(self, settings: Settings) -> str:
        """Lines of its configuration."""
        ...


def size(value: Any, unit: int, default: int) -> int:
    """Bytes of a setting: ``64MB``, ``64M``, or a number of ``unit``; ``default`` if it is missing."""
    match = re.fullmatch(r"(\d+) *(?:B|([kKMGT])B?)?", "" if value is None else str(value).strip())
    if not match:
        return default
    if match[0].strip().isdigit():
        return int(match[1]) * unit
    power = " KMGT".index(match[2].upper()) if match[2] else 0
    return int(match[1]) << 10 * power


def _head(server: Server, device: str, params: Params, fill: str) -> str:
    """Shell before everything else: functions, and where things are. ``device``: the lane's block device or file."""
    settings = server.settings_text(params["settings"])
    content = f"{fill}\0{params['checksums']}\0{settings}"
    guest = resources.files(__package__).joinpath("guest")
    return f"""
exec 2>> oltp.err
export LC_ALL=C FAIRLANE_LOAD=${{FAIRLANE_LOAD:-${{FAIRLANE_RUN:-}}}}
here=$PWD
device={quote(device)} name={quote(device.rpartition("/")[2])} filesystem={params["filesystem"]}
folders={quote(" ".join(server.FOLDERS))}
work=${{FRAMES:-/run/fairlane-db/run}}; work=${{work%/run}}/db
mkdir -p "$work" && chmod 711 "$work" || exit 1
sock=$work/$name.sock
{server.variables(params)}
{guest.joinpath("database.sh").read_text("utf-8")}
{guest.joinpath(server.SCRIPT).read_text("utf-8")}
find_server
cat > own.conf << 'END-OF-SETTINGS'
{settings}END-OF-SETTINGS
of_template=template-{hashlib.sha256(content.encode()).hexdigest()[:12]}-$major
trap conclude EXIT
"""


def make(server: Server, device: str, params: Params, fill: str) -> str:
    """Shell that makes the template on the volume unless it is there. ``fill``: shell that fills the database
    ``bench`` on the running server."""
    return f"""{_head(server, device, params, fill)}
place make
template=$root/$of_template
if [ ! -e "$template/made" ]; then
  rm -rf "$template"
  initialise
  configure < own.conf
  start
  create_database
{fill}
  keep_template
fi
exit 0
"""


def begin(server: Server, device: str, params: Params, fill: str) -> str:
    """Shell that starts a server on a fresh copy of the template, at rest, and reads its settings back."""
    names = ", ".join(f"'{name}'" for name in dict.fromkeys((*server.READ_BACK, *params["settings"])))
    return f"""{_head(server, device, params, fill)}
place
template=$root/$of_template
copy_template
configure < own.conf
settle
start
rest
settings "{names}"
counters before
"""


END = """
counters after
cp "$sock/log" server.log
"""
"""Shell after the load: counters, and the server's log. The server itself is stopped where the script ends."""
