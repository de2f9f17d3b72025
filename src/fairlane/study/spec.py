"""The study file's model: one pydantic model, made of the parts that the plugins bring."""

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, StringConstraints, model_validator
from pydantic_core import core_schema

from fairlane import registry
from fairlane.errors import Invalid
from fairlane.guard.parameters import Conditions
from fairlane.records import Cell
from fairlane.study.base import (
    CHECK_BLOCKS,
    MOST_CELLS,
    MOST_LANES,
    MOST_TRIALS,
    Design,
    LaneSpec,
    PlatformSpec,
    WorkloadSpec,
)
from fairlane.study.strict import Strict


class OneOf:
    """Annotation: a value of any plugin's ``Spec`` in ``package``, distinguished by the key ``tag``."""

    def __init__(self, package: str, tag: str) -> None:
        self.package = package
        self.tag = tag

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        choices = {name: handler.generate_schema(plugin.Spec) for name, plugin in registry.every(self.package)}
        return core_schema.tagged_union_schema(choices, discriminator=self.tag)


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]
"""Lower-case letters, digits and dashes, at most 31: it becomes part of file, device and target names."""


def invents(platform: str) -> bool:
    """Whether ``platform`` (its kind) invents its figures; False for an unknown one."""
    return platform in registry.names("platforms") and registry.load("platforms", platform).Spec.invented


class Study(Strict):
    """What a user asks: which lanes, under which workloads, with which design."""

    # Joined on first use: importing this module imports no plugin, so that a plugin may import this module.
    model_config = ConfigDict(defer_build=True)

    name: Name
    """Short name: the run directory is called after it."""
    question: str = ""
    """The question in the reader's words; the report opens with it."""
    platform: Annotated[PlatformSpec, OneOf("platforms", "kind")]
    """Where the virtual machines come from."""
    baseline: Name
    """The lane that the others are compared with."""
    # Two in the schema, for editors; one for a platform with least_lanes 1 (imported results): see _consistent.
    lanes: dict[Name, Annotated[LaneSpec, OneOf("lanes", "transport")]] = Field(
        min_length=1, json_schema_extra={"minProperties": 2}
    )
    """The storage paths under test."""
    workloads: dict[Name, Annotated[WorkloadSpec, OneOf("workloads", "kind")]] = Field(min_length=1)
    """What is run on each lane."""
    conditions: Conditions = Field(default_factory=dict)
    """Facts about all lanes that cannot be read back; a lane's own ``conditions`` override them."""
    design: Design = Design()
    """Randomisation, looks, margins."""
    quick: dict[str, Any] = Field(default_factory=dict)
    """Changes that `--quick` makes, for a first try: mappings are merged key by key, other values are replaced, null
    removes a key. A platform or workload of another kind, or a lane of another transport, replaces the whole part,
    because its keys differ."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._bounded()
        self._checking()
        design = self.design.fit(len(self.judged))
        if self.platform.fresh_sessions and "sessions" not in design.model_fields_set:
            design = design.model_copy(update={"sessions": "block"})
        object.__setattr__(self, "design", design)  # the model is frozen
        least = type(self.platform).least_lanes
        if len(self.lanes) < least:
            raise ValueError(f"lanes: expected at least {least}, found {len(self.lanes)}")
        if self.baseline not in self.lanes:
            raise Invalid("lane-unknown", f"baseline: {self.baseline!r} is not a lane (lanes: {', '.join(self.lanes)})")
        self._at_home()
        able, loads = self.platform.able, self.platform.loads
        for name, lane in self.lanes.items():
            if able and lane.transport not in able:
                raise Invalid(
                    "platform-cannot",
                    f"lanes.{name}.transport: platform {self.platform.title} cannot build {lane.transport!r} "
                    f"(it can: {', '.join(able)})",
                )
        for name, load in self.workloads.items():
            if loads and load.kind not in loads:
                raise Invalid(
                    "platform-cannot",
                    f"workloads.{name}.kind: platform {self.platform.title} cannot run {load.kind!r} "
                    f"(it can: {', '.join(loads)})",
                )
        for name, lane in self.lanes.items():
            if lane.copy_of:
                self.lanes[name] = self._copied(name, lane)
            elif lane.cells != "all":
                raise Invalid(
                    "cells-of-copy",
                    f"lanes.{name}.cells: {lane.cells} is for copies (copy_of) only; other lanes run in every cell",
                    hint="remove cells",
                )
        if self.baseline in self.references:
            raise Invalid(
                "reference-baseline",
                f"lanes.{self.baseline}.role: the baseline cannot be a reference: all lanes are compared with it",
            )
        if self.references and not self.rivals:
            raise Invalid(
                "no-contender", "lanes: expected a contender beside the baseline, but all other lanes are references"
            )
        self._made_anew()
        return self

    def _made_anew(self) -> None:
        """Raise ValueError for several provisionings, or sessions, of what cannot be made anew or would be the very
        same."""
        if self.design.sessions == "block" and (reason := self.platform.lasting_sessions):
            raise Invalid("sessions-unsupported", f"design.sessions: expected run: {reason}", hint="remove sessions")
        if self.design.provisionings == 1:
            return
        once = "provisionings: 1"
        if reason := self.platform.same_anew:
            raise Invalid("provisionings-same", f"design.provisionings: expected 1: {reason}", hint=once)
        for name, lane in self.lanes.items():
            if lane.existing:
                raise Invalid(
                    "provisionings-existing",
                    f"design.provisionings: expected 1: lane {name} is {lane.existing}, which no run can re-create",
                    hint=f"{once}; the verdicts then hold for these volumes only",
                )

    def _checking(self) -> None:
        """Raise ValueError for a workload that checks what is not there, or another thing."""
        for name, load in self.workloads.items():
            if not load.check_of:
                continue
            where, other = f"workloads.{name}.check_of", self.workloads.get(load.check_of)
            if other is None or other.check_of:
                raise Invalid("workload-unknown", f"{where}: {load.check_of!r} is not a workload with verdicts")
            same = (other.kind, other.primary) == (load.kind, load.primary)
            names = {cell.name for cell in other.cells(load.check_of)}
            if not same or (more := [cell.name for cell in load.cells(name) if cell.name not in names]):
                lacks = f"it has no cell {more[0]}" if same else f"its kind or primary differs from {name}'s"
                raise Invalid(
                    "check-differs",
                    f"{where}: {load.check_of} cannot be checked by {name}: {lacks}",
                    hint="copy kind, primary and some of the cells of that workload; change only ramp and runtime",
                )

    def _bounded(self) -> None:
        """Raise ValueError for a study too large to plan; imported results are not planned."""
        if not self.platform.measured_here:
            return
        if len(self.lanes) > MOST_LANES:
            raise Invalid("limit", f"lanes: expected at most {MOST_LANES}, found {len(self.lanes)}")
        cells = {name: workload.most for name, workload in self.workloads.items()}
        if (count := sum(cells.values())) > MOST_CELLS:
            largest = max(cells, key=lambda name: cells[name])
            raise Invalid(
                "limit",
                f"workloads.{largest}: expected at most {MOST_CELLS} cells in the study, found {count}: the lengths of "
                "its lists multiply",
            )
        if trials := self.too_many(self.design.looks[-1]):
            raise Invalid("limit", f"design: {trials}")

    def too_many(self, blocks: int) -> str:
        """Message if ``blocks`` per cell exceed the limits of a plan; else empty."""
        cells = sum(workload.most for workload in self.workloads.values())
        trials = blocks * cells * len(self.lanes)
        if trials <= MOST_TRIALS:
            return ""
        product = f"{blocks} blocks x {cells} cells x {len(self.lanes)} lanes = {trials} trials"
        return f"expected at most {MOST_TRIALS} trials, found {product}"

    def _at_home(self) -> None:
        """Raise ValueError for a transport or workload that the platform does not support."""
        parts = [(f"lanes.{name}.transport", lane.transport, lane.platforms) for name, lane in self.lanes.items()]
        parts += [(f"workloads.{name}.kind", load.kind, load.platforms) for name, load in self.workloads.items()]
        for where, what, homes in parts:
            if homes and self.platform.kind not in homes:
                raise Invalid(
                    "not-for-platform",
                    f"{where}: {what!r} is not for platform {self.platform.kind!r} (platforms: {', '.join(homes)})",
                )

    def _copied(self, name: str, lane: LaneSpec) -> LaneSpec:
        """``lane`` with missing keys taken from the lane it copies."""
        original = self.lanes.get(lane.copy_of)
        if original is None:
            known = ", ".join(other for other in self.lanes if other != name)
            raise Invalid("lane-unknown", f"lanes.{name}.copy_of: {lane.copy_of!r} is not a lane (lanes: {known})")
        if name in (self.baseline, lane.copy_of) or original.copy_of:
            raise Invalid(
                "copy-of-copy",
                f"lanes.{name}.copy_of: must name a lane that is not itself a copy; the baseline cannot be one",
            )
        if "reference" in (lane.role, original.role):
            raise Invalid(
                "reference-copy",
                f"lanes.{name}.copy_of: an A/A control and its original must be contenders, not references",
            )
        own = {"label", "copy_of", "cells"}
        for key in sorted(lane.model_fields_set - own):
            if getattr(lane, key) != getattr(original, key, None):
                raise Invalid(
                    "copy-differs", f"lanes.{name}.{key}: expected the value of {lane.copy_of}, which this lane copies"
                )
        return original.model_copy(update={key: getattr(lane, key) for key in own})

    def cells(self) -> tuple[Cell, ...]:
        """All cells, in the order of the study file."""
        return tuple(cell for name, workload in self.workloads.items() for cell in workload.cells(name))

    @property
    def judged(self) -> tuple[Cell, ...]:
        """The cells that get verdicts: all but those of workloads that check another one."""
        return tuple(cell for cell in self.cells() if not self.workloads[cell.workload].check_of)

    def blocks_of(self, cell: Cell, blocks: int) -> int:
        """Blocks of ``cell`` in a plan of so many."""
        return min(blocks, CHECK_BLOCKS) if self.workloads[cell.workload].check_of else blocks

    def lanes_of(self, cell: Cell) -> tuple[str, ...]:
        """Names of the lanes that run in ``cell``."""
        everywhere = tuple(name for name, lane in self.lanes.items() if lane.cells == "all")
        limited = len(everywhere) < len(self.lanes) and cell.key != self.cells()[0].key
        return everywhere if limited else tuple(self.lanes)

    @property
    def rivals(self) -> tuple[str, ...]:
        """Contenders compared with the baseline: all lanes except it, the copies (A/A controls) and references."""
        apart = (self.baseline, *self.references)
        return tuple(name for name, lane in self.lanes.items() if name not in apart and not lane.copy_of)

    @property
    def references(self) -> tuple[str, ...]:
        """Lanes that are shown and do not compete."""
        return tuple(name for name, lane in self.lanes.items() if lane.role == "reference")
