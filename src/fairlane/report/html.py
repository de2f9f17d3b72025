"""report.html: one self-contained page, offline, without scripts; every string is escaped by the template engine."""

import re
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairlane.metrics import METRICS
from fairlane.report import storms, timeline
from fairlane.report.bars import bars, stacks
from fairlane.report.curves import figure
from fairlane.report.forest import forest
from fairlane.report.levels import Levels
from fairlane.report.model import Comparison, Report
from fairlane.report.phrases import SYMBOL, share
from fairlane.report.svg import Figure


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("fairlane.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["share"] = share
    environment.filters["glue"] = _glue
    return environment


def _glue(text: str) -> str:
    """A number stays with its percent sign when a line breaks."""
    return re.sub(r"(?<=\d) (?=%)", "\u00a0", text)


@cache
def _style() -> Markup:
    """Our own style sheet: the one thing besides figures that goes in unescaped."""
    return Markup(resources.files("fairlane.report").joinpath("templates/style.css").read_text())  # noqa: S704


def render(report: Report) -> str:
    """The whole page."""
    forests: dict[tuple[int, str], Figure] = {}
    shown: list[tuple[str, list[Figure]]] = []
    cpu: list[tuple[str, Figure, list[Comparison]]] = []
    for n, section in enumerate(report.sections, start=1):
        for i, comparison in enumerate(section.primary):
            if any(row.ratio is not None for row in comparison.rows):
                forests[i, section.name] = forest(comparison, f"forest-{n}-{i + 1}")
        figures = [bars(levels, f"bars-{n}-{levels.metric}") for levels in _pictured(section.levels)]
        if section.storms:
            figures.insert(0, storms.figure(section.storms, f"storms-{n}"))
        if figures:
            shown.append((section.name, figures))
        if section.cpu:
            told = [c for c in (*section.primary, *section.exploratory) if c.metric == METRICS["cpu_per_io"].title]
            cpu.append((section.name, stacks(section.cpu, f"cpu-{n}"), told))
    ladders = [(view, figure(view, f"curve-{n}")) for n, view in enumerate(report.curves, start=1)]
    faults = [
        (view, timeline.figure(view, f"fault-{n}") if view.panels else None)
        for n, view in enumerate(report.failovers, start=1)
    ]
    template = _environment().get_template("report.html.j2")
    return template.render(
        report=report,
        style=_style(),
        signs=SYMBOL,
        forests=forests,
        bars=shown,
        cpu=cpu,
        ladders=ladders,
        faults=faults,
    )


def _pictured(levels: tuple[Levels, ...]) -> list[Levels]:
    """Worth a picture: the primary metric and a latency, the tail where it is told for all. Tables have the rest."""
    by_name = {entry.metric: entry for entry in levels}
    tail = by_name.get("lat_p99")
    told = tail and all(bar.value is not None for cell in tail.cells for bar in cell.bars)
    latency = tail if told else by_name.get("lat_mean", tail)
    return [entry for i, entry in enumerate(levels) if i == 0 or entry is latency]
