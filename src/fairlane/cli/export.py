"""``fairlane export``: a run for other programs."""

from pathlib import Path

import click

from fairlane import registry
from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option, notify
from fairlane.cli._runs import chosen, run_argument


@click.command(
    cls=Command,
    plugins="export",
    examples="""
        fairlane export runs/demo --to csv                        seven files in runs/demo/export
        fairlane export runs/demo --to csv --to json --out /tmp/demo
        fairlane export runs/demo --to json --out - | jq '.verdicts[] | select(.headline)'
        fairlane export runs/demo --to junit --out test-results   for the CI server
        fairlane export runs/demo --to openmetrics --out /var/lib/node_exporter/textfile
        fairlane export runs/demo --to parquet                    needs: pip install fairlane[parquet]
        fairlane export runs/demo --to opensearch --out - |
          curl -H 'Content-Type: application/x-ndjson' --data-binary @- https://HOST:9200/_bulk
    """,
)
@run_argument
@click.option(
    "--to",
    "formats",
    multiple=True,
    required=True,
    type=click.Choice(registry.names("export")),
    help="A format; may be given again.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, allow_dash=True, path_type=Path),
    help="Folder for the files; RUN/export if not given. - writes to stdout: one format, of one file.",
)
@accept_option
@format_option
def command(
    run: Path | None, formats: tuple[str, ...], out: Path | None, accepts: dict[str, str], output: Format
) -> None:
    """Write a run as files for other programs.

    Without RUN, the newest run in runs/ is read. The files hold verdicts, findings, trials, merged percentiles, lanes
    and their parameters. Every format says whether the figures are measured, modelled, emulated or invented, and
    whether the run is complete. Markdown is what fairlane report writes: report.md.
    """
    from fairlane.cli._output import print_json, print_rows
    from fairlane.export import _gather
    from fairlane.export.base import write
    from fairlane.report.text import clean

    writers = {name: registry.load("export", name) for name in formats}
    to_stdout = out is not None and str(out) == "-"
    if to_stdout and (len(writers) > 1 or not all(writer.stream for writer in writers.values())):
        single = [name for name, writer in registry.every("export") if writer.stream]
        raise click.UsageError(f"--out - takes one format, of one file: {', '.join(single)}")
    run = chosen(run)
    content = _gather.gather(_gather.read(run, accepts))
    if not content.provenance["complete"]:
        notify(content.provenance["caveats"][-1])
    files = {name: writer.files(content) for name, writer in writers.items()}
    if to_stdout:
        ((name, contents),) = files.items()
        click.echo(contents[writers[name].stream], nl=False)
        return
    folder = run / "export" if out is None else out
    written = {name: [str(path) for path in write(folder, contents)] for name, contents in files.items()}
    if output == "json":
        print_json(written)
        return
    rows = [{"format": name, "path": clean(path)} for name, paths in written.items() for path in paths]
    if output == "table":
        click.echo("\n".join(row["path"] for row in rows))
    else:
        print_rows(rows, output)
