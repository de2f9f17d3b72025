"""``fairlane serve``: runs as pages in a browser, read-only."""

import os
from pathlib import Path

import click

from fairlane.cli._click import Command
from fairlane.cli._output import notify
from fairlane.errors import FairlaneError

PORT = 8642


@click.command(
    cls=Command,
    examples="""
        fairlane serve                              the runs in ./runs, at http://127.0.0.1:8642/
        fairlane serve runs/demo --port 0           one run, at a free port
        fairlane serve /srv/runs --host 0.0.0.0     for others too: prints an address with a token
        ssh -L 8642:127.0.0.1:8642 bench            then http://127.0.0.1:8642/ shows what bench serves
    """,
)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=Path("runs"))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port; 0 takes a free one."
)
def command(folder: Path, host: str, port: int) -> None:
    """Show runs in a browser, read-only.

    The runs in DIR: list, reports, comparisons, history, and a study while it runs. Changes nothing in DIR. Listens on
    localhost. With another --host a token is required: $FAIRLANE_TOKEN, or a generated one, which is printed. There is
    no encryption: on a network that others share, use ssh -L. Ctrl-C ends it.
    """
    if not folder.is_dir():
        raise FairlaneError(
            *(("not-a-folder", "not a folder") if folder.exists() else ("folder-missing", "no such folder")),
            where=str(folder),
            hint="name the folder of your runs: fairlane serve DIR",
        )
    from fairlane.web.places import runs_below, stamp
    from fairlane.web.server import open_door, serve

    root = folder.resolve()
    door = open_door(host, port, os.environ.get("FAIRLANE_TOKEN", ""))

    def ready() -> None:
        click.echo(door.url)
        if stamp(root / "run.json") is None and next(iter(runs_below(root)), None) is None:
            notify(f"no runs in {folder} yet; they appear as they begin: fairlane run demo --out {folder / 'first'}")
        if door.token and not door.generated:
            notify("the token in FAIRLANE_TOKEN is required: add ?token=... to the address once")
        notify("Ctrl-C ends it")

    serve(root, door, ready)
    notify("stopped")
