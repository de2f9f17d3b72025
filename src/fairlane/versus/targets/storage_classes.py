"""Storage classes of a cluster with KubeVirt: one virtual machine for each class, with a new volume of it."""

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairlane.errors import FairlaneError, RunFailed
from fairlane.guard.parameters import parameter
from fairlane.lanes.storage_class import StorageClassSpec
from fairlane.platforms._examined import Line
from fairlane.platforms.kubevirt import classes, kinds, preflight
from fairlane.platforms.kubevirt.classes import Storage, StorageClass
from fairlane.platforms.kubevirt.spec import KubevirtSpec
from fairlane.study.forecast import about
from fairlane.study.load import parse_study
from fairlane.units import about_size, format_size
from fairlane.versus import study as studies
from fairlane.versus.composed import Composed, Row
from fairlane.versus.plan import Pace, Shape, sizes
from fairlane.versus.targets.base import Named, Request, Target, named
from fairlane.versus.wording import of_options

IMAGE = "docker://quay.io/containerdisks/fedora:41"
"""A container disk: the node pulls it, and no storage class is in a machine's root."""
SIZE = 10 * 2**30
"""Bytes of a volume, where the user gives none."""
_CPUS, _MEMORY = 2, 4 * 2**30
_UP, _GONE, _FILL = 180.0, 30.0, 200 * 2**20
"""Estimates: seconds until all machines answer (image, boot, installation of fio), and until all is removed; bytes per
second of filling a volume."""
PACE = Pace(usual=900.0, overhead=3.0, least=2.0, wished=5.0, given=10.0, ramps=(1.0, 1.0))
"""Of a trial: a second at rest, and snapshots of guest and node over SSH through the API server."""
_VARY = ("provisioning", "copies", "write_ack", "flush", "link_speed", "link_delay")
"""Parameters in which classes may differ: the subject of the comparison."""
_VARY_MODE = ("volume_mode", "image_format")
"""Where no volume mode is common to all classes."""
_EQUAL = ("volume_mode", "disk_size", "bus", "queues", "io_threads", "cache_mode", "aio", "vm_cpus", "vm_memory")
_MODES = ("Block", "Filesystem")
"""Volume modes, the shorter way first."""
_CONTEXT = ("context", "namespace", "image")


@dataclass(frozen=True, kw_only=True)
class Classes(Composed):
    """A study of storage classes."""

    named: tuple[Named, ...]
    storage: Storage
    lines: tuple[Line, ...] = ()
    """The cluster, examined for this study."""

    @property
    def head(self) -> str:
        first, *others = self.labels
        return f"{first} against {' and '.join(others)}: about {about(self.sizes.seconds)}"

    @property
    def spec(self) -> KubevirtSpec:
        assert isinstance(self.study.platform, KubevirtSpec)  # noqa: S101 - made here
        return self.study.platform

    def lane(self, one: Named) -> StorageClassSpec:
        found = self.study.lanes[one.lane]
        assert isinstance(found, StorageClassSpec)  # noqa: S101 - made here
        return found

    def targets(self) -> Iterator[Row]:
        for number, one in enumerate(self.named):
            known = (self.storage.classes or {}).get(one.name)
            what = "" if one.label == one.name else f" {one.name}"
            by = f" of {known.provisioner}" if known and known.provisioner else ""
            default = ", the cluster's default" if one.name == self.storage.default else ""
            yield one.label, f"{'baseline: ' * (not number)}storage class{what}{by}{default}"

    def costs(self) -> Iterator[Row]:
        spec, count = self.spec, len(self.named)
        each = f"1 for each class: {spec.cpus} CPUs, {about_size(spec.memory)} of memory, all on one node"
        yield "makes", f"{count} virtual machines ({each}), which run until the end"
        per_class = preflight.volumes(self.study)
        for name, bytes_ in per_class.items():
            volumes = [f"{bytes_.count(size)} of {about_size(size)}" for size in dict.fromkeys(bytes_)]
            yield "", f"volumes (PVCs) of {name}: {', '.join(volumes)}"
        total = about_size(count * spec.disk_size)
        filled = f"{total} of random data, once, before the first trial" if self.load.fills else "nothing"
        yield "writes", filled + ("" if self.load.reads_only else ", plus the load's own writes")
        where = f"namespace {spec.namespace}, which exists; only the run's own objects are touched"
        yield "where", where if spec.use_existing else "a new namespace, fairlane-RUN"
        yield "image", self._image()
        yield (
            "removal",
            (
                "everything is removed at the end, also after an error or Ctrl-C. After a kill or a power failure "
                f"remove it with `{self._clean()}`, or finish the run with `fairlane versus --resume RUN`"
            ),
        )
        yield "equal", self._equal()
        yield "differ", self._differ()
        for line in self.lines:
            if line.state == "ok":
                yield "cluster", f"{line.name}: {line.found}"

    def _image(self) -> str:
        spec = self.spec
        if spec.container_disk:
            root = "a container disk: machines' roots are on the node, not on a storage class"
        else:
            root = f"roots are volumes of {spec.root_class or 'the class under test'}"
        install = "; fio is installed at the first boot unless the image has it"
        more = ""
        if self.storage.images and spec.container_disk:
            some = self.storage.images[:3]
            others = f" and {len(self.storage.images) - 3} more" * (len(self.storage.images) > 3)
            more = f". Images in the cluster (--image datasource:NAME): {', '.join(some)}{others}"
        return f"{spec.image}, {root}{install}{more}"

    def _equal(self) -> str:
        """What must match, with the values that all lanes ask for."""
        known = [{**self.spec.known(), **self.lane(one).known()} for one in self.named]
        same = [name for name in _EQUAL if len({str(k.get(name)) for k in known}) == 1]
        values = [f"{parameter(name).title} {parameter(name).shown(known[0].get(name))}" for name in same]
        access = ", ".join(dict.fromkeys(self.lane(one).access_mode for one in self.named))
        return (
            f"{', '.join(values)}, access mode {access}; and the guest's kernel and fio. All are read back; if one "
            "differs, the verdict is refused"
        )

    def _differ(self) -> str:
        titles = ", ".join(parameter(name).title for name in self.study.design.vary)
        known = [(one.label, self.storage.classes[one.name].copies) for one in self.named if self.storage.classes]
        stated = ", ".join(f"{label} {copies}" for label, copies in known if copies)
        copies = f" Copies by the classes' parameters: {stated}." if stated else ""
        return (
            f"{titles}: the subject of the comparison.{copies} The cluster does not state when a class acknowledges "
            "writes; a faster class may promise less"
        )

    def _clean(self) -> str:
        words = ["fairlane", "lab", "clean", "--platform", "kubevirt"]
        if self.spec.context:
            words += ["--context", self.spec.context]
        if self.spec.use_existing:
            words += ["--namespace", self.spec.namespace]
        return shlex.join(words)

    def warnings(self) -> Iterator[Row]:
        if "volume_mode" in self.study.design.vary:
            modes = ", ".join(f"{one.label} {self.lane(one).volume_mode}" for one in self.named)
            yield (
                "warning",
                (
                    f"The classes share no volume mode ({modes}): the result includes the cost of a file system on the "
                    "node"
                ),
            )
        yield from (("warning", text) for text in self.sizes.warnings)
        if self.cached:
            yield "warning", "The load goes through the guest's page cache, so the result includes the cache"
        for line in self.lines:
            if line.state == "warn":
                yield "warning", f"{line.name}: {line.found}" + (f" ({line.fix})" if line.fix else "")

    def as_json(self) -> Mapping[str, Any]:
        return {
            "classes": [
                {"lane": one.lane, "label": one.label, "storage_class": one.name,
                 "default": one.name == self.storage.default, "volume_mode": self.lane(one).volume_mode,
                 "access_mode": self.lane(one).access_mode}
                for one in self.named
            ],
            "machines": len(self.named),
            "volumes": preflight.volumes(self.study),
            "namespace": self.spec.namespace if self.spec.use_existing else "",
            "image": self.spec.image,
            "vary": list(self.study.design.vary),
            "clean": self._clean(),
            "cluster": [vars(line) for line in self.lines],
        }  # fmt: skip


# --- pure


def compose(names: Sequence[Named], storage: Storage, request: Request) -> Classes:
    """The study of the classes ``names`` of a cluster. Raises FairlaneError for classes that the cluster lacks, and for
    a time that is too short."""
    classes.check([one.name for one in names], storage)
    options, load = request.options, request.load
    size = request.wanted.size or max(SIZE, -(-load.needs // 2**20) * 2**20)
    fill = len(names) * size / _FILL if load.fills else 0.0
    shape = Shape(
        len(load.cells), len(names), {}, needs=load.needs, tail=load.tail, pace=PACE, opening=_UP + fill + _GONE
    )
    planned = replace(sizes(request.wanted, shape), size=size, fill_seconds=fill)
    planned = replace(planned, reasons=(*planned.reasons, *_reasons(request, size, fill)))
    modes = _modes([(storage.classes or {}).get(one.name, StorageClass(one.name)) for one in names])
    vary = [*_VARY, *(_VARY_MODE if len({mode for mode, _ in modes}) > 1 else ())]
    image = options.get("image") or IMAGE
    lines = [
        *studies.opening([one.lane for one in names], [one.label for one in names], planned, request.command),
        *_platform(options, image, size, storage),
        *studies.of_lanes({
            one.lane: {"transport": "storage_class", "label": one.label, "storage_class": one.name,
                       "volume_mode": mode, "access_mode": access}
            for one, (mode, access) in zip(names, modes, strict=True)
        }),
        *studies.of_workloads(load.workloads, planned, buffered=options["buffered"], part=False),
        *studies.of_design(planned, vary, "the comparison is about these", options["seed"],
                           options["accepts"]),
    ]  # fmt: skip
    text = "\n".join(lines) + "\n"
    try:
        study = parse_study(text, "the study of this command line")
    except FairlaneError as error:
        raise of_options(error) from None
    return Classes(
        labels=tuple(one.label for one in names), study=study, text=text, sizes=planned, load=load,
        named=tuple(names), storage=storage,
    )  # fmt: skip


def _platform(options: Mapping[str, Any], image: str, size: int, storage: Storage) -> list[str]:
    keys: dict[str, Any] = {"kind": "kubevirt"}
    if options.get("context"):
        keys["context"] = options["context"]
    if options.get("namespace"):
        keys |= {"namespace": options["namespace"], "use_existing": True}
    keys["image"] = image
    if not image.startswith("docker://") and storage.default:
        keys["root_class"] = storage.default
    keys |= {"cpus": _CPUS, "memory": format_size(_MEMORY), "disk_size": format_size(size)}
    return ["platform:", *(f"  {key}: {studies.value(value)}" for key, value in keys.items())]


def _modes(every: Sequence[StorageClass]) -> list[classes.Mode]:
    """Volume mode and access mode of each class: the same volume mode if all offer one, Block first; and
    ReadWriteOnce, because a machine stays on its node, unless the class offers another one alone. A class that CDI does
    not know is taken to offer what the others do."""
    offers = [{mode for mode, _ in one.modes} for one in every if one.modes]
    common = next((mode for mode in _MODES if all(mode in offer for offer in offers)), "")
    return [_mode(one.modes, common or (one.modes[0][0] if one.modes else _MODES[0])) for one in every]


def _mode(offered: Sequence[classes.Mode], mode: str) -> classes.Mode:
    access = [access for of, access in offered if of == mode]
    return mode, access[0] if access and "ReadWriteOnce" not in access else "ReadWriteOnce"


def _reasons(request: Request, size: int, fill: float) -> Iterator[str]:
    if not request.wanted.size:
        yield (
            f"Volumes of {format_size(size)}, the default (--size): set a larger size if the cache of an array could "
            "hold this much."
        )
    parts = [f"{about(_UP)} to create and boot the machines"]
    parts += [f"{about(fill)} to fill the volumes ({_FILL >> 20} MiB/s)"] * bool(fill)
    yield f"Estimated, not measured: {', '.join(parts)} and {about(_GONE)} to remove everything."
    yield (
        "All trials use one volume of each class, so the verdict holds for these volumes only. For a verdict on the "
        "classes: --save-study FILE, and replace `looks` by `provisionings: 6` in it."
    )


# --- the cluster


class Of(Target):
    article = "a storage class"
    plural = "storage classes"
    options = frozenset(_CONTEXT)

    def compose(self, request: Request) -> Classes:
        names = named(request.texts, "sc", self.plural)
        try:
            import kubernetes.aio  # noqa: F401, PLC0415 - the optional extra
        except ImportError as error:
            raise FairlaneError(
                "client-missing", "the Python package kubernetes is not installed", hint=preflight.EXTRA
            ) from error
        try:
            return asyncio.run(_examined(names, request))
        except RunFailed as error:  # nothing has begun
            raise FairlaneError(
                error.kind, error.message, hint=error.hint or preflight.TRY, where=error.where
            ) from error


async def _examined(names: Sequence[Named], request: Request) -> Classes:
    from fairlane.platforms.kubevirt.api import Api  # noqa: PLC0415 - needs the extra

    context, namespace = request.options.get("context") or "", request.options.get("namespace") or ""
    async with await Api.connect(context, patience=preflight.PATIENCE, notify=request.notify) as api:
        request.notify(f"inspecting the cluster {api.server}")
        plan = compose(names, await classes.read(api), request)
        if namespace and await preflight.Reader(api).missing(kinds.NAMESPACE, namespace):
            raise FairlaneError(
                "namespace-missing", f"the cluster has no namespace {namespace}", where="--namespace",
                hint="create it, or omit --namespace: the run then creates and removes its own",
            )  # fmt: skip
        lines = await preflight.examine(api, plan.study)
    return replace(plan, lines=tuple(lines), problems=tuple(preflight.problems(lines)))


TARGET = Of()
