"""Build the report as data from evidence, verdicts and findings; HTML, Markdown and terminal only lay it out.

Every string from outside is cleaned here, once for all formats (``text.scrub``). Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fairlane.guard.summary import matched
from fairlane.records import Evidence, Finding, Observation, Verdict
from fairlane.report import (
    capabilities,
    curves,
    ecdf,
    heatmap,
    jobs,
    lanes,
    levels,
    opening,
    pareto,
    phrases,
    platform_facts,
    prose,
    refusals,
    scorecard,
    series,
    storms,
    timeline,
    waterfall,
    winners,
)
from fairlane.report.concerned import where
from fairlane.report.parts import Around
from fairlane.report.phrases import count, metric_of
from fairlane.report.redact import Redaction
from fairlane.report.sections import Comparison, FindingGroup, FindingView, Report, Row, Section, Trial, TrialRow
from fairlane.report.text import DASH, flatten, scrub
from fairlane.verdicts.scorecard import why_withheld, withheld

_LONG = 12
"""A part of the fingerprint with more entries is folded away."""


def build(
    evidence: Evidence,
    verdicts: Sequence[Verdict],
    findings: Sequence[Finding],
    around: Around | None = None,
    redaction: Redaction | None = None,
) -> Report:
    """The report of a run, or of several with the parts that a command puts ``around`` it. ``redaction``: replaces the
    names in it."""
    around = around or Around()
    study = evidence.study
    label = lanes.labels(study)
    shown = [v for v in verdicts if v.lane != v.baseline]
    marked = {
        lane: f"{levels.REFUSED} {text} (refused)" if _refused(shown, lane) else text for lane, text in label.items()
    }
    competing = {name: text for name, text in label.items() if name not in study.references}
    sections = tuple(_section(evidence, name, shown, label) for name in study.workloads)
    report = Report(
        title=study.name,
        parts=around.parts,
        question=study.question or _question(competing, label[study.baseline]),
        opening=opening.opening(evidence, shown, findings, label, invented=around.invented),
        refusals=refusals.refusals(evidence, shown, findings, around.commands[:1]),
        banners=prose.banners(evidence, invented=around.invented),
        sections=sections,
        winners=winners.views(evidence, shown, findings, label),
        scope=prose.scope(evidence, verdicts),
        sureness=prose.sureness(evidence, shown, findings),
        scores=scorecard.views(evidence, shown, label),
        costs=pareto.views(evidence, shown, findings, label),
        heats=heatmap.views(evidence, shown, findings, label),
        curves=curves.views(evidence, marked, findings),
        ecdfs=ecdf.views(evidence, shown, findings, label),
        falls=waterfall.views(evidence, label),
        times=series.views(evidence, shown, findings, label),
        failovers=timeline.views(evidence, label),
        findings=_findings(evidence, _foremost(evidence, shown, findings), label),
        matched=matched(evidence, label),
        lanes=lanes.views(evidence),
        living=evidence.study.platform.living,
        lane_table=lanes.side_by_side(evidence),
        capabilities=(*jobs.parts(evidence), *capabilities.parts(evidence)),
        platform=platform_facts.rows(evidence.description.get("platform") or {}),
        method=prose.method(evidence),
        metrics=_metrics(shown),
        words=tuple((word, phrases.SYMBOL[word], phrases.MEANING[word]) for word in phrases.ORDER),
        repeat=around.source or prose.repeat(evidence),
        commands=around.commands or prose.commands(evidence),
        study_text=evidence.study_text,
        provenance=_provenance(evidence),
        inventories=tuple((name, tuple(flatten(part).items())) for name, part in _long(evidence.fingerprint).items()),
        trials=_trials(evidence, label, around.link),
    )
    if redaction:  # before anything is cut: half a name would stay
        report = redaction.report(report)
    whole = scrub(report.study_text, longest=200_000)
    return Report(**{**vars(scrub(report)), "study_text": whole})


def _refused(verdicts: Sequence[Verdict], lane: str) -> bool:
    """Whether all primary verdicts of the lane (all of a reference) are refused: pictures mark its name."""
    mine = [v for v in verdicts if v.lane == lane]
    return {v.verdict for v in [v for v in mine if v.primary] or mine} == {"refused"}


def _question(competing: Mapping[str, str], baseline: str) -> str:
    *first, last = competing.values()
    if not first:
        return f"The figures of {last}: one lane, nothing is compared"
    return f"How do {', '.join(first)} and {last} compare, with {baseline} as the baseline?"


def _section(evidence: Evidence, name: str, verdicts: Sequence[Verdict], label: Mapping[str, str]) -> Section:
    workload = evidence.study.workloads[name]
    own = [v for v in verdicts if v.workload == name]
    metrics = list(dict.fromkeys([workload.primary, *(v.metric for v in own)]))
    comparisons = [
        _comparison(evidence, group, label)
        for metric in metrics
        for lane in label
        if (group := [v for v in own if v.metric == metric and v.lane == lane])
    ]
    return Section(
        name=name,
        kind=workload.kind,
        primary=tuple(c for c in comparisons if c.primary),
        exploratory=tuple(c for c in comparisons if not c.primary),
        levels=levels.levels(evidence, own, name, metrics, label),
        cpu=levels.cpu(evidence, name, label),
        storms=storms.view(evidence, name, label),
    )


def _comparison(evidence: Evidence, group: Sequence[Verdict], label: Mapping[str, str]) -> Comparison:
    first = group[0]
    lane, baseline = label.get(first.lane, first.lane), label.get(first.baseline, first.baseline)
    metric = metric_of(first.metric)
    anchors = _anchors(evidence)
    figures = phrases.aligned(first.metric, [f for v in group for f in (v.lane_value, v.baseline_value)])
    words = {word: sum(v.verdict == word and not withheld(v) for v in group) for word in phrases.ORDER}
    plain = not any(v.voided for v in group) and len({v.blocks for v in group}) == 1
    return Comparison(
        lane=lane,
        baseline=baseline,
        metric=metric.title,
        better=metric.better,
        margin=first.margin,
        primary=first.primary,
        summary=phrases.summary(group, lane, baseline),
        words=tuple((w, n) for w, n in words.items() if n),
        withheld=sum(map(withheld, group)),
        blocks=first.blocks if plain else None,
        rows=tuple(
            _row(v, lane, baseline, anchors.get(v.key, "trials"), (ours, theirs))
            for v, ours, theirs in zip(group, figures[::2], figures[1::2], strict=True)
        ),
    )


def _row(v: Verdict, lane: str, baseline: str, anchor: str, figures: tuple[str, str]) -> Row:
    return Row(
        cell=v.cell,
        word=v.verdict,
        symbol=phrases.SYMBOL[v.verdict],
        ratio=v.ratio,
        low=v.low,
        high=v.high,
        change=DASH if v.ratio is None else phrases.change(v.ratio),
        interval=phrases.interval(v.low, v.high),
        sized=phrases.size(v) if v.verdict in {"faster", "slower"} else "",
        tie_low=v.tie_low,
        tie_high=v.tie_high,
        tie=phrases.tie_interval(v),
        lane_value=figures[0],
        baseline_value=figures[1],
        coverage=phrases.coverage(v.level),
        blocks=v.blocks,
        voided=v.voided,
        counted=f"{v.blocks} of {count(v.blocks + v.voided, 'block')}" if v.voided else count(v.blocks, "block"),
        withheld=why_withheld(v),
        sentence=phrases.sentence(v, lane, baseline),
        notes=v.notes,
        reason=phrases.reason(v),
        trials=anchor,
    )


def _anchors(evidence: Evidence) -> dict[str, str]:
    return {cell.key: f"trials-{n}" for n, cell in enumerate(evidence.cells(), start=1)}


def _findings(evidence: Evidence, findings: Sequence[Finding], label: Mapping[str, str]) -> tuple[FindingGroup, ...]:
    several = len(evidence.study.workloads) > 1
    names = {c.key: f"{c.workload}/{c.name}" if several else c.name for c in evidence.cells()}
    rank = {"critical": 0, "warning": 1, "info": 2}
    groups: dict[tuple[str, str, bool], list[FindingView]] = {}
    for finding in sorted(findings, key=lambda f: rank[f.severity]):
        view = FindingView(finding.message, where(finding, names, label), tuple(flatten(finding.evidence).items()))
        items = groups.setdefault((finding.severity, finding.check, finding.refuses), [])
        if items and items[-1].message == view.message:  # lanes with the same message share one item
            last = items.pop()
            both = "; ".join(dict.fromkeys(x for x in (last.where, view.where) if x))
            view = FindingView(view.message, both, (*last.evidence, *view.evidence))
        items.append(view)
    return tuple(FindingGroup(severity, check, tuple(items), r) for (severity, check, r), items in groups.items())


def _foremost(evidence: Evidence, verdicts: Sequence[Verdict], findings: Sequence[Finding]) -> list[Finding]:
    """Those that qualify the answer before others of their severity."""
    first = opening.qualifying(evidence, verdicts, findings, opening.contenders(evidence, verdicts))
    return [*first, *(f for f in findings if f not in first)]


def _metrics(verdicts: Sequence[Verdict]) -> tuple[tuple[str, str], ...]:
    used = dict.fromkeys(v.metric for v in verdicts)
    return tuple((metric_of(m).title, metric_of(m).definition) for m in used)


def _provenance(evidence: Evidence) -> tuple[tuple[str, str], ...]:
    own = {"run": evidence.name, "study": evidence.study.name, "seed": evidence.seed}
    short = {name: part for name, part in evidence.fingerprint.items() if name not in _long(evidence.fingerprint)}
    return tuple(flatten({**own, **short}).items())


def _long(tree: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name: part for name, part in tree.items() if isinstance(part, Mapping) and len(flatten(part)) > _LONG}


def _trials(
    evidence: Evidence, label: Mapping[str, str], link: Callable[[Observation], str] | None
) -> tuple[TrialRow, ...]:
    anchors = _anchors(evidence)
    by_place: dict[tuple[str, str], list[Observation]] = {}
    for o in evidence.observations:
        by_place.setdefault((o.cell, o.lane), []).append(o)
    several = len(evidence.study.workloads) > 1
    rows: list[TrialRow] = []
    for cell in evidence.cells():
        anchor = anchors[cell.key]
        for lane in label:
            if trials := by_place.get((cell.key, lane)):
                name = f"{cell.workload}/{cell.name}" if several else cell.name
                rows.append(
                    TrialRow(
                        anchor,
                        name,
                        label[lane],
                        tuple(_trial(o, link or (lambda o: evidence.raw_file(o.trial))) for o in trials),
                    )
                )
                anchor = ""
    return tuple(rows)


def _trial(o: Observation, link: Callable[[Observation], str]) -> Trial:
    return Trial(o.block, quote(link(o)), o.failed)


def as_json(verdict: Verdict) -> dict[str, Any]:
    """All fields of a verdict, for ``fairlane verdicts --format json``."""
    return {**vars(verdict), "notes": list(verdict.notes)}
