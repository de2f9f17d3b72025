"""Base models of a study file's lanes, workloads, platform and design; plugins derive their own part from these.

A transport's file defines a ``LaneSpec``, a workload's a ``WorkloadSpec``, a platform's a ``PlatformSpec``; ``spec.py``
joins them into one discriminated union per kind, so that a new plugin needs no edit here.
"""

from abc import abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema, field_validator, model_validator

from fairlane.errors import Invalid
from fairlane.guard.parameters import Accepted, Conditions, ParameterName
from fairlane.metrics import METRICS
from fairlane.records import Block, Cell
from fairlane.study.guest_device import GuestDevice
from fairlane.study.provisionings import MOST_PROVISIONINGS, default_looks, misfit
from fairlane.study.strict import Strict
from fairlane.units import Duration, Share


def _known_metric(name: str) -> str:
    if name not in METRICS:
        raise ValueError(f"{name!r} is not a metric (metrics: {', '.join(METRICS)})")
    return name


MOST_BLOCKS = 10_000
"""Blocks per cell of a study."""
MOST_CELLS = 10_000
"""Cells of a study: the product of its lists' lengths."""
MOST_LANES = 100
"""Lanes of a study that is run."""
MOST_TRIALS = 200_000
"""Trials of a study that is run, up to its last look."""
CHECK_BLOCKS = 4
"""Blocks of a workload that checks another one (``check_of``): two balanced pairs of orders."""
_MOST_LOOKS = 100

Limit = Annotated[float, Field(ge=1e-3, le=1e12)]
"""What a tier is limited to, or costs."""

MetricName = Annotated[str, AfterValidator(_known_metric), WithJsonSchema({"type": "string", "enum": list(METRICS)})]
"""Name in the metric registry."""


class LaneSpec(Strict):
    """A lane. Derived classes add ``transport: Literal[...]`` and the transport's parameters."""

    transport: str
    """How the volume reaches the guest."""
    label: str = ""
    """Name in reports; the lane's key if empty."""
    initiator: Literal["guest", "hypervisor"] = "guest"
    """Where the initiator runs: in the virtual machine itself, or in the hypervisor, which gives the machine a
    ``device``. Lanes without a transport (``local``) have a ``device``, too."""
    device: GuestDevice | None = None
    """The guest's disk, if the hypervisor provides it; default: virtio-blk with QEMU's defaults. Requires
    ``initiator: hypervisor``, or a transport without initiator."""
    destroy: str = ""
    """Identity (serial, WWN, NQN#nsid) of the lane's volume: its contents may be destroyed. A volume that Fairlane did
    not create is never written without it, blank or not, and never while it is in use."""
    conditions: Conditions = Field(default_factory=dict)
    """Facts about the lane that cannot be read back: copies, write_ack, flush, link_speed, vm_memory, ... A verdict is
    refused if a parameter that must match differs, or is stated on one side only."""
    cap_iops: Limit | None = None
    """IOPS limit of this lane's tier. A result above it cannot come from the tier."""
    cap_mibs: Limit | None = None
    """MiB/s limit of this lane's tier."""
    copy_of: str = ""
    """Name of a lane to build a second time, as an A/A control. Set the transport; all other keys come from that lane.
    The two are compared with each other only: the interval is the noise floor, and a difference is a defect. Costs one
    more trial in every block."""
    role: Literal["contender", "reference"] = "contender"
    """reference: a lane for comparison only, such as the bare medium. It runs in every block and is shown with its
    figures, but in no headline, scorecard or ranking. It keeps no cell open and is no primary comparison; its intervals
    against the baseline are exploratory."""
    cells: Literal["all", "first"] = "all"
    """Cells in which a copy (copy_of) runs. first: only the study's first cell, so that the noise floor costs
    little."""
    machines: tuple[str, ...] = ()
    """Machines of the platform that use this lane; default: all. Between lanes on different machines the result
    includes the difference of the machines, unless they exchange them (platform hosts, `swap`)."""
    cost: Limit | None = None
    """Cost of the lane, in the same unit for all lanes (per month, say), for IOPS per unit of cost."""

    def known(self) -> Mapping[str, Any]:
        """Parameters (see ``guard.parameters``) that follow from the lane's own keys; ``conditions`` adds to them.

        A transport's own keys are compared as ``path_settings``."""
        parameters: dict[str, Any] = {"transport": self.transport}
        if self.initiator == "hypervisor" or self.device:
            parameters |= {"initiator": self.initiator, **(self.device or GuestDevice()).known()}
        return parameters

    @property
    def existing(self) -> str:
        """An existing resource of the lane, which the run cannot re-create: ``a volume of an external array``. Empty:
        the run makes its volume."""
        return "a volume of an external array" if getattr(self, "external", None) else ""

    @property
    def stand_in(self) -> str:
        """Why figures of this transport do not measure the transport it is named after (``soft-RoCE is software``):
        they are shown and never ranked against another transport. Empty: they do."""
        return ""

    network: ClassVar[bool] = True
    """Whether I/O leaves the machine over a network that the kernel's counters see."""
    initiators: ClassVar[tuple[str, ...]] = ("guest",)
    """Where this transport's initiator can run. ``hypervisor`` alone: the guest always has a ``device``."""
    platforms: ClassVar[tuple[str, ...]] = ()
    """Kinds of platform that support this transport; empty: any."""

    @model_validator(mode="after")
    def _placed(self) -> Self:
        allowed = self.initiators
        if self.device and "initiator" not in self.model_fields_set and "hypervisor" in allowed:
            object.__setattr__(self, "initiator", "hypervisor")  # a device is the hypervisor's
        if "initiator" in self.model_fields_set and self.initiator not in allowed:
            raise ValueError(f"initiator: {self.transport} runs in the {' or the '.join(allowed)} only")
        if self.initiator not in allowed:
            object.__setattr__(self, "initiator", allowed[0])  # the model is frozen
        if self.device and self.initiator == "guest":
            raise ValueError("device: requires initiator: hypervisor, because an initiator in the guest has no device")
        if self.device and self.device.throttle and not (self.cap_iops or self.cap_mibs):
            raise ValueError("device.throttle: needs the lane's cap_iops or cap_mibs")
        return self


class WorkloadSpec(Strict):
    """A workload. Derived classes add ``kind: Literal[...]`` and say which cells they make."""

    kind: str
    """The kind of load."""
    primary: MetricName = "iops"
    """The only metric for headlines (Holm over all primaries of the study); all others are exploratory."""
    platforms: ClassVar[tuple[str, ...]] = ()
    """Kinds of platform that can run this workload; empty: any."""

    @property
    def most(self) -> int:
        """Upper limit of its cells, the product of its lists' lengths, without making them."""
        lists = (value for key in type(self).model_fields if isinstance(value := getattr(self, key), tuple))
        return prod(len(value) for value in lists if value)

    def _given(self, key: str) -> bool:
        """Whether ``key`` has another value than its default: a study that is written back names every key."""
        return bool(getattr(self, key) != type(self).model_fields[key].get_default(call_default_factory=True))

    @abstractmethod
    def cells(self, name: str) -> tuple[Cell, ...]:
        """The cells of this workload, called ``name`` in the study, in a stable order."""

    check_of: str = ""
    """Name of a workload of the same kind, whose short trials this one validates with long ones. All its cells must be
    cells of that workload. They run in the first 4 blocks and get no verdict: the check `slots` compares their ratios
    with those of the short trials."""
    slo: dict[MetricName, Duration] = Field(default_factory=dict)
    """Latency objectives: metric and highest acceptable latency, {lat_p99: 2ms}. On every ladder (cells that differ
    only in iodepth, numjobs or rate) lanes are compared by their highest throughput within the objective."""

    @field_validator("slo")
    @classmethod
    def _latencies(cls, slo: dict[str, int]) -> dict[str, int]:
        for name, limit in slo.items():
            if METRICS[name].unit != "ns" or METRICS[name].better > 0 or not limit:
                raise ValueError(f"{name}: expected latencies with limits above 0, such as {{lat_p99: 2ms}}")
        return slo

    def known(self, cell: Cell) -> Mapping[str, Any]:
        """Parameters (see ``guard.parameters``) of ``cell``, in which the lanes must agree."""
        return cell.params

    @abstractmethod
    def trial_seconds(self, cell: Cell) -> float:
        """Time under load of one trial of ``cell``, ramp included, in the guest's seconds."""


class PlatformSpec(Strict):
    """A platform. Derived classes add ``kind: Literal[...]``."""

    kind: str
    """Where the virtual machines come from."""
    transports: ClassVar[tuple[str, ...]] = ()
    """Transports this platform can build; empty: any. Readers use ``able``."""
    least_lanes: ClassVar[int] = 2
    """A study that is run compares lanes; one that was imported may be compared with another."""

    invented: ClassVar[bool] = False
    """Figures are made up; every report states it."""

    fresh_sessions: ClassVar[bool] = False
    """Initiators log in again before every block unless the study sets ``design.sessions``."""

    living: ClassVar[bool] = False
    """Machines have other work beside the study, which their counters count too."""

    measured_here: ClassVar[bool] = True
    """One run of this program measured all lanes, so that the journal's times are those of the figures and nothing but
    the lanes' own paths can have differed without being known."""

    reported_later: ClassVar[frozenset[str]] = frozenset(
        {"guest_kernel", "hypervisor", "host_cpu", "disk_size", "mtu", "tool", "tool_version", "date"}
    )
    """Parameters that machines and trials may report for every lane: not yet a difference if one lane alone states them
    in the study."""

    def known(self) -> Mapping[str, Any]:
        """Parameters (see ``guard.parameters``) that are equal for every lane of this platform."""
        return {"platform": self.kind}

    @property
    def same_anew(self) -> str:
        """Why re-created machines and volumes are identical, so that a study needs no second provisioning:
        ``every block starts from one saved state``. Empty: they may be placed elsewhere."""
        return "" if self.measured_here else "this platform creates no machines and volumes"

    @property
    def lasting_sessions(self) -> str:
        """Why initiators cannot log in again between two blocks (``sessions: block``); empty: they can."""
        return f"platform {self.title} has no sessions that Fairlane could renew"

    @property
    def placed(self) -> bool:
        """Whether re-created volumes and machines may be faster or slower, so that figures of one provisioning need not
        hold for another."""
        return not self.same_anew

    def wall_seconds(self, guest_seconds: float) -> float:
        """Expected wall time of one trial with ``guest_seconds`` under load, on one worker."""
        return guest_seconds

    @property
    def title(self) -> str:
        """Name of this platform as configured, for messages."""
        return repr(self.kind)

    @property
    def able(self) -> tuple[str, ...]:
        """Transports that this platform as configured can build; empty: any."""
        return self.transports

    @property
    def loads(self) -> tuple[str, ...]:
        """Kinds of workload that this platform as configured can run; empty: any."""
        return ()

    def workers(self, jobs: int) -> int:
        """Blocks that this platform may run in parallel, of ``jobs`` requested; 1 unless proven harmless."""
        return min(jobs, 1)


class Stop(Strict):
    """Ends a cell as soon as its intervals are narrow enough, wherever they lie; replaces planned looks."""

    width: Share = Field(gt=0)
    """Half-width at which the intervals of the primary metric are narrow enough, in every lane: 2% is +-2 % of the
    ratio. They are 95 % intervals (1 - alpha), adjusted for the number of primaries (Bonferroni)."""
    least: int = Field(default=10, ge=10)
    """Minimum number of blocks of a cell. With fewer than 10 the spread is too uncertain to stop on it."""
    most: int = Field(default=40, ge=10, le=1000)
    """Maximum number of blocks of a cell."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.most < self.least:
            raise Invalid("limit", f"most: {self.most} is less than least: {self.least}")
        return self


LOOKS = tuple(range(4, 21, 2))
"""After every balanced pair of orders."""
MANY_CELLS = 6
"""Cells from which any can be judged by fewer than ``FEW_BLOCKS``: together they know their spread."""
OWN_BLOCKS = 4
"""Blocks of a cell below which other cells lend it no smaller spread than its own, and it bears no headline: two or
three do not show that it is as calm as they are."""
PROVISIONINGS_FOR_OTHERS = 5
"""Provisionings from which on verdicts hold for other volumes of the kind: fewer do not show how much these differ."""
FEW_BLOCKS = 6
"""Blocks from which a comparison's own spread can be trusted with a headline: noise that has two states can look calm
for four (13 to 22 % of studies of 24 equal cells showed a difference)."""


class Design(Strict):
    """Randomisation, interim analyses, and the smallest difference that matters."""

    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seed of everything random."""
    looks: tuple[int, ...] = LOOKS
    """Numbers of blocks per cell after which to do an interim analysis (Hwang-Shih-DeCani spending). Default: from 6 on
    in studies of fewer than six cells, which are too few to pool their spreads. One number: a fixed number of blocks.
    With ``stop`` leave it out: it is every number from ``least`` to ``most``. At most 100 looks and 10,000 blocks."""
    provisionings: int = Field(default=1, ge=1, le=MOST_PROVISIONINGS)
    """How often volumes and machines are created over the planned blocks, each time for the same even number of blocks.
    Their placement can change figures more than trials do: with fewer than 5 the verdicts hold for these volumes only,
    with more for others like them. Looks are then between provisionings; default: after 4, 5, ... provisionings of 2
    blocks."""
    sessions: Literal["block", "run"] = "run"
    """block: initiators log in again before every block (iSCSI, NVMe, NFS mounts), so that the effects of a login
    (ports, queues, cores) vary between blocks. It takes seconds per block, and the data stay. run: they log in once,
    when the lanes are built. Default: run; on platform hosts block."""
    stop: Stop | None = None
    """Stop on the width of the intervals, in place of ``looks``: {width: 2%, most: 40}."""
    alpha: float = Field(default=0.05, ge=1e-6, lt=0.5)
    """Two-sided error rate over all looks and all primaries."""
    margins: dict[MetricName, Share] = Field(default_factory=dict)
    """Per metric: the smallest difference that matters. Defaults: 5 % for throughput, 10 % for latency."""
    paired: bool = True
    """The lanes of a block ran close together and with the same addresses, so they are compared block by block. False
    for results whose lanes ran at different times: their trials are compared once, as two independent samples."""
    vary: tuple[ParameterName, ...] = ()
    """Parameters in which the lanes differ on purpose, beside the path itself. They are reported and need not match."""
    accept: Accepted = Field(default_factory=dict)
    """Parameters that do not match, or are not known, and are accepted: name and reason. The report prints both."""

    @field_validator("looks")
    @classmethod
    def _rising(cls, looks: tuple[int, ...]) -> tuple[int, ...]:
        if not looks or looks[0] < 2 or any(b <= a for a, b in pairwise(looks)):
            raise ValueError("expected rising numbers of blocks, the first at least 2, such as [6, 10, 15, 20]")
        if looks[-1] > MOST_BLOCKS:
            raise Invalid("limit", f"expected at most {MOST_BLOCKS} blocks, found {looks[-1]}")
        if len(looks) > _MOST_LOOKS:
            raise Invalid("limit", f"expected at most {_MOST_LOOKS} looks, found {len(looks)}")
        return looks

    @model_validator(mode="after")
    def _stopping(self) -> Self:
        if self.stop is None:
            return self
        every = tuple(range(self.stop.least, self.stop.most + 1))
        if "looks" in self.model_fields_set and self.looks != every:
            raise Invalid("stop-and-looks", "stop: the design has both looks and stop: keep one of them")
        if not self.paired:
            raise Invalid("stop-unpaired", "stop: lanes that ran at different times are judged once: remove stop")
        object.__setattr__(self, "looks", every)  # the model is frozen
        return self

    @model_validator(mode="after")
    def _provisioned(self) -> Self:
        if self.provisionings == 1:
            return self
        if not self.paired:
            raise Invalid(
                "provisionings-unpaired",
                "provisionings: lanes that ran at different times share no provisioning",
                hint="remove provisionings",
            )
        if self.stop:
            # stopping on width looks after every block, and a width counts blocks: those of one provisioning are no
            # independent units, and the plan would have no fixed number of them per provisioning
            raise Invalid(
                "stop-and-provisionings",
                "stop: with several provisionings interim analyses are possible between them only",
                hint="use looks instead of stop, or provisionings: 1",
            )
        if "looks" not in self.model_fields_set:
            object.__setattr__(self, "looks", default_looks(self.provisionings))  # the model is frozen
        if problem := misfit(self.looks, self.provisionings):
            fits = list(default_looks(self.provisionings))
            raise Invalid("provisionings-uneven", f"looks: {problem}", hint=f"looks: {fits}, or remove looks")
        return self

    @property
    def blocks_per_provisioning(self) -> int:
        """Blocks of a cell in each provisioning."""
        return self.looks[-1] // self.provisionings

    @property
    def blocks_per_unit(self) -> int:
        """Blocks whose mean is one independent figure: those of a provisioning, or one."""
        return self.blocks_per_provisioning if self.provisionings > 1 else 1

    def fit(self, cells: int) -> "Design":
        """This design for a study of so many cells: default looks begin where they are informative."""
        if "looks" in self.model_fields_set or self.looks != LOOKS or cells >= MANY_CELLS:
            return self
        fitted = self.model_copy()
        object.__setattr__(fitted, "looks", tuple(n for n in LOOKS if n >= FEW_BLOCKS))  # the model is frozen
        return fitted

    def provisioning_of(self, block: Block | int) -> int:
        """Number of the provisioning, from 0, in which ``block`` (or the block with this index) runs: a property of the
        design."""
        index = block if isinstance(block, int) else block.index
        return index // self.blocks_per_provisioning if self.provisionings > 1 else 0
