"""Problems of a study on hosts, from the study alone. Pure."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.fleet.volumes import by_lane
from fairlane.lanes.base import Ground
from fairlane.platforms._living.spec import LivingSpec
from fairlane.platforms._living.volumes import Volume, volumes
from fairlane.study.spec import Study
from fairlane.units import format_size


def unfit(study: Study) -> list[FairlaneError]:
    """Everything that keeps ``study`` from running on any machines."""
    spec = study.platform
    assert isinstance(spec, LivingSpec)  # noqa: S101 - the study's kind chose this platform
    if unknown := [*_placeholders(study, spec), *_machines(study, spec)]:
        return unknown
    lanes = by_lane(volumes(study, "0" * 10))
    return [
        *_steps(study, spec, lanes),
        *_files(study, lanes),
        *_loads(study, spec),
        *_sizes(study, spec, lanes),
        *_same(lanes),
    ]


_PLACEHOLDER = "EDIT-ME"


def _placeholders(study: Study, spec: LivingSpec) -> Iterator[FairlaneError]:
    """Values that a preset leaves for the user to fill in."""
    texts = {f"platform.machines.{name}": where for name, where in spec.destinations.items()}
    texts |= {f"lanes.{name}.{key}": str(getattr(lane, key, "")) for name, lane in study.lanes.items()
              if not lane.copy_of for key in ("path", "identity", "destroy")}  # fmt: skip
    texts |= {"platform.array.machine": spec.array.machine} if spec.array else {}
    for where, text in texts.items():
        if _PLACEHOLDER in text:
            yield FairlaneError(
                "placeholder", f"{text} is a placeholder for a value of your site", where=where,
                hint=f"fairlane init {study.name} -o mine.yaml, then replace {_PLACEHOLDER} in it",
            )  # fmt: skip


def _machines(study: Study, spec: LivingSpec) -> Iterator[FairlaneError]:
    for name, lane in study.lanes.items():
        for machine in lane.machines:
            if machine not in spec.machines:
                yield FairlaneError(
                    "machine-unknown", f"{machine!r} is not a machine of the study", where=f"lanes.{name}.machines",
                    hint=f"machines: {', '.join(spec.machines)}",
                )  # fmt: skip


def _steps(study: Study, spec: LivingSpec, lanes: Mapping[str, tuple[Volume, ...]]) -> Iterator[FairlaneError]:
    ground = Ground(keeps=True, fleet=1, mtu=1500, lanes=study.lanes)
    for name, own in lanes.items():
        first = own[0]
        if first.needs_array and spec.array is None:
            yield FairlaneError(
                "array-missing", f"{first.spec.transport} needs an array; the study has none", where=f"lanes.{name}",
                hint="name an existing array with external:, or a Linux machine with platform.array",
            )  # fmt: skip
            continue
        if wrong := [*first.problems()]:
            yield from wrong
            continue
        if first.external and len(own) > 1 and first.transport.backing != "external":
            yield FairlaneError(
                "external-one-machine",
                f"one volume of an array cannot be written by {len(own)} machines at once",
                where=f"lanes.{name}", hint=f"give the lane one machine: machines: [{own[0].machine}]",
            )  # fmt: skip
        if not first.buildable:
            yield FairlaneError(
                "transport-unsupported",
                f"{first.spec.transport} is not available on existing machines",
                where=f"lanes.{name}.transport",
                hint="use platform: {kind: lab}, which creates its own machines",
            )
            continue
        try:
            first.steps()
        except FairlaneError as error:
            yield error
            continue
        yield from first.transport.problems(ground)


def _files(study: Study, lanes: Mapping[str, tuple[Volume, ...]]) -> Iterator[FairlaneError]:
    """Existing files, and volumes without ``destroy``, that a workload would write."""
    for name, own in lanes.items():
        kind = own[0].spec.transport
        for load in study.workloads if own[0].kept or kind == "file" else ():
            cells = [cell for cell in study.cells() if cell.workload == load]
            plugin = registry.load("workloads", cells[0].kind)
            if not any(plugin.writes(cell) for cell in cells):
                continue
            hint = "use only read patterns"
            if kind != "file":
                hint += ", or, if the volume may be overwritten, set the lane's destroy: to its identity"
            yield FairlaneError(
                "kept-written",
                f"the workload would write to lane {name}, "
                f"{own[0].spec.existing or 'a volume that Fairlane did not make'}",
                where=f"workloads.{load}",
                hint=hint,
            )


def _sizes(study: Study, spec: LivingSpec, lanes: Mapping[str, tuple[Volume, ...]]) -> Iterator[FairlaneError]:
    if not any(own[0].owned for own in lanes.values()):
        return
    for name, load in study.workloads.items():
        database = getattr(load, "needs", 0)
        size = database or (getattr(load, "size", None) or 0) + (getattr(load, "offset", None) or 0)
        if size > spec.size:
            key = "scale" if database else "size"
            yield FairlaneError(
                "working-set", f"the workload needs {format_size(size)}, but a volume has {format_size(spec.size)}",
                where=f"workloads.{name}.{key}", hint=f"lower {key}, or raise platform.size",
            )  # fmt: skip


def _loads(study: Study, spec: LivingSpec) -> Iterator[FairlaneError]:
    """Cells that can only be planned; loads that would write over each other's data on one volume."""
    cells = {cell.workload: cell for cell in study.cells()}
    for name, cell in cells.items():
        if why := registry.load("workloads", cell.kind).unable(cell, spec.kind):
            yield FairlaneError("workload-unsupported", why, where=f"workloads.{name}")
    kinds = dict.fromkeys(cell.kind for cell in cells.values())
    if len(kinds) > 1 and "oltp" in kinds:
        yield FairlaneError(
            "loads-mixed", f"{' and '.join(kinds)} cannot share a volume: each writes over the other's data",
            where="workloads", hint="make two studies of it",
        )  # fmt: skip


def _same(lanes: Mapping[str, tuple[Volume, ...]]) -> Iterator[FairlaneError]:
    """Lanes that name the same thing on the same machine."""
    places = sorted(
        (v.machine, str(getattr(v.spec, "path", "") or getattr(v.spec, "identity", "")).rstrip("/"), name)
        for name, own in lanes.items() for v in own if not v.spec.copy_of
    )  # fmt: skip
    for (machine, path, one), (other_machine, other_path, other) in pairwise(places):
        if path and (machine, path) == (other_machine, other_path):
            yield FairlaneError(
                "lanes-same", f"lanes {one} and {other} use the same path: {path} on {machine}", where=f"lanes.{other}",
                hint="use different paths; to measure the noise floor, use copy_of",
            )  # fmt: skip
