"""PostgreSQL as the server of a database load (``_database``).

Sources: PostgreSQL's documentation of initdb, pg_ctl, pg_settings, and "Monitoring Database Activity", 13 to 18.
"""

from collections.abc import Mapping
from typing import Any

from fairlane.workloads._database import size

TITLE = "PostgreSQL"
SCRIPT = "postgresql.sh"
PREFIX = "pg_"
POOL = "shared_buffers"
CPU = (16, 17)
"""Of its ended children: each session is a process."""
PAGE_CACHE = True
PROGRAMS: tuple[str, ...] = ("postgres", "initdb", "pg_ctl", "psql")
FOLDERS: tuple[str, ...] = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")
"""The newest version counts."""
OLDEST = 13

_POOL = 128 * 2**20
"""Default of shared_buffers."""
_WAL = 2**30
"""Default of max_wal_size."""

OWN = frozenset({"listen_addresses", "port", "unix_socket_directories", "unix_socket_permissions", "data_directory",
                 "config_file", "hba_file", "ident_file", "external_pid_file", "logging_collector", "ssl", "include",
                 "include_dir", "include_if_exists"})  # fmt: skip
"""Settings that are Fairlane's: where the server is, and how it is reached."""
_DURABLE = ("fsync", "synchronous_commit", "full_page_writes")
"""Settings that, off, let a crash lose or damage what was acknowledged."""
READ_BACK: tuple[str, ...] = (
    "shared_buffers", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "wal_level", "wal_buffers",
    "checkpoint_timeout", "checkpoint_completion_target", "max_wal_size", "min_wal_size", "commit_delay", "autovacuum",
    "bgwriter_lru_maxpages", "effective_io_concurrency", "huge_pages", "wal_compression", "data_checksums",
    "block_size", "wal_segment_size", "max_connections", "io_method", "debug_io_direct", "server_version",
)  # fmt: skip
"""Settings that are read from the running server, beside the study's own; those a version lacks are left out."""


def _is_off(value: str) -> bool:
    """Whether the server reads ``value`` as off: PostgreSQL takes any prefix that is not ambiguous."""
    text = value.lower()
    return (
        text == "0" or (bool(text) and any(word.startswith(text) for word in ("false", "no"))) or text in ("of", "off")
    )


def settings_text(settings: Mapping[str, str]) -> str:
    """``settings`` as lines of postgresql.conf."""
    return "".join(f"{key} = '{value}'\n" for key, value in sorted(settings.items()))


def variables(params: Mapping[str, Any]) -> str:
    wanted = "" if params["version"] is None else params["version"]
    checksums = "-k" if params["checksums"] else ""
    return f"wanted={wanted} oldest={OLDEST} initdb_options={checksums}"


def refusal(name: str, value: str) -> str:  # noqa: ARG001
    return "Fairlane sets it itself" if name in OWN else ""


def loose(settings: Mapping[str, str]) -> tuple[str, ...]:
    given = {key: settings[key] for key in _DURABLE if key in settings}
    return tuple(f"{key} {value}" for key, value in given.items() if _is_off(value))


def pool(settings: Mapping[str, str]) -> int:
    return size(settings.get(POOL), 8192, _POOL)


def room(settings: Mapping[str, str], data: int) -> int:
    """WAL to its limit, its segments at least, and the catalogues of three databases."""
    wal = size(settings.get("max_wal_size"), 2**20, _WAL)
    return min(wal + wal // 2, 2 * data) + 6 * 16 * 2**20
