"""The answers as a table of 80 columns, as Markdown and as JSON. Pure."""

import dataclasses
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from fairlane.report import phrases
from fairlane.report.text import DASH, clean, markdown, markdown_table, shorten
from fairlane.study.forecast import about
from fairlane_replication.claims import AsksNothing, Catalogue, Claim, Ruled, size_text
from fairlane_replication.judge import BUILT, WORDS, Answer
from fairlane_replication.published import STUDY, VERSIONS, Row
from fairlane_replication.runner import Planned

WIDTH = 80
_TIED = "\N{NO-BREAK SPACE}%"
_COLUMNS = ("Claim", "In our words (where; conditions)", "Published", "Here", "Direction", "Size", "Reasons and notes")
_REASON = 400
"""Characters of a reason in the table and in Markdown; JSON has all of it."""
_HEADING = (
    "Figures of study 003 with a finding, by version of its tables: its page, its page with the author's later "
    "explanation, and the corrected tables"
)
_VERSIONS = {"first": "Its page", "explained": "Explained", "corrected": "Corrected"}
_FIGURES = {
    "modelled": "modelled: virtual clock, one core",
    "emulated": "emulated: wall clock without hardware virtualization",
    "published": "the study's own tables",
    "corrected": "its author's corrected tables",
    "tried": "tested on a volume",
}


def counts(answers: Sequence[Answer]) -> dict[str, dict[str, int]]:
    """Column of answers -> word -> how many claims; the size only of claims that give one."""
    direction, size = Counter(a.word for a in answers), Counter(a.size for a in answers if a.size)
    return {"direction": {w: direction[w] for w in WORDS}, "size": {w: size[w] for w in WORDS if w != BUILT}}


def summary(answers: Sequence[Answer]) -> str:
    """``42 claims.``, ``Direction: 9 agree, 3 disagree, ...``, ``Size (20 claims): 2 agree, ...``: three lines."""
    columns = counts(answers)
    direction, size = (", ".join(f"{n} {word}" for word, n in columns[name].items()) for name in columns)
    sized = sum(columns["size"].values())
    return (
        f"{phrases.count(len(answers), 'claim')}.\n"
        f"Direction: {direction}.\n"
        f"Size ({phrases.count(sized, 'claim')}): {size}."
    )


def result_text(answer: Answer) -> str:
    """The measured result, the published size against it, and the kind of figures."""
    if not answer.here:
        return ""
    kind = _FIGURES.get(answer.figures, answer.figures)
    return clean("; ".join(part for part in (shorten(answer.here, _REASON), answer.sizes, kind) if part))


def reason(answer: Answer) -> str:
    """Why the claim stays open, or the basis of the word, on one line."""
    return shorten(" ".join(clean(answer.why).split()), _REASON)


def table(catalogue: Catalogue, answers: Sequence[Answer], versions: Sequence[Row] = ()) -> str:
    """For a terminal: every claim with its answers, in at most 80 columns. ``versions``: findings on study 003's
    tables."""
    lines: list[str] = []
    for study, source in catalogue.sources.items():
        for text in (f"{study}  {clean(source.title)}", source.later and f"     Later: {clean(source.later)}"):
            lines += textwrap.wrap(text, WIDTH, subsequent_indent="     ")
        lines.append("-" * WIDTH)
        for one in (a for a in answers if a.claim.study == study):
            lines += _block(one)
        lines.append("")
        if versions and study == STUDY:
            lines += [*textwrap.wrap(_HEADING, WIDTH), ""]
            lines.append(f"  {'':34}{'':10}" + "".join(f"{version:>11}" for version in VERSIONS))
            for row in versions:
                figures = "".join(f"{row.cells[version]:>11}" for version in VERSIONS)
                lines.append(f"  {f'{row.check}: {row.kind}':34}{row.severity:10}{figures}")
            lines.append("")
    return "\n".join([*lines, summary(answers)])


def _block(one: Answer) -> Iterator[str]:
    claim = one.claim
    yield claim.id
    size = size_text(claim)
    for head, text in (
        ("claim", f"{clean(claim.says)} ({clean(claim.where)})"),
        (_head(claim), one.word),
        ("size", f"{one.size} (published: {clean(size)})" if one.size else ""),
        ("rule", claim.asks.rule if isinstance(claim.asks, Ruled) else ""),
        ("here", result_text(one)),
        ("why", reason(one)),
    ):
        if text:
            tied = text.replace(" %", _TIED)  # a line does not begin with the sign of a figure
            lines = textwrap.wrap(
                tied, WIDTH, initial_indent=f"  {head:<10}", subsequent_indent=" " * 12, break_on_hyphens=False
            )
            yield from (line.replace(_TIED, " %") for line in lines)


def _head(claim: Claim) -> str:
    """Name of a claim's first answer."""
    return "direction" if isinstance(claim.asks, Ruled | AsksNothing) else "answer"


def page(catalogue: Catalogue, answers: Sequence[Answer], versions: Sequence[Row] = ()) -> str:
    """Markdown: a table for each study, inserted into docs/replication.md. ``versions``: findings on study 003's
    tables."""
    parts = [f"**{line}**  " for line in summary(answers).splitlines()] + [""]
    for study, source in catalogue.sources.items():
        rows = [
            (
                a.claim.id,
                f"{a.claim.says} ({a.claim.where}; {a.claim.conditions})",
                size_text(a.claim) or DASH,
                result_text(a) or DASH,
                a.word,
                a.size or DASH,
                reason(a) or DASH,
            )
            for a in answers
            if a.claim.study == study
        ]
        parts += [f"### {study}: {markdown(clean(source.title))}", ""]
        if source.later:
            parts += [f"Published later: {markdown(clean(source.later))}.", ""]
        parts += [markdown_table(_COLUMNS, _clean(rows)), ""]
        if versions and study == STUDY:
            columns = ("Figures with this finding", "Severity", *(_VERSIONS[version] for version in VERSIONS))
            shown = [(f"{r.check}: {r.kind}", r.severity, *(str(r.cells[v]) for v in VERSIONS)) for r in versions]
            parts += [_HEADING, "", markdown_table(columns, _clean(shown), (2, 3, 4)), ""]
    return "\n".join(parts).rstrip()


def _clean(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(clean(value) for value in row) for row in rows]


def data(catalogue: Catalogue, answers: Sequence[Answer], versions: Sequence[Row] = ()) -> dict[str, Any]:
    """The answers as plain JSON. ``versions``: findings on study 003's tables."""
    return {
        "summary": counts(answers),
        "sources": {name: source.model_dump() for name, source in catalogue.sources.items()},
        "claims": [
            {
                **a.claim.model_dump(mode="json", exclude_defaults=True),
                "study": a.claim.study,
                "published": size_text(a.claim),
                "answer": {"direction": a.word, "size": a.size},
                "here": clean(a.here),
                "sizes": a.sizes,
                "why": clean(a.why),
                "figures": a.figures,
                "cells": {"asked": a.cells, "bear_out": a.proven, "contradict": a.contradicted},
            }
            for a in answers
        ],
        "versions": [dataclasses.asdict(row) for row in versions],
    }


def plan_rows(planned: Sequence[Planned]) -> list[dict[str, Any]]:
    """The plan, one row per lab study."""
    return [
        {
            "study": p.name,
            "claims": len(p.claims),
            "trials": p.trials,
            "at most": "finished" if p.finished else "whole form only" if p.left_out else about(p.seconds),
        }
        for p in planned
    ]
