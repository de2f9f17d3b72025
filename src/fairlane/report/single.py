"""Save a figure as a slide of its own: with background, title, caption and the run's caveats, without a style sheet.

``fairlane figure`` and notebooks choose and write figures by the same rules.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from pathlib import Path

import resvg_py
from markupsafe import Markup

from fairlane.errors import FairlaneError
from fairlane.report import svg
from fairlane.report.sections import Report
from fairlane.report.svg import Figure
from fairlane.report.text import shorten

_WIDE, _HIGH = 960.0, 540.0
"""A slide of 16:9."""
_EDGE, _GAP = 20.0, 28.0
_TITLE, _SMALL, _FOOT = 26.0, 17.0, 34.0
_LARGEST = 1.25
"""Scale of a figure that has room."""
_SIZE = 12.5
"""Font size of the caption beside the figure."""
_LEAST = 200.0
"""Least width of the caption's column."""
_FONTS = "DejaVu Sans, Liberation Sans, Noto Sans, Arial, sans-serif"


def picked(figures: Iterable[Figure], names: Sequence[str], where: str) -> tuple[Figure, ...]:
    """The figures that ``names`` name, in the report's order. A name is that of a figure (``forest-1-1``), the
    beginning of some (``forest``), or a pattern (``*-1``). ``where``: the run, for the error.

    Raises FairlaneError for a name that no figure has.
    """
    every = {figure.id: figure for figure in figures}
    chosen: set[str] = set()
    for name in names:
        matching = {name} & set(every) or {i for i in every if fnmatchcase(i, name) or i.startswith(f"{name}-")}
        if not matching:
            raise FairlaneError(
                "figure-unknown",
                f"no figure {name!r} in the report of {where}",
                hint=f"one of: {', '.join(every)}" if every else "",
            )
        chosen |= matching
    return tuple(figure for i, figure in every.items() if i in chosen)


def kind_of(path: Path) -> str:
    """``svg`` or ``png``, by the file's ending. Raises FairlaneError for another one."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png"):
        raise FairlaneError(
            "figure-type", f"{path}: figures are .svg or .png", hint="give the file one of these endings"
        )
    return kind


def encoded(picture: Markup, kind: str, scale: float) -> bytes:
    """A picture from ``alone`` as the bytes of an ``svg`` or ``png`` file; ``scale``: pixels of a bitmap per unit."""
    return bitmap(picture, scale) if kind == "png" else str(picture).encode()


@cache
def _palette(dark: bool) -> dict[str, str]:
    """The page's colours by name, light or dark, read from its style sheet."""
    style = resources.files("fairlane.report").joinpath("templates/style.css").read_text()
    schemes = [
        dict(re.findall(r"--([\w-]+):\s*(#\w+)", block)) for block in re.findall(r":root \{(.*?)\}", style, re.S)
    ]
    return schemes[0] | (schemes[1] if dark else {})


def alone(figure: Figure, report: Report, *, dark: bool = False) -> Markup:
    """The figure as a slide: an SVG document with its title, its caption beside it, and a line of what a reader must
    know of the run. Its colours are plain values: other programs do not support CSS variables."""
    heads = textwrap.wrap(figure.title, 72)
    top = _EDGE + _TITLE * len(heads)
    wide, high = _size(figure.svg)
    scale = min(_LARGEST, (_HIGH - top - _FOOT) / high, (_WIDE - 2 * _EDGE - _GAP - _LEAST) / wide)
    beside = _EDGE + wide * scale + _GAP
    lines = textwrap.wrap(figure.caption, int((_WIDE - _EDGE - beside) / (0.56 * _SIZE)))
    most = int((_HIGH - top - _FOOT) / _SMALL) - 1
    lines = [*lines[:most], "…"] if len(lines) > most + 1 else lines
    caveats = [text for kind, text, _ in report.opening.badges if kind == "caution"]
    foot = " · ".join([*caveats, f"Fairlane, study {report.title}"])
    place = f'x="{_EDGE}" y="{svg.num(top)}" width="{svg.num(wide * scale)}" height="{svg.num(high * scale)}" '
    body = re.sub(r"^<svg ", f"<svg {place}", figure.svg)
    parts = [
        svg.tag("rect", width=_WIDE, height=_HIGH, fill="var(--paper)"),
        *(svg.text(_EDGE, _EDGE + 10 + n * _TITLE, t, font_weight=600, font_size=19) for n, t in enumerate(heads)),
        Markup(body),  # noqa: S704 - made by this package, escaped when it was made
        *(
            svg.text(beside, top + 14 + n * _SMALL, line, font_size=_SIZE, fill="var(--muted)")
            for n, line in enumerate(lines)
        ),
        svg.text(_EDGE, _HIGH - 12, shorten(foot, 130), font_size=_SIZE),
    ]
    palette = _palette(dark)
    whole = svg.tag(
        "svg",
        svg.tag("title", figure.title),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {svg.num(_WIDE)} {svg.num(_HIGH)}",
        width=_WIDE,
        height=_HIGH,
        font_family=_FONTS,
        font_size=13,
        fill="currentColor",
        color=palette["ink"],
    )
    plain = re.sub(r"var\(--([\w-]+)\)", lambda m: palette[m[1]], whole)
    return Markup(plain.replace("system-ui, sans-serif", _FONTS))  # noqa: S704 - as above


def bitmap(picture: Markup, scale: float) -> bytes:
    """PNG of a picture from ``alone``, ``scale`` pixels per unit. Drawn by resvg, without browser or other files."""
    return bytes(resvg_py.svg_to_bytes(svg_string=str(picture), width=round(_size(picture)[0] * scale)))


def _size(picture: str) -> tuple[float, float]:
    """Width and height of a picture in its own units."""
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture)[0]  # the outermost comes first
    return float(width), float(height)
