"""report.md: the content of report.html as GitHub-flavoured Markdown, with tables in place of figures."""

from collections.abc import Iterable

from fairlane.report import bars
from fairlane.report.parts import markdown as parts_of
from fairlane.report.phrases import share
from fairlane.report.pictures import Pictures, pictures
from fairlane.report.sections import Comparison, Report, Section
from fairlane.report.svg import Table
from fairlane.report.text import fence
from fairlane.report.text import markdown as md
from fairlane.report.text import markdown_table as table
from fairlane.report.winners import WinnersView


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {md(line)}" for line in lines)


def render(report: Report, drawn: Pictures | None = None) -> str:
    """The whole document. ``drawn``: the report's pictures, whose tables it takes, if already made."""
    drawn = drawn or pictures(report)
    parts: list[str] = [f"> **{md(b.title)}.** {md(b.text)}" for b in report.banners]
    parts += [f"# {md(report.question)}", f"Fairlane, study {md(report.title)}", *_answer(report)]
    parts += [*parts_of(report.parts), *_refusals(report), "## Findings", *_findings(report), "## Verdicts"]
    for section in report.sections:
        parts += _section(section)
    parts += [md(line) for line in report.scope]
    for view in report.winners:
        parts += [f"### {md(view.title)}", md(_winners(view)), md(view.meaning)]
        parts.append(table(view.table.columns, view.table.rows))
    parts += ["### Meaning of the verdicts", "\n".join(f"- **{s} {w}**: {md(m)}" for w, s, m in report.words)]
    parts += _levels(report, drawn)
    parts += _faults(report)
    parts += _curves(drawn)
    parts += ["## Cost and performance"] if report.costs else []
    parts += [_figure_table(figure.table) for figure in drawn.costs]
    parts += ["## How sure is it", _list(report.sureness), *_scores(report)]
    parts += ["## Latency of all I/Os"] if report.ecdfs else []
    for figure in drawn.ecdfs:
        parts += [f"### {md(figure.title)}", _figure_table(figure.table)]
    parts += _lanes(report)
    parts += _matched(report)
    parts += parts_of(report.capabilities)
    parts += ["## Method", _list(report.method), table(("Metric", "Definition"), report.metrics)]
    parts += [
        "## How to repeat it",
        md(report.repeat),
        fence("\n".join(report.commands)),
        fence(report.study_text),
        "Versions and hashes under which these figures were made:",
        table(("Fingerprint", "Value"), report.provenance),
        *(table((name, "Value"), rows) for name, rows in report.inventories),
        "## Trials and raw files",
        "Each number is a block"
        + (" and links to that trial's raw outputs, relative to the run directory." if report.linked else "."),
        *_trials(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _answer(report: Report) -> list[str]:
    """The first screen in words: a line for each contender, what qualifies it, where it comes from."""
    shown = report.opening
    parts = ["## The answer"]
    for a in (*shown.answers, *shown.more, *([shown.refused] if shown.refused else [])):
        parts.append(
            f"{md(a.lane)} instead of {md(a.baseline)}: **{md(a.headline)}.** {md(a.where)} {md(a.sizes)}".strip()
        )
    if not report.answers:
        reason = report.matched.uncompared or "No lane could be compared with the baseline."
        parts.append(f"There is no verdict. {md(reason)}")
    parts.append(_list(f"{c.severity}{f' ({c.where})' if c.where else ''}: {c.text}" for c in shown.caveats))
    return [*parts, md("; ".join(f"{key}: {text}" for key, text in shown.facts))]


def _refusals(report: Report) -> list[str]:
    what = report.refusals
    if not what.causes:
        return []
    rows = ((c.title, str(c.comparisons), "; ".join(c.details)) for c in what.causes)
    accept = ["To compare anyway, give a reason for each:", fence(what.accept)] if what.accept else []
    causes = table(("Cause", "Comparisons", "Known values"), rows, numbers=(1,))
    return ["## Refused comparisons", f"{md(what.sentence)}.", causes, *accept]


def _winners(view: WinnersView) -> str:
    return "; ".join(f"{cells}: {answer}" for cells, answer in view.lines)


def _scores(report: Report) -> list[str]:
    parts = ["## Scorecard"] if report.scores else []
    for view in report.scores:
        parts.append(f"Workload {md(view.workload)}, against {md(view.baseline)}: in how many of {view.cells} cells")
        rows = ((f"{r.metric}{' (primary)' if r.primary else ''}", *(s.text for s in r.scores)) for r in view.rows)
        parts.append(table(("Metric", *view.lanes), rows))
    return parts


def _section(section: Section) -> list[str]:
    parts = [f"### Workload {md(section.name)} ({md(section.kind)})"]
    for comparison in section.primary:
        parts += [f"**{md(comparison.summary)}**", *_comparison(comparison)]
    if section.exploratory:
        parts.append("#### Exploratory (hints, never headlined)")
    for comparison in section.exploratory:
        parts += _comparison(comparison)
    return parts


def _comparison(c: Comparison) -> list[str]:
    rows = [
        (
            r.cell,
            " ".join(
                x
                for x in (
                    r.symbol,
                    r.word,
                    r.sized,
                    r.tie and f"({r.tie})",
                    r.reason and f"({r.reason})",
                    r.withheld and f"(withheld: {r.withheld})",
                )
                if x
            ),
            r.change,
            r.interval,
            r.baseline_value,
            r.lane_value,
            r.counted,
        )
        for r in c.rows
    ]
    heads = ("Cell", "Verdict", "Change", "Interval", c.baseline, c.lane, "Blocks")
    notes = [f"{r.cell}: {'; '.join(r.notes)}" for r in c.rows if r.notes]
    return [
        f"{md(c.metric)} of {md(c.lane)} against {md(c.baseline)}; margin {share(c.margin)}",
        table(heads, rows, numbers=(2, 3, 4, 5, 6)),
        _list(notes),
    ]


def _levels(report: Report, drawn: Pictures) -> list[str]:
    """The data tables behind the figures."""
    parts = ["## Absolute figures"]
    cpu: list[str] = []
    for of in drawn.workloads:
        section = of.section
        name = f"{section.name}: " if len(report.sections) > 1 else ""
        if of.clones:
            parts += [f"### {md(name + of.clones.title)}", _figure_table(of.clones.table)]
        for entry in section.levels:
            parts += [f"### {md(name + entry.title)}", _figure_table(bars.table(entry))]
        if section.cpu and of.cpu:
            cpu += [f"### {md(name + of.cpu.title)}", md(section.cpu.note), _figure_table(of.cpu.table)]
    falls = [block for f in drawn.falls for block in (f"### {md(f.title)}", md(f.caption), _figure_table(f.table))]
    return [*parts, *(["## CPU per I/O, and where the time goes"] if falls or cpu else []), *falls, *cpu]


def _faults(report: Report) -> list[str]:
    parts = ["## Faults under load"] if report.failovers else []
    for view in report.failovers:
        numbers = range(2, len(view.table.columns))
        parts += [f"### {md(view.name)}", _list(view.sentences), table(view.table.columns, view.table.rows, numbers)]
    return parts


def _curves(drawn: Pictures) -> list[str]:
    parts = ["## Throughput and latency under load"] if drawn.ladders else []
    for view, figure in drawn.ladders:
        parts += [f"### {md(view.name)}", _figure_table(figure.table), _list(view.answers)]
        parts.append(_list(f"{c.lane}: {text}" for c in view.curves for text in (c.returns, c.law) if text))
        if view.equal.rows:
            parts += [
                "At equal latency and at equal throughput (exploratory):",
                table(view.equal.columns, view.equal.rows),
            ]
    return parts


def _figure_table(data: Table) -> str:
    return table(data.columns, data.rows, numbers=range(2, len(data.columns)))


def _findings(report: Report) -> list[str]:
    if not report.findings:
        return ["No findings."]
    lines = []
    for g in report.findings:
        for f in g.items:
            where = f" ({md(f.where)})" if f.where else ""
            lines.append(f"- **{g.severity}**: {md(f.message)}{where}; check {md(g.check)}")
            lines += [f"  - {md(key)}: {md(value)}" for key, value in f.evidence]
    return ["\n".join(lines)]


def _matched(report: Report) -> list[str]:
    m = report.matched
    rows = [(row.title, *row.values, row.status) for row in (*m.unequal, *m.equal)]
    return ["## Matched parameters", md(m.verdict), table(("Parameter", *m.labels, "Match"), rows)]


def _lanes(report: Report) -> list[str]:
    data = report.lane_table
    parts = ["## The lanes"]
    parts += [
        "\n".join(
            f"- **{md(lane.label)}**{' (baseline)' if lane.baseline else ''}: {md(' → '.join(lane.path))}"
            for lane in report.lanes
        )
    ]
    for title, rows in (
        ("Differences between lanes", data.differing),
        ("Properties of some lanes only", data.own),
        ("Properties of all lanes", data.same),
        ("Identities of volumes and machines", data.names),
    ):
        if rows:
            parts += [f"### {title}", table(("Parameter", *data.labels), ((r.key, *r.values) for r in rows))]
    if report.platform:
        parts += ["### The platform below them", table(("Parameter", "Value"), report.platform)]
    return parts


def _trials(report: Report) -> list[str]:
    lines = ["| Cell | Lane | Blocks |", "| --- | --- | --- |"]
    for row in report.trials:
        links = " ".join(
            (f"[{t.block}]({t.href})" if t.href else str(t.block)) + (f" ✕ {md(t.failed)}" if t.failed else "")
            for t in row.trials
        )
        lines.append(f"| {md(row.cell)} | {md(row.lane)} | {links} |")
    return ["\n".join(lines)]
