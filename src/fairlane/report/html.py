"""report.html: one self-contained page, offline, without scripts; every string is escaped by the template engine."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairlane.records import Word
from fairlane.report import svg
from fairlane.report.forest import STYLE, pointing
from fairlane.report.opening import anchor
from fairlane.report.phrases import SYMBOL, share
from fairlane.report.pictures import Pictures, pictures
from fairlane.report.sections import Report


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
    environment.filters["anchor"] = anchor
    environment.filters["place"] = lambda share_: f"{share_:.2f}%"
    environment.filters["shape"] = _shape
    return environment


def _glue(text: str) -> str:
    """``text`` with no-break spaces between numbers and their units."""
    return re.sub(r"(?<=\d) (?=%|(?:[mnµ]?s|min|h|IOPS|[KMG]iB(?:/s)?)\b)", "\u00a0", text)


def _shape(word: Word, better: int) -> str:
    """The path of a verdict's mark around 0, 0."""
    return svg.outline(pointing(STYLE[word][1], better), 0, 0, 5.5)


@cache
def _style() -> Markup:
    """The style sheet; besides figures the only unescaped part of the page."""
    return Markup(resources.files("fairlane.report").joinpath("templates/style.css").read_text())  # noqa: S704


def render(report: Report, drawn: Pictures | None = None) -> str:
    """The whole page. ``drawn``: its pictures, if already made."""
    drawn = drawn or pictures(report)
    template = _environment().get_template("report.html.j2")
    anchors = {row.cell: row.anchor for row in report.trials if row.anchor}
    return template.render(
        report=report,
        style=_style(),
        signs=SYMBOL,
        pictures=drawn,
        anchors=anchors,
        sections=tuple(_contents(report, drawn)),
    )


def _contents(report: Report, drawn: Pictures) -> Iterator[tuple[str, str]]:
    """(anchor, text) of the sections of the page, in its order."""
    jobs = report.capabilities and report.capabilities[0].title.startswith("Jobs at once")
    for ident, text, there in (
        ("refused", "Not comparable", report.refusals.causes),
        ("findings", "Findings", True),
        ("verdicts", "Verdicts", True),
        ("figures", "Figures", True),
        ("cpu", "Cost and why", drawn.falls or any(of.cpu for of in drawn.workloads)),
        ("faults", "Faults", drawn.faults),
        ("curves", "Curves", drawn.ladders),
        ("cost", "Cost", drawn.costs),
        ("sure", "How sure", True),
        ("scorecard", "Scorecard", report.scores),
        ("latency", "Latency", drawn.ecdfs),
        ("lanes", "Lanes", True),
        ("matched", "Matched parameters", True),
        ("able-1", "Jobs" if jobs else "Abilities", report.capabilities),
        ("time", "In time", drawn.times),
        ("method", "Method", True),
        ("repeat", "Repeat it", True),
        ("trials", "Trials", True),
    ):
        if there:
            yield ident, text
