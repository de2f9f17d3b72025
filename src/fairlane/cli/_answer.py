"""The answer of a run in a terminal: its verdicts as one table, one sentence per comparison, findings counted.

The end of it is what a reader of ``fairlane run ... | tail`` gets, so what matters most comes last. Everything that
explains the verdicts (footnotes, how sure they are, findings in full) is printed with ``--explain`` alone.
"""

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli._output import Format, print_rows, width

if TYPE_CHECKING:
    from pathlib import Path

    from fairlane.records import Evidence, Finding, Verdict
    from fairlane.report.sections import Report

_PLACES = 4
"""Lanes and cells that a footnote names."""
_WIDEST = 100
"""Columns of sentences on a wide terminal."""
_COLOUR: dict[str, dict[str, Any]] = {
    "faster": {"fg": "blue", "bold": True},
    "slower": {"fg": "yellow", "bold": True},
    "different-but-small": {"fg": "cyan"},
    "tie": {"fg": "cyan"},
}


def show(
    evidence: "Evidence", verdicts: "Sequence[Verdict]", findings: "Sequence[Finding]", *, explain: bool = False
) -> None:
    """Print the question, the verdicts on primary metrics, the answers, and how many findings there are."""
    from fairlane.report import model
    from fairlane.report.prose import terms

    report = model.build(evidence, verdicts, findings)
    say(report.question)
    for banner in report.banners:
        say(f"{banner.title}. {banner.text}" if explain else f"{banner.title}.")
    for title, sentences in _sentences(report):
        click.echo()
        say(title)
        for sentence in sentences:
            say(sentence, "  ")
    click.echo()
    shown = [v for v in verdicts if v.primary and v.lane != v.baseline]
    print_verdicts(evidence, shown, "table")
    if alone := next(filter(None, map(_alone, shown)), ""):
        say(f"* {alone}")
    if shown:
        say(f"{terms(evidence.study, [v.metric for v in shown])}.")
    click.echo()
    if explain:
        print_notes(report, verdicts)
        click.echo()
    for comparison in report.answers:
        say(comparison.summary)
    for line in _counted(report, explain=explain):
        say(line)


def print_verdicts(evidence: "Evidence", verdicts: "Sequence[Verdict]", output: Format) -> None:
    """Print ``verdicts`` as a table, one row each; where nothing is compared, the sentence that states it."""
    from fairlane.guard.summary import uncompared
    from fairlane.report.text import clean

    if output == "tsv":
        print_rows([_plain(v) for v in verdicts], output, columns=_PLAIN)
        return
    if not verdicts and (reason := uncompared(evidence)):
        click.echo(clean(reason))
        return
    shown = _readable(verdicts)
    words = {id(row): v.verdict for row, v in zip(shown, verdicts, strict=True)}
    print_rows(
        shown,
        output,
        columns=_varying(shown),
        right=[key for key in (shown[0] if shown else ()) if key not in _TEXTS],
        style=lambda row: _COLOUR.get(words[id(row)], {"dim": True}),
    )


def print_notes(report: "Report", verdicts: "Sequence[Verdict]") -> None:
    """Print what explains the verdicts: their footnotes, what they hold for, how sure they are, every finding."""
    from fairlane.report.text import clean

    notes: dict[str, list[str]] = {}
    for v in verdicts:
        for note in v.notes if v.primary and v.lane != v.baseline else ():
            notes.setdefault(note, []).append(f"{v.lane} at {v.cell}")
    for note, places in notes.items():
        more = f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
        say(clean(f"• {note} ({', '.join(places[:_PLACES])}{more})"), hanging="  ")
    for line in (*report.scope, *report.sureness):
        say(f"• {line}", hanging="  ")
    for group in report.findings:
        for finding in group.items:
            where = f" ({finding.where})" if finding.where else ""
            say(f"{_word(group.severity)}: {finding.message}{where}", hanging="  ")


def _counted(report: "Report", *, explain: bool) -> Iterator[str]:
    """``2 warnings, 3 notes``, and the first finding unless all of them have been printed."""
    counts = Counter[str]()
    for group in report.findings:
        counts[group.severity] += len(group.items)
    if not counts:
        return
    numbers = ", ".join(f"{n} {_word(severity)}{'' if n == 1 else 's'}" for severity, n in counts.items())
    grave = [(g.severity, item.message) for g in report.findings for item in g.items if g.severity != "info"]
    if explain or not grave:
        yield f"{numbers}."
    else:
        severity, message = grave[0]
        yield f"{numbers}. {severity}: {message}"


def _word(severity: str) -> str:
    return {"info": "note", "critical": "critical finding"}.get(severity, severity)


def say(text: str, indent: str = "", hanging: str = "") -> None:
    """Print a sentence: wrapped on a terminal, one line in a pipe."""
    columns = width()
    if columns is None:
        click.echo(indent + " ".join(text.split()))
        return
    room = max(20, min(columns, _WIDEST))
    click.echo(textwrap.fill(text, room, initial_indent=indent, subsequent_indent=indent + hanging))


def _sentences(report: "Report") -> Iterator[tuple[str, Sequence[str]]]:
    """(title, sentences) of the parts that are printed as sentences."""
    for winners in report.winners:
        yield winners.title, [f"{cells}: {answer}" for cells, answer in winners.lines]
    for faults in report.failovers:
        yield f"Faults under load: {faults.name}", faults.sentences
    for view in report.curves:
        if view.answers:
            yield view.name, view.answers


def next_steps(folder: "Path", verdicts: "Sequence[Verdict]", *, explain: bool = False) -> Iterator[str]:
    """One or two command lines for after a run."""
    run = shlex.quote(str(folder))
    yield f"next: fairlane report --open {run}  # the report in a browser"
    if any(v.primary and v.more_blocks for v in verdicts):
        yield f"      fairlane pilot {run}  # how many blocks decide the rest"
    elif not explain:
        yield f"      fairlane verdicts --explain {run}  # footnotes and findings"


# --- rows


_PLAIN = ("workload", "cell", "lane", "baseline", "metric", "verdict", "ratio", "low", "high", "baseline_value",
          "lane_value", "blocks", "more_blocks", "held")  # fmt: skip
"""Columns of tsv: fields of a verdict, in the metric's own unit and as plain ratios."""


def _plain(v: "Verdict") -> dict[str, Any]:
    from fairlane.report.model import as_json

    return as_json(v)


def _readable(verdicts: "Sequence[Verdict]") -> list[dict[str, Any]]:
    """Rows for table and md: a metric's own units, changes in percent. Where one lane is compared, its name heads its
    figures."""
    from fairlane.report import phrases
    from fairlane.report.text import DASH, clean

    lanes, baselines = {v.lane for v in verdicts}, {v.baseline for v in verdicts}
    theirs = clean(next(iter(baselines))) if len(baselines) == 1 else "baseline"
    ours = clean(next(iter(lanes))) if len(lanes) == 1 else "value"
    return [
        {
            "workload": clean(v.workload),
            "cell": clean(v.cell),
            "lane": clean(v.lane),
            "metric": v.metric,
            theirs: phrases.value(v.metric, v.baseline_value),
            ours: phrases.value(v.metric, v.lane_value),
            "estimate": DASH if v.ratio is None else phrases.change(v.ratio),
            "interval": f"{phrases.interval(v.tie_low, v.tie_high)} (tie test)"
            if v.verdict == "tie"
            else phrases.interval(v.low, v.high),
            "blocks": v.blocks,
            "verdict": _verdict(v),
        }
        for v in verdicts
    ]


def _verdict(v: "Verdict") -> str:
    """``faster``, ``inconclusive, 12 more blocks``, ``faster (withheld)``, ``inconclusive*`` with a footnote."""
    from fairlane.report import phrases
    from fairlane.verdicts.scorecard import withheld

    if withheld(v):
        return f"{v.verdict} (withheld)"
    word = f"{v.verdict}{'*' * bool(_alone(v))}"
    if not v.more_blocks:
        return word
    units, noun = v.more_blocks // v.blocks_per_unit, "block" if v.blocks_per_unit == 1 else "provisioning"
    known = phrases.count(units, f"more {noun}") if units <= _MANY else f"more than {_MANY} more {noun}s"
    return f"{word}, {known}"


def _alone(v: "Verdict") -> str:
    """Why there is no difference though the interval has no 0 in it; empty if there is nothing to explain."""
    if v.verdict != "inconclusive":
        return ""
    return next((note for note in v.notes if getattr(note, "kind", "") == "alone"), "")


_ONCE = frozenset({"workload", "lane", "metric", "blocks"})
"""Columns that a table has only where rows differ in them."""
_TEXTS = frozenset({"workload", "cell", "lane", "metric", "verdict"})
"""Columns that hold no figures."""
_MANY = 100
"""Further blocks beyond which the number is a guess."""


def _varying(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """All columns but those of ``_ONCE`` that are the same in every row: what is left fits 80 columns."""
    return [key for key in (rows[0] if rows else ()) if key not in _ONCE or len({r[key] for r in rows}) > 1]
