"""report.html: one self-contained page, offline, without scripts; every string is escaped by the template engine."""

import re
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

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
    return environment


def _glue(text: str) -> str:
    """``text`` with no-break spaces between numbers and their units."""
    return re.sub(r"(?<=\d) (?=%|(?:[mnu]?s|min|h|IOPS|[KMG]iB(?:/s)?)\b)", "\u00a0", text)


@cache
def _style() -> Markup:
    """The style sheet; besides figures the only unescaped part of the page."""
    return Markup(resources.files("fairlane.report").joinpath("templates/style.css").read_text())  # noqa: S704


def render(report: Report, drawn: Pictures | None = None) -> str:
    """The whole page. ``drawn``: its pictures, if already made."""
    template = _environment().get_template("report.html.j2")
    anchors = {row.cell: row.anchor for row in report.trials if row.anchor}
    return template.render(
        report=report, style=_style(), signs=SYMBOL, pictures=drawn or pictures(report), anchors=anchors
    )
