"""The import map (``fairlane import --map``): the lanes of the files, and their known conditions."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, Field, create_model, field_validator

from fairlane import registry
from fairlane.errors import FairlaneError, nearest
from fairlane.guard.parameters import Accepted, Conditions, ParameterName
from fairlane.guard.values import Scalar
from fairlane.study.base import MetricName
from fairlane.study.explain import Form
from fairlane.study.load import parse, read_text
from fairlane.study.schema import schema_of
from fairlane.study.spec import Name
from fairlane.study.strict import Strict
from fairlane.units import Share


class MappedLane(Strict):
    """A lane of imported results. Without ``files`` and ``where`` it is the lane that the results themselves, or else
    the folders, call so."""

    files: tuple[str, ...] = ()
    """Patterns of the files that are this lane: [rep3/*.json, "**/rep3-*"]. * and ? stay within one folder, ** does
    not; a folder stands for all in it; a pattern without / is tried on every part of the path."""
    where: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)
    """Labels of the results that are this lane, all of them with this value or one of these: {pool: rep3}."""
    label: str = ""
    """Name in reports; the lane's key if empty."""
    conditions: Conditions = Field(default_factory=dict)
    """What is known of this lane: copies, write_ack, link_speed, vm_memory, ..."""
    cap_iops: float | None = Field(None, gt=0)
    """IOPS that this lane's tier is limited to."""
    cap_mibs: float | None = Field(None, gt=0)
    """MiB/s that this lane's tier is limited to."""
    cost: float | None = Field(None, gt=0)
    """What the lane costs, in any unit that all lanes share."""
    source: str = ""
    """Where its figures come from, for readers: page, run, date."""


class MappedCell(Strict):
    """What is known of one cell."""

    primary: MetricName | None = None
    """Its headline metric."""
    conditions: Conditions = Field(default_factory=dict)
    """What is known of this cell in all lanes: metric_definition, size, prefill, ..."""


class ImportMap(Strict):
    """An import map. Everything in it may be left out; then files and folders speak for themselves."""

    name: Name | None = None
    """Short name of the run."""
    question: str = ""
    """The question in the reader's words; the report opens with it."""
    tool: str = ""
    """The importer that reads the files; without it each file is recognised by its content."""
    baseline: str = ""
    """The lane that the others are compared with; without it the first."""
    conditions: Conditions = Field(default_factory=dict)
    """What is known of all lanes alike: vm_cpus, disk_size, prefill, date, ..."""
    lanes: dict[Name, MappedLane] = Field(default_factory=dict)
    """The lanes, by name."""
    workload: Name = "main"
    """Name of the workload that the cells belong to."""
    primary: MetricName | None = None
    """Headline metric of the cells; without it the first that they have of iops, bw, tps, ..."""
    cells: dict[str, MappedCell] = Field(default_factory=dict)
    """What is known of single cells, by their name as ``fairlane import --dry-run`` prints it."""
    paired: bool | None = None
    """Whether the lanes were interleaved, so that they may be compared block by block. Without it the times of the
    trials decide: interleaved only if every block was over, in all lanes, before the next one began."""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """Two-sided error rate."""
    margins: dict[MetricName, Share] = Field(default_factory=dict)
    """Per metric: the smallest difference that matters."""
    vary: tuple[ParameterName, ...] = ()
    """Parameters in which the lanes are meant to differ."""
    accept: Accepted = Field(default_factory=dict)
    """Parameters that do not match, or are not known, and are accepted: name and reason."""

    @field_validator("tool")
    @classmethod
    def _known_tool(cls, name: str) -> str:
        if name and name not in (known := registry.names("importers")):
            raise ValueError(f"{name!r} is not a tool (tools: {', '.join(known)})")
        return name

    def options(self, tool: str) -> BaseModel | None:
        """The options under the importer's name; None: none."""
        section: BaseModel | None = getattr(self, tool, None) if tool in _with_options() else None
        return section


@cache
def _with_options() -> Mapping[str, type[BaseModel]]:
    """Importers that take options: name -> model."""
    return {name: plugin.Options for name, plugin in registry.every("importers") if plugin.Options is not None}


@cache
def _model() -> type[ImportMap]:
    """``ImportMap`` with a key for every importer that takes options."""
    keys: dict[str, Any] = {
        name: (options | None, Field(None, description=f"Options of the importer {name}."))
        for name, options in _with_options().items()
    }
    return create_model("ImportMap", __base__=ImportMap, __doc__=ImportMap.__doc__, **keys)


@cache
def json_schema() -> Mapping[str, Any]:
    """JSON Schema, draft 2020-12, of an import map, with the options of every installed importer."""
    return schema_of(_model(), "Fairlane import map")


def parse_map(text: str, where: str) -> ImportMap:
    """The map written in ``text``. Raises one FairlaneError that names ``where``, the lines, and all problems."""
    return parse(text, where, _model(), Form(json_schema))


def load_map(path: str) -> ImportMap:
    """The map in the YAML file ``path``. Raises FairlaneError."""
    return parse_map(read_text(path, FairlaneError("file-missing", "no such file", where=path)), path)


def importer(name: str, chosen: ImportMap | None = None) -> Any:
    """The importer ``name``, with the options of ``chosen``. Raises FairlaneError for an unknown name."""
    known = registry.names("importers")
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"tools: {', '.join(known)}"
        raise FairlaneError("importer-unknown", f"no importer named {name!r}", hint=hint)
    plugin = registry.load("importers", name)
    options = chosen.options(name) if chosen else None
    return plugin if options is None else plugin.configured(options)
