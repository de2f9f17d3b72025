"""Save a figure as a file of its own: with background, title, caption and the run's banners, without a style sheet."""

import re
import textwrap
from functools import cache
from importlib import resources

import resvg_py
from markupsafe import Markup

from fairlane.report import svg
from fairlane.report.sections import Report
from fairlane.report.svg import WIDTH, Figure

_EDGE = 16.0
_TITLE, _SMALL = 22.0, 15.0
_WRAP = 84
"""Characters of a caption's line at font size 11."""
_WRAP_TITLE = 50
"""Characters of a title's line at font size 15, bold."""
_FONTS = "DejaVu Sans, Liberation Sans, Noto Sans, Arial, sans-serif"


@cache
def _palette(dark: bool) -> dict[str, str]:
    """The page's colours by name, light or dark, read from its style sheet."""
    style = resources.files("fairlane.report").joinpath("templates/style.css").read_text()
    schemes = [
        dict(re.findall(r"--([\w-]+):\s*(#\w+)", block)) for block in re.findall(r":root \{(.*?)\}", style, re.S)
    ]
    return schemes[0] | (schemes[1] if dark else {})


def alone(figure: Figure, report: Report, *, dark: bool = False) -> Markup:
    """The figure as an SVG document. Its colours are plain values: other programs do not support CSS variables."""
    lines = [*textwrap.wrap(figure.caption, _WRAP)]
    lines += [line for b in report.banners for line in textwrap.wrap(f"{b.title}. {b.text}", _WRAP)]
    lines.append(f"Fairlane, study {report.title}")
    heads = textwrap.wrap(figure.title, _WRAP_TITLE)
    inner_height, top = _size(figure.svg)[1], _EDGE + _TITLE * len(heads)
    width = WIDTH + 2 * _EDGE
    height = top + inner_height + 10 + _SMALL * len(lines) + _EDGE / 2
    body = re.sub(r"^<svg ", f'<svg x="{_EDGE}" y="{top}" width="{WIDTH}" height="{inner_height:g}" ', figure.svg)
    parts = [
        svg.tag("rect", width=width, height=height, fill="var(--paper)"),
        *(svg.text(_EDGE, _EDGE + 10 + n * _TITLE, t, font_weight=600, font_size=15) for n, t in enumerate(heads)),
        Markup(body),  # noqa: S704 - made by this package, escaped when it was made
        *(
            svg.text(_EDGE, top + inner_height + 18 + n * _SMALL, line, font_size=11, fill="var(--muted)")
            for n, line in enumerate(lines)
        ),
    ]
    palette = _palette(dark)
    whole = svg.tag(
        "svg",
        svg.tag("title", figure.title),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {svg.num(width)} {svg.num(height)}",
        width=width,
        height=height,
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
