"""HTML of the viewer's own pages. The template engine escapes every string."""

import os
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from fairlane.errors import FairlaneError
from fairlane.report.forest import Axis, Mark, draw
from fairlane.report.phrases import SYMBOL, share
from fairlane.report.svg import Figure, Table
from fairlane.report.text import clean
from fairlane.web.catalogue import Entry
from fairlane.web.updates import Contest, State

PARTS = ("progress", "intervals", "failures", "findings")
"""Parts of a running study's page, replaced one by one as they change."""
EVERY = 2.0
"""Seconds after which a page asks again."""


@cache
def environment() -> Environment:
    engine = Environment(
        loader=PackageLoader("fairlane.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    engine.filters |= {"path": _path, "clean": clean, "share": share, "minute": minute}
    return engine


def page(template: str, **values: Any) -> str:
    """A whole page."""
    return environment().get_template(template).render(**values)


def problem(error: FairlaneError, title: str) -> str:
    """A page with the error and its hint."""
    return page("problem.html.j2", title=title, kind=error.kind, message=clean(str(error)), hint=clean(error.hint))


def parts(state: State | None, error: FairlaneError | None) -> Mapping[str, str]:
    """Name of a part -> HTML, of a running study's page; ``phase`` and ``title`` are text."""
    if state is None:
        assert error is not None  # noqa: S101 - a run has a state or an error
        lost = (
            environment()
            .get_template("lost.html.j2")
            .render(kind=error.kind, message=clean(str(error)), hint=clean(error.hint))
        )
        return {"progress": lost, "phase": "damaged", "title": "damaged"}
    figures = [_forest(contest, f"live-{n}") for n, contest in enumerate(state.contests, start=1)]
    module: Any = environment().get_template("live.html.j2").make_module()
    shown = {name: str(getattr(module, name)(state, figures, SYMBOL)).strip() for name in PARTS}
    done = 100 * state.done // max(1, state.due)
    return {**shown, "phase": state.phase, "title": state.phase if state.phase != "running" else f"{done} %"}


def state(state: State | None, parts: Mapping[str, str], *, final: bool) -> Mapping[str, Any]:
    """``state.json``: the state as plain data, and the parts of its page. Ratios are plain factors, times seconds."""
    shown = {"final": final, "every": EVERY, "phase": "", "title": "", **parts}
    html = {name: shown.pop(name, "") for name in PARTS}
    if state is None:
        return {**shown, "html": html}
    figures = {name: getattr(state, name) for name in ("study", "done", "due", "failed", "look", "seconds", "last")}
    rows = [
        {
            "workload": contest.workload, "cell": row.cell, "lane": contest.names[0], "baseline": contest.names[1],
            "metric": contest.metric, "low": row.low, "high": row.high, "blocks": row.blocks, "word": row.word,
        }
        for contest in state.contests
        for row in contest.rows
    ]  # fmt: skip
    return {**shown, **figures, "intervals": rows, "html": html}


def item(run: Entry) -> str:
    """A run of the list."""
    module: Any = environment().get_template("item.html.j2").make_module()
    return str(module.item(run))


def _forest(contest: Contest, ident: str) -> Figure:
    """The report's forest plot, of the intervals so far; the mark is the middle of each."""
    marks = [
        Mark(row.cell, row.word, row.text, f"{row.cell}: {row.interval}, {row.text}", row.middle, row.low, row.high)
        for row in contest.rows
    ]
    described = "; ".join(mark.hover for mark in marks[:40])
    caption = (
        f"Interval of the change of {contest.metric} with {contest.lane} instead of {contest.baseline}, as of now. "
        f"Shaded: differences below the margin of {share(contest.margin)}, which do not matter."
    )
    axis = Axis(contest.lane, contest.better, contest.margin)
    picture = draw(ident, contest.title, described, axis, marks)
    return Figure(ident, contest.title, caption, picture, Table(("cell", "interval so far", "blocks", "now"), ()))


def address(**query: Any) -> str:
    """``?q=iscsi&page=2``, without empty values."""
    return "?" + urlencode({key: value for key, value in query.items() if value not in ("", None)})


def _path(name: str) -> str:
    """``name`` quoted for an address."""
    return quote(os.fsencode(name))


def minute(moment: str) -> str:
    """``2026-11-22 11:04`` from a time of journal or run.json."""
    return moment[:16].replace("T", " ")


@cache
def static() -> Mapping[str, tuple[bytes, str]]:
    """Name -> content and type of the few files that pages load."""
    ours = resources.files("fairlane.web") / "static"
    report = resources.files("fairlane.report") / "templates" / "style.css"
    css = "text/css; charset=utf-8"
    return {
        "report.css": (report.read_bytes(), css),
        "viewer.css": ((ours / "viewer.css").read_bytes(), css),
        "viewer.js": ((ours / "viewer.js").read_bytes(), "text/javascript; charset=utf-8"),
    }
