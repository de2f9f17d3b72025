"""Imported lanes that ran one after the other, or may have."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class Sequential(Check):
    """The ``order`` event of an import: interleaved lanes are no finding, others a warning, with times if known;
    critical where these times contradict an import map that says ``paired: true``.

    Lanes measured one after the other gave 61.5 % false differences under a slow drift that did not affect lanes in
    random order (STATISTICS). One lane alone is no finding: there is nothing to compare.
    """

    between = True

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        event = next((e for e in evidence.events if e.get("type") == "order"), None)
        if event is None or len(evidence.study.lanes) < 2 or event.get("interleaved") is True:
            return
        spans = _spans(event.get("spans"))
        times = "; ".join(f"{lane} {_shown(first, last)}" for lane, (first, last) in spans.items())
        if event.get("interleaved") is False and spans:
            what = f"the lanes were not interleaved, block by block ({times})"
        else:
            what = "nothing shows that the lanes were interleaved: the files do not state when each trial began"
        claimed = bool(event.get("told") and event.get("paired"))
        if claimed:
            what += ", but they are compared block by block, because the import map says so (paired: true)"
        yield self.finding(
            "not-interleaved",
            "critical" if claimed and event.get("interleaved") is False else "warning",
            f"{what}. Anything that changed in between (other load, cache, temperature, time of day) looks like a "
            "difference between lanes, and no interval includes it",
            evidence={lane: f"{first} to {last}" for lane, (first, last) in spans.items()},
        )


def _shown(first: str, last: str) -> str:
    """``from 2026-02-27 10:00:00 to 10:02:00 UTC``, ``on 2026-02-27``."""
    day, _, time = first.removesuffix("+00:00").partition("T")
    end_day, _, end = last.removesuffix("+00:00").partition("T")
    if not time or not end:
        return f"on {day}" if day == end_day else f"from {day} to {end_day}"
    return f"from {day} {time} to {end if day == end_day else f'{end_day} {end}'} UTC"


def _spans(value: Any) -> dict[str, tuple[str, str]]:
    if not isinstance(value, Mapping):
        return {}
    return {str(k): (str(v[0]), str(v[1])) for k, v in value.items() if isinstance(v, list) and len(v) == 2}


PLUGIN = Sequential()
