"""Predict which comparisons of a study the guard will refuse, before the first trial. Pure. Not a check."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairlane import registry
from fairlane.errors import Exit, FairlaneError
from fairlane.guard.parameters import PARAMETERS, in_order
from fairlane.records import Finding

_WHY = "why it does not matter"


@dataclass(frozen=True)
class Outlook:
    """The comparisons of a study (every lane against the baseline, per cell), and the findings that refuse them."""

    study: Any
    """``fairlane.study.spec.Study``."""
    refusals: tuple[Finding, ...]
    """Findings that refuse lanes compared with the baseline; copies of a lane share its fate."""

    @cached_property
    def comparisons(self) -> frozenset[tuple[str, str]]:
        """``(lane, cell key)`` of all comparisons."""
        return frozenset((lane, cell.key) for lane in self.study.rivals for cell in self.study.cells())

    def refused(self, *findings: Finding) -> frozenset[tuple[str, str]]:
        """The comparisons that ``findings`` refuse."""
        return frozenset(
            (lane, key)
            for lane, key in self.comparisons
            if any((not f.lanes or lane in f.lanes) and (not f.cells or key in f.cells) for f in findings)
        )

    @cached_property
    def hopeless(self) -> bool:
        """Whether every comparison is refused."""
        return bool(self.comparisons) and self.refused(*self.refusals) == self.comparisons

    @property
    def names(self) -> tuple[str, ...]:
        """Parameters that cause refusals, by their names in ``vary`` and ``accept``."""
        refusing = {name for f in self.refusals if f.check == "unmatched" for name in f.evidence}
        return in_order(refusing & PARAMETERS.keys())

    def warnings(self) -> Iterator[str]:
        """A line per refusal if comparisons remain, and a line with the settings that would allow them."""
        if self.hopeless or not self.refusals:
            return
        for finding in self.refusals:
            count = f"{len(self.refused(finding))} of {len(self.comparisons)}"
            yield f"warning: all lanes run, but {count} comparisons get no verdict: {finding.message}"
        if self.names:
            yield f"to compare them, set design.vary: {self._vary()}, or design.accept with a reason for each"

    def error(self, where: str = "") -> FairlaneError | None:
        """If no comparison remains: the reasons, and the settings that would allow it. None: some remain."""
        if not self.hopeless:
            return None
        count = len(self.comparisons)
        lines = [f"nothing is left to compare: {'the only comparison' if count == 1 else f'all {count} comparisons'} "
                "will be refused", *(f"  {finding.message}" for finding in self.refusals)]  # fmt: skip
        return FairlaneError(
            "nothing-to-compare", "\n".join(lines), where=where, hint=self._hint(), code=Exit.NOT_DECIDED
        )

    def _hint(self) -> str:
        if not self.names:
            return "compare other lanes, or run the study without verdicts: fairlane run --unjudged"
        accept = {**self.study.design.accept, **dict.fromkeys(self.names, _WHY)}
        reasons = "\n".join(f"    {name}: {json.dumps(reason, ensure_ascii=False)}" for name, reason in accept.items())
        return (
            "if the lanes are meant to differ in this, add to the study:\n\n"
            f"design:\n  vary: {self._vary()}\n\n"
            "if the difference does not matter, add a reason, which reports print:\n\n"
            f"design:\n  accept:\n{reasons}\n\n"
            "to run the study without verdicts: fairlane run --unjudged"
        )

    def _vary(self) -> str:
        return f"[{', '.join(dict.fromkeys((*self.study.design.vary, *self.names)))}]"


def outlook(study: Any) -> Outlook:
    """The findings that every check foresees for ``study``."""
    findings = (finding for _, check in registry.every("checks") for finding in check.foresee(study))
    return Outlook(study, tuple(f for f in findings if not f.lanes or set(f.lanes) & set(study.rivals)))
