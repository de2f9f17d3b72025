"""The lanes that an import proposes: printed on stderr, and confirmed where there is a terminal.

Without a terminal the proposal is taken, because every trial keeps to its likes: what names tell apart is never counted
as repetitions, and a proposal that is wrong splits lanes or compares nothing. Where it is in doubt (nothing but the
inside of the files differs, in several ways; more lanes than anybody compares), there is nobody to ask, and the import
is refused.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from fairlane.cli._output import notify
from fairlane.errors import FairlaneError

if TYPE_CHECKING:
    from fairlane.importers._place import Layout
    from fairlane.importers._propose import Proposal

_SHOWN = 8
"""Lanes that get a line."""
_EXAMPLES = 3
_LONGEST = 40
"""Most characters of an example."""


def agree(layout: "Layout", *, yes: bool, dry: bool) -> None:
    """Prints the proposed lanes, if there is a proposal, and asks. Raises FairlaneError where it is not accepted."""
    proposal = layout.proposal
    if proposal is None:
        return
    for line in _lines(layout, proposal):
        notify(line)
    if yes or dry:
        return
    hint = f"--yes imports it so; {_otherwise(proposal)}"
    if sys.stdin.isatty() and sys.stderr.isatty():
        if not click.confirm("Import with these lanes?", default=not proposal.doubt, err=True):
            raise FairlaneError("lanes-declined", "nothing was imported", hint=_otherwise(proposal))
    elif proposal.doubt:
        raise FairlaneError("lanes-doubtful", f"the lanes are ambiguous: {proposal.doubt}", hint=hint)


def _lines(layout: "Layout", proposal: "Proposal") -> Iterator[str]:
    if not proposal.by:
        yield f"One lane, {next(iter(layout.lanes.values())) or next(iter(layout.lanes))}: nothing is compared."
    else:
        yield f"{len(layout.lanes)} lanes by {' and '.join(axis.title for axis in proposal.by)}:"
        yield from _table(layout)
    for axis in proposal.within:
        yield f"Cells are split by {axis.title}: {_examples(axis.values)}"
    for axis in proposal.counted:
        yield f"Repetitions, by {axis.title}: {_examples(axis.raw)}"
    for axis in proposal.loads:
        yield f"Loads, by {axis.title}: {_examples(axis.raw)}"
    if proposal.doubt:
        yield f"In doubt: {proposal.doubt}."
    yield f"To change the lanes: {_otherwise(proposal)}"


def _table(layout: "Layout") -> Iterator[str]:
    trials = Counter(place.lane for place in layout.placed)
    first = {place.lane: place.trial.files[0] for place in reversed(layout.placed)}
    lanes = list(layout.lanes)[:_SHOWN]
    width = max(map(len, lanes))
    for lane in lanes:
        number = f"{trials[lane]} trial{'s' if trials[lane] > 1 else ''}"
        yield f"  {lane:{width}}  {number:>10}, such as {first[lane]}"
    if len(layout.lanes) > _SHOWN:
        yield f"  and {len(layout.lanes) - _SHOWN} more"


def _examples(values: Sequence[str]) -> str:
    distinct = [value for value in dict.fromkeys(values) if value]
    shown = [v if len(v) <= _LONGEST else f"{v[:_LONGEST]}..." for v in distinct[:_EXAMPLES]]
    more = len(distinct) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _otherwise(proposal: "Proposal") -> str:
    by = f"--by KEY ({', '.join(proposal.keys)}), " if proposal.keys else ""
    return f"{by}--lane NAME=GLOB, or a map"
