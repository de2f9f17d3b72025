"""Any table: CSV, TSV, a JSON list or JSON lines, with a mapping of its columns.

One row may be one trial (a column per metric), several (a column per lane, or columns of several cells), or one figure
of a trial (a column that names the metric). Figures that agree in lane, cell, block and params are one trial; where a
metric comes twice for the same, the second begins a further trial: a repetition, unless the rows differ in a column
that nothing maps.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.formats.record import Record
from fairlane.guard.parameters import PARAMETERS, Conditions, ParameterName
from fairlane.importers._consistent import consistent
from fairlane.importers._reading import shown
from fairlane.importers._table_cells import MISSING, Row, factor_of, is_number, rows, units_of
from fairlane.importers._words import is_counter
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.metrics import METRICS, WAYS, own_metric
from fairlane.records import Figures
from fairlane.study.base import MetricName
from fairlane.study.strict import Strict


class Column(Strict):
    """A column with values of a parameter."""

    column: str
    """Its head."""
    unit: str = ""
    """Unit of bare numbers: s, ms, k, MiB, ..."""


class Figure(Strict):
    """What a metric's figures are, and where they stand."""

    metric: MetricName
    """The metric."""
    column: str = ""
    """Head of the column with its figures; the table's ``value`` if empty. With ``lanes`` their columns hold it."""
    when: str = ""
    """Only in rows that have this in the column ``metric``."""
    unit: str = ""
    """Unit of bare numbers: ms, MiB/s, k, ... Needed for times and bandwidths."""
    cell: str = ""
    """Name of the cell that it is of, if the table has columns of several."""
    conditions: Conditions = Field(default_factory=dict)
    """What is known of this figure: rw, bs, metric_definition, ..."""

    @model_validator(mode="after")
    def _has_unit(self) -> Self:
        if factor_of(self.metric, self.unit) is None:
            what = (
                f"{self.unit!r} is no unit of {self.metric}" if self.unit else f"the unit of {self.metric} is missing"
            )
            raise ValueError(f"{what}: expected one of {', '.join(units_of(self.metric))}")
        return self


class TableOptions(Strict):
    """How a table is read."""

    figures: tuple[Figure, ...] = Field(min_length=1)
    """The metrics in it."""
    lane: str = ""
    """Column that names the lane; without it the lane is the folder or the file."""
    lanes: dict[str, str] = Field(default_factory=dict)
    """Lane -> column, for a table with a column per lane."""
    cell: str = ""
    """Column that names the cell."""
    metric: str = ""
    """Column that names the metric, for a table with one figure per row; ``figures`` say ``when``."""
    value: str = ""
    """Column with the figures of such a table."""
    block: str = ""
    """Column with the number (or name) of the repetition."""
    started: str = ""
    """Column with the time at which a trial began: ISO text, or a number since 1970."""
    labels: tuple[str, ...] = ()
    """Further columns, for the map's ``where``."""
    ignore: tuple[str, ...] = ()
    """Columns in which repetitions may differ: a comment, a file's name. Others that nothing maps are asked for."""
    params: dict[ParameterName, str | Column] = Field(default_factory=dict)
    """Parameter -> column: {bs: Block size, iodepth: QD, runtime: {column: secs, unit: s}}."""
    format: Literal["", "csv", "tsv", "json", "jsonl"] = ""
    """Without it the content tells."""
    delimiter: str = Field("", max_length=1)
    """Between the cells of a CSV file; without it the header tells."""
    decimal: Literal[".", ","] = "."
    """Decimal sign; the other one, blanks and apostrophes may separate thousands."""
    header: int = Field(1, ge=1)
    """Line of the header."""
    rows: str = ""
    """Key of a JSON document that holds the list: results, or data.results."""

    @model_validator(mode="after")
    def _figures_have_columns(self) -> Self:
        for figure in self.figures:
            if bool(self.lanes) == bool(figure.column or self.value):
                problem = "stand in the columns of lanes" if self.lanes else "need a column, or the table a value"
                raise ValueError(f"figures: those of {figure.metric} {problem}")
            if bool(figure.when) != bool(self.metric) and not (self.lanes and not self.metric):
                raise ValueError("figures: when and the table's metric (the column it speaks of) belong together")
        return self

    @model_validator(mode="after")
    def _no_metric_twice(self) -> Self:
        """Two columns of a row are never repetitions of each other."""
        first: dict[Any, Figure] = {}
        for figure in self.figures:
            key = (figure.metric, figure.when, figure.cell, tuple(sorted(figure.conditions.items())))
            other = first.setdefault(key, figure)
            if other is not figure:
                ways = " and ".join(own_metric(figure.metric, way) for way in WAYS)
                own = (
                    f"; of the reads and writes of a mix: {ways}"
                    if own_metric(figure.metric, WAYS[0]) in METRICS
                    else ""
                )
                raise ValueError(
                    f"figures: {other.column!r} and {figure.column!r} are both {figure.metric} of one trial: name "
                    f"another metric, or a cell or conditions for each{own}"
                )
        return self

    def needed(self) -> tuple[str, ...]:
        """Every column that the mapping names."""
        figures = self.lanes.values() if self.lanes else [figure.column or self.value for figure in self.figures]
        params = (p if isinstance(p, str) else p.column for p in self.params.values())
        others = (self.lane, self.cell, self.metric, self.block, self.started, *self.labels, *self.ignore, *params)
        return tuple(dict.fromkeys(name for name in (*figures, *others) if name))


@dataclass
class _Trial:
    """One trial in the making."""

    params: dict[str, Any]
    definitions: dict[str, str]
    """Title of a metric -> definition of its figure."""
    metrics: dict[str, float]
    name: str
    lane: str
    labels: dict[str, str]
    started: float | None
    row: Row
    """Of its first figure."""

    def record(self) -> Record:
        texts = [text if len(self.metrics) == 1 else f"{m}: {text}" for m, text in self.definitions.items()]
        conditions = {"metric_definition": "; ".join(texts)} if texts else {}
        figures = Figures(self.metrics, context={"conditions": conditions})
        return Record(self.params, figures, self.name, self.lane, self.labels, self.started)


class Table(Importer):
    title = "any table with a column mapping: CSV, TSV, JSON list, JSON lines"
    source = "the import map says what the columns are"
    explicit = True
    Options = TableOptions

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002 - a table has no marks of its own
        return name.lower().endswith((".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".txt"))

    def read(self, files: Sequence[Source]) -> Iterable[Record]:
        options: TableOptions | None = self.options
        if options is None:
            raise Unreadable(
                "columns-unnamed",
                "nothing says what its columns are",
                where=files[0].name,
                hint="--map with table: figures",
            )
        by_key: dict[tuple[Any, ...], list[_Trial]] = {}
        for file in files:
            table = rows(
                file,
                form=options.format,
                delimiter=options.delimiter,
                header=options.header,
                path=options.rows,
                needed=options.needed(),
            )
            for row in table:
                for lane, figure, column in _figures(row, options):
                    if row.has(column):
                        _add(by_key, row, lane, figure, column, options=options)
        if not options.block:
            for trials in by_key.values():
                _alike([trial.row for trial in trials], options.needed())
        yield from (consistent(trial.record(), trial.row.where) for trials in by_key.values() for trial in trials)


def _alike(rows: Sequence[Row], mapped: Collection[str]) -> None:
    """Raises Unreadable if rows that would be repetitions differ in columns that nothing maps and that are no figures:
    what is another machine or another setting is no repetition."""
    if len(rows) < 2:
        return
    differing = [
        column
        for column in rows[0].cells
        if column not in mapped and _names([shown(row.cells.get(column), 40) for row in rows])
    ]
    if differing:
        column = shown(differing[0], 40)
        values = ", ".join(dict.fromkeys(shown(row.cells.get(differing[0]), 40) for row in rows[:3]))
        more = f" (and {', '.join(shown(c, 40) for c in differing[1:4])})" if len(differing) > 1 else ""
        raise Unreadable(
            "column-role",
            f"rows that would be repetitions differ in an unmapped column: {column!r}{more}: {values}. Give its role: "
            f"lane, cell, block or started: {column}, a parameter in params, or ignore: [{column}]",
            where=rows[1].where,
        )


def _names(texts: Sequence[str]) -> bool:
    """Whether the values of a column name things: they differ, and are words or count (figures do neither)."""
    distinct = set(texts) - {""}
    if len(distinct) < 2:
        return False
    return not all(is_number(text) for text in distinct) or (
        all(text.isdecimal() for text in distinct) and is_counter(distinct)
    )


def _figures(row: Row, options: TableOptions) -> Iterator[tuple[str, Figure, str]]:
    """(lane, figure, column) of each figure that a row may hold."""
    if options.metric:
        kind = row.text(options.metric)
        figures = [figure for figure in options.figures if figure.when == kind]
    else:
        figures = list(options.figures)
    lane = row.text(options.lane) if options.lane else ""
    for figure in figures:
        if options.lanes:
            yield from ((name, figure, column) for name, column in options.lanes.items())
        else:
            yield lane, figure, figure.column or options.value


def _add(
    by_key: dict[tuple[Any, ...], list[_Trial]],
    row: Row,
    lane: str,
    figure: Figure,
    column: str,
    *,
    options: TableOptions,
) -> None:
    """Puts one figure into its trial."""
    value = row.figure(column, figure.metric, figure.unit, options.decimal)
    given = dict(figure.conditions)
    definition = given.pop("metric_definition", None)
    params = {**_params(row, options), **given}
    name = figure.cell or (shown(row.text(options.cell), 100) if options.cell else "")
    labels = {key: shown(row.text(key)) for key in options.labels}
    if options.block:
        labels["block"] = shown(row.text(options.block))
    started = row.started(options.started) if options.started and row.has(options.started) else None
    key = (lane, name, tuple(sorted(params.items())), tuple(sorted(labels.items())), started)
    trials = by_key.setdefault(key, [])
    trial = next((t for t in trials if figure.metric not in t.metrics), None)
    if trial is None:
        trial = _Trial(params, {}, {}, name, shown(lane, 100), labels, started, row)
        trials.append(trial)
    trial.metrics[figure.metric] = value
    if definition is not None:
        trial.definitions[METRICS[figure.metric].title] = str(definition)


def _params(row: Row, options: TableOptions) -> dict[str, Any]:
    """The parameters of a row, in the registry's units."""
    params = {}
    for name, entry in options.params.items():
        column, unit = (entry, "") if isinstance(entry, str) else (entry.column, entry.unit)
        text = row.text(column)
        if text.lower() in MISSING:
            continue
        bare = text.replace(".", "", 1).isdecimal()
        try:
            params[name] = PARAMETERS[name].read(f"{text}{unit}" if bare else text)
        except (ValueError, OverflowError) as error:
            raise row.wrong(column, f"{name}: {error}") from None
    return params


PLUGIN = Table()
