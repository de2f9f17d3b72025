"""The keys of workload ``oltp``."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fairlane.errors import Invalid
from fairlane.guard.parameters import is_meaningful
from fairlane.records import Cell
from fairlane.study.base import MetricName, WorkloadSpec
from fairlane.units import Duration, Size, format_size
from fairlane.workloads import _pgbench as pgbench
from fairlane.workloads import _postgresql as postgresql
from fairlane.workloads import _slob as slob
from fairlane.workloads import _sysbench as sysbench
from fairlane.workloads import _tproc_c as tproc_c
from fairlane.workloads._database import Server
from fairlane.workloads._oltp_parts import LOADS, SERVERS

_SECOND, _MINUTE = 10**9, 60 * 10**9
_NAMES = {name: server.TITLE for name, server in SERVERS.items()}
_SETTING = re.compile(r"[a-z][a-z0-9_]{0,60}(?:\.[a-z0-9_]{1,60})?")
_VALUE = re.compile(r"[A-Za-z0-9_.,:/ *%+-]{0,100}")
_SERVED = ("clients", "settings", "filesystem", "fits_buffer", "unsafe", "version", "checksums")
"""Keys of loads that Fairlane brings the server for."""
_OF_LOAD: Mapping[str, tuple[str, ...]] = {
    "hammerdb": ("warehouses", "users", "vms", "disk_size"),
    "pgbench": (*_SERVED, "transactions", "scale", "threads", "sql", "rate"),
    "sysbench": (*_SERVED, "transactions", "tables", "rows", "distribution"),
    "tproc_c": (*_SERVED, "warehouses", "threads"),
    "slob": (*_SERVED, "rows", "threads", "update_pct", "work_unit", "hotspot", "hotspot_frequency"),
}
"""Keys that not every load has."""
_OF_SERVER: Mapping[str, tuple[str, ...]] = {"postgresql": ("version", "checksums")}
"""Keys that one server alone has."""


class OltpSpec(WorkloadSpec):
    """A database server on the lane's volume, and the transactions of a load generator: every number of clients is one
    cell. pgbench, sysbench, tproc_c and slob run on platform hosts, pgbench and slob in the lab under the virtual clock
    as well; hammerdb is planned, and cannot be run yet."""

    kind: Literal["oltp"]
    """A database under transactions."""
    load: Literal["pgbench", "sysbench", "tproc_c", "slob", "hammerdb"]
    """Load generator. pgbench: PostgreSQL's own. sysbench: its oltp tests, on either server. tproc_c: the five
    transactions of TPC-C, on either server; its NOPM compare with nobody else's. slob: the pattern of SLOB's I/O, on
    postgresql: single blocks at random through an index. hammerdb: HammerDB's TPROC-C."""
    database: Literal["mariadb", "postgresql"] = "postgresql"
    """The database server, as installed on the machines. Default: postgresql, with sysbench mariadb."""
    primary: MetricName = "tps"
    """The only metric for headlines. pgbench, sysbench and slob: tps (default), or a latency; tproc_c and hammerdb:
    nopm (default), or tpm."""
    runtime: Duration = 5 * _MINUTE
    """Time measured: whole seconds, for hammerdb whole minutes."""
    ramp: Duration = 2 * _MINUTE
    """Time under load before the measurement: whole seconds, for hammerdb whole minutes."""
    # --- all but hammerdb
    clients: tuple[int, ...] = Field((1, 4, 16), min_length=1)
    """All but hammerdb: client connections. Three and more make a ladder."""
    transactions: Literal[
        "tpcb-like", "simple-update", "select-only", "read_write", "read_only", "write_only", "point_select"
    ] = "tpcb-like"
    """The built-in transaction. pgbench: tpcb-like (default), simple-update, select-only; sysbench: read_write
    (default), read_only, write_only, point_select."""
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """All but hammerdb: the server's settings, as in its configuration: {shared_buffers: 64MB, max_wal_size:
    2GB}, or {innodb_buffer_pool_size: 64M, innodb_log_file_size: 1G}. They are read back from the running server, and
    lanes must agree in them."""
    unsafe: str = ""
    """All but hammerdb: why a server may lose what it acknowledged: settings such as fsync or
    innodb_doublewrite off are refused without this reason, which reports print."""
    filesystem: Literal["ext4", "xfs"] = "ext4"
    """All but hammerdb: file system that is made on a block device. Directories keep theirs."""
    fits_buffer: bool = False
    """All but hammerdb: allow data that fit into the server's own cache (shared_buffers,
    innodb_buffer_pool_size): such a load hardly reads from the lane."""
    version: int | None = Field(default=None, ge=postgresql.OLDEST, le=99)
    """PostgreSQL: major version of the server. Default: the newest that a machine has; lanes must agree."""
    checksums: bool = True
    """PostgreSQL: data checksums."""
    # --- pgbench
    scale: int = Field(default=50, ge=1, le=1_000_000)
    """pgbench: scale factor, some 15.6 MB of data each."""
    threads: int = Field(default=2, ge=1, le=1024)
    """pgbench, slob, tproc_c on postgresql: threads of the load generator, at most one per client."""
    sql: Annotated[str, Field(max_length=20_000)] = ""
    """pgbench: a script of your own in place of the built-in ones, as ``pgbench -f`` takes it, on pgbench's tables."""
    rate: float | None = Field(default=None, gt=0, le=1e7)
    """pgbench: transactions per second to schedule. Latency then counts from the time for which a transaction was
    scheduled, so that waiting counts. Default: as fast as the clients can."""
    # --- sysbench
    tables: int = Field(default=8, ge=1, le=1000)
    """sysbench: tables."""
    rows: int = Field(default=1_000_000, ge=1000, le=2_000_000_000)
    """sysbench: rows of each table, some 260 B with indexes. slob: rows of the table, a block of 8 KiB each (SCALE).
    Default: 1000000, with slob 100000."""
    distribution: Literal["special", "uniform", "gaussian", "pareto"] = "special"
    """sysbench: how rows are chosen (--rand-type). special: sysbench's default, three quarters of the accesses to 1 %
    of the rows."""
    # --- slob
    update_pct: int = Field(default=25, ge=0, le=100)
    """slob: percent of the work units that change their rows and commit; the others read them (UPDATE_PCT)."""
    work_unit: int = Field(default=64, ge=1, le=10_000)
    """slob: rows of a transaction, one after the other (WORK_UNIT)."""
    hotspot: Size | None = None
    """slob: beginning of the table to which some work units go (HOTSPOT_MB). Default: none, all go anywhere."""
    hotspot_frequency: int = Field(default=3, ge=1, le=1000)
    """slob: of how many work units one goes to the hot spot (HOTSPOT_FREQUENCY)."""
    # --- tproc_c and hammerdb
    warehouses: int = Field(default=500, ge=1, le=100_000)
    """tproc_c, hammerdb: warehouses of each database, some 110 MB each. Default: 500, with tproc_c 10."""
    users: tuple[int, ...] = Field((1, 2, 4, 8, 16, 32, 64), min_length=1)
    """hammerdb: virtual users of each database, without keying and thinking time. Three and more make a ladder."""
    vms: tuple[int, ...] = Field((1,), min_length=1)
    """hammerdb: machines, each with a database, in place of the platform's fleet."""
    disk_size: Size | None = None
    """hammerdb: size of the volume, in place of the platform's."""
    platforms = ("hosts", "lab", "kubevirt", "vsphere")

    @field_validator("settings")
    @classmethod
    def _readable(cls, settings: dict[str, Any]) -> dict[str, str]:
        result = {}
        for name, value in settings.items():
            text = ("on" if value else "off") if isinstance(value, bool) else str(value).strip()
            if not _SETTING.fullmatch(name) or not _VALUE.fullmatch(text):
                raise ValueError(f"{name}: expected a setting of the server and its value, found {text!r}")
            result[name] = text
        return result

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        for key in dict.fromkeys(key for keys in _OF_LOAD.values() for key in keys):
            if self._given(key) and key not in _OF_LOAD[self.load]:
                others = [load for load, keys in _OF_LOAD.items() if key in keys]
                raise ValueError(f"{key}: is for load: {' or '.join(others)} only")
        if self.load == "hammerdb":
            self._hammerdb()
            return self
        load = LOADS[self.load]
        self._default("database", load.SERVERS[0])
        if self.load == "tproc_c":
            self._default("primary", "nopm")
            self._default("warehouses", 10)
        if self.load == "slob":
            self._slob()
        if self.database not in load.SERVERS:
            raise ValueError(f"database: {self.load} loads {' and '.join(load.SERVERS)} only")
        for server, keys in _OF_SERVER.items():
            for key in keys:
                if server != self.database and self._given(key):
                    raise ValueError(f"{key}: is for database: {server} only")
        if not self.sql and self._chosen:
            self._default("transactions", load.TRANSACTIONS[0])
            if self.transactions not in load.TRANSACTIONS:
                raise ValueError(f"transactions: {self.load} has {', '.join(load.TRANSACTIONS)}")
        self._served()
        return self

    def _default(self, key: str, value: Any) -> None:
        if key not in self.model_fields_set:
            object.__setattr__(self, key, value)  # the model is frozen

    def _slob(self) -> None:
        self._default("rows", 100_000)
        if self.hotspot is None and self._given("hotspot_frequency"):
            raise ValueError("hotspot_frequency: give hotspot, too")
        if self.hotspot is not None and not slob.BLOCK <= self.hotspot <= self.rows * slob.BLOCK:
            raise ValueError(f"hotspot: expected 8k to {format_size(self.rows * slob.BLOCK)}, the size of all rows")

    def _hammerdb(self) -> None:
        for key, values, most in (("users", self.users, 10_000), ("vms", self.vms, 1000)):
            _in_range(key, values, most)
        for key, time in (("ramp", self.ramp), ("runtime", self.runtime)):
            if time % _MINUTE:
                raise ValueError(f"{key}: HammerDB counts whole minutes")
        if not self.runtime:
            raise ValueError("runtime: expected at least 1m")
        self._default("primary", "nopm")

    def _served(self) -> None:
        """Raises ValueError, Invalid."""
        _in_range("clients", self.clients, 10_000)
        for key, time in (("ramp", self.ramp), ("runtime", self.runtime)):
            if time % _SECOND:
                raise ValueError(f"{key}: {self.load} counts whole seconds")
        if not self.runtime:
            raise ValueError("runtime: expected at least 1s")
        if self.rate:
            self._default("primary", "lat_p95")  # the rate is given
        if self.sql and self._given("transactions"):
            raise ValueError("sql: give transactions or sql, not both")
        for name, value in self._settings.items():
            if why := self.server.refusal(name, value):
                raise ValueError(f"settings: {name}: {why}")
        if loose := self.loose:
            if not is_meaningful(self.unsafe):
                raise Invalid(
                    "not-durable",
                    f"settings: with {', '.join(loose)} a crash loses or damages what the database acknowledged",
                    hint='remove the setting, or write the reason for accepting it: unsafe: "..."',
                )
        elif self.unsafe:
            raise ValueError("unsafe: no setting is unsafe: remove it")
        if self.buffer >= self.data and not self.fits_buffer:
            key, _, per = self._size
            raise Invalid(
                "fits-buffer",
                f"{key}: the data (some {format_size(self.data)}) fit into {self.server.POOL} "
                f"({format_size(self.buffer)}): such a load hardly reads from the lane",
                hint=f"{key}: {2 * self.buffer // per + 1} or more, or fits_buffer: true to ask for it",
            )

    @property
    def _chosen(self) -> bool:
        """Whether the load has transactions to choose from."""
        return "transactions" in _OF_LOAD[self.load]

    @property
    def _transactions(self) -> str:
        """What the load does, in a word."""
        return self.transactions if self._chosen else LOADS[self.load].TRANSACTIONS[0]

    @property
    def server(self) -> Server:
        """What is known of the database server."""
        return SERVERS[self.database]

    @property
    def _settings(self) -> Mapping[str, str]:
        return {key: str(value) for key, value in self.settings.items()}

    @property
    def loose(self) -> tuple[str, ...]:
        """Settings that give up durability: ``fsync off``."""
        return self.server.loose(self._settings)

    @property
    def data(self) -> int:
        """Bytes of tables and indexes, about."""
        _, number, each = self._size
        return number * each // 2**20 * 2**20 or 2**20

    @property
    def _size(self) -> tuple[str, int, int]:
        """What makes the data large: key, its value, bytes of each."""
        if self.load == "pgbench":
            return "scale", self.scale, pgbench.PER_SCALE
        if self.load == "sysbench":
            return "rows", self.rows, self.tables * sysbench.PER_ROW
        if self.load == "slob":
            return "rows", self.rows, slob.PER_ROW
        return "warehouses", self.warehouses, tproc_c.PER_WAREHOUSE

    @property
    def buffer(self) -> int:
        """Bytes of the server's own cache."""
        return self.server.pool(self._settings)

    @property
    def needs(self) -> int:
        """Bytes that a volume must have: the data twice, the server's log to its limit, and growth."""
        grown = 2 * self.data + self.data // 4 + self.server.room(self._settings, self.data) + 64 * 2**20
        return 0 if self.load == "hammerdb" else grown

    @property
    def most(self) -> int:
        return len(self.users) * len(self.vms) if self.load == "hammerdb" else len(self.clients)

    def cells(self, name: str) -> tuple[Cell, ...]:
        if self.load == "hammerdb":
            return tuple(self._of_hammerdb(name))
        common = {
            "load": self.load, "database": self.database, "settings": self.settings, **self._of_load,
            "transactions": "" if self.sql else self._transactions,
            "version": self.version, "filesystem": self.filesystem, "checksums": self.checksums,
            "needs": self.needs, "direct": False, "ramp": self.ramp, "runtime": self.runtime,
        }  # fmt: skip
        what = "own script" if self.sql else self._transactions
        rate = f" {self.rate:g} tps" if self.rate else ""
        return tuple(
            Cell(name, "oltp", f"{self.server.TITLE} {what} x{clients}{rate}", {"numjobs": clients, **common})
            for clients in dict.fromkeys(self.clients)
        )

    @property
    def _of_load(self) -> Mapping[str, Any]:
        """Parameters that one load alone has."""
        if self.load == "pgbench":
            return {"threads": self.threads, "sql": self.sql, "rate": self.rate, "scale": self.scale}
        if self.load == "tproc_c":
            return {"threads": self.threads, "warehouses": self.warehouses}
        if self.load == "slob":
            return {"threads": self.threads, "rows": self.rows, "update_pct": self.update_pct,
                    "work_unit": self.work_unit, "hotspot": self.hotspot or 0,
                    "hotspot_frequency": self.hotspot_frequency}  # fmt: skip
        return {"tables": self.tables, "rows": self.rows, "distribution": self.distribution}

    def _of_hammerdb(self, name: str) -> list[Cell]:
        common = {"load": "hammerdb", "scale": self.warehouses, "ramp": self.ramp, "runtime": self.runtime}
        if self.disk_size is not None:
            common["disk_size"] = self.disk_size
        points = dict.fromkeys((vms, users) for vms in self.vms for users in self.users)
        return [
            Cell(name, "oltp", f"{_NAMES[self.database]} {vms} VM{'s' * (vms > 1)} x{users}",
                 {"fleet": vms, "numjobs": users, **common})
            for vms, users in points
        ]  # fmt: skip

    def known(self, cell: Cell) -> Mapping[str, Any]:
        p = cell.params
        common = {key: p[key] for key in ("numjobs", "scale", "ramp", "runtime", "fleet", "disk_size") if key in p}
        if self.load == "hammerdb":
            return {"tool": "HammerDB", "database": _NAMES[self.database], **common}
        stated = {"tool": self.load, "database": self.server.TITLE, **common}
        stated["transactions"] = self.sql or self._transactions
        if self.load == "sysbench":
            stated["transactions"] += f" ({self.distribution})"
            stated["scale"] = f"{self.tables} x {self.rows} rows"
        if self.load == "tproc_c":
            stated["scale"] = f"{self.warehouses} warehouses"
        if self.load == "slob":
            stated["scale"] = f"{self.rows} blocks"
            stated["transactions"] += f" ({self.work_unit} blocks, {self.update_pct} % updates{self._hot})"
        if self.rate:
            stated["rate_tps"] = self.rate
        if self.loose:
            stated["durability"] = f"given up: {', '.join(self.loose)} (accepted: {self.unsafe})"
        return stated

    @property
    def _hot(self) -> str:
        return f", every {self.hotspot_frequency}. in {format_size(self.hotspot)}" if self.hotspot else ""

    def trial_seconds(self, cell: Cell) -> float:
        return (int(cell.params["ramp"]) + int(cell.params["runtime"])) / 1e9


def _in_range(key: str, values: tuple[int, ...], most: int) -> None:
    if wrong := [value for value in values if not 1 <= value <= most]:
        raise ValueError(f"{key}: expected 1 to {most}, found {wrong[0]}")
