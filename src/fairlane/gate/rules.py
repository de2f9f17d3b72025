"""The syntax tree of rules. ``str`` of a rule parses back to it. See docs/gate.md."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from fairlane.records import Severity

Sign = Literal[">=", "<=", ">", "<"]

DURATIONS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
COUNTS = {"": 1.0, "k": 1e3, "M": 1e6}
BANDWIDTHS = {
    "B/s": 1.0,
    **{f"{p}B/s": 1000.0**n for n, p in enumerate("kMG", start=1)},
    **{f"{p}iB/s": 1024.0**n for n, p in enumerate("KMG", start=1)},
}


@dataclass(frozen=True)
class Quantity:
    """A figure with its unit, as written."""

    number: Decimal
    unit: str
    """A key of DURATIONS, COUNTS or BANDWIDTHS."""

    @property
    def value(self) -> float:
        """The quantity in the metric registry's unit."""
        return float(self.number) * {**DURATIONS, **COUNTS, **BANDWIDTHS}[self.unit]

    def __str__(self) -> str:
        space = "" if self.unit in COUNTS or self.unit in DURATIONS else " "
        return f"{_plain(self.number)}{space}{self.unit}"


@dataclass(frozen=True)
class Relative:
    """``nvme-tcp >= 20 % over iscsi in iops on 4k randread, no block below 10 %``."""

    lane: str
    sign: Sign
    percent: Decimal
    side: Literal["over", "under"]
    baseline: str
    metric: str = ""
    """Name in the registry; empty: the workload's primary metric."""
    cells: str = ""
    """Patterns of cells, with ``and`` between them; empty: all."""
    block: Decimal | None = None
    """Limit of every single block, in percent."""

    def __str__(self) -> str:
        limit = f", no block {_edge(self.sign)} {_plain(self.block)} %" if self.block is not None else ""
        head = f"{self.lane} {self.sign} {_plain(self.percent)} % {self.side} {self.baseline}"
        return head + _where(self.metric, self.cells) + limit

    def factor(self, percent: Decimal) -> float:
        """``percent`` over or under as a ratio lane / baseline."""
        return 1 + float(percent) / 100 * (1 if self.side == "over" else -1)

    @property
    def least(self) -> bool:
        """Whether the ratio must be at least the factor: >= over, or <= under."""
        return (self.sign[0] == ">") == (self.side == "over")


@dataclass(frozen=True)
class Within:
    """``nvme-tcp within 5 % of iscsi``, ``nvme-tcp ties iscsi``."""

    lane: str
    baseline: str
    percent: Decimal | None = None
    """None: the study's margin of the metric."""
    metric: str = ""
    cells: str = ""

    def __str__(self) -> str:
        verb = "ties" if self.percent is None else f"within {_plain(self.percent)} % of"
        return f"{self.lane} {verb} {self.baseline}" + _where(self.metric, self.cells)


@dataclass(frozen=True)
class Directed:
    """``nvme-tcp faster than iscsi in p99``, ``scsi not slower than blk in iops on mixes/``: words of verdicts.

    ``faster`` means fewer ns for a latency.
    """

    lane: str
    way: Literal["faster", "slower"]
    baseline: str
    negated: bool = False
    """Whether the lane is *not* faster or slower, by more than the study's margin."""
    metric: str = ""
    cells: str = ""

    def __str__(self) -> str:
        verb = f"{'not ' if self.negated else ''}{self.way} than"
        return f"{self.lane} {verb} {self.baseline}" + _where(self.metric, self.cells)

    def upwards(self, better: int) -> bool:
        """Whether ``way`` means a larger figure of a metric of which +1: more, or -1: less, is ``better``."""
        return (self.way == "faster") == (better > 0)


@dataclass(frozen=True)
class Absolute:
    """``p99 of nvme-tcp <= 2ms on 4k randread qd16, no block above 3ms``."""

    metric: str
    lane: str
    sign: Sign
    limit: Quantity
    cells: str = ""
    block: Quantity | None = None

    def __str__(self) -> str:
        limit = f", no block {_edge(self.sign)} {self.block}" if self.block is not None else ""
        return f"{self.metric} of {self.lane} {self.sign} {self.limit}{_where('', self.cells)}{limit}"

    @property
    def least(self) -> bool:
        """Whether the figure must be at least the limit."""
        return self.sign[0] == ">"


@dataclass(frozen=True)
class Clean:
    """``no critical finding``, ``no warning on 4k*``: no finding of that severity or above."""

    severity: Severity
    cells: str = ""

    def __str__(self) -> str:
        noun = {"critical": "critical finding", "warning": "warning", "info": "finding"}[self.severity]
        return f"no {noun}" + _where("", self.cells)


Compared = Relative | Within | Directed
"""Rules on a lane against another."""
Rule = Compared | Absolute | Clean


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _edge(sign: Sign) -> str:
    return "below" if sign[0] == ">" else "above"


def _where(metric: str, cells: str) -> str:
    return (f" in {metric}" if metric else "") + (f" on {cells}" if cells else "")
