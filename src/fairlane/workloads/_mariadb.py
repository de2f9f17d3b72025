"""MariaDB (InnoDB) as the server of a database load (``_database``).

Sources: MariaDB's documentation of InnoDB's system and status variables and of mariadb-install-db, 10.6 to 11.
"""

from collections.abc import Mapping
from typing import Any

from fairlane.workloads._database import size

TITLE = "MariaDB"
SCRIPT = "mariadb.sh"
PREFIX = "mariadb_"
POOL = "innodb_buffer_pool_size"
CPU = (14, 15)
"""Of the process: each session is a thread."""
PAGE_CACHE = False
"""InnoDB opens its files with O_DIRECT (innodb_flush_method), its default since 10.6."""
PROGRAMS: tuple[str, ...] = ("mariadbd", "mariadb-install-db", "mariadb")
FOLDERS: tuple[str, ...] = ("/usr/sbin", "/usr/libexec", "/usr/local/mysql/bin", "/usr/local/mysql/scripts")
OLDEST = "10.6"

_MIB = 2**20
_POOL = 128 * _MIB
"""Default of innodb_buffer_pool_size."""
_LOG = 96 * _MIB
"""Default of innodb_log_file_size."""

OWN = frozenset({
    "datadir", "tmpdir", "basedir", "plugin_dir", "socket", "port", "bind_address", "skip_networking", "pid_file",
    "user", "log_error", "max_connections", "max_prepared_stmt_count", "innodb_buffer_pool_load_at_startup",
    "innodb_buffer_pool_dump_at_shutdown",
})  # fmt: skip
_DURABLE = {
    "innodb_flush_log_at_trx_commit": ("1", "3"),
    "innodb_doublewrite": ("on", "1", "true"),
    "innodb_flush_method": ("fsync", "o_dsync", "o_direct"),
    "sync_binlog": ("1",),
}
"""Values with which a server that crashes keeps what it acknowledged. sync_binlog counts only with a binary log, of
which recovery asks whether a transaction was committed."""
_ON, _OFF = ("on", "1", "true"), ("off", "0", "false")
READ_BACK: tuple[str, ...] = (
    "innodb_buffer_pool_size", "innodb_flush_log_at_trx_commit", "innodb_doublewrite", "innodb_flush_method",
    "innodb_log_file_size", "innodb_log_buffer_size", "log_bin", "sync_binlog", "innodb_io_capacity",
    "innodb_io_capacity_max", "innodb_page_size", "innodb_flush_neighbors", "innodb_use_native_aio",
    "innodb_use_atomic_writes", "innodb_log_file_buffering", "innodb_data_file_buffering",
    "innodb_data_file_write_through", "innodb_log_file_write_through", "innodb_log_write_ahead_size",
    "innodb_checksum_algorithm", "innodb_change_buffering", "innodb_adaptive_hash_index", "innodb_adaptive_flushing",
    "innodb_max_dirty_pages_pct", "innodb_max_dirty_pages_pct_lwm", "innodb_read_io_threads", "innodb_write_io_threads",
    "innodb_purge_threads", "innodb_compression_default", "innodb_encrypt_tables", "innodb_encrypt_log",
    "thread_handling", "debug_no_sync",
)  # fmt: skip


def variables(params: Mapping[str, Any]) -> str:
    return f"oldest={OLDEST} clients={params['numjobs']} own_settings='{' '.join(sorted(params['settings']))}'"


def refusal(name: str, value: str) -> str:
    if name in OWN:
        return "Fairlane sets it itself"
    if "." in name:
        return "expected the name of a global variable"
    return "a path is Fairlane's to choose: all of the server is on the lane's volume" if "/" in value else ""


def loose(settings: Mapping[str, str]) -> tuple[str, ...]:
    effective = dict(settings)
    if settings.get("log_bin", "off").lower() in _OFF:
        effective.pop("sync_binlog", None)
    else:
        effective.setdefault("sync_binlog", "0")  # the server's default
    given = {key: effective[key] for key in _DURABLE if key in effective}
    found = [f"{key} {value}" for key, value in given.items() if value.lower() not in _DURABLE[key]]
    if settings.get("debug_no_sync", "off").lower() not in _OFF:
        found.append(f"debug_no_sync {settings['debug_no_sync']}")
    return tuple(found)


def pool(settings: Mapping[str, str]) -> int:
    return size(settings.get(POOL), 1, _POOL)


def room(settings: Mapping[str, str], data: int) -> int:
    """The redo log of template and copy, their catalogues and undo logs, and a binary log of as much as the data."""
    log = size(settings.get("innodb_log_file_size"), 1, _LOG)
    binary = 0 if settings.get("log_bin", "off").lower() in _OFF else data
    return 2 * log + 160 * _MIB + binary


def settings_text(settings: Mapping[str, str]) -> str:
    """``settings`` as lines of an option file."""
    return "".join(_line(key, value) for key, value in sorted(settings.items()))


def _line(key: str, value: str) -> str:
    if key == "log_bin":  # its value would be a file's name
        key = "skip_log_bin" if value.lower() in _OFF else key
        return f"{key}\n" if value.lower() in (*_ON, *_OFF) else f"{key}={value}\n"
    return f"{key}={value}\n"
