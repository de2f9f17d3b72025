"""The findings of a comparison: of each source run, under its joined names, and of the joined evidence. Pure."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fairlane.checks.base import run_all
from fairlane.compare.joined import Joined
from fairlane.records import Evidence, Finding

_RANK = ("critical", "warning", "info")
_KIND = {
    "invented": "invented (platform fake)",
    "modelled": "modelled (a virtual clock)",
    "emulated": "emulated (no hardware virtualization)",
    "measured": "measured",
}


def findings(joined: Joined, evidence: Evidence) -> tuple[Finding, ...]:
    """All findings, the most severe first; ``evidence``: the joined one, with the accepted parameters.

    Checks of trials, lanes and run read the source runs. Checks that compare lanes read the joined evidence: only there
    the lanes are the ones compared.
    """
    result = [*_kinds(joined), *_merged(f for name in _categories(joined) for f in _between(joined, evidence, name))]
    for alias, run in joined.runs.items():
        result += _merged(_translated(joined, alias, run_all(run, between=False)))
    return tuple(sorted(result, key=lambda f: (_RANK.index(f.severity), f.check)))


def _categories(joined: Joined) -> list[str]:
    return list(dict.fromkeys(pair.name for pair in joined.categories.values()))


def _between(joined: Joined, evidence: Evidence, category: str) -> Iterator[Finding]:
    """Findings of the checks that compare lanes, one category at a time: each category compares other lanes, and an
    accepted reason must hold for every cell it covers."""
    study = evidence.study
    workloads = {n: w for n, w in study.workloads.items() if joined.categories[n].name == category}
    part = study.model_copy(update={"workloads": workloads})
    keys = {cell.key for cell in part.cells()}
    slice_ = dataclasses.replace(
        evidence, study=part, observations=tuple(o for o in evidence.observations if o.cell in keys)
    )
    for finding in run_all(slice_, between=True):
        yield dataclasses.replace(finding, cells=finding.cells or tuple(cell.key for cell in part.cells()))


def _translated(joined: Joined, alias: str, of_run: Sequence[Finding]) -> Iterator[Finding]:
    """Findings of one run, with its alias before the message and the cells and lanes of the joined evidence."""
    mine = {key: source for (name, key), source in joined.sources.items() if name == alias}
    for finding in of_run:
        cells = tuple(
            key
            for key, (lane, cell) in mine.items()
            if (not finding.lanes or lane in finding.lanes) and (not finding.cells or cell in finding.cells)
        )
        if cells:
            yield dataclasses.replace(finding, message=f"{alias}: {finding.message}", cells=cells, lanes=(alias,))


def _merged(several: Iterable[Finding]) -> list[Finding]:
    """One finding in place of several with the same check, severity and message."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for f in several:
        groups.setdefault((f.check, f.severity, f.message), []).append(f)
    return [
        dataclasses.replace(first, cells=tuple(dict.fromkeys(key for f in (first, *rest) for key in f.cells)))
        for first, *rest in groups.values()
    ]


def kind_of_figures(run: Evidence) -> str:
    """``invented``, ``modelled``, ``emulated`` or ``measured``; figures of different kinds cannot be compared."""
    if run.study.platform.invented:
        return "invented"
    return "modelled" if run.modelled else "emulated" if run.emulated else "measured"


def _kinds(joined: Joined) -> Iterator[Finding]:
    kinds: Mapping[str, str] = {alias: kind_of_figures(run) for alias, run in joined.runs.items()}
    base = kinds[joined.mapping.baseline]
    for alias, kind in kinds.items():
        if kind != base:
            yield Finding(
                "kind_of_figures",
                "critical",
                f"figures of {alias} are {_KIND[kind]}, figures of {joined.mapping.baseline} are {_KIND[base]}: "
                "the two kinds cannot be compared",
                lanes=(alias,),
                evidence=dict(kinds),
                refuses=True,
                kind="differs",
            )
    if "invented" in kinds.values():
        names = " and ".join(alias for alias, kind in kinds.items() if kind == "invented")
        yield Finding(
            "kind_of_figures", "warning", f"the figures of {names} are invented (platform fake)", kind="invented"
        )
