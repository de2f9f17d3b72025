"""The guard: lanes whose conditions differ, or are not known to match, are not compared."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from fairlane.checks._trials import indirect
from fairlane.checks.base import Check
from fairlane.guard.cases import Case, Setting, cases_of
from fairlane.guard.matched import (
    Relation,
    Rules,
    Side,
    foreseen,
    interleaved,
    primaries,
    sides,
)
from fairlane.guard.parameters import in_order, parameter
from fairlane.records import Evidence, Finding

_WORDS: Mapping[Relation, str] = {
    "differs": "they differ in ",
    "one-sided": "stated for one side only: ",
    "mixed": "not the same in all trials: ",
}
_MOST = 12
"""Parameters in one sentence; the evidence has all of them."""


class Unmatched(Check):
    """Each lane against the baseline, per cell. A controlled parameter (``guard.parameters``) that differs, is known on
    one side only, or was not the same in all trials of a lane refuses the verdict.

    A parameter known on neither side is a warning: for lanes that one run measured side by side in the same machine
    only those of the path (copies, acknowledgement, flush, link), for all others every parameter that matters for the
    kind of load. ``design.vary`` exempts a parameter, with a note; ``design.accept`` turns refusal and warning into a
    warning with the reason.
    """

    between = True

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        return self._lanes(evidence.study, sides(evidence))

    def foresee(self, study: Any) -> Iterable[Finding]:
        return (finding for finding in self._lanes(study, foreseen(study)) if finding.refuses)

    def _lanes(self, study: Any, by_lane: dict[str, Side]) -> Iterator[Finding]:
        """Findings about every lane against the baseline, before the run or after it."""
        base = by_lane.pop(study.baseline)
        setting = Setting(
            names={cell.key: cell.name for cell in study.cells()},
            labels={name: lane.label or name for name, lane in study.lanes.items()},
            primary=primaries(study),
            interleaved=interleaved(study),
        )
        return self.guard(base, list(by_lane.values()), Rules.of(study), setting)

    def guard(self, base: Side, others: Sequence[Side], rules: Rules, setting: Setting) -> Iterator[Finding]:
        """The findings about ``others`` against ``base``: lanes, or whole runs."""
        others = [side for side in others if side.tried & base.tried]
        fates: dict[str, list[Case]] = {"refused": [], "accepted": [], "varied": [], "unknown": []}
        for side in others:
            for case in cases_of(side, base, setting):
                fates[case.fate(rules)].append(case)
        for same in _by(fates["refused"], lambda c: (c.side, c.cells)):
            yield self._refused(base, same, setting)
        for same in _by(fates["unknown"], lambda c: tuple(x.name for x in fates["unknown"] if x.side == c.side)):
            yield self._unknown(base, same, setting)
        for same in _by(fates["accepted"], lambda c: c.name):
            reason = rules.accept[same[0].name]
            yield self._case_finding(
                "accepted", "warning", f"accepted: {same[0].title} ({_details(same)}): {reason}", base, same
            )
        for same in _by(fates["varied"], lambda c: c.side):
            yield self._case_finding("varied", "info", _varied(same), base, same)
        if others:
            needed = {case.name for case in fates["accepted"]}
            if any(indirect(known) for side in (base, *others) for known in side.cells.values()):
                needed.add("direct")  # ``cache_served`` asks for it
            for name in in_order(rules.accept.keys() - needed):
                yield self.finding(
                    "accepted-in-vain",
                    "info",
                    f"accepting {parameter(name).title} was not needed: it refuses no comparison",
                )

    def _refused(self, base: Side, same: Sequence[Case], setting: Setting) -> Finding:
        ours, theirs = (setting.labels.get(name, name) for name in (same[0].side, base.name))
        groups: dict[str, list[str]] = {}
        for case in same[:_MOST]:
            label, value = case.alone
            if label:
                groups.setdefault(f"stated for {label} only: ", []).append(f"{case.title} ({value})")
            else:
                groups.setdefault(_WORDS[case.relation], []).append(f"{case.title} ({case.text})")
        parts = [words + ", ".join(titles) for words, titles in groups.items()]
        parts += [f"and {len(same) - _MOST} more"] * (len(same) > _MOST)
        message = f"{ours} and {theirs} are not comparable: {'; '.join(parts)}"
        return self._case_finding("refused", "critical", message, base, same, refuses=True)

    def _unknown(self, base: Side, same: Sequence[Case], setting: Setting) -> Finding:
        lanes = [setting.labels.get(name, name) for name in dict.fromkeys([*(c.side for c in same), base.name])]
        titles = ", ".join(parameter(name).title for name in in_order({case.name for case in same}))
        few, many = ("neither", " nor ") if len(lanes) == 2 else ("none of", " and ")
        sides = many.join((", ".join(lanes[:-1]), lanes[-1]))
        message = f"{few} {sides} states {titles}: they may differ in this"
        return self._case_finding("unknown", "warning", message, base, same)

    def _case_finding(
        self, kind: str, severity: Literal["info", "warning", "critical"], message: str, base: Side,
        cases: Sequence[Case], *, refuses: bool = False,
    ) -> Finding:  # fmt: skip
        """A finding about the cells and sides of ``cases``; ``cells`` is empty if it concerns all."""
        cells = {key: None for case in cases for key in case.cells}
        evidence: dict[str, dict[str, str]] = {}
        for case in cases:
            evidence.setdefault(case.name, {})[case.side] = case.text
        return self.finding(
            kind,
            severity,
            message,
            cells=() if cells.keys() >= base.cells.keys() else tuple(cells),
            lanes=tuple(dict.fromkeys(case.side for case in cases)),
            evidence=evidence,
            refuses=refuses,
        )


def _by(cases: Iterable[Case], key: Callable[[Case], Hashable]) -> list[list[Case]]:
    """``cases`` in groups of equal ``key``, in the order in which they come."""
    groups: dict[Hashable, list[Case]] = {}
    for case in cases:
        groups.setdefault(key(case), []).append(case)
    return list(groups.values())


def _details(cases: Sequence[Case]) -> str:
    return "; ".join(dict.fromkeys(case.text for case in cases))


def _varied(cases: Sequence[Case]) -> str:
    """The parameters that ``vary`` exempts: those that are known to differ, and those that neither side states."""
    differing = [f"{case.title} ({case.text})" for case in cases if case.relation != "unknown"]
    unknown = [case.title for case in cases if case.relation == "unknown"]
    parts = [f"differs as the study intends (vary): {'; '.join(differing)}"] * bool(differing)
    parts += [f"not stated by either side, and allowed to differ: {', '.join(unknown)}"] * bool(unknown)
    return "; ".join(parts)


PLUGIN = Unmatched()
