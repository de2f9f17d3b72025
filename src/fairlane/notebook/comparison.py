"""A comparison of runs in a notebook: what ``fairlane compare`` prints, as records."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path

from markupsafe import Markup

from fairlane.compare import comparison as compare
from fairlane.compare.between import alias_of, lane_map, places
from fairlane.compare.scorecard import Score
from fairlane.compare.takeaways import takeaways
from fairlane.compare.view import DeltaRow, delta_rows
from fairlane.errors import FairlaneError
from fairlane.notebook.picture import Picture, drawn
from fairlane.notebook.records import Records
from fairlane.records import Evidence, Finding
from fairlane.report import model
from fairlane.report.parts import Around
from fairlane.report.sections import Report
from fairlane.report.text import scrub


class Comparison:
    """Runs against a baseline run, as independent samples: they were made at different times."""

    def __init__(self, comparison: compare.Comparison) -> None:
        """Made by ``Run.compare``."""
        self._comparison = comparison

    @property
    def question(self) -> str:
        return scrub(self._comparison.question)

    @property
    def baseline(self) -> str:
        """Name of the baseline run in this comparison."""
        return self._comparison.baseline

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences that every use of the figures must carry."""
        return tuple(f"{banner.title}. {banner.text}" for banner in self._report.banners)

    @property
    def takeaways(self) -> tuple[str, ...]:
        """The answer, in sentences."""
        return scrub(tuple(takeaways(self._comparison)))

    def deltas(self) -> Records[DeltaRow]:
        """Each run's figure against the baseline run's, with its verdict, per pair of lanes, cell and metric."""
        return Records(DeltaRow, scrub(delta_rows(self._comparison)))

    def scores(self) -> Records[Score]:
        """Who wins, per pair of lanes, cell and metric: only a verdict names a winner."""
        return Records(Score, scrub(self._comparison.scores))

    def findings(self) -> Records[Finding]:
        """What the checks found: why a comparison is refused. ``lanes`` are names of runs."""
        return Records(Finding, scrub(self._comparison.findings))

    def figures(self, *names: str) -> tuple[Picture, ...]:
        """The figures of the comparison's report, as ``Run.figures``."""
        return drawn(self._report, names, "the comparison")

    def figure(self, name: str) -> Picture:
        """The first of ``figures(name)``."""
        return self.figures(name)[0]

    @cached_property
    def _report(self) -> Report:
        c = self._comparison
        return model.build(*c.judged, Around(invented=c.invented))

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self._comparison.aliases)} with {self.baseline}>"

    def _repr_html_(self) -> str:
        """Question, takeaways, caveats."""
        points = Markup("").join(Markup("<li>{}</li>").format(text) for text in (*self.takeaways, *self.caveats))
        return str(Markup("<p><b>{}</b></p><ul>{}</ul>").format(self.question, points))


def compared(
    runs: Sequence[tuple[Path, Evidence]],
    names: Sequence[str],
    pairs: str | PathLike[str] | None,
    accept: Mapping[str, str],
) -> Comparison:
    """See ``Run.compare``; the first of ``runs`` is the baseline."""
    if len(runs) < 2:
        raise FairlaneError("one-run", "a comparison needs two runs", hint="within one run: run.verdicts()")
    if names and len(names) != len(runs):
        raise FairlaneError(
            "names-count", f"{len(names)} names for {len(runs)} runs", hint="name this run first, then each other run"
        )
    aliases = tuple(names) or tuple(alias_of(path) for path, _ in runs)
    paths = places(zip(aliases, (path for path, _ in runs), strict=True), _rename)
    evidence = dict(zip(paths, (evidence for _, evidence in runs), strict=True))
    mapping = lane_map(None if pairs is None else str(pairs), evidence, None)
    return Comparison(compare.compare(evidence, mapping, accept))


def _rename(path: Path, other: Path | None) -> str:  # noqa: ARG001 - the command line names them
    return 'add names=("before", "after")'
