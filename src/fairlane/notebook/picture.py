"""A figure of a report in a notebook, or as a file: what ``fairlane figure`` writes."""

import base64
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from markupsafe import Markup

from fairlane.report import single
from fairlane.report.pictures import pictures
from fairlane.report.sections import Report
from fairlane.report.svg import Figure
from fairlane.runs.files import write_atomic


@dataclass(frozen=True)
class Picture:
    """One figure, with its title, its caption and the run's caveats (modelled, emulated, invented) in the image."""

    name: str
    """As ``fairlane figure`` lists it: ``forest-1-1``."""
    title: str
    caption: str
    _figure: Figure = field(repr=False, compare=False)
    _report: Report = field(repr=False, compare=False)

    def svg(self, *, dark: bool = False) -> str:
        """An SVG document that needs no other file. ``dark``: colours for a dark page."""
        return str(single.alone(self._figure, self._report, dark=dark))

    def save(self, path: str | PathLike[str], *, dark: bool = False, scale: float = 3.0) -> Path:
        """Write an SVG or PNG file, by the ending of ``path``; its folder is made. ``scale``: pixels of a bitmap per
        unit; the picture is 960 units wide. Returns the path.

        Raises FairlaneError for another ending, OSError where the file cannot be written.
        """
        target = Path(path)
        kind = single.kind_of(target)
        content = single.encoded(single.alone(self._figure, self._report, dark=dark), kind, scale)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, content)
        return target

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        """An image in place of inline SVG: notebooks that are not trusted show it too."""
        encoded = base64.b64encode(self.svg().encode()).decode()
        image = Markup('<img src="data:image/svg+xml;base64,{}" alt="{}" style="max-width:100%">')
        return str(image.format(encoded, f"{self.title}. {self.caption}"))


def drawn(report: Report, names: tuple[str, ...], where: str) -> tuple[Picture, ...]:
    """The figures that ``names`` name (``single.picked``), or all. Raises FairlaneError for a name that none has."""
    every = tuple(pictures(report).every())
    figures = single.picked(every, names, where) if names else every
    return tuple(Picture(f.id, f.title, f.caption, f, report) for f in figures)
