"""The summary for a terminal: answer, verdict table, findings; at most 80 columns wide unless the terminal is wider."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairlane.records import Evidence, Finding, Verdict
from fairlane.report import model
from fairlane.report.sections import Comparison, Report

_COLOUR = {
    "faster": "bold blue",
    "slower": "bold dark_orange3",
    "different-but-small": "cyan",
    "tie": "cyan",
    "inconclusive": "dim",
    "no-spread": "dim",
    "refused": "dim",
    "critical": "bold red",
    "warning": "yellow",
    "info": "dim",
}
_WIDEST = 100


def show(console: Console, evidence: Evidence, verdicts: Sequence[Verdict], findings: Sequence[Finding]) -> None:
    """Print the summary of a run. Without a terminal behind ``console`` it is plain text, 80 columns wide."""
    report = model.build(evidence, verdicts, findings)
    width = min(console.width, _WIDEST) if console.is_terminal else 80

    def write(what: Text | Table | Padding | str = "") -> None:
        console.print(what, width=width, highlight=False, markup=False, emoji=False)

    for banner in report.banners:
        write(Text.assemble((banner.title, "bold yellow"), ". ", banner.text))
        write()
    write(Text(report.question, style="bold"))
    for comparison in report.answers:
        write(Padding(Text(comparison.summary), (0, 0, 0, 2)))
    for line in report.scope:
        write(Padding(Text(line, style="dim"), (0, 0, 0, 2)))
    for section in report.sections:
        for comparison in section.primary:
            write()
            write(_table(comparison, section.name if len(report.sections) > 1 else ""))
    for title, lines in _sentences(report):
        write()
        write(Text(title, style="bold"))
        for line in lines:
            write(Padding(Text(line), (0, 0, 0, 2)))
    write()
    for line in report.sureness:
        write(Text(f"• {line}"))
    if report.findings:
        write()
    for group in report.findings:
        for finding in group.items:
            where = f" ({finding.where})" if finding.where else ""
            write(Text.assemble((f"{group.severity}: ", _COLOUR[group.severity]), finding.message, where))


def _sentences(report: Report) -> Iterator[tuple[str, Sequence[str]]]:
    """(title, sentences) of the parts that are printed as sentences."""
    for winners in report.winners:
        yield winners.title, [f"{cells}: {answer}" for cells, answer in winners.lines]
    for faults in report.failovers:
        yield f"Faults under load: {faults.name}", faults.sentences
    for view in report.curves:
        if view.answers:
            yield view.name, view.answers


def _table(c: Comparison, workload: str) -> Table:
    title = f"{c.metric}: {c.lane} against {c.baseline}" + (f", workload {workload}" if workload else "")
    table = Table(
        title=Text(title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    table.add_column("cell", overflow="fold", max_width=22)
    table.add_column(Text(c.baseline), justify="right", overflow="fold", max_width=12)
    table.add_column(Text(c.lane), justify="right", overflow="fold", max_width=12)
    table.add_column("change, interval", justify="right", overflow="fold", max_width=24)
    table.add_column("verdict", overflow="fold", max_width=22)
    for row in c.rows:
        word = Text.assemble((f"{row.symbol} {row.word}", _COLOUR[row.word]))
        if row.withheld:
            word.append(" (withheld)")
        elif row.sized:
            word.append(f" {row.sized}")
        interval = row.tie.removeprefix("tie test: ") + " †" if row.word == "tie" else row.interval
        table.add_row(Text(row.cell), row.baseline_value, row.lane_value, interval, word)
    notes = list(dict.fromkeys(f"{row.symbol} {row.reason}" for row in c.rows if row.reason))
    if any(row.word == "tie" for row in c.rows):
        notes.insert(0, "† the tie test's interval, which lies within the margin")
    table.caption = Text("\n".join(notes), style="dim") if notes else None
    table.caption_justify = "left"
    return table
