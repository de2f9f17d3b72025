"""The plan, printed before anything is written: targets, load, blocks, and what the run writes and creates. Pure."""

import textwrap
from collections.abc import Iterator

from fairlane.study.forecast import about
from fairlane.versus.composed import Composed, Row

_WIDTH = 80
_HEAD = 9
"""Width of the first column."""


def lines(plan: Composed) -> list[str]:
    """The plan, at most 80 columns wide unless a word is longer."""
    rows = [*textwrap.wrap(plan.head, _WIDTH), ""]
    for head, text in plan.targets():
        rows += _wrapped(text, head)
    rows.append("")
    for head, text in (*_facts(plan), *plan.costs()):
        rows += _wrapped(text, head)
    warnings = [*plan.warnings()]
    rows += [""] * bool(warnings)
    for severity, message in warnings:
        rows += _wrapped(message if message.endswith(".") else f"{message}.", severity)
    return rows


def _facts(plan: Composed) -> Iterator[Row]:
    sizes, cells = plan.sizes, plan.load.cells
    yield "load", f"{'; '.join(cell.name for cell in cells)} ({plan.load.title})"
    if plan.load.source and plan.load.chosen:
        yield "", plan.load.source
    for change in plan.load.changes:
        yield "", change
    trials = sizes.blocks * len(cells) * len(plan.labels)
    looks = f", first analysis after {sizes.looks[0]}" if len(sizes.looks) > 1 else ""
    yield "plan", f"{sizes.blocks} blocks{looks}; {trials} trials of {about(sizes.runtime)} each at most"
    for reason in sizes.reasons:
        yield "", reason


def _wrapped(text: str, head: str) -> list[str]:
    """``text`` in a column behind ``head``, which has a line of its own if it is long."""
    width = _HEAD + 2
    rows = textwrap.wrap(text, _WIDTH - width, break_long_words=False, break_on_hyphens=False) or [""]
    first = [] if len(head) <= _HEAD else [head]
    if first:
        head = ""
    return [*first, f"{head:<{_HEAD}}  {rows[0]}".rstrip(), *(f"{'':<{width}}{row}" for row in rows[1:])]


def as_json(plan: Composed) -> dict[str, object]:
    """The same for programs."""
    sizes = plan.sizes
    return {
        "cells": [cell.name for cell in plan.load.cells],
        "load": plan.load.title,
        "blocks": sizes.blocks,
        "looks": list(sizes.looks),
        "runtime_s": sizes.runtime,
        "size_bytes": sizes.size,
        "seconds_at_most": round(sizes.seconds, 1),
        "reasons": list(sizes.reasons),
        "warnings": [text for _, text in plan.warnings()],
        "problems": [problem.labelled() for problem in plan.problems],
        **plan.as_json(),
    }
