"""Jobs that did not run together, added up as if they had."""

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from fairlane.checks._trials import Oddity, Trial, TrialCheck, mappings, number, text
from fairlane.records import Evidence

_OVERLAP = 0.01
"""Two jobs that share less of the shorter one's time than this did not run together: starting and ending a process
takes some milliseconds, of a second at least."""
_MOST = 200
"""Most jobs that are compared with each other."""
_SUM = re.compile(r"\bsum of\b", re.IGNORECASE)


class AddedUp(TrialCheck):
    """Jobs of one trial whose times do not overlap, or that fio's ``stonewall`` kept apart; and imported figures whose
    ``metric_definition`` is a sum of figures."""

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        parts = [p for p in mappings(trial.observation.context, "load", "parts") if number(p, "ios") != 0][:_MOST]
        apart = next((pair for pair in combinations(parts, 2) if _apart(*pair)), None)
        if apart:
            names = [text(part, "name") or "unnamed" for part in apart]
            yield Oddity(
                "parts",
                "critical",
                len(parts),
                f"jobs {names[0]} and {names[1]} never ran together, but the figure adds up all {len(parts)} jobs",
                "the summed rate was never reached at any one time",
                {"jobs": len(parts), "apart": [_details(part) for part in apart]},
            )
        definition = text(trial.known, "metric_definition")
        if _SUM.search(definition):
            yield Oddity(
                "definition",
                "critical",
                1.0,
                f"the figure is a sum of figures ({definition!r})",
                "figures that were not measured at the same time must not be added up",
                {"metric_definition": definition},
            )


def _apart(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two jobs never ran together: by their times where both have them, else by fio's groups, which end at a
    job with ``stonewall``."""
    spans = []
    for part in (first, second):
        start, end = number(part, "start_ms"), number(part, "end_ms")
        if start is None or end is None or end <= start:
            break
        spans.append((start, end))
    if len(spans) == 2:
        overlap = min(spans[0][1], spans[1][1]) - max(spans[0][0], spans[1][0])
        return overlap <= _OVERLAP * min(end - start for start, end in spans)
    groups = number(first, "group"), number(second, "group")
    if groups[0] is None or groups[1] is None or groups[0] == groups[1]:
        return False
    return (second if groups[1] > groups[0] else first).get("stonewall") is True


def _details(part: Mapping[str, Any]) -> dict[str, Any]:
    figures = {key: number(part, key) for key in ("ios", "group", "start_ms", "end_ms")}
    return {"name": text(part, "name"), **{key: value for key, value in figures.items() if value is not None}}


PLUGIN = AddedUp()
